"""How the learning rate changes from round to round."""

from dataclasses import dataclass
from math import cos, pi
from typing import Annotated, ClassVar, Literal

from pydantic import ConfigDict, Field

from entrofed.errors import ConfigError

START = 0.1
"""The share of the rate that a warm-up begins with."""


@dataclass(frozen=True)
class Schedule:
    """The rate of round ``t`` (from 0 on, of ``T``) is ``lr`` times a share.

    In the ``W = warmup`` first rounds it grows linearly from a tenth, ``0.1 + 0.9 t / W``. Then, with ``s = t - W``:

    - ``constant``: 1
    - ``step``: ``factor^floor(s / every)``; ``factor`` is 0.1 unless given
    - ``cosine``: ``final + (1 - final) (1 + cos(pi s / (T - W))) / 2``; ``final`` is 0 unless given, and what the
      round after the last would have

    as torch's ``LinearLR`` followed by ``StepLR`` or ``CosineAnnealingLR``, one step per round.

    >>> [round(Schedule("step", every=2, factor=0.5).share(t, 6), 3) for t in range(6)]
    [1.0, 1.0, 0.5, 0.5, 0.25, 0.25]
    >>> [round(Schedule("cosine", warmup=2).share(t, 6), 3) for t in range(6)]
    [0.1, 0.55, 1.0, 0.854, 0.5, 0.146]
    """

    __pydantic_config__: ClassVar[ConfigDict] = ConfigDict(extra="forbid", allow_inf_nan=False)

    kind: Literal["constant", "step", "cosine"] = "constant"
    """``constant``, ``step`` or ``cosine``."""
    every: Annotated[int, Field(ge=1)] | None = None
    """Rounds between two steps (``step``)."""
    factor: Annotated[float, Field(gt=0, le=1)] | None = None
    """What each step multiplies the rate by (``step``); 0.1 unless given."""
    final: Annotated[float, Field(ge=0, le=1)] | None = None
    """The share of the rate that is left at the end (``cosine``); 0 unless given."""
    warmup: Annotated[int, Field(ge=0)] = 0
    """First rounds in which the rate grows from a tenth."""

    def __post_init__(self) -> None:
        for key, kind in (("every", "step"), ("factor", "step"), ("final", "cosine")):
            if getattr(self, key) is not None and self.kind != kind:
                raise ConfigError(
                    f"method.schedule.{key} belongs to kind {kind!r} and does not apply to {self.kind!r}; leave it out"
                )
        if self.kind == "step" and self.every is None:
            raise ConfigError(
                "method.schedule: kind 'step' needs every, the rounds between two steps, such as every = 50"
            )
        if self.kind == "constant" and not self.warmup:
            raise ConfigError(
                "method.schedule: kind 'constant' without warmup changes nothing; give warmup, choose kind 'step' or "
                "'cosine', or leave the schedule out"
            )

    def share(self, number: int, rounds: int) -> float:
        """Of the learning rate, in the ``number``-th round of ``rounds``."""
        if number < self.warmup:
            return START + (1 - START) * number / self.warmup
        after = number - self.warmup
        if self.kind == "step":
            return (0.1 if self.factor is None else self.factor) ** (after // (self.every or 1))
        if self.kind == "cosine":
            final, way = self.final or 0.0, min(after / max(rounds - self.warmup, 1), 1.0)
            return final + (1 - final) * (1 + cos(pi * way)) / 2
        return 1.0
