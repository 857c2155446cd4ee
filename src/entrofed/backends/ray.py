"""Tasks done by actors on a Ray cluster (the extra ``ray``).

The data goes to the object store once, and so does every array of a task. Models that come of tasks stay in the object
store until somebody looks at them: in a central run that is the server, which is the driver; among peers they go from
actor to actor, while the driver holds references only. An actor that is lost is replaced, on whichever node is left,
and its task tried again. Models that were lost with a node raise :class:`~entrofed.errors.LostModelsError`: the run
goes back to its checkpoint.

``RAY_ADDRESS`` names the cluster; without it, one is started on this machine.
"""

import logging
import os
import time
import warnings
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from entrofed.backends.base import Backend, Leaf, Workload, attach, detach
from entrofed.backends.sending import REMEDY
from entrofed.client.runtime import ClientRuntime
from entrofed.client.work import attempt
from entrofed.core.params import Layout, Moved, Params
from entrofed.core.tasks import Task, TrainTask
from entrofed.core.types import Failure
from entrofed.errors import ConfigError, LostModelsError
from entrofed.registry.references import FILES

log = logging.getLogger("entrofed")

TRIES = 4
"""A node that dies may take an actor with it that was only just put there."""
PAUSE = 1.0
"""Seconds before a lost task is tried again: a cluster takes time to notice that a node is gone."""
LOST = ("ActorDiedError", "ActorUnavailableError", "NodeDiedError", "WorkerCrashedError")
LOST_OBJECTS = ("ObjectLostError", "OwnerDiedError", "ObjectReconstructionFailedError", "ObjectFreedError")


class RemoteParams(Params):
    """A model in the object store; its values are fetched when somebody looks at them."""

    def __init__(self, ref: Any, problem: str | None, nonfinite: int, moved: Moved | None = None) -> None:
        for name, value in (("ref", ref), ("_problem", problem), ("_nonfinite", nonfinite), ("_moved", moved)):
            object.__setattr__(self, name, value)

    def __getattribute__(self, name: str) -> Any:
        if name in ("values", "counters"):
            return getattr(_fetch(object.__getattribute__(self, "ref")), name)
        return object.__getattribute__(self, name)

    @property
    def nonfinite(self) -> int:
        """As it was found where the model was made."""
        found: int = object.__getattribute__(self, "_nonfinite")
        return found

    def problem(self, layout: Layout) -> str | None:
        """As it was found where the model was made."""
        found: str | None = object.__getattribute__(self, "_problem")
        return found

    def moved(self, start: Params, layout: Layout) -> Moved:
        """As it was found where the model was trained."""
        found: Moved | None = object.__getattribute__(self, "_moved")
        return super().moved(start, layout) if found is None else found


def _fetch(ref: Any) -> Params:
    import ray

    try:
        (found,) = ray.get(ref)
    except ray.exceptions.RayError as error:
        raise LostModelsError(f"a model was lost with its node: {type(error).__name__}") from None
    model: Params = found
    return model


class _Actor:
    """A worker's side: a runtime, and tasks that are done with it."""

    def __init__(self) -> None:
        torch.set_num_threads(1)
        warnings.filterwarnings("ignore", message=".*not writable.*")  # what comes from the object store is only read
        self._runtime: ClientRuntime | None = None

    def open(self, workload: Workload, worker: int) -> None:
        self._runtime, self._layout = workload.runtime(worker), workload.layout

    def run(self, content: Any, *leaves: Any) -> tuple[Any, Any]:
        """What came of a task, and apart from it the model, if there is one, with what is known of it."""
        task = attach(content, [leaf[0] for leaf in leaves])
        outcome = attempt(task, self._runtime)
        models: list[Leaf] = []
        rest = detach(outcome, models, lambda leaf: isinstance(leaf, Params) and not models)
        if not models or not isinstance(models[0], Params):
            return (rest, None), None
        problem = models[0].problem(self._layout)
        if problem is not None:
            return (rest, (problem, 0)), (models[0],)
        moved = models[0].moved(task.params, self._layout) if isinstance(task, TrainTask) else None
        return (rest, (None, models[0].nonfinite, moved)), (models[0],)


@dataclass
class _Call:
    """A task on its way; made again if the actor is lost."""

    arguments: tuple[Any, ...]
    cost: float
    tries: int = 0


