"""The experiment file: what it accepts, what it refuses and in which words, and that it survives a round trip."""

import re
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from inspect import Parameter, signature
from pathlib import Path
from textwrap import dedent
from typing import Any, ClassVar

import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from entrofed import registry
from entrofed.client.augment import AUGMENTS
from entrofed.core.schedule import Schedule
from entrofed.core.types import Training
from entrofed.data import PARTITIONS
from entrofed.data.assignment import assignment
from entrofed.data.catalog import CATALOG
from entrofed.data.dealing import ASSIGNMENT, BY_ROLE
from entrofed.errors import ConfigError
from entrofed.experiment import config
from entrofed.experiment.build import prepare, rules_of
from entrofed.experiment.config import Experiment, parse, read, to_toml
from entrofed.experiment.run_folder import RunFolder
from entrofed.experiment.runner import run
from entrofed.experiment.sections.data import PARTITION_KEYS
from entrofed.experiment.sections.method import MethodSection
from entrofed.methods import METHODS
from entrofed.selectors.full import FullSelection
from entrofed.weighers.uniform import Uniform


def complaint(table: dict[str, Any], *overrides: str) -> str:
    with pytest.raises(ConfigError) as caught:
        parse(table, overrides)
    return str(caught.value)


def test_the_example_of_the_module(tmp_path: Path) -> None:
    example = dedent((config.__doc__ or "").split("::\n", 1)[1])
    (tmp_path / "other.toml").write_text(example)
    found = read(tmp_path / "other.toml")
    assert (found.name, found.rounds, found.seed, found.model) == ("mnist-fedavg", 50, 42, "lenet_bn")
    assert found.data.partition_options() == {"alpha": 0.1}
    assert (found.data.name, found.data.clients) == ("mnist", 50)
    assert (found.method.name, found.method.cohort, found.method.lr) == ("fedavg", 5, 0.01)


def test_nothing_need_be_said() -> None:
    found = parse({})
    assert (found.data.name, found.data.clients, found.data.partition) == ("digits", 10, "iid")
    assert found.method.recipe == METHODS["fedavg"]()


@pytest.mark.parametrize(
    ("table", "path", "nearest"),
    [
        ({"rouns": 3}, "rouns", "rounds"),
        ({"Data": {}}, "Data", "data"),
        ({"data": {"clients": 3, "aplha": 1}}, "data.aplha", "alpha"),
        ({"method": {"lrate": 1}}, "method.lrate", "lr"),
        ({"method": {"cohorts": 1}}, "method.cohorts", "cohort"),
        ({"engine": {"worker": 1}}, "engine.worker", "workers"),
        ({"faults": {"dropot": 0.1}}, "faults.dropot", "dropout"),
        ({"privacy": {"epsilon": 1, "neighbors": "replace"}}, "privacy.neighbors", "neighbours"),
        ({"topology": {"kinds": "ring"}}, "topology.kinds", "kind"),
        ({"method": {"schedule": {"kind": "step", "evry": 3}}}, "method.schedule.evry", "every"),
        ({"stop": {"patient": 3}}, "stop.patient", "patience"),
        ({"str": 1}, "str", "stop"),
        ({"engine": {"dict[]": 1}}, "engine.dict[]", "device"),
    ],
)
def test_unknown_keys_name_the_nearest(table: dict[str, Any], path: str, nearest: str | None) -> None:
    said = complaint(table)
    assert said.startswith(f"experiment: unknown key {path!r}")
    assert ("did you mean" in said) == (nearest is not None)
    if nearest:
        assert f"did you mean {nearest!r}?" in said


def test_all_problems_at_once() -> None:
    said = complaint({"rouns": 3, "seed": -1, "method": {"lr": 0}}).splitlines()
    assert len(said) == 3
    assert all(line.startswith("experiment: ") for line in said)


