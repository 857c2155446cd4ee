"""What is written down of a round: types, and one way to JSON and back.

Records of older runs stay readable: what they do not have is None, empty or zero.
"""

import json
import math
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from entrofed.errors import DataError
from entrofed.info.bounds import Alignment

if TYPE_CHECKING:
    from entrofed.core.types import Update

Scalar = float | int | bool | str | None
EXACT = (int, bool, str, type(None))
"""What JSON has as it is."""
PLAIN = (float, *EXACT)
Scalars = dict[str, Scalar]

MAX_CLIENTS = 10**7
"""No record speaks of more."""


@dataclass(frozen=True)
class Metrics:
    """Metrics of a model on some samples; F1, precision and recall are 0 where they would be 0/0.

    None: what somebody else's evaluation, as that of a Flower app, does not say.
    """

    loss: float | None
    accuracy: float
    macro_f1: float | None = None
    weighted_f1: float | None = None
    weighted_precision: float | None = None
    weighted_recall: float | None = None
    class_accuracy: list[float] = field(default_factory=list)
    extra: dict[str, float | None] = field(default_factory=dict)
    """The metrics that the experiment asks for besides; None where one is not defined."""
    confusion: list[list[int]] = field(default_factory=list)
    """How many samples of each class (rows) are taken for which (columns); of a test set with few classes."""

    def to_json(self) -> dict[str, Any]:
        """By name; without ``extra`` and ``confusion`` if they are empty."""
        return _without_empty(self, "extra", "confusion")


@dataclass(frozen=True)
class ClientRecord:
    """A client whose update was used."""

    client: int
    examples: int
    steps: int
    weight: float
    train_loss: float | None
    train_loss_last_epoch: float | None
    loss_terms: Scalars = field(default_factory=dict)
    origin: Scalars = field(default_factory=dict)
    """What its weight came from."""

    @classmethod
    def of(cls, update: "Update", weight: float, origin: Mapping[str, Any] | None = None) -> "ClientRecord":
        """What is noted of an update."""
        return cls(
            update.client,
            int(update.num_examples),
            int(update.num_steps),
            float(weight),
            float(update.train_loss),
            float(update.train_loss_last_epoch),
            dict(update.terms),
            dict(origin or {}),
        )

    def to_json(self) -> dict[str, Any]:
        """By name; without what is empty."""
        return _without_empty(self, "loss_terms", "origin")


@dataclass(frozen=True)
class Refusal:
    """A client whose update was not used, and why."""

    client: int
    reason: str


@dataclass(frozen=True)
class PeerRecord:
    """A node without a server: whose models it pooled, with which weights, and how good its model is."""

    node: int
    senders: list[int]
    weights: list[float]
    origins: list[Scalars] = field(default_factory=list)
    accuracy: float | None = None
    macro_f1: float | None = None
    held_out: float | None = None
    """Accuracy on the node's own held-out data."""

    @property
    def mixing(self) -> dict[int, float]:
        """The weight of each model that was pooled."""
        return dict(zip(self.senders, self.weights, strict=True))

    def to_json(self) -> dict[str, Any]:
        """By name; ``senders`` is ``from``."""
        found = _without_empty(self, "origins", "accuracy", "macro_f1", "held_out")
        return {"from" if key == "senders" else key: value for key, value in found.items()}


@dataclass(frozen=True)
class Traffic:
    """Bytes to the clients and from them (float32 models, numbers of eight bytes); between peers all goes up."""

    down: int = 0
    up: int = 0

    @property
    def total(self) -> int:
        """Both ways."""
        return self.down + self.up

    def __add__(self, other: "Traffic") -> "Traffic":
        return Traffic(self.down + other.down, self.up + other.up)


