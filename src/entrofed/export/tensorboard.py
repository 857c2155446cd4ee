"""Event files for TensorBoard: ``OUT/EXPERIMENT/seed-N``, one each. A new export of a run replaces the file."""

from pathlib import Path
from tempfile import TemporaryDirectory

from entrofed.experiment.run_folder import RunFolder
from entrofed.experiment.tracked import tracked_run
from entrofed.files import write_whole
from entrofed.tracking.tensorboard import TensorBoard

FILE = "events.out.tfevents.entrofed"


def to_tensorboard(runs: list[RunFolder], output: Path) -> list[Path]:
    """Write an event file for each run."""
    paths: list[Path] = []
    for run in runs:
        which = tracked_run(run)
        with TemporaryDirectory() as folder:
            tracker = TensorBoard(Path(folder))
            tracker.start(which)
            tracker.log(run.records())
            tracker.finish(run.summary())
            (written,) = Path(folder).iterdir()
            paths.append(output / which.label / FILE)
            paths[-1].parent.mkdir(parents=True, exist_ok=True)
            write_whole(paths[-1], written.read_bytes())
    return paths
