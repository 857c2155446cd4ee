"""What it takes to reach an accuracy: rounds, megabytes, seconds; and seconds on the virtual clock."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import accumulate

from entrofed.core.records import RoundRecord
from entrofed.errors import ConfigError

NOT_REACHED = "not reached"


@dataclass(frozen=True)
class Reached:
    """When an accuracy on the test set was first reached; an accuracy is known only of rounds that are evaluated."""

    rounds: int
    megabytes: float
    """Sent both ways."""
    seconds: float
    """On the server's clock."""
    virtual_seconds: float | None = None
    """On the virtual clock, if there is one."""

    def __str__(self) -> str:
        words = f"{self.rounds} round{'s' * (self.rounds != 1)}, {self.megabytes:,.1f} MB, {self.seconds:,.1f} s"
        return words + ("" if self.virtual_seconds is None else f", {self.virtual_seconds:,.1f} s on the virtual clock")


def checked_target(target: float) -> float:
    """The target, or a ConfigError if no accuracy can be compared with it."""
    if not 0 < target <= 1:
        raise ConfigError(f"target {target:g}: an accuracy above 0 and up to 1 is expected; 90 % is 0.9")
    return target


def to_target(records: Sequence[RoundRecord], target: float) -> Reached | None:
    """What the rounds up to the first whose test accuracy is at least ``target`` took; None if it was not reached.

    >>> from entrofed.core.records import Metrics
    >>> good = Metrics(None, 0.9, 0, 0, 0, 0)
    >>> rounds = [RoundRecord(0, bytes_up=10**6, seconds={"train": 2}), RoundRecord(1, bytes_up=10**6, test=good)]
    >>> print(to_target(rounds, 0.8), "/", to_target(rounds, 0.95))
    2 rounds, 2.0 MB, 2.0 s / None
    """
    return first_reaching(
        [None if record.test is None else record.test.accuracy for record in records],
        accumulate((record.bytes_up + record.bytes_down) / 1e6 for record in records),
        accumulate(record.duration for record in records),
        target,
        elapsed(record.virtual_seconds for record in records),
    )


def elapsed(seconds: Iterable[float | None]) -> list[float] | None:
    """Since the start on the virtual clock, after each round; None where there is no clock.

    >>> elapsed([2.0, 3.0]), elapsed([None, None])
    ([2.0, 5.0], None)
    """
    known = [value for value in seconds if value is not None]
    return list(accumulate(known)) or None


def first_reaching(
    accuracies: Iterable[float | None],
    megabytes: Iterable[float],
    seconds: Iterable[float],
    target: float,
    virtual: Sequence[float] | None = None,
) -> Reached | None:
    """The same of columns, a value for each round; megabytes and seconds since the start."""
    checked_target(target)
    columns = zip(accuracies, megabytes, seconds, strict=True)
    for played, (accuracy, sent, took) in enumerate(columns, start=1):
        if accuracy is not None and accuracy >= target:
            return Reached(played, sent, took, None if virtual is None else virtual[played - 1])
    return None
