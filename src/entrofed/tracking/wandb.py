"""Runs for Weights & Biases (the extra ``wandb``): offline, folders ``FOLDER/wandb/offline-run-*``, unless told else.

``wandb sync FOLDER`` sends one on, if that is wanted. The project is ``entrofed``, the group the experiment; the
configuration goes along as it is, each round is a step, and the summary is the run's own. The id is made from the
run's name and seed: what is there of a run is replaced.
"""

import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from hashlib import blake2b
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from entrofed.core.records import RoundRecord
from entrofed.tracking.numbers import scalars
from entrofed.tracking.optional import environment, needed
from entrofed.tracking.tracker import TrackedRun, Tracker

OFFLINE = "offline"


@contextmanager
def offline() -> Iterator[Any]:
    """The package without the user's settings; what it started is ended, unless others in this process log to it."""
    with (
        TemporaryDirectory() as away,  # its logs, and the user's settings that it would read
        environment(WANDB_ERROR_REPORTING="false", WANDB_CACHE_DIR=away, WANDB_CONFIG_DIR=away),
    ):
        wandb = needed("wandb", "wandb")
        yield wandb
        if wandb.run is None:
            wandb.teardown()


class WandB(Tracker):
    """Writes a run at a time; any ``mode`` but offline takes the user's settings and the network."""

    def __init__(self, folder: Path, mode: str = OFFLINE) -> None:
        self._folder, self._mode = folder, mode
        self._open = ExitStack()
        with offline():
            pass  # it must be installed

    def start(self, run: TrackedRun) -> None:
        """A new run in place of one that is there."""
        wandb = self._open.enter_context(offline()) if self._mode == OFFLINE else needed("wandb", "wandb")
        key = blake2b(run.label.encode(), digest_size=8).hexdigest()
        for old in (self._folder / "wandb").glob(f"offline-run-*-{key}"):
            shutil.rmtree(old)
        self._folder.mkdir(parents=True, exist_ok=True)
        self._run = wandb.init(
            project="entrofed",
            group=run.experiment,
            name=run.label,
            id=key,
            config=dict(run.config),
            settings=wandb.Settings(
                mode=self._mode,
                root_dir=str(self._folder.resolve()),
                silent=True,
                console="off",
                disable_git=True,
                disable_code=True,
                x_disable_meta=True,
                x_disable_stats=True,
                x_disable_machine_info=True,
                x_save_requirements=False,
            ),
            reinit="create_new",
        )
        self.path = Path(self._run.dir).parent

    def log(self, records: Sequence[RoundRecord]) -> None:
        """Every number of every round."""
        for record in records:
            self._run.log(scalars(record), step=record.round)

    def finish(self, summary: Mapping[str, Any] | None) -> None:
        """The run is over, or was interrupted."""
        self._run.summary.update({metric: value for metric, value in (summary or {}).items() if value is not None})
        self._run.finish()
        self._open.close()
