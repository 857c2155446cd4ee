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

import os
import tomllib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import fields, is_dataclass
from fractions import Fraction
from functools import cached_property
from inspect import Parameter, signature
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar, get_args

from pydantic import BaseModel, ConfigDict, Field, ValidationError, ValidationInfo, field_validator, model_validator

from entrofed.backends import FLOWER, backends
from entrofed.client.augment import AUGMENTS
from entrofed.client.device import NAMES, Precision, kind_of, resolved
from entrofed.client.metrics import CLIENT_ACCURACY, METRICS
from entrofed.core.faults import Faults
from entrofed.core.job import NonFinite
from entrofed.core.parts import LabelFact, Method
from entrofed.core.schedule import Schedule
from entrofed.core.types import Training
from entrofed.data.assignment import assignment
from entrofed.data.catalog import datasets
from entrofed.data.dataset import Kind, Scaling
from entrofed.data.federation import ASSIGNMENT, BY_ROLE, NATURAL
from entrofed.data.shards import partitions
from entrofed.data.tabular.choice import Choice, Missing, names_a_file
from entrofed.errors import ConfigError, unknown
from entrofed.experiment.toml import dumps
from entrofed.methods import method_of
from entrofed.privacy.counts import Neighbours
from entrofed.registry import PART_KINDS, known, lookup, with_parts
from entrofed.registry.references import absolute, is_reference
from entrofed.tracking import TRACKERS

Spec = str | dict[str, Any]
"""A name or a reference, or a table of one and options."""

OWN_KEYS = tuple(field.name for field in fields(Choice))
PARTITION_KEYS = (
    "clients",
    "alpha",
    "alphas",
    "labels_per_client",
    "sigma",
    "angles",
    "owners",
    "min_size",
    "max_tries",
)


def _was_run(info: ValidationInfo) -> bool:
    """Whether the experiment was run before: it is read as it is, also where its parts are not installed."""
    return bool((info.context or {}).get("stored"))


class Section(BaseModel):
    """A table of the file; a key that is not listed is an error."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


def _fit(section: Section, choice: str, functions: Mapping[str, Callable[..., Any]], keys: Iterable[str]) -> None:
    """Raise a ValueError unless a function is named and its options are given, all without a default included.

    ``choice`` is the key that names the function, such as ``topology.kind``; ``keys`` are the options of all functions.
    """
    name, _, key = choice.partition(".")
    chosen = getattr(section, key)
    if chosen not in functions:
        raise ValueError(str(unknown(choice, chosen, functions)))
    options = signature(functions[chosen]).parameters
    for option in keys:
        given = getattr(section, option) is not None
        if given and option not in options:
            raise ValueError(f"{name}.{option} does not apply to {key} {chosen!r}; leave it out")
        if not given and option in options and options[option].default is Parameter.empty:
            raise ValueError(f"{key} {chosen!r} needs {name}.{option}")


class DataSection(Section):
    """Which data, and how it is dealt out. Keys that a partition does not use must not be given."""

    name: str = "digits"
    path: str | None = None
    """A file or folder of the user's own instead of a dataset of the catalogue; its stem is the name."""
    label: str | None = None
    client: str | None = None
    test: Annotated[float, Field(gt=0, lt=1)] | str | None = None
    features: tuple[str, ...] | None = None
    drop: tuple[str, ...] | None = None
    missing: Missing | None = None
    kind: Kind | None = None
    size: tuple[Annotated[int, Field(ge=1)], Annotated[int, Field(ge=1)]] | None = None
    partition: str = "iid"
    clients: int | None = Field(None, ge=1)
    alpha: float | None = Field(None, gt=0)
    alphas: tuple[float, float] | None = None
    labels_per_client: int | None = Field(None, ge=1)
    sigma: float | None = Field(None, gt=0)
    angles: tuple[float, ...] | None = None
    owners: str | None = None
    """A file that names the client of each training sample."""
    min_size: int | None = Field(None, ge=0)
    max_tries: int | None = Field(None, ge=1)
    options: dict[str, Any] | None = None
    """Further options, of a partition that another package brings."""
    participating: int | None = Field(None, ge=1)
    holdout: float = Field(0.0, ge=0, lt=1)
    validation: float = Field(0.0, ge=0, lt=1)
    """The share of the training part that the server keeps as a validation set."""
    normalize: Scaling = "standard"
    digest: str | None = None
    """SHA-256 of a federation that was handed over from Python; it is dealt out already."""

    @model_validator(mode="before")
    @classmethod
    def _own_data(cls, given: Any, info: ValidationInfo) -> Any:
        """Own data is called by its file, and has natural clients unless a partition or only their number is given."""
        if not isinstance(given, dict) or not isinstance(given.get("path"), str) or _was_run(info):
            return given
        natural = "client" in given or "clients" not in given
        return {"name": Path(given["path"]).stem, **({"partition": NATURAL} if natural else {}), **given}

    @model_validator(mode="after")
    def _fits_partition(self, info: ValidationInfo) -> "DataSection":
        if _was_run(info) or self.digest is not None:
            return self
        if self.path is None:
            for key in OWN_KEYS:
                if getattr(self, key) is not None:
                    raise ValueError(f"data.{key} is for files of your own (data.path); leave it out with data.name")
            if self.name not in datasets():
                raise ValueError(str(unknown("dataset", self.name, datasets())))
        elif self.name != Path(self.path).stem:
            raise ValueError(
                f"data.name = {self.name!r} and data.path = {self.path!r} exclude each other; leave one out"
            )
        owned = dict.fromkeys((BY_ROLE, NATURAL), lambda clients=None: None)
        _fit(self, "data.partition", {**partitions(), **owned, ASSIGNMENT: assignment}, PARTITION_KEYS)
        return self

    def choice(self) -> Choice:
        """What is said about a file of the user's own."""
        return Choice(**{key: value for key in OWN_KEYS if (value := getattr(self, key)) is not None})

    def partition_options(self) -> dict[str, Any]:
        """The keys given for the partitioner, besides the number of clients."""
        given = {key: value for key in PARTITION_KEYS[1:] if (value := getattr(self, key)) is not None}
        return {**given, **(self.options or {})}