@pytest.mark.parametrize(
    ("table", "path"),
    [
        ({"name": "a b"}, "name = 'a b'"),
        ({"name": "../up"}, "name = '../up'"),
        ({"name": ""}, "name = ''"),
        ({"seed": -1}, "seed = -1"),
        ({"seed": "x"}, "seed = 'x'"),
        ({"seed": 1.5}, "seed = 1.5"),
        ({"rounds": 0}, "rounds = 0"),
        ({"rounds": {"x": 1}}, "rounds = {'x': 1}"),
        ({"rounds": 10, "evaluate_every": 3}, "rounds = 10 is not a multiple of evaluate_every = 3"),
        ({"evaluate_every": 0}, "evaluate_every = 0"),
        ({"checkpoint_seconds": -1}, "checkpoint_seconds = -1"),
        ({"model": 3}, "model = 3"),
        ({"model": "mpl"}, "unknown model 'mpl'; did you mean 'mlp'?"),
        ({"model": {"name": "mpl"}}, "unknown model 'mpl'; did you mean 'mlp'?"),
        ({"model": {"hidden": [3]}}, "model: a table of options needs a 'name', one of"),
        ({"data": 3}, "data = 3"),
        ({"data": {"clients": 0}}, "data.clients = 0"),
        ({"data": {"clients": 3, "holdout": 1.0}}, "data.holdout = 1.0"),
        ({"data": {"clients": 3, "normalize": "std"}}, "data.normalize = 'std'"),
        ({"data": {"clients": 3, "participating": 0}}, "data.participating = 0"),
        ({"data": {"clients": 3, "partition": "irid"}}, "unknown data.partition 'irid'; did you mean 'iid'?"),
        ({"data": {"clients": 3, "partition": "dirichlet_plain", "alpha": 0}}, "data.alpha = 0"),
        ({"data": {"clients": 3, "partition": "dirichlet_plain", "alpha": float("inf")}}, "data.alpha = inf"),
        ({"data": {"clients": 3, "partition": "dirichlet_mixed", "alphas": [1]}}, "data.alphas"),
        ({"faults": 3}, "faults = 3"),
        ({"faults": {"dropout": 1}}, "faults.dropout = 1"),
        ({"faults": {"liars": float("nan")}}, "faults.liars = nan"),
        ({"faults": {"dropout_mode": "maybe"}}, "faults.dropout_mode = 'maybe'"),
        ({"method": {"name": "fedavgg"}}, "unknown method 'fedavgg'; did you mean 'fedavg'?"),
        ({"method": {"cohort": 0}}, "method.cohort = 0"),
        ({"method": {"cohort": 1.5}}, "method.cohort = 1.5"),
        ({"method": {"cohort": -0.5}}, "method.cohort = -0.5"),
        ({"method": {"cohort": "all"}}, "method.cohort = 'all'"),
        ({"method": {"epochs": 0}}, "method.epochs = 0"),
        ({"method": {"batch_size": 0}}, "method.batch_size = 0"),
        ({"method": {"optimizer": "adamax"}}, "method.optimizer = 'adamax'"),
        ({"method": {"lr": 0}}, "method.lr = 0"),
        ({"method": {"lr": float("nan")}}, "method.lr = nan"),
        ({"method": {"lr_decay": 1.1}}, "method.lr_decay = 1.1"),
        ({"method": {"momentum": 1}}, "method.momentum = 1"),
        ({"method": {"optimizer": "adam", "momentum": 0.9}}, "method.momentum belongs to optimizer 'sgd'"),
        ({"method": {"optimizer": "adamw", "momentum": 0.9}}, "leave it out with 'adamw'"),
        ({"method": {"nesterov": True}}, "method.nesterov is a form of momentum; give method.momentum"),
        ({"method": {"name": "scaffold", "momentum": 0.9, "nesterov": True}}, "leave out method.nesterov"),
        ({"method": {"name": "fednova", "momentum": 0.9, "nesterov": True}}, "leave out method.nesterov"),
        ({"method": {"clip_gradients": 0}}, "method.clip_gradients = 0"),
        ({"method": {"schedule": {"kind": "stp"}}}, "method.schedule.kind = 'stp'"),
        ({"method": {"schedule": {"kind": "step"}}}, "method.schedule: kind 'step' needs every"),
        ({"method": {"schedule": {"kind": "step", "every": 0}}}, "method.schedule.every = 0"),
        ({"method": {"schedule": {"kind": "cosine", "final": 2}}}, "method.schedule.final = 2"),
        ({"method": {"schedule": {"kind": "cosine", "every": 5}}}, "does not apply to 'cosine'; leave it out"),
        ({"method": {"schedule": {"kind": "cosine", "warmup": 10}}}, "warmup = 10 must be less than rounds = 10"),
        (
            {"method": {"schedule": {"kind": "cosine"}, "lr_decay": 0.9}},
            "method.lr_decay = 0.9 and method.schedule both",
        ),
        ({"method": {"objective": {"name": "cross_entropy", "label_smoothing": 1}}}, "label_smoothing = 1"),
        ({"method": {"objective": {"name": "cross_entropy", "smoothing": 0.1}}}, "did you mean 'label_smoothing'?"),
        ({"method": {"weight_decay": -1}}, "method.weight_decay = -1"),
        ({"method": {"augment": "flip"}}, "method.augment = 'flip'"),
        ({"method": {"augment": ["flp"]}}, "unknown method.augment 'flp'; did you mean 'flip'?"),
        ({"method": {"quorum": 0}}, "method.quorum = 0"),
        ({"method": {"max_skipped": 0}}, "method.max_skipped = 0"),
        ({"method": {"nonfinite": "ignore"}}, "method.nonfinite = 'ignore'"),
        ({"method": {"persist_optimizer": "maybe"}}, "method.persist_optimizer = 'maybe'"),
        ({"method": {"selector": 3}}, "method.selector = 3"),
        ({"method": {"selector": "randm"}}, "unknown selector 'randm'; did you mean 'random'?"),
        ({"method": {"weigher": {"power": 1}}}, "weigher: a table of hyperparameters needs a 'name'"),
        ({"engine": {"backend": "cloud"}}, "unknown engine.backend 'cloud'"),
        ({"engine": {"workers": 0}}, "engine.workers = 0"),
        ({"engine": {"timeout": 0}}, "engine.timeout = 0"),
        ({"engine": {"device": "gpu"}}, "engine.device = 'gpu' must be 'cpu', 'cuda', a GPU such as 'cuda:1'"),
        ({"engine": {"device": "cuda:x"}}, "engine.device = 'cuda:x' must be"),
        ({"engine": {"precision": "fp16"}}, "choose 'bf16' or 'float32'"),
        ({"engine": {"precision": "half"}}, "engine.precision = 'half'"),
        ({"engine": {"device": "cuda", "compile": True}}, "engine.compile is made for engine.device = 'cpu'"),
        (
            {"engine": {"precision": "bf16", "compile": True}},
            "is made for engine.precision = 'float32', not for 'bf16'",
        ),
    ],
)
def test_bad_values_are_named(table: dict[str, Any], path: str) -> None:
    assert path in complaint(table)


