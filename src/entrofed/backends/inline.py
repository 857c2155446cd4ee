"""Tasks done one after the other, in this process."""

from collections.abc import Sequence
from typing import Any

from entrofed.backends.base import Backend, Workload
from entrofed.client.runtime import ClientRuntime, one_thread
from entrofed.client.work import attempt
from entrofed.core.tasks import Task


class InlineBackend(Backend):
    """The plain backend: what every other has to equal, bit for bit."""

    def __init__(self) -> None:
        self._runtime: ClientRuntime | None = None

    def open(self, workload: Workload) -> None:
        """Set up the data and the model of an experiment."""
        self._runtime = workload.runtime()

    def run(self, tasks: Sequence[Task]) -> list[Any]:
        """Do each task in turn."""
        if self._runtime is None:
            raise RuntimeError("open() comes before run()")
        with one_thread():
            return [attempt(task, self._runtime) for task in tasks]

    def close(self) -> None:
        """Nothing to let go of."""