class MethodSection(Section):
    """The recipe, parts that replace the recipe's, and how clients train."""

    name: str = "fedavg"
    selector: Spec | None = None
    weigher: Spec | None = None
    objective: Spec | None = None
    server: Spec | None = None
    cohort: Annotated[int, Field(ge=1)] | Annotated[float, Field(gt=0, le=1)] = 10
    epochs: int = Field(1, ge=1)
    batch_size: int = Field(32, ge=1)
    optimizer: Literal["sgd", "adam", "adamw"] = "sgd"
    lr: float = Field(0.01, gt=0)
    lr_decay: float = Field(1.0, gt=0, le=1)
    schedule: Schedule | None = None
    momentum: float = Field(0.0, ge=0, lt=1)
    nesterov: bool = False
    weight_decay: float = Field(0.0, ge=0)
    clip_gradients: float | None = Field(None, gt=0)
    """The largest norm of a step's gradient, over all parameters together; larger ones are scaled down to it."""
    persist_optimizer: bool = False
    augment: tuple[str, ...] = ()
    quorum: int = Field(1, ge=1)
    max_skipped: int = Field(5, ge=1)
    nonfinite: NonFinite = "drop"

    @model_validator(mode="after")
    def _consistent(self, info: ValidationInfo) -> "MethodSection":
        if _was_run(info):
            return self
        for name in self.augment:
            if name not in AUGMENTS:
                raise ValueError(str(unknown("method.augment", name, AUGMENTS)))
        if self.optimizer != "sgd" and self.momentum:
            raise ValueError(f"method.momentum belongs to optimizer 'sgd'; leave it out with {self.optimizer!r}")
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


class PrivacySection(Section):
    """Noise on the label counts that clients release; see :mod:`entrofed.privacy.counts`."""

    epsilon: float = Field(gt=0)
    neighbours: Neighbours = "add_remove"
    simulate: bool = False
    """Draw the noise from the run's seed: repeatable, and no privacy."""
    sizes: bool = False
    """Take the number of examples from the noised counts, too, instead of from the clients."""