def options(partition: str) -> dict[str, Parameter]:
    of_roles = {BY_ROLE: lambda clients=None: None, ASSIGNMENT: assignment}
    found = dict(signature({**PARTITIONS, **of_roles}[partition]).parameters)
    return {key: found[key] for key in PARTITION_KEYS if key in found}


VALUES = {
    "clients": 20,
    "alpha": 0.5,
    "alphas": [0.1, 1.0],
    "labels_per_client": 2,
    "sigma": 0.3,
    "angles": [0.0, 45.0],
    "owners": "owners.csv",
    "min_size": 1,
    "max_tries": 9,
}


@pytest.mark.parametrize("partition", [*PARTITIONS, BY_ROLE, ASSIGNMENT])
def test_partitions_get_what_they_need_and_nothing_else(partition: str) -> None:
    wanted = options(partition)
    full = {"partition": partition, **{key: VALUES[key] for key in wanted}}
    section = parse({"data": full}).data
    given_options = {key: getattr(section, key) for key in wanted if key != "clients"}
    assert section.partition_options() == given_options
    for key, parameter in wanted.items():
        less = {name: value for name, value in full.items() if name != key}
        if parameter.default is Parameter.empty:
            assert f"partition {partition!r} needs data.{key}" in complaint({"data": less})
        else:
            assert key not in parse({"data": less}).data.partition_options()
    for key in VALUES.keys() - wanted.keys():
        said = complaint({"data": {**full, key: VALUES[key]}})
        assert f"data.{key} does not apply to partition {partition!r}; leave it out" in said


