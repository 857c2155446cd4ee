"""The experiment file: TOML read into models that forbid unknown keys.

::

    name = "mnist-fedavg"
    rounds = 50
    seed = 42
    model = "lenet_bn"

    [data]
    name = "mnist"
    partition = "dirichlet_balanced"
    clients = 50
    alpha = 0.1

    [method]
    name = "fedavg"
    cohort = 5
    lr = 0.01
"""

import tomllib
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from typing import Any, Literal

from pydantic import Field, ValidationError, ValidationInfo, field_validator, model_validator

from entrofed.client.device import kind_of
from entrofed.client.metrics import CLIENT_ACCURACY, METRICS
from entrofed.core.clock import Clock
from entrofed.core.faults import Faults
from entrofed.core.gossip import check as check_peers
from entrofed.core.parts import Method
from entrofed.errors import ConfigError, IdleKeyError, unknown
from entrofed.experiment.evaluation import Part
from entrofed.experiment.problems import complaints
from entrofed.experiment.sections.data import DataSection
from entrofed.experiment.sections.engine import EngineSection
from entrofed.experiment.sections.method import MethodSection, Spec
from entrofed.experiment.sections.privacy import PrivacySection
from entrofed.experiment.sections.section import Section, was_run
from entrofed.experiment.sections.stop import StopSection
from entrofed.experiment.sections.topology import TopologySection
from entrofed.experiment.tables import key_of, located, override, without
from entrofed.experiment.toml import dumps
from entrofed.registry import known, lookup
from entrofed.registry.references import is_reference
from entrofed.tracking import TRACKERS

ANYBODY = ("random", "full")
"""Selectors that choose without a reason: where nobody is chosen, nothing is lost."""


class Experiment(Section):
    """One experiment with one seed."""

    name: str = Field("experiment", pattern=r"^[A-Za-z0-9][A-Za-z0-9._+-]*$")
    """Names the run's folder, ``OUT/NAME/seed-N``; the file's own name unless given."""
    seed: int = Field(0, ge=0)
    """Everything random follows from it: partition, first model, cohorts, batches, noise that is simulated."""
    rounds: int = Field(10, ge=1)
    """The number of rounds: in each, clients train and the server, or each peer, averages their models."""
    evaluate_every: int = Field(1, ge=1)
    """Rounds between evaluations on the test set."""
    evaluate_last: int = Field(0, ge=0)
    """Rounds at the end that are all evaluated, whatever ``evaluate_every`` says."""
    evaluate_on: tuple[Part, ...] = ()
    """What is evaluated besides the test set, for learning curves: training, validation."""
    alignment_every: int = Field(0, ge=0)
    """Rounds between measurements of how a round's step agrees with the gradient over all data; 0: never."""
    checkpoint_seconds: float = Field(10.0, ge=0)
    """The least time between checkpoints, in seconds; 0: after every round."""
    metrics: tuple[str, ...] = ()
    """What is measured besides accuracy, loss and F1: names, or functions such as ``my_metrics.py:cost``."""
    track: tuple[str, ...] = ()
    """Where the course of the run can be followed while it goes on: tensorboard, mlflow, wandb."""
    given: tuple[Literal["data", "method", "model"], ...] | None = None
    """What was handed over from Python, so that the file does not say all of it."""
    model: Spec = "digits_mlp"
    """A network by its name (``entrofed parts``), or ``FILE.py:NAME``; a table ``{ name = ..., hidden = [64] }``
    gives options."""
    data: DataSection = DataSection(clients=10)
    method: MethodSection = MethodSection()
    faults: Faults = Faults()
    clock: Clock | None = None
    privacy: PrivacySection | None = None
    topology: TopologySection | None = None
    stop: StopSection | None = None
    engine: EngineSection = Field(default_factory=EngineSection)

    @field_validator("metrics", "track")
    @classmethod
    def _known_names(cls, names: tuple[str, ...], info: ValidationInfo) -> tuple[str, ...]:
        known: Iterable[str] = TRACKERS if info.field_name == "track" else (*METRICS, CLIENT_ACCURACY)
        for i, name in enumerate(names if not was_run(info) else ()):
            if name in names[:i]:
                raise ValueError(f"{info.field_name}: {name!r} is there twice")
            if name not in known and not (info.field_name == "metrics" and is_reference(name)):
                raise ValueError(str(unknown("metric" if info.field_name == "metrics" else "tracker", name, known)))
        return names

    @model_validator(mode="after")
    def _consistent_experiment(self, info: ValidationInfo) -> "Experiment":
        if not was_run(info) and not self.was_given("method"):
            self.check(self.method.recipe)
        return self

    def was_given(self, what: str) -> bool:
        """Whether the data, the method or the model was handed over from Python."""
        return what in (self.given or ())

    def check(self, method: Method) -> None:
        """Raise a ValueError if the sections do not go together, a ConfigError if the parts do not."""
        if self.rounds % self.evaluate_every and not self.evaluate_last:
            raise ValueError(
                f"rounds = {self.rounds} is not a multiple of evaluate_every = {self.evaluate_every}, "
                "so the last round would not be evaluated; change one of them, or set evaluate_last = 1"
            )
        schedule = self.method.schedule
        if schedule is not None and schedule.warmup >= self.rounds:
            raise ValueError(
                f"method.schedule.warmup = {schedule.warmup} must be less than rounds = {self.rounds}, or the run ends "
                "before the learning rate is reached"
            )
        method.server.check(method, self.method.training())
        if self.topology is not None:
            self._check_peers(method)
        if self.privacy is not None:
            quorum, cohort = self.method.quorum, self.method.cohort_size(self.data.clients or 1)
            self.privacy.check(method, peers=self.topology is not None, quorum=quorum, cohort=cohort)

    def _check_peers(self, method: Method) -> None:
        check_peers(method)
        meaningless = {
            "method.selector": self.method.selector,
            "data.participating": self.data.participating,
            "alignment_every": self.alignment_every or None,
            "evaluate_on": self.evaluate_on or None,
            "clock.over_selection": None if self.clock is None else self.clock.over_selection or None,
        }
        for key, value in meaningless.items():
            if value is not None:
                raise ValueError(
                    f"{key} has no meaning with a [topology], where every node trains its own model; leave it out"
                )

        if method.selector.name not in ANYBODY:
            raise ValueError(
                f"method {self.method.name!r} chooses clients (selector {method.selector.name!r}), and with a "
                "[topology] nobody is chosen: every node trains; take a method that weighs, or leave out [topology]"
            )

    def decisive(self) -> dict[str, Any]:
        """Everything that the results depend on: what a resumed run must have in common with its start.

        Of the device, its kind.
        """
        settings = self.model_dump(mode="json", exclude={"engine": {"backend", "workers", "timeout", "memory_mb"}})
        settings["engine"]["device"] = kind_of(self.engine.device)
        del settings["checkpoint_seconds"], settings["track"]
        return settings


