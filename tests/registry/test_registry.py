"""Parts by name: building them, describing them, and parts that other packages bring."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib.metadata import EntryPoint
from typing import Any, ClassVar, Literal

import numpy as np
import pytest

from entrofed.backends import BACKENDS, InlineBackend, backend_of, backends
from entrofed.core import plugins
from entrofed.data import PARTITIONS
from entrofed.data.catalog import CATALOG, DatasetEntry, datasets, load
from entrofed.data.federation import Federation
from entrofed.data.shards import partitions
from entrofed.errors import ConfigError
from entrofed.experiment.build import federate
from entrofed.experiment.config import parse
from entrofed.registry import OURS, build, describe, known, lookup
from entrofed.weighers.uniform import Uniform


@dataclass(frozen=True)
class Demanding:
    """A weigher of another package."""

    name: ClassVar[str] = "demanding"
    reference: ClassVar[str] = ""
    bins: int
    power: float = 0.5
    base: Literal["nats", "bits"] = "nats"
    edges: tuple[float, ...] = (1.0,)

    def __post_init__(self) -> None:
        if self.bins < 1:
            raise ValueError(f"bins must be at least 1, not {self.bins}")


class Impostor:
    """A weigher that would like to be ours."""

    name = "uniform"


def forget() -> None:
    """What was announced before."""
    for remembered in (known, plugins.announced):
        remembered.cache_clear()


Announce = Callable[[dict[str, list[tuple[str, str]]]], None]


@pytest.fixture
def announce(monkeypatch: pytest.MonkeyPatch) -> Iterator[Announce]:
    """Entry points by group, as (name, name of a class of this module)."""

    def patch(groups: dict[str, list[tuple[str, str]]]) -> None:
        def entry_points(*, group: str) -> list[Any]:
            return [Announced(name, f"here:{target}", group) for name, target in groups.get(group, [])]

        monkeypatch.setattr(plugins, "entry_points", entry_points)
        forget()

    class Announced(EntryPoint):
        def load(self) -> Any:
            return globals()[self.attr]

    yield patch
    forget()


@pytest.fixture
def demanding(announce: Announce) -> None:
    announce({"entrofed.weighers": [("demanding", "Demanding")]})


@pytest.mark.parametrize("kind", OURS)
def test_everything_of_ours_is_known(kind: str) -> None:
    assert known(kind).items() >= OURS[kind].items()
    for name, thing in OURS[kind].items():
        assert lookup(kind, name) is thing


@pytest.mark.parametrize("kind", OURS)
def test_unknown_names(kind: str) -> None:
    name = next(iter(OURS[kind]))
    with pytest.raises(ConfigError, match=f"unknown {kind} '{name}x'; did you mean '{name}'") as caught:
        lookup(kind, name + "x")
    assert all(other in str(caught.value) for other in known(kind))


@pytest.mark.parametrize("kind", OURS)
def test_parts_of_others_are_found(kind: str, announce: Announce) -> None:
    announce({f"entrofed.{kind}s": [("demanding", "Demanding")]})
    assert known(kind) == {**OURS[kind], "demanding": Demanding}
    assert lookup(kind, "demanding") is Demanding


def test_parts_of_others_are_of_their_kind_only(announce: Announce) -> None:
    announce({"entrofed.weighers": [("demanding", "Demanding")]})
    assert "demanding" not in known("selector")


def test_others_cannot_shadow_ours(announce: Announce) -> None:
    announce({"entrofed.weighers": [("uniform", "Impostor"), ("demanding", "Demanding")]})
    assert lookup("weigher", "uniform") is Uniform
    assert build("weigher", "uniform") == Uniform()
    assert lookup("weigher", "demanding") is Demanding


@pytest.mark.usefixtures("demanding")
def test_build_and_describe() -> None:
    part = build("weigher", {"name": "demanding", "bins": 10, "edges": [0, 2]})
    assert part == Demanding(10, 0.5, "nats", (0.0, 2.0))
    table = describe(part)
    assert table == {"name": "demanding", "bins": 10, "power": 0.5, "base": "nats", "edges": (0.0, 2.0)}
    assert build("weigher", table) == part


def test_a_table_is_not_changed() -> None:
    table = {"name": "uniform"}
    build("weigher", table)
    assert table == {"name": "uniform"}


@pytest.mark.usefixtures("demanding")
@pytest.mark.parametrize(
    ("options", "said"),
    [
        (
            {"bins": 3, "powr": 1},
            "unknown hyperparameter of weigher 'demanding': 'powr'; did you mean 'power'? "
            "(known: base, bins, edges, power)",
        ),
        ({"bins": "many"}, "weigher 'demanding': bins = 'many': "),
        ({"bins": 2.5}, "weigher 'demanding': bins = 2.5: "),
        ({"bins": None}, "weigher 'demanding': bins = None: "),
        ({"bins": 3, "power": [1]}, "weigher 'demanding': power = [1]: "),
        ({"bins": 3, "base": "dits"}, "weigher 'demanding': base = 'dits': Input should be 'nats' or 'bits'"),
        ({"bins": 3, "edges": [1, "x"]}, "weigher 'demanding': edges.1 = 'x': "),
        ({}, "weigher 'demanding': bins: Field required"),
        ({"bins": 0}, "weigher 'demanding': bins must be at least 1, not 0"),
    ],
)
def test_bad_hyperparameters(options: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError) as caught:
        build("weigher", {"name": "demanding", **options})
    assert str(caught.value).startswith(said)


@pytest.mark.parametrize("spec", [{}, {"power": 1}, {"name": 3}, {"name": None}])
def test_a_table_needs_a_name(spec: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match=r"needs a 'name', one of .*uniform"):
        build("weigher", spec)


def evens(labels: np.ndarray, clients: int, rng: np.random.Generator, *, start: int = 0) -> list[np.ndarray]:
    """A partition of another package."""
    return [np.arange(start, len(labels), 2)[k::clients] for k in range(clients)]


def inline(workers: int, timeout: float) -> InlineBackend:
    """A backend of another package."""
    return InlineBackend()


FLOWERS = DatasetEntry("flowers", 90, 30, 3, (4,), "CC0", "https://example.org", CATALOG["iris"].read, shipped=True)
NOT_AN_ENTRY = "a text"


def test_datasets_of_others(announce: Announce) -> None:
    announce({"entrofed.datasets": [("flowers", "FLOWERS"), ("digits", "FLOWERS"), ("bad", "NOT_AN_ENTRY")]})
    assert datasets() == {**CATALOG, "flowers": FLOWERS}
    assert load("flowers").train_x.shape == (90, 4)
    assert parse({"data": {"name": "flowers", "clients": 3}}).data.name == "flowers"


def test_partitions_of_others(announce: Announce) -> None:
    announce({"entrofed.partitions": [("evens", "evens"), ("iid", "evens")]})
    assert partitions() == {**PARTITIONS, "evens": evens}
    section = parse({"data": {"name": "iris", "partition": "evens", "clients": 5, "options": {"start": 10}}}).data
    assert federate(section, 0).sizes.tolist() == [8] * 5
    x, y = np.eye(20), np.arange(20) % 2
    assert Federation.partition(x, y, "evens", clients=5, test=0.2).sizes.tolist() == [2, 2, 2, 1, 1]
    with pytest.raises(ConfigError, match="unknown option of partition 'evens' 'strt'; did you mean 'start'"):
        Federation.partition(x, y, "evens", clients=5, test=0.2, strt=3)


def test_backends_of_others(announce: Announce) -> None:
    announce({"entrofed.backends": [("theirs", "inline"), ("inline", "Impostor")]})
    assert backends() == {**BACKENDS, "theirs": inline}
    assert isinstance(backend_of("theirs", 1, 1.0), InlineBackend)
    assert parse({"engine": {"backend": "theirs"}}).engine.backend == "theirs"