@pytest.mark.parametrize(
    ("cohort", "clients", "size"),
    [
        (5, 50, 5),
        (5, 3, 5),  # selectors take what there is
        (1, 50, 1),
        (1.0, 50, 50),
        (0.1, 50, 5),
        (0.1, 59, 5),
        (0.29, 100, 29),  # 0.29 * 100 is 28.999999999999996
        (0.07, 100, 7),
        (0.5, 1, 1),
        (1e-9, 50, 1),
    ],
)
def test_cohort_is_a_number_or_a_share(cohort: float, clients: int, size: int) -> None:
    assert MethodSection(cohort=cohort).cohort_size(clients) == size


def test_training_holds_what_the_section_says() -> None:
    section = MethodSection(epochs=3, batch_size=7, lr=0.2, momentum=0.5, augment=("flip",), persist_optimizer=True)
    assert section.training() == Training(3, 7, "sgd", 0.2, 0.5, 0.0, True, ("flip",))


def test_parts_replace_the_recipes() -> None:
    method = parse({"method": {"selector": "full", "weigher": {"name": "uniform"}}}).method.recipe
    plain = METHODS["fedavg"]()
    assert (method.selector, method.weigher) == (FullSelection(), Uniform())
    assert (method.objective, method.server) == (plain.objective, plain.server)


@dataclass(frozen=True)
class Powered:
    """A weigher with hyperparameters."""

    name: ClassVar[str] = "powered"
    reference: ClassVar[str] = ""
    power: float = 1.0
    label: str = "x"