class RayBackend(Backend):
    """A pool of actors behind the backend interface."""

    def __init__(self, workers: int, *, timeout: float = 3600.0) -> None:
        try:
            import ray
        except ImportError:
            raise ConfigError(
                "engine.backend = 'ray' needs Ray; install it with: pip install 'entrofed[ray]'"
            ) from None
        self._ray, self._timeout = ray, timeout
        self._started = not ray.is_initialized()
        if self._started:
            os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
            new = {"address": "local", "num_cpus": workers, "include_dashboard": False}
            where = {} if os.environ.get("RAY_ADDRESS") else new
            self._ray.init(log_to_driver=False, logging_level=logging.ERROR, **where)
        self._class = self._ray.remote(_Actor)
        self._workload: Any = None
        self._stored: dict[int, tuple[Leaf, Any]] = {}
        """What the last tasks brought to the object store, by identity: a model is evaluated, then trained from."""
        self._actors = [self._new(place, num_cpus=1) for place in range(workers)]

    def _new(self, place: int, num_cpus: int) -> Any:
        actor = self._class.options(num_cpus=num_cpus, scheduling_strategy="SPREAD").remote()
        if self._workload is not None:
            actor.open.remote(self._workload, place)
        return actor

    def open(self, workload: Workload) -> None:
        """Put the data into the object store, and set up every actor."""
        for module in FILES.values():  # a user's files, which no actor can import
            self._ray.cloudpickle.register_pickle_by_value(module)
        try:
            self._workload = self._ray.put(workload)
        except TypeError as error:
            why = str(error.__cause__ or error)
            raise ConfigError(f"the network cannot be sent to Ray's actors: {why}; {REMEDY}") from error
        opened = [actor.open.remote(self._workload, place) for place, actor in enumerate(self._actors)]
        for place, done in enumerate(opened):
            try:
                self._ray.get(done)
            except self._ray.exceptions.RayError as error:
                if type(error).__name__ not in LOST:
                    raise
                self._replace(place)

    def run(self, tasks: Sequence[Task]) -> list[Any]:
        """Do the tasks, longest first, on whichever actor is free."""
        put = self._put()
        calls = []
        for task in tasks:
            leaves: list[Leaf] = []
            content = detach(task, leaves)
            calls.append(_Call((content, *(put(leaf) for leaf in leaves)), task.cost))
        return [_outcome(*found) for found in self._play(calls)]

    def _put(self) -> Callable[[Leaf], Any]:
        """References to arrays and models; one that is here goes to the object store once, and once to each node."""
        before, self._stored = self._stored, {}

        def put(leaf: Leaf) -> Any:
            if isinstance(leaf, RemoteParams):
                return object.__getattribute__(leaf, "ref")
            if id(leaf) not in self._stored:
                self._stored[id(leaf)] = before.get(id(leaf)) or (leaf, self._ray.put((leaf,)))
            return self._stored[id(leaf)][1]

        return put

    def _play(self, calls: list[_Call]) -> list[tuple[Any, Any]]:
        ray = self._ray
        outcomes: list[tuple[Any, Any]] = [((None, None), None)] * len(calls)
        waiting = deque(sorted(range(len(calls)), key=lambda i: -calls[i].cost))
        idle = list(range(len(self._actors)))
        busy: dict[Any, tuple[int, int, Any, float]] = {}
        while waiting or busy:
            while idle and waiting:
                place, index = idle.pop(), waiting.popleft()
                calls[index].tries += 1
                small, model = self._actors[place].run.options(num_returns=2).remote(*calls[index].arguments)
                busy[small] = (place, index, model, time.monotonic() + self._timeout)
            soonest = min(deadline for *_, deadline in busy.values())
            ready, _ = ray.wait(list(busy), timeout=max(0.0, soonest - time.monotonic()))
            now = time.monotonic()
            late = [small for small, (*_, deadline) in busy.items() if small not in ready and now >= deadline]
            for small in [*ready, *late]:
                place, index, model, _ = busy.pop(small)
                if small in late:
                    outcomes[index] = ((Failure(f"no answer within {self._timeout:g} s"), None), None)
                    self._replace(place)
                else:
                    try:
                        outcomes[index] = (ray.get(small), model)
                    except ray.exceptions.RayError as error:
                        name = type(error).__name__
                        if name in LOST_OBJECTS or (isinstance(error, ray.exceptions.RayTaskError) and _lost(error)):
                            raise LostModelsError(f"a model was lost with its node: {name}") from None
                        if name not in LOST:
                            raise
                        self._replace(place)
                        reason = f"its actor was lost ({name}), {calls[index].tries} times"
                        if calls[index].tries >= TRIES:  # no client is at fault: the run goes back
                            raise LostModelsError(reason) from None
                        time.sleep(PAUSE)
                        waiting.appendleft(index)
                idle.append(place)
        return outcomes

    def _replace(self, place: int) -> None:
        log.warning("an actor was lost; another takes its place")
        self._ray.kill(self._actors[place])
        self._actors[place] = self._new(place, num_cpus=0)  # wherever there is room, and where there is none

    def close(self) -> None:
        """End the actors; and Ray, if it was started here."""
        for actor in self._actors:
            self._ray.kill(actor)
        self._actors = []
        if self._started:
            self._ray.shutdown()


def _lost(error: Any) -> bool:
    return type(getattr(error, "cause", None)).__name__ in LOST_OBJECTS


def _outcome(small: tuple[Any, Any], ref: Any) -> Any:
    """What came of a task; its model stays where it is."""
    rest, known = small
    return rest if known is None else attach(rest, [RemoteParams(ref, *known)])
