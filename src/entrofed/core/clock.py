"""A virtual clock: how long clients would take, so that a round has a duration, and slow clients may come too late.

Nothing waits for it. A client's seconds follow from its device, its data and the bytes that it moves; devices are drawn
once per run from named streams, so that every method meets the same ones under the same seed.
"""

import csv
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from math import ceil
from pathlib import Path
from typing import Annotated, ClassVar

import numpy as np
from numpy.typing import NDArray
from pydantic import ConfigDict, Field

from entrofed.core.seeds import stream
from entrofed.errors import ConfigError, DataError

MEGABIT = 1e6 / 8
"""Bytes."""
FORWARD = 1 / 3
"""What a pass without training costs of one with it: forward only, instead of forward and back."""
LATE = "too late on the virtual clock"
COLUMNS = ("samples_per_second", "down_mbit", "up_mbit")
CLIENT = "client"

Positive = Annotated[float, Field(gt=0)]


@dataclass(frozen=True, eq=False)
class Devices:
    """What each client computes and communicates with, by client number."""

    speed: NDArray[np.float64]
    """Samples trained on per second."""
    down: NDArray[np.float64]
    """Bytes received per second."""
    up: NDArray[np.float64]
    """Bytes sent per second."""

    def seconds(self, client: int, *, samples: float = 0.0, down: float = 0.0, up: float = 0.0) -> float:
        """To receive so many bytes, pass over so many samples, and send so many bytes, one after the other.

        >>> devices = Devices(np.array([50.0]), np.array([1000.0]), np.array([100.0]))
        >>> devices.seconds(0, samples=200, down=500, up=50)
        5.0
        """
        return float(down / self.down[client] + samples / self.speed[client] + up / self.up[client])


@dataclass(frozen=True)
class Closed:
    """How a round ended: after so many seconds, without those who came too late (with the reason)."""

    seconds: float
    late: Mapping[int, str]


