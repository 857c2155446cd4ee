"""``[method]``: the recipe, and how clients train."""

from fractions import Fraction
from functools import cached_property
from typing import Annotated, Any, Literal

from pydantic import Field, ValidationInfo, model_validator

from entrofed.client.augment import AUGMENTS
from entrofed.core.job import Admission, NonFinite
from entrofed.core.parts import Method
from entrofed.core.schedule import Schedule
from entrofed.core.types import Training
from entrofed.errors import IdleKeyError, unknown
from entrofed.experiment.sections.section import Section, was_run
from entrofed.methods import method_of
from entrofed.registry import PART_KINDS, with_parts

Spec = str | dict[str, Any]
"""A name or a reference, or a table of one and options."""


class MethodSection(Section):
    """The recipe, parts that replace the recipe's, and how clients train."""

    name: str = "fedavg"
    """The recipe: which selector, weigher, objective and server rule (``entrofed parts``)."""
    selector: Spec | None = None
    """Which clients train, instead of the recipe's own; a name, ``FILE.py:NAME``, or a table with options."""
    weigher: Spec | None = None
    """How much each update counts, instead of the recipe's own."""
    objective: Spec | None = None
    """What clients minimize, instead of the recipe's own."""
    server: Spec | None = None
    """How the server, or a peer, updates its model, instead of the recipe's own."""
    cohort: Annotated[int, Field(ge=1)] | Annotated[float, Field(gt=0, le=1)] = 10
    """Clients per round: a whole number is how many, a fraction the share of all (``1.0``: everybody)."""
    epochs: int = Field(1, ge=1)
    """Passes over a client's own data per round."""
    batch_size: int = Field(32, ge=1)
    """Samples per step."""
    optimizer: Literal["sgd", "adam", "adamw"] = "sgd"
    """The clients' optimizer."""
    lr: float = Field(0.01, gt=0)
    """The clients' learning rate."""
    lr_decay: float = Field(1.0, gt=0, le=1)
    """Factor by which the learning rate is multiplied after each round."""
    schedule: Schedule | None = None
    """How the learning rate changes from round to round."""
    momentum: float = Field(0.0, ge=0, lt=1)
    """Momentum of ``sgd``."""
    nesterov: bool = False
    """Nesterov's form of momentum."""
    weight_decay: float = Field(0.0, ge=0)
    """L2 penalty of ``sgd`` and ``adam``; decoupled for ``adamw``."""
    clip_gradients: float | None = Field(None, gt=0)
    """The largest norm of a step's gradient, over all parameters together; larger ones are scaled down to it."""
    persist_optimizer: bool = False
    """Clients keep their optimizer's state until they participate again."""
    augment: tuple[str, ...] = ()
    """Random changes of training images: ``flip``, ``crop``, ``jitter``, ``gray``."""
    quorum: int = Field(1, ge=1)
    """The least number of usable updates; below it the round is skipped and the model stays."""
    max_skipped: int = Field(5, ge=1)
    """Skipped rounds in a row after which the run ends."""
    nonfinite: NonFinite = "drop"
    """Updates with NaN or infinite values: ``drop`` them, ``raise`` an error, or let them ``propagate``."""
    admission: Admission = "refuse"
    """An update far larger than any that was seen: ``refuse`` it, ``clip`` it, or ``off``, take it as it is."""

    @model_validator(mode="after")
    def _consistent(self, info: ValidationInfo) -> "MethodSection":
        if was_run(info):
            return self
        for name in self.augment:
            if name not in AUGMENTS:
                raise ValueError(str(unknown("method.augment", name, AUGMENTS)))
        if self.optimizer != "sgd" and self.momentum:
            words = f"method.momentum belongs to optimizer 'sgd'; leave it out with {self.optimizer!r}"
            raise IdleKeyError("method.momentum", "method.optimizer", words)
        if self.nesterov and not self.momentum:
            raise ValueError(
                "method.nesterov is a form of momentum; give method.momentum, for example 0.9, or leave it out"
            )
        if self.schedule is not None and self.lr_decay != 1:
            raise ValueError(
                f"method.lr_decay = {self.lr_decay} and method.schedule both change the learning rate; leave one out"
            )
        return self

    @cached_property
    def recipe(self) -> Method:
        """The method: the named recipe with the parts given here in place of its own; built once."""
        return with_parts(method_of(self.name), **{kind: getattr(self, kind) for kind in PART_KINDS})

    def training(self) -> Training:
        """How clients train in the first round."""
        return Training(**{name: getattr(self, name) for name in Training.__dataclass_fields__})

    def cohort_size(self, clients: int) -> int:
        """A whole number is the size itself, a fraction the share of the clients, at least one."""
        return self.cohort if isinstance(self.cohort, int) else max(int(Fraction(str(self.cohort)) * clients), 1)