def read(path: Path, overrides: Iterable[str] = (), *, unset: Iterable[str] = (), stored: bool = False) -> Experiment:
    """An experiment file with command-line overrides such as ``method.lr=0.05``, without the keys of ``unset``.

    ``stored``: the file of a run; no part of it is built or imported.
    """
    try:
        table = tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise ConfigError(f"{path}: there is no such experiment file") from None
    except IsADirectoryError:
        raise ConfigError(f"{path}: is a folder; an experiment is a file, such as {path / 'experiment.toml'}") from None
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise ConfigError(f"{path}: not readable as TOML: {error}") from None
    table.setdefault("name", path.stem)
    try:
        for key in unset:
            table = without(table, key)
    except ConfigError as error:
        raise ConfigError(f"{path}: {error}") from None
    table = table if stored else located(table, path.parent)
    return parse(table, overrides, where=str(path), stored=stored)


def parse_text(text: str) -> Experiment:
    """What :func:`to_toml` wrote."""
    return parse(tomllib.loads(text))


def parse(
    table: Mapping[str, Any], overrides: Iterable[str] = (), where: str = "experiment", *, stored: bool = False
) -> Experiment:
    """An experiment from plain tables; every problem is reported, unknown keys with the nearest known one.

    An override that chooses anew, such as ``data.partition=iid``, leaves behind the keys of the former.
    """
    table, changes = dict(table), list(overrides)
    for text in changes:
        override(table, text)
    changed = {key_of(text) for text in changes}
    table = table if stored else located(table, Path())
    try:
        experiment = _fitting(table, changed, stored)
        if not stored and not experiment.was_given("model"):
            model = experiment.model if isinstance(experiment.model, str) else experiment.model.get("name")
            if not isinstance(model, str):
                raise ConfigError(f"model: a table of options needs a 'name', one of {', '.join(known('model'))}")
            lookup("model", model)
    except ValidationError as error:
        raise ConfigError("\n".join(f"{where}: {words}" for words in complaints(error, Experiment))) from None
    except IdleKeyError as error:
        raise IdleKeyError(error.key, error.choice, f"{where}: {error}") from None
    except ConfigError as error:
        raise ConfigError(f"{where}: {error}") from None
    return experiment


def _fitting(table: dict[str, Any], changed: Collection[str], stored: bool) -> Experiment:
    """The experiment without the keys that do not apply to what was changed, unless they were changed along with it."""
    while True:
        try:
            return Experiment.model_validate(table, context={"stored": stored})
        except IdleKeyError as idle:
            if idle.choice not in changed or idle.key in changed:
                raise
            table = without(table, idle.key)


def to_toml(experiment: Experiment) -> str:
    """The resolved experiment as a file that :func:`read` gives the same experiment for."""
    return dumps(experiment.model_dump(exclude_none=True))
