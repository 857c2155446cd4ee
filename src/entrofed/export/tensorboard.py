"""Event files for TensorBoard (the extra ``tensorboard``): ``OUT/EXPERIMENT/seed-N``, one each.

Scalars such as ``test/accuracy`` have the round as their step, and as their time, too: the time of a round is not
recorded. TensorBoard keeps them as float32. The configuration is the text ``configuration``. A new export of a run
replaces the file.
"""

from pathlib import Path
from tempfile import TemporaryDirectory

from entrofed.experiment.run_folder import RunFolder
from entrofed.export.optional import needed
from entrofed.export.runs import label, scalars, settings
from entrofed.files import write_whole

FILE = "events.out.tfevents.entrofed"


def to_tensorboard(runs: list[RunFolder], output: Path) -> list[Path]:
    """Write an event file for each run."""
    writer_of = needed("torch.utils.tensorboard", "tensorboard").SummaryWriter
    paths: list[Path] = []
    for run in runs:
        experiment = run.experiment()
        lines = [f"| {name} | {value} |" for name, value in settings(experiment).items()]
        with TemporaryDirectory() as folder:
            with writer_of(folder) as writer:
                writer.add_text("configuration", "\n".join(["| setting | value |", "|---|---|", *lines]), 0, 0.0)
                for record in run.records():
                    for name, value in scalars(record).items():
                        writer.add_scalar(name, value, record.round, float(record.round))
            (written,) = Path(folder).iterdir()
            paths.append(output / label(experiment) / FILE)
            paths[-1].parent.mkdir(parents=True, exist_ok=True)
            write_whole(paths[-1], written.read_bytes())
    return paths