TOPOLOGY_KEYS = ("degree", "probability", "rewire", "edges", "path")


class TopologySection(Section):
    """Peers instead of a server: who is connected with whom; see :mod:`entrofed.core.graphs` for the kinds."""

    kind: str = "full"
    degree: int | None = None
    probability: float | None = None
    rewire: float | None = None
    edges: int | None = None
    path: str | None = None
    up: Annotated[float, Field(gt=0, le=1)] = 1.0
    """The probability that an edge works in a round."""
    message_loss: Annotated[float, Field(ge=0, lt=1)] = 0.0
    split: tuple[int, int] | None = None
    """Rounds, from the first on and before the second, in which the two halves of the nodes are cut off."""

    @model_validator(mode="after")
    def _fits_kind(self, info: ValidationInfo) -> "TopologySection":
        if _was_run(info):
            return self
        from entrofed.core.graphs import TOPOLOGIES

        _fit(self, "topology.kind", TOPOLOGIES, TOPOLOGY_KEYS)
        return self

    def options(self) -> dict[str, Any]:
        """The keys given for the kind."""
        return {key: value for key in TOPOLOGY_KEYS if (value := getattr(self, key)) is not None}


class EngineSection(Section):
    """Where the work is done. Only ``compile``, ``precision`` and the kind of ``device`` change results."""

    backend: str = "processes"
    workers: int = Field(default_factory=lambda: os.cpu_count() or 1, ge=1)
    device: str = "cpu"
    """As :mod:`entrofed.client.device` names them; ``auto`` is resolved when the file is read."""
    precision: Precision = "float32"
    compile: bool = False
    timeout: float = Field(3600.0, gt=0)
    memory_mb: float = Field(1024.0, ge=0)
    """Megabytes of what clients keep that are held in memory; the rest waits on disk."""

    @field_validator("backend")
    @classmethod
    def _known_backend(cls, name: str, info: ValidationInfo) -> str:
        if not _was_run(info) and name not in (names := [*backends(), FLOWER]):
            raise ValueError(str(unknown("engine.backend", name, names)))
        return name

    @field_validator("device")
    @classmethod
    def _known_device(cls, name: str, info: ValidationInfo) -> str:
        if _was_run(info):
            return name
        if not NAMES.fullmatch(name):
            raise ValueError(f"engine.device = {name!r} must be 'cpu', 'cuda', a GPU such as 'cuda:1', 'mps' or 'auto'")
        return resolved(name)

    @field_validator("precision", mode="before")
    @classmethod
    def _no_fp16(cls, name: Any) -> Any:
        if name == "fp16":
            raise ValueError(
                "engine.precision = 'fp16' needs losses to be scaled, and steps to be skipped where they overflow, "
                "so that clients make different numbers of steps; choose 'bf16' or 'float32'"
            )
        return name

    @model_validator(mode="after")
    def _fits_compiler(self, info: ValidationInfo) -> "EngineSection":
        plain = {"device": "cpu", "precision": "float32"}
        for key, value in plain.items():
            if self.compile and getattr(self, key) != value and not _was_run(info):
                raise ValueError(
                    f"engine.compile = true is made for engine.{key} = {value!r}, not for {getattr(self, key)!r}; "
                    "leave one of them out"
                )
        return self


class StopSection(Section):
    """When a run ends before its last round; see :mod:`entrofed.experiment.judge`."""

    target: float | None = None
    """The accuracy at which it ends."""
    patience: int | None = Field(None, ge=1)
    """Rounds without a better accuracy after which it ends."""
    on: Literal["holdout", "validation", "test"] | None = None
    """Whose accuracy: by default the clients' held-out data, or else the validation set."""

    @model_validator(mode="after")
    def _sensible(self, info: ValidationInfo) -> "StopSection":
        if _was_run(info):
            return self
        if self.target is None and self.patience is None:
            raise ValueError("stop needs a target (stop.target = 0.9), a patience (stop.patience = 20 rounds), or both")
        if self.target is not None and not 0 < self.target <= 1:
            raise ValueError(f"stop.target = {self.target:g}: an accuracy above 0 and up to 1 is expected; 90 % is 0.9")
        return self


