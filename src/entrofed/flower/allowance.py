"""What a client allows itself to spend of its privacy: kept on its own disk, whatever the server asks.

Each message with Gaussian noise of the multiplier z costs as much as it would if it were seen by itself: shares of
noise that are enough only in a sum are counted as the little they are. All messages so far are one Gaussian with
``mu^2 = sum 1 / z^2`` (:mod:`entrofed.privacy.gaussian`); the epsilon of label counts is added. The file is written
before the message leaves, so a client that is started again goes on counting.
"""

import json
from dataclasses import dataclass
from pathlib import Path

from flwr.app import Context

from entrofed.core.parts import TrainTask
from entrofed.errors import ConfigError, DataError, EntrofedError
from entrofed.files import held, write_whole
from entrofed.flower.answers import client_file, client_name
from entrofed.privacy.gaussian import gaussian_epsilon
from entrofed.privacy.updates import LocalNoise


class LimitError(EntrofedError):
    """A client does not take part any more."""


@dataclass(frozen=True)
class Allowance:
    """A client's own limit; without one, it does what it is asked to."""

    limit: tuple[float, float] | None = None
    """Epsilon and delta."""
    counts: float | None = None
    """The epsilon that its label counts are released with."""
    store: Path | None = None
    secure_only: bool = False

    def __post_init__(self) -> None:
        if self.limit is not None and not (self.limit[0] > 0 and 0 < self.limit[1] < 1):
            raise ConfigError(f"limit = {self.limit}: an epsilon above 0 and a delta between 0 and 1 are expected")

    def check_open(self) -> None:
        """Raise an error if updates may leave under masks only."""
        if self.secure_only:
            raise LimitError("this client sends updates under secure aggregation only; nothing is sent")

    def pay(self, task: TrainTask, context: Context) -> None:
        """Write down what a message will cost; raise an error if it costs too much."""
        if self.limit is None:
            return
        rule = task.rule
        if not isinstance(rule, LocalNoise):
            raise LimitError("this client sends nothing without noise of its own (privacy.updates, where = 'client')")
        if rule.simulate:
            raise LimitError("noise from the server's seed hides nothing from the server; nothing is sent")
        if not (0 < rule.noise < float("inf") and 0 < rule.clip < float("inf")):
            raise LimitError(f"noise {rule.noise} and clip {rule.clip} are not above 0 and finite; nothing is sent")
        path = client_file(client_name(context), self.store, ".updates.json")
        path.parent.mkdir(parents=True, exist_ok=True)
        with held(path.with_suffix(".lock")):
            squares = self._spent(path) + rule.noise**-2
            epsilon, delta = self.limit
            total = (self.counts or 0.0) + gaussian_epsilon(squares**0.5, delta)
            if total > epsilon:
                raise LimitError(
                    f"this client's limit is epsilon {epsilon:g}, and this round would make it {total:.3g}"
                )
            write_whole(path, json.dumps({"squares": squares, "epsilon": total, "delta": delta}) + "\n")

    def _spent(self, path: Path) -> float:
        try:
            found = float(json.loads(path.read_text(encoding="utf-8"))["squares"])
        except FileNotFoundError:
            return 0.0
        except (ValueError, KeyError, TypeError):
            raise DataError(f"{path}: not readable, so it is not known what was spent; nothing is sent") from None
        if not found >= 0:
            raise DataError(f"{path}: {found} cannot have been spent; nothing is sent")
        return found


FREE = Allowance()
"""No limit."""