@dataclass(frozen=True)
class Clock:
    """Speeds, bandwidths, and how long a server waits. The defaults are our choice, not measurements.

    The speed of client k is ``speed * exp(speed_spread * z_k)``, ``z_k`` normal: log-normal with the median ``speed``.
    Bandwidths likewise, with the medians ``down`` and ``up`` (megabits per second) and one draw for both. Or
    ``devices`` names a CSV file with the columns samples_per_second, down_mbit, up_mbit: each client gets one of its
    rows at random or, if there is a column ``client``, that with its number.

    A round ends when everybody has answered, or after ``deadline`` seconds. ``over_selection``: so many more clients
    are chosen (a share of the cohort), and the round ends when as many as the cohort have answered. ``partial``: who
    would miss the deadline trains for fewer epochs, as many as fit, but at least one.
    """

    __pydantic_config__: ClassVar[ConfigDict] = ConfigDict(extra="forbid", allow_inf_nan=False)

    speed: Positive = 100.0
    """Training samples per second of the median client."""
    speed_spread: Annotated[float, Field(ge=0)] = 1.0
    """Standard deviation of the logarithm of the speeds; 0: all alike."""
    down: Positive = 20.0
    """The median client's download bandwidth, in megabits per second."""
    up: Positive = 5.0
    """The median client's upload bandwidth, in megabits per second."""
    bandwidth_spread: Annotated[float, Field(ge=0)] = 1.0
    """Standard deviation of the logarithm of the bandwidths."""
    devices: str | None = None
    """A CSV file of devices instead: samples_per_second, down_mbit, up_mbit."""
    deadline: Positive | None = None
    """Virtual seconds after which a client's answer is too late."""
    over_selection: Annotated[float, Field(ge=0)] = 0.0
    """How many more clients are chosen, as a share of the cohort; the first to answer count."""
    partial: bool = False
    """Clients that would miss the deadline train for as many epochs as fit."""

    def __post_init__(self) -> None:
        if self.partial and self.deadline is None:
            raise ConfigError("clock.partial says what to do at a deadline, and there is none; set clock.deadline")

    def chosen(self, cohort: int) -> int:
        """How many clients are chosen, so that ``cohort`` of them answer soon.

        >>> Clock(over_selection=0.3).chosen(10)
        13
        """
        return ceil(cohort * (1 + Fraction(str(self.over_selection))))

    def drawn(self, seed: int, clients: int) -> Devices:
        """The clients' devices; the same for every method under the same seed."""
        if self.devices is not None:
            return _of_file(Path(self.devices), seed, clients)
        speed = np.exp(self.speed_spread * stream(seed, "clock speed").standard_normal(clients))
        bandwidth = np.exp(self.bandwidth_spread * stream(seed, "clock bandwidth").standard_normal(clients))
        return Devices(self.speed * speed, self.down * MEGABIT * bandwidth, self.up * MEGABIT * bandwidth)

    def epochs(self, epochs: int, fixed: float, each: float) -> int:
        """Epochs of ``each`` seconds that a client makes besides its ``fixed`` seconds.

        >>> Clock(deadline=10.0, partial=True).epochs(5, fixed=4.0, each=2.5), Clock().epochs(5, 4.0, 2.5)
        (2, 5)
        """
        if not self.partial or self.deadline is None or each <= 0:
            return epochs
        return int(min(max((self.deadline - fixed) // each, 1), epochs))

    def close(self, seconds: Mapping[int, float], chosen: int, cohort: int) -> Closed:
        """When a round ends in which ``chosen`` clients were asked, and these answer after so many seconds.

        The first ``cohort`` answers count (of equals, lower numbers), or all where nobody was chosen in excess. If too
        few come in time, the server waits until the deadline; without one, until the last who answers at all.

        >>> Clock(deadline=5.0).close({3: 2.0, 4: 9.0}, chosen=2, cohort=2)
        Closed(seconds=5.0, late={4: 'too late on the virtual clock'})
        >>> Clock(over_selection=0.5).close({3: 2.0, 4: 9.0, 5: 3.0}, chosen=3, cohort=2).seconds
        3.0
        """
        surplus = self.chosen(cohort) - cohort
        wanted = max(min(cohort, chosen), chosen - surplus)
        limit = float("inf") if self.deadline is None else self.deadline
        order = sorted(seconds, key=lambda client: (seconds[client], client))
        kept = [client for client in order if seconds[client] <= limit][:wanted]
        end = max((seconds[client] for client in kept), default=0.0)
        if len(kept) < wanted and self.deadline is not None:
            end = self.deadline
        return Closed(end, {client: LATE for client in order if client not in kept})


def _of_file(path: Path, seed: int, clients: int) -> Devices:
    """The devices of a CSV file; see :class:`Clock`."""
    try:
        with path.open(newline="", encoding="utf-8") as file:
            rows = list(csv.DictReader(file))
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise DataError(f"clock.devices: {path} is not readable as CSV: {error}") from None
    numbers = np.array([[_number(path, line, row, name) for name in COLUMNS] for line, row in enumerate(rows, 2)])
    if not len(numbers):
        raise DataError(f"clock.devices: {path} has no devices; a row for each is expected, below {','.join(COLUMNS)}")
    if CLIENT in rows[0]:
        whose = [_number(path, line, row, CLIENT, least=0.0) for line, row in enumerate(rows, 2)]
        if sorted(whose) != list(range(clients)):
            raise DataError(
                f"clock.devices: {path} has a column 'client', and {len(rows)} rows; each of the clients 0 to "
                f"{clients - 1} is expected once"
            )
        chosen = np.argsort(whose)
    else:
        chosen = stream(seed, "clock devices").integers(len(rows), size=clients)
    speed, down, up = numbers[chosen].T
    return Devices(speed, down * MEGABIT, up * MEGABIT)


def _number(path: Path, line: int, row: Mapping[str, str | None], name: str, least: float | None = None) -> float:
    try:
        found = float(row[name] or "")
    except KeyError:
        raise DataError(f"clock.devices: {path} has no column {name!r}; {', '.join(COLUMNS)} are expected") from None
    except ValueError:
        found = float("nan")
    if not np.isfinite(found) or (found <= 0 if least is None else found < least):
        raise DataError(f"clock.devices: {path}, line {line}: {name} = {row[name]!r}; a number above 0 is expected")
    return found