class Experiment(Section):
    """One experiment with one seed."""

    name: str = Field("experiment", pattern=r"^[A-Za-z0-9][A-Za-z0-9._+-]*$")
    seed: int = Field(0, ge=0)
    rounds: int = Field(10, ge=1)
    evaluate_every: int = Field(1, ge=1)
    evaluate_last: int = Field(0, ge=0)
    """Rounds at the end that are all evaluated, whatever ``evaluate_every`` says."""
    alignment_every: int = Field(0, ge=0)
    """Rounds between measurements of how a round's step agrees with the gradient over all data; 0: never."""
    checkpoint_seconds: float = Field(10.0, ge=0)
    metrics: tuple[str, ...] = ()
    """What is measured besides accuracy, loss and F1: names, or functions such as ``my_metrics.py:cost``."""
    track: tuple[str, ...] = ()
    """Where the course of the run can be followed while it goes on: tensorboard, mlflow, wandb."""
    given: tuple[Literal["data", "method", "model"], ...] | None = None
    """What was handed over from Python, so that the file does not say all of it."""
    model: Spec = "digits_mlp"
    data: DataSection = DataSection(clients=10)
    method: MethodSection = MethodSection()
    faults: Faults = Faults()
    privacy: PrivacySection | None = None
    topology: TopologySection | None = None
    stop: StopSection | None = None
    engine: EngineSection = Field(default_factory=EngineSection)

    @field_validator("metrics", "track")
    @classmethod
    def _known_names(cls, names: tuple[str, ...], info: ValidationInfo) -> tuple[str, ...]:
        known: Iterable[str] = TRACKERS if info.field_name == "track" else (*METRICS, CLIENT_ACCURACY)
        for i, name in enumerate(names if not _was_run(info) else ()):
            if name in names[:i]:
                raise ValueError(f"{info.field_name}: {name!r} is there twice")
            if name not in known and not (info.field_name == "metrics" and is_reference(name)):
                raise ValueError(str(unknown("metric" if info.field_name == "metrics" else "tracker", name, known)))
        return names

    @model_validator(mode="after")
    def _consistent_experiment(self, info: ValidationInfo) -> "Experiment":
        if not _was_run(info) and not self.was_given("method"):
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
        if self.privacy is not None and not any(isinstance(fact, LabelFact) for fact in method.facts):
            raise ValueError(
                f"[privacy] noises released label counts, and method {self.method.name!r} releases none; leave it out"
            )

    def _check_peers(self, method: Method) -> None:
        from entrofed.core.gossip import check

        check(method)
        meaningless = {
            "method.selector": self.method.selector,
            "data.participating": self.data.participating,
            "alignment_every": self.alignment_every or None,
        }
        for key, value in meaningless.items():
            if value is not None:
                raise ValueError(
                    f"{key} has no meaning with a [topology], where every node trains its own model; leave it out"
                )

    def decisive(self) -> dict[str, Any]:
        """Everything that the results depend on: what a resumed run must have in common with its start.

        Of the device, its kind.
        """
        settings = self.model_dump(mode="json", exclude={"engine": {"backend", "workers", "timeout", "memory_mb"}})
        settings["engine"]["device"] = kind_of(self.engine.device)
        del settings["checkpoint_seconds"], settings["track"]
        return settings


def read(path: Path, overrides: Iterable[str] = (), *, stored: bool = False) -> Experiment:
    """An experiment file with command-line overrides such as ``method.lr=0.05``.

    ``stored``: the file of a run; no part of it is built or imported.
    """
    try:
        table = tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise ConfigError(f"{path}: there is no such experiment file") from None
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise ConfigError(f"{path}: not readable as TOML: {error}") from None
    table.setdefault("name", path.stem)
    table = table if stored else _located(table, path.parent)
    return parse(table, overrides, where=str(path), stored=stored)


def parse_text(text: str) -> Experiment:
    """What :func:`to_toml` wrote."""
    return parse(tomllib.loads(text))


