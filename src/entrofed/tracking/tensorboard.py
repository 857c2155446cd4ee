"""Event files for TensorBoard (the extra ``tensorboard``).

Scalars such as ``test/accuracy`` have the round as their step, and as their time, too: the time of a round is not
recorded. TensorBoard keeps them as float32. The configuration is the text ``configuration``.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from entrofed.core.records import RoundRecord
from entrofed.tracking.numbers import scalars
from entrofed.tracking.optional import needed
from entrofed.tracking.tracker import TrackedRun, Tracker


class TensorBoard(Tracker):
    """Writes an event file into a folder, in place of one that is there."""

    def __init__(self, folder: Path) -> None:
        self._writer_of = needed("torch.utils.tensorboard", "tensorboard").SummaryWriter
        self._folder = folder

    def start(self, run: TrackedRun) -> None:
        """A new file."""
        for old in self._folder.glob("events.out.tfevents.*"):
            old.unlink()
        self._writer = self._writer_of(str(self._folder))
        lines = [f"| {name} | {value} |" for name, value in run.settings.items()]
        self._writer.add_text("configuration", "\n".join(["| setting | value |", "|---|---|", *lines]), 0, 0.0)

    def log(self, records: Sequence[RoundRecord]) -> None:
        """Every number of every round, on disk at once."""
        for record in records:
            for name, value in scalars(record).items():
                self._writer.add_scalar(name, value, record.round, float(record.round))
        self._writer.flush()

    def finish(self, summary: Mapping[str, Any] | None) -> None:
        """Close the file."""
        self._writer.close()