class Stopwatch:
    """Seconds by phase."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        self._last = time.perf_counter()

    def lap(self, phase: str) -> None:
        """The phase that ends now."""
        now = time.perf_counter()
        self.seconds[phase] = now - self._last
        self._last = now


@dataclass(frozen=True)
class RoundRecord:
    """One round; rounds count from 0."""

    round: int
    lr: float | None = None
    available: int = 0
    """Clients that could have been chosen."""
    cohort: list[int] = field(default_factory=list)
    reasons: list[Scalars] = field(default_factory=list)
    """Why each of the cohort was chosen."""
    cohort_entropy: float | None = None
    """Of the pooled labels of the clients whose updates count, bits: without those that dropped out, were refused or
    have weight 0."""
    clients: list[ClientRecord] = field(default_factory=list)
    refused: list[Refusal] = field(default_factory=list)
    skipped: bool = False
    """Whether nothing changed: too few updates could be used, or no model came of them."""
    reason: str | None = None
    """Why the round was skipped."""
    effective_cohort: float = 0.0
    train_loss: float | None = None
    bytes_down: int = 0
    bytes_up: int = 0
    test: Metrics | None = None
    in_distribution: Metrics | None = None
    """On what the cohort's clients held out."""
    judged: float | None = None
    """Accuracy on the data that decides when to stop, where something may stop the run."""
    alignment: Alignment | None = None
    averaged: Metrics | None = None
    """Of the average of the global model over rounds, where the server rule keeps one."""
    parts: dict[str, Metrics] = field(default_factory=dict)
    """On other parts of the data, where an experiment asks for it: ``training``, ``validation``."""
    peers: list[PeerRecord] = field(default_factory=list)
    consensus: float | None = None
    """Mean distance of the peers' models from their mean."""
    spectral_gap: float | None = None
    names: list[str] | None = None
    """The cohort by name, where clients have names."""
    virtual_seconds: float | None = None
    """How long the round takes on the virtual clock, where there is one."""
    seconds: dict[str, float] = field(default_factory=dict)
    """By phase; ``clients`` is the training time summed over clients."""

    @property
    def used(self) -> list[int]:
        """The clients whose updates count."""
        return [client.client for client in self.clients if client.weight > 0]

    @property
    def duration(self) -> float:
        """Seconds on the server's clock."""
        return sum(value for phase, value in self.seconds.items() if phase != "clients")

    def to_json(self) -> dict[str, Any]:
        """A plain table; what is not a finite number becomes None."""
        found: dict[str, Any] = _finite(self._table())
        return found

    def dumps(self) -> str:
        """The same as JSON text; to look for what is not finite takes longer than to write the rest."""
        found = self._table()
        try:
            return json.dumps(found, allow_nan=False)
        except ValueError:
            return json.dumps(_finite(found))

    def _table(self) -> dict[str, Any]:
        found: dict[str, Any] = {
            "round": self.round,
            "lr": self.lr,
            "available": self.available,
            "cohort": self.cohort,
            "reasons": self.reasons,
            "cohort_entropy": self.cohort_entropy,
            "clients": [client.to_json() for client in self.clients],
            "refused": [{"client": refusal.client, "reason": refusal.reason} for refusal in self.refused],
            "skipped": self.skipped,
            "effective_cohort": self.effective_cohort,
            "train_loss": self.train_loss,
            "bytes_down": self.bytes_down,
            "bytes_up": self.bytes_up,
            "test": None if self.test is None else self.test.to_json(),
            "id": None if self.in_distribution is None else self.in_distribution.to_json(),
        }
        if self.reason is not None:
            found["reason"] = self.reason
        if self.judged is not None:
            found["judged"] = self.judged
        if self.virtual_seconds is not None:
            found["virtual_seconds"] = self.virtual_seconds
        if self.peers:
            peers = [peer.to_json() for peer in self.peers]
            found |= {"peers": peers, "consensus": self.consensus, "spectral_gap": self.spectral_gap}
        else:
            found["alignment"] = None if self.alignment is None else asdict(self.alignment)
        if self.averaged is not None:
            found["averaged"] = self.averaged.to_json()
        if self.parts:
            found["parts"] = {part: metrics.to_json() for part, metrics in self.parts.items()}
        if self.names is not None:
            found["names"] = self.names
        return found | {"seconds": self.seconds}

    @classmethod
    def from_json(cls, found: Mapping[str, Any]) -> "RoundRecord":
        """The inverse of :meth:`to_json`; a DataError if it cannot be a record."""
        if not isinstance(found, Mapping):
            raise DataError(f"not the record of a round: {type(found).__name__}")
        try:
            _check_numbers(found)
            plain = {
                key: found[key]
                for key in (
                    *("round", "lr", "available", "cohort", "reasons", "cohort_entropy", "skipped", "reason"),
                    *("effective_cohort", "train_loss", "bytes_down", "bytes_up", "consensus", "spectral_gap"),
                    *("judged", "names", "virtual_seconds", "seconds"),
                )
                if key in found
            }
            return cls(
                **plain,
                clients=[ClientRecord(**entry) for entry in found.get("clients", ())],
                refused=[Refusal(**entry) for entry in found.get("refused", ())],
                test=_optional(Metrics, found.get("test")),
                in_distribution=_optional(Metrics, found.get("id")),
                alignment=_optional(Alignment, found.get("alignment")),
                averaged=_optional(Metrics, found.get("averaged")),
                parts={part: Metrics(**entry) for part, entry in found.get("parts", {}).items()},
                peers=[
                    PeerRecord(**{"senders" if key == "from" else key: value for key, value in entry.items()})
                    for entry in found.get("peers", ())
                ],
            )
        except (TypeError, AttributeError, KeyError) as error:
            raise DataError(f"not the record of a round: {error}") from None