def parse(
    table: Mapping[str, Any], overrides: Iterable[str] = (), where: str = "experiment", *, stored: bool = False
) -> Experiment:
    """An experiment from plain tables; every problem is reported, unknown keys with the nearest known one."""
    table = dict(table)
    for override in overrides:
        _set(table, override)
    table = table if stored else _located(table, Path())
    try:
        experiment = Experiment.model_validate(table, context={"stored": stored})
        if not stored and not experiment.was_given("model"):
            model = experiment.model if isinstance(experiment.model, str) else experiment.model.get("name")
            if not isinstance(model, str):
                raise ConfigError(f"model: a table of options needs a 'name', one of {', '.join(known('model'))}")
            lookup("model", model)
    except ValidationError as error:
        raise ConfigError("\n".join(f"{where}: {_explain(problem)}" for problem in error.errors())) from None
    except ConfigError as error:
        raise ConfigError(f"{where}: {error}") from None
    return experiment


S = TypeVar("S", bound=BaseModel)


def checked(section: type[S], table: Mapping[str, Any], where: str) -> S:
    """One section from a plain table, with the same words about what is wrong."""
    for key in table:
        if key not in section.model_fields:
            raise unknown(f"option of {where}:", key, section.model_fields)
    try:
        return section.model_validate(table)
    except ValidationError as error:
        raise ConfigError("\n".join(f"{where}: {_explain(problem)}" for problem in error.errors())) from None


def _located(table: Mapping[str, Any], folder: Path) -> dict[str, Any]:
    """The tables with absolute paths of the files that they refer to, as code or as data."""

    def locate(spec: Any) -> Any:
        if isinstance(spec, Mapping):
            return {k: locate(v) if k in ("name", *PART_KINDS) else v for k, v in spec.items()}
        if isinstance(spec, list | tuple):
            return [locate(inner) for inner in spec]
        return absolute(spec, folder) if isinstance(spec, str) else spec

    def locate_data(data: Any) -> Any:
        paths = {
            key: os.path.abspath(folder / Path(value).expanduser())
            for key, value in (data.items() if isinstance(data, Mapping) else ())
            if isinstance(value, str) and (key in ("path", "owners") or (key == "test" and names_a_file(value)))
        }
        return {**data, **paths} if paths else data

    located = {key: locate(value) if key in ("model", "method", "metrics") else value for key, value in table.items()}
    return {key: locate_data(value) if key == "data" else value for key, value in located.items()}


def _set(table: dict[str, Any], override: str) -> None:
    key, equals, raw = override.partition("=")
    steps = key.strip().split(".")
    if not equals or not all(steps):
        raise ConfigError(f"override {override!r} must look like section.key=value, for example method.lr=0.05")
    try:
        value = tomllib.loads(f"value = {raw}")["value"]
    except tomllib.TOMLDecodeError:
        value = raw.strip()
    for step in steps[:-1]:
        inner = table.get(step, {})
        table[step] = {"name": inner} if isinstance(inner, str) else dict(inner) if isinstance(inner, Mapping) else {}
        table = table[step]
    table[steps[-1]] = value


def _explain(problem: Any) -> str:
    path = [str(step) for step in problem["loc"]]
    if problem["type"] in ("extra_forbidden", "unexpected_keyword_argument"):
        where = ".".join(path)
        section: Any = Experiment
        for step in path[:-1]:
            annotation = section.model_fields[step].annotation
            section = next(iter(get_args(annotation)), annotation)  # the section of "section | None"
        keys = [field.name for field in fields(section)] if is_dataclass(section) else section.model_fields
        return str(unknown(f"key {where!r}:", path[-1], keys))
    if problem["type"] == "value_error":  # from one of the checks above, which name the key themselves
        return str(problem["msg"].removeprefix("Value error, "))
    where = ".".join(step for step in path if step != "str" and not step.startswith(("constrained-", "dict[")))
    return f"{where} = {problem['input']!r}: {problem['msg']}"


def to_toml(experiment: Experiment) -> str:
    """The resolved experiment as a file that :func:`read` gives the same experiment for."""
    return dumps(experiment.model_dump(exclude_none=True))