@pytest.fixture
def powered(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setitem(registry.OURS, "weigher", {**registry.OURS["weigher"], "powered": Powered})
    registry.known.cache_clear()
    yield
    registry.known.cache_clear()


@pytest.mark.usefixtures("powered")
def test_overrides_reach_into_parts() -> None:
    table = {"method": {"weigher": "powered"}}
    found = parse(table, ["method.weigher.power=2", "method.weigher.label=long name"])
    assert found.method.recipe.weigher == Powered(2.0, "long name")
    assert table == {"method": {"weigher": "powered"}}
    again = parse({"method": {"weigher": {"name": "powered", "power": 3}}}, ['method.weigher.label="2"'])
    assert again.method.recipe.weigher == Powered(3.0, "2")
    named = parse({}, ["method.weigher.name=powered", "method.weigher.power=0.5"])
    assert named.method.recipe.weigher == Powered(0.5)
    assert parse(tomllib.loads(to_toml(found))) == found


@pytest.mark.usefixtures("powered")
def test_hyperparameters_are_checked_when_the_file_is_read() -> None:
    said = complaint({"method": {"weigher": {"name": "powered", "powr": 1}}})
    assert "unknown hyperparameter of weigher 'powered'" in said
    assert "did you mean 'power'?" in said
    assert "power = 'much'" in complaint({"method": {"weigher": "powered"}}, "method.weigher.power=much")


def test_auto_is_resolved_when_the_file_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    assert parse({"engine": {"device": "auto"}}).engine.device in ("cpu", "cuda", "mps")
    monkeypatch.setattr("entrofed.client.device.devices", lambda: {"cpu": "", "cuda:0": "", "cuda:1": ""})
    found = parse({"engine": {"device": "auto"}})
    assert found.engine.device == "cuda"
    assert 'device = "cuda"' in to_toml(found)


def test_of_the_device_its_kind_decides() -> None:
    one, two, other = (parse({"engine": {"device": name}}).decisive() for name in ("cuda:0", "cuda:1", "cpu"))
    assert one == two != other
    assert one["engine"] == {"device": "cuda", "precision": "float32", "compile": False, "stack": False}


def test_a_device_that_is_not_here_is_refused_before_anything_is_loaded() -> None:
    if torch.cuda.device_count() < 99:
        with pytest.raises(
            ConfigError, match=r"engine\.device = 'cuda:99': there is none on this machine, which has cpu"
        ):
            prepare(parse({"engine": {"device": "cuda:99"}, "data": {"clients": 3}}))


SCHEDULES = [
    ({"kind": "step", "every": 50, "factor": 0.1}, Schedule("step", every=50, factor=0.1)),
    ({"kind": "cosine", "final": 0.0, "warmup": 3}, Schedule("cosine", final=0.0, warmup=3)),
    ({"warmup": 3}, Schedule(warmup=3)),
]


@pytest.mark.parametrize(("table", "schedule"), SCHEDULES)
def test_schedules_are_read_written_and_played_by(table: dict[str, Any], schedule: Schedule) -> None:
    found = parse({"method": {"schedule": table}})
    assert found.method.schedule == schedule
    assert parse(tomllib.loads(to_toml(found))) == found
    assert rules_of(found, 10).schedule == schedule
    assert parse({}, ["method.schedule.warmup=3"]).method.schedule == Schedule(warmup=3)


@pytest.mark.parametrize(
    ("override", "where", "value"),
    [
        ("rounds=7", "rounds", 7),
        (" rounds = 7 ", "rounds", 7),
        ("name=run-1", "name", "run-1"),
        ('name="17"', "name", "17"),
        ("model=mlp", "model", "mlp"),
        ("model.hidden=[32, 16]", "model", {"name": "digits_mlp", "hidden": [32, 16]}),
        ("method.lr=5e-2", "method.lr", 0.05),
        ("method.cohort=0.5", "method.cohort", 0.5),
        ("method.persist_optimizer=true", "method.persist_optimizer", True),
        ('method.augment=["flip", "crop"]', "method.augment", ("flip", "crop")),
        ("data.name=fashion-mnist", "data.name", "fashion-mnist"),
        ("engine.backend=inline", "engine.backend", "inline"),
    ],
)
def test_overrides(override: str, where: str, value: Any) -> None:
    found: Any = parse({"model": "digits_mlp", "data": {"clients": 4}}, [override])
    for step in where.split("."):
        found = getattr(found, step)
    assert found == value


def test_later_overrides_win() -> None:
    assert parse({"seed": 1}, ["seed=2", "seed=3"]).seed == 3


@pytest.mark.parametrize("override", ["rounds", "=3", ".rounds=3", "method..lr=1", "method.=1", ""])
def test_malformed_overrides(override: str) -> None:
    assert "must look like section.key=value" in complaint({}, override)


def test_overrides_are_checked_like_the_file() -> None:
    assert "unknown key 'method.lrr'" in complaint({}, "method.lrr=1")
    assert "seed = ''" in complaint({}, "seed=")
    assert "rounds = {'x': 1}" in complaint({"rounds": 3}, "rounds.x=1")


def test_decisive_settings() -> None:
    table = {"name": "a", "engine": {"backend": "inline", "workers": 1, "timeout": 5.0}, "checkpoint_seconds": 1.0}
    other = {"name": "a", "engine": {"backend": "processes", "workers": 8}, "checkpoint_seconds": 2.0}
    assert parse(table).decisive() == parse(other).decisive()
    for change in ("seed=1", "method.lr=0.5", "engine.compile=true", "data.clients=3", "model=mlp", "rounds=20"):
        assert parse(table, [change]).decisive() != parse(table).decisive()


def test_unreadable_files(tmp_path: Path) -> None:
    path = tmp_path / "it.toml"
    with pytest.raises(ConfigError, match=re.escape(f"{path}: there is no such experiment file")):
        read(path)
    path.write_text("rounds = = 3")
    with pytest.raises(ConfigError, match=re.escape(f"{path}: not readable as TOML") + ".*line 1"):
        read(path)
    path.write_bytes(b'name = "\xff\xfe"')
    with pytest.raises(ConfigError, match=re.escape(f"{path}: not readable as TOML")):
        read(path)
    with pytest.raises(ConfigError, match=re.escape(f"{tmp_path}: is a folder")):
        read(tmp_path)


def test_the_file_names_the_experiment_and_its_errors(tmp_path: Path) -> None:
    path = tmp_path / "skewed.toml"
    path.write_text("rounds = 3\n")
    assert read(path).name == "skewed"
    assert read(path, ["name=other"]).name == "other"
    path.write_text("rouns = 3\n")
    with pytest.raises(ConfigError, match=re.escape(f"{path}: unknown key 'rouns'")):
        read(path)


def positive(most: float | None = None) -> st.SearchStrategy[float]:
    return st.floats(0, most, exclude_min=True, allow_infinity=False)


@st.composite
def data_tables(draw: st.DrawFn) -> dict[str, Any]:
    partition = draw(st.sampled_from([*PARTITIONS, BY_ROLE, ASSIGNMENT]))
    values = {
        "clients": st.integers(1, 10**6),
        "alpha": positive(),
        "alphas": st.lists(positive(), min_size=2, max_size=2),
        "labels_per_client": st.integers(1, 100),
        "sigma": positive(),
        "angles": st.lists(st.floats(-360, 360), min_size=1, max_size=3),
        "owners": st.text(),
        "min_size": st.integers(0, 100),
        "max_tries": st.integers(1, 100),
    }
    wanted = options(partition)
    needed = {key: values[key] for key, p in wanted.items() if p.default is Parameter.empty}
    rest = {key: values[key] for key in wanted.keys() - needed.keys()}
    more = {
        "name": st.sampled_from(sorted(CATALOG)),
        "participating": st.integers(1, 9),
        "holdout": st.floats(0, 1, exclude_max=True),
        "normalize": st.sampled_from(["standard", "minmax", "half", "unit"]),
    }
    return {"partition": partition, **draw(st.fixed_dictionaries(needed, optional={**rest, **more}))}


part = {kind: st.sampled_from(sorted(registry.OURS[kind])) for kind in registry.PART_KINDS}
scalars = st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text()
method_tables = st.fixed_dictionaries(
    {},
    optional={
        "name": st.sampled_from(sorted(METHODS)),
        **{kind: names | st.builds(lambda name: {"name": name}, names) for kind, names in part.items()},
        "cohort": st.integers(1, 10**9) | positive(1),
        "epochs": st.integers(1, 99),
        "batch_size": st.integers(1, 10**6),
        "lr": positive(),
        "lr_decay": positive(1),
        "momentum": st.floats(0, 1, exclude_max=True),
        "weight_decay": st.floats(0, allow_infinity=False),
        "clip_gradients": positive(),
        "persist_optimizer": st.booleans(),
        "augment": st.lists(st.sampled_from(sorted(AUGMENTS)), max_size=4),
        "quorum": st.integers(1, 9),
        "max_skipped": st.integers(1, 9),
        "nonfinite": st.sampled_from(["drop", "raise", "propagate"]),
    },
)
models = st.sampled_from(sorted(registry.OURS["model"]))
model_tables = st.builds(
    lambda name, more: {**more, "name": name},
    models,
    st.dictionaries(st.text(min_size=1), scalars | st.lists(scalars) | st.dictionaries(st.text(), scalars)),
)
experiments = st.fixed_dictionaries(
    {},
    optional={
        "name": st.from_regex(r"[A-Za-z0-9][A-Za-z0-9._+-]*", fullmatch=True),
        "seed": st.integers(0, 2**128),
        "rounds": st.integers(1, 10**6),
        "checkpoint_seconds": st.floats(0, allow_infinity=False),
        "model": models | model_tables,
        "data": data_tables(),
        "method": method_tables,
        "engine": st.fixed_dictionaries(
            {},
            optional={
                "backend": st.sampled_from(["auto", "inline", "processes"]),
                "workers": st.integers(1, 64),
                "compile": st.booleans(),
                "timeout": positive(10**6),
            },
        )
        | st.fixed_dictionaries(
            {"device": st.sampled_from(["cpu", "cuda", "cuda:1", "mps"])},
            optional={"precision": st.sampled_from(["float32", "bf16"])},
        ),
    },
)


@settings(deadline=None, max_examples=150)
@given(experiments)
def test_what_is_written_is_read_back(table: dict[str, Any]) -> None:
    try:
        experiment = parse(table)
    except ConfigError as error:
        apart = ("server rule", "works with no label counts")
        assume(not any(words in str(error) for words in apart))  # parts that do not go together
        raise
    text = to_toml(experiment)
    again = parse(tomllib.loads(text))
    assert again == experiment
    assert again.decisive() == experiment.decisive()
    assert to_toml(again) == text


def test_the_home_of_a_user_who_is_not_there() -> None:
    """It is a name like any other, and was a traceback."""
    experiment = parse({"data": {"partition": "assignment", "owners": "~nobody-here/owners.csv"}})
    assert experiment.data.owners == str(Path.cwd() / "~nobody-here" / "owners.csv")


def test_written_files_are_read_back(tmp_path: Path) -> None:
    experiment = parse({"name": "it", "model": {"name": "mlp", "note": 'a "b"\\\n\t\x00é€😀'}, "data": {"clients": 3}})
    path = tmp_path / "experiment.toml"
    path.write_text(to_toml(experiment), encoding="utf-8")
    assert read(path) == experiment


def test_experiments_do_not_change() -> None:
    with pytest.raises(ValueError, match="frozen"):
        Experiment().seed = 3  # type: ignore[misc]


def test_the_last_rounds_can_all_be_evaluated() -> None:
    experiment = parse({"rounds": 25, "evaluate_every": 10, "evaluate_last": 3})
    rules = rules_of(experiment, 10)
    assert [played for played in range(1, 26) if rules.evaluated(played)] == [10, 20, 23, 24, 25]


def test_an_unknown_dataset_is_found_out_when_the_file_is_read() -> None:
    assert "unknown dataset 'digitz'; did you mean 'digits'?" in complaint({"data": {"name": "digitz", "clients": 3}})


def test_a_stored_experiment_is_read_where_its_parts_are_not_installed(tmp_path: Path) -> None:
    path = tmp_path / "experiment.toml"
    text = to_toml(parse({"name": "it", "rounds": 3, "data": {"clients": 3}}))
    path.write_text(
        text.replace('name = "fedavg"', 'name = "theirs"\nweigher = "theirs"').replace("digits", "their data")
    )
    with pytest.raises(ConfigError, match="unknown"):
        read(path)
    found = read(path, stored=True)
    assert (found.rounds, found.method.name, found.method.weigher, found.data.name) == (
        3,
        "theirs",
        "theirs",
        "their data",
    )
    with pytest.raises(ConfigError, match="unknown method 'theirs'"):
        _ = found.method.recipe


def test_the_recipe_is_built_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """From the file to the last round; it was built about five times."""
    built: list[str] = []
    fedavg = METHODS["fedavg"]

    def counting() -> Any:
        built.append("fedavg")
        return fedavg()

    monkeypatch.setitem(METHODS, "fedavg", counting)
    registry.known.cache_clear()
    try:
        data = {"name": "iris", "clients": 3}
        table = {
            "rounds": 1,
            "model": "iris_mlp",
            "data": data,
            "method": {"cohort": 3},
            "engine": {"backend": "inline"},
        }
        run(parse(table), RunFolder(tmp_path / "it" / "seed-0"))
    finally:
        monkeypatch.undo()
        registry.known.cache_clear()
    assert len(built) == 1


@pytest.mark.parametrize(
    ("override", "words"),
    [
        ("lr=0.1", "experiment: unknown key 'lr': it is 'method.lr'"),
        ("data.lr=0.1", "experiment: unknown key 'data.lr': it is 'method.lr'"),
        ("kind=ring", "experiment: unknown key 'kind': it is 'data.kind' or 'topology.kind'"),
        ("method.cohort=1.5", "experiment: method.cohort = 1.5: whole number >= 1 or number > 0, <= 1 is expected"),
        ("method.cohort=0", "experiment: method.cohort = 0: whole number >= 1 or number > 0, <= 1 is expected"),
        ("model=3", "experiment: model = 3: text or table is expected"),
        (
            "name=../evil",
            "experiment: name = '../evil': letters, digits and . _ + - are allowed, a letter or digit first",
        ),
    ],
)
def test_one_line_for_each_problem_that_says_what_to_do(override: str, words: str) -> None:
    assert complaint({"data": {"clients": 3}}, override) == words


def test_no_name_is_suggested_that_is_only_remotely_alike() -> None:
    said = complaint({"model": "resnet18"})
    assert "did you mean" not in said
    assert "your own is named as 'file.py:Name'" in said