def _check_numbers(found: Mapping[str, Any]) -> None:
    """Raise a DataError if a round, a client or a number of them cannot be: who reads the record counts on it."""
    for name in ("round", "bytes_up", "bytes_down"):
        value = found["round"] if name == "round" else found.get(name, 0)
        if type(value) is not int or value < 0:
            raise DataError(f"{name} = {str(value)[:50]}: a number from 0 on is expected")
    listed = [entry for key in ("clients", "refused") for entry in found.get(key, ())]
    clients = [*found.get("cohort", ()), *(entry["client"] for entry in listed)]
    clients += [entry["node"] for entry in found.get("peers", ())]
    for client in clients:
        if type(client) is not int or not 0 <= client < MAX_CLIENTS:
            raise DataError(f"client {str(client)[:50]}: a number from 0 to {MAX_CLIENTS} is expected")
    for name in ("lr", "cohort_entropy", "effective_cohort", "train_loss", "consensus", "spectral_gap", "judged"):
        if not isinstance(found.get(name), int | float | None):
            raise DataError(f"{name} = {str(found[name])[:50]}: a number is expected")
    for entry in found.get("clients", ()):
        if not isinstance(entry["weight"], int | float):
            raise DataError("the weight of a client is no number")
    for name in ("test", "id"):
        table = found.get(name)
        if table is not None and not isinstance(table["accuracy"], int | float):
            raise DataError("an accuracy is no number")
    if not all(isinstance(lap, int | float) for lap in found.get("seconds", {}).values()):
        raise DataError("seconds are no numbers")


def _optional(kind: Any, found: Mapping[str, Any] | None) -> Any:
    return None if found is None else kind(**found)


def _without_empty(record: Any, *optional: str) -> dict[str, Any]:
    found = dict(vars(record))
    for key in optional:
        if found[key] in (None, [], {}):
            del found[key]
    return found


def _finite(value: Any) -> Any:
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {key: inner if type(inner) in EXACT else _finite(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [inner if type(inner) in EXACT else _finite(inner) for inner in value]
    return value


def scalars(found: Any, what: str) -> list[Scalars]:
    """What a part says about its choices, one table per choice, as plain numbers and texts that can be stored.

    >>> scalars([{"entropy": np.float64(1.5), "kept": np.bool_(True)}], "weigher 'mine': origins")
    [{'entropy': 1.5, 'kept': True}]
    """
    if not isinstance(found, list | tuple) or not all(isinstance(entry, Mapping) for entry in found):
        raise DataError(f"{what}: a list of tables is expected, one for each client, found {str(found)[:100]}")
    if all(type(key) is str and type(value) in PLAIN for entry in found for key, value in entry.items()):
        return list(found)
    return [{str(key): _scalar(value, f"{what}: {key!r}") for key, value in entry.items()} for entry in found]


def _scalar(value: Any, what: str) -> Scalar:
    plain: Scalar = value.item() if isinstance(value, np.generic) else value
    if isinstance(plain, PLAIN):
        return plain
    raise DataError(f"{what} = {str(value)[:100]}: a number, a text, true, false or None is expected")
