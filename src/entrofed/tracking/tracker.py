"""What is told of a run while it goes on, or afterwards by an export."""

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from entrofed.core.records import RoundRecord

log = logging.getLogger("entrofed")


@dataclass(frozen=True)
class TrackedRun:
    """Which run it is."""

    experiment: str
    seed: int
    config: Mapping[str, Any]
    """The resolved configuration."""
    settings: Mapping[str, str | int | float | bool]
    """The same without tables in tables."""
    started: float
    """Seconds since the epoch."""
    ended: float | None = None
    """Likewise, if it is over."""

    @property
    def label(self) -> str:
        """How the run is called wherever it is tracked or exported to."""
        return f"{self.experiment}/seed-{self.seed}"


class Tracker(Protocol):
    """Is told of a run: any object with these three methods."""

    def start(self, run: TrackedRun) -> None:
        """A run begins, or goes on; what was told of it before is told again."""
        ...

    def log(self, records: Sequence[RoundRecord]) -> None:
        """Rounds, in order, each once."""
        ...

    def finish(self, summary: Mapping[str, Any] | None) -> None:
        """The run is over, or, without a summary, was interrupted."""
        ...


class Trackers:
    """Several trackers; one that fails is warned of and left out, and never stops the run."""

    def __init__(self, trackers: Sequence[Tracker]) -> None:
        self._trackers, self._next = list(trackers), 0

    def start(self, run: TrackedRun, records: Sequence[RoundRecord]) -> None:
        """A run begins; ``records`` are those of earlier rounds, if it goes on."""
        self._tell(lambda tracker: tracker.start(run))
        if records:
            self._tell(lambda tracker: tracker.log(records))
        self._next = len(records)

    def log(self, record: RoundRecord) -> None:
        """A round is over; one that is played again, because models were lost, comes to the same and is not told."""
        if record.round == self._next:
            self._tell(lambda tracker: tracker.log([record]))
            self._next += 1

    def finish(self, summary: Mapping[str, Any] | None) -> None:
        """The run is over, or was interrupted."""
        self._tell(lambda tracker: tracker.finish(summary))

    def _tell(self, what: Callable[[Tracker], None]) -> None:
        for tracker in list(self._trackers):
            try:
                what(tracker)
            except Exception as error:
                self._trackers.remove(tracker)
                name = type(tracker).__name__
                log.warning("tracker %s: %s: %s; the run goes on without it", name, type(error).__name__, error)
