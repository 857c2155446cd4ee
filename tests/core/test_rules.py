"""Every rule of a round, for a server and for peers alike: the same cases, the same expectations."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pytest
from safetensors.numpy import load

from entrofed.backends.inline import InlineBackend
from entrofed.core.parts import Fact, Weigher
from entrofed.core.tasks import PoolTask, PredictTask, TrainTask
from entrofed.core.types import Failure, Weighing
from entrofed.errors import EntrofedError, QuorumError
from entrofed.experiment.build import prepare
from entrofed.experiment.config import parse
from entrofed.experiment.run_folder import RunFolder
from entrofed.experiment.runner import run
from entrofed.facts import FACTS
from entrofed.registry import OURS, known

WHERE = ["server", "peers"]
CLIENTS = 6
MODEL = 4 * 4810
"""Bytes of the network for the digits."""


class Tampering(InlineBackend):
    """Trains as usual, and changes what comes of it."""

    def __init__(self, change: Any = lambda update: update) -> None:
        super().__init__()
        self.change = change

    def run(self, tasks: Any) -> list[Any]:
        outcomes = super().run(tasks)
        return [
            self.change(outcome) if isinstance(task, TrainTask) and task.purpose == "train" else outcome
            for task, outcome in zip(tasks, outcomes, strict=True)
        ]


def experiment(where: str, method: Any = None, **sections: Any) -> Any:
    """Six clients that all take part, with a server or fully connected."""
    chosen = {"lr": 0.1, **(method or {})}
    if where == "server":
        chosen = {"selector": "full", "cohort": CLIENTS, **chosen}
    else:
        sections["topology"] = {"kind": "full"}
    data = {"name": "digits", "partition": "dirichlet_balanced", "clients": CLIENTS, "alpha": 0.5}
    table = {"rounds": 2, "seed": 3, "data": data, "method": chosen, "engine": {"backend": "inline"}, **sections}
    return parse(table)


def play(folder: Any, chosen: Any, change: Any = lambda update: update) -> list[Any]:
    place = RunFolder(folder)
    run(chosen, place, backend=Tampering(change))
    return place.records()


def weights(record: Any) -> dict[int, float]:
    """The weight of each client; of peers, at node 0."""
    if record.peers:
        return record.peers[0].mixing
    return {client.client: client.weight for client in record.clients}


@pytest.fixture
def registered(monkeypatch: Any) -> Iterator[None]:
    """The weighers of this file, by name."""
    for part in (Seeing, Telling, Bright):
        monkeypatch.setitem(OURS["weigher"], part.name, part)
    known.cache_clear()
    yield
    monkeypatch.undo()
    known.cache_clear()


def absent(*clients: int) -> Any:
    return lambda update: Failure("crash") if update.client in clients else update


def spoiled(client: int) -> Any:
    def change(update: Any) -> Any:
        if update.client == client:
            update.params.values[7] = np.nan
        return update

    return change


@pytest.mark.parametrize("where", WHERE)
def test_below_the_quorum_nothing_is_aggregated(tmp_path: Any, where: str) -> None:
    """Three of six updates with quorum 6; with peers they were aggregated all the same."""
    chosen = experiment(where, {"quorum": 6, "max_skipped": 9})
    records = play(tmp_path, chosen, absent(0, 1, 2))
    assert [record.skipped for record in records] == [True, True]
    first = prepare(chosen).params.values
    tensors = load(max(RunFolder(tmp_path).checkpoints.glob("round-*.safetensors")).read_bytes())
    if where == "peers":
        np.testing.assert_array_equal(tensors["server/values"], np.tile(first, (CLIENTS, 1)))
    found = np.concatenate([t.ravel() for name, t in tensors.items() if name.startswith("model/")])
    assert sorted(found.tolist()) == sorted(first.tolist())


@pytest.mark.parametrize("where", WHERE)
def test_just_at_the_quorum_all_goes_on(tmp_path: Any, where: str) -> None:
    records = play(tmp_path, experiment(where, {"quorum": 3}), absent(0, 1, 2))
    assert [record.skipped for record in records] == [False, False]
    assert set(weights(records[0])) <= {0, 3, 4, 5}
    assert [refusal.reason for refusal in records[0].refused] == ["crash"] * 3


@pytest.mark.parametrize("where", WHERE)
def test_too_many_rounds_below_the_quorum_end_the_run(tmp_path: Any, where: str) -> None:
    with pytest.raises(QuorumError, match=r"2 rounds in a row had fewer than 6 usable updates \(method.quorum\)"):
        play(tmp_path, experiment(where, {"quorum": 6, "max_skipped": 2}, rounds=5), absent(1))
    assert len(RunFolder(tmp_path).records()) == 2


@pytest.mark.parametrize("where", WHERE)
def test_rounds_train_with_the_rate_of_the_schedule(tmp_path: Any, where: str) -> None:
    records = play(tmp_path, experiment(where, {"schedule": {"kind": "cosine", "final": 0.5}}))
    assert [record.lr for record in records] == pytest.approx([0.1, 0.075])


@pytest.mark.parametrize("where", WHERE)
def test_nonfinite_updates_are_dropped(tmp_path: Any, where: str) -> None:
    records = play(tmp_path, experiment(where), spoiled(2))
    for record in records:
        assert [(refusal.client, refusal.reason) for refusal in record.refused] == [(2, "1 non-finite parameters")]
        assert 2 not in weights(record)
        assert record.test.loss < 10


@pytest.mark.parametrize("where", WHERE)
def test_nonfinite_updates_raise_if_that_was_chosen(tmp_path: Any, where: str) -> None:
    """With peers they were dropped."""
    with pytest.raises(EntrofedError, match="client 2 sent 1 non-finite parameters, and nonfinite = 'raise'"):
        play(tmp_path, experiment(where, {"nonfinite": "raise"}), spoiled(2))


@pytest.mark.parametrize("where", WHERE)
@pytest.mark.parametrize("fact", ["label_counts", "label_mixture"])
def test_exact_sizes_never_reach_the_weigher(tmp_path: Any, where: str, fact: str, registered: Any) -> None:
    """``privacy.sizes``: with peers, and with methods that work on mixtures, exact sizes reached it."""
    Seeing.seen.clear()
    privacy = {"epsilon": 0.2, "simulate": True, "sizes": True}
    chosen = experiment(where, {"weigher": {"name": "seeing", "fact": fact}}, privacy=privacy)
    records = play(tmp_path, chosen)
    released = np.maximum(np.rint(RunFolder(tmp_path).released().counts.sum(axis=1)), 1)
    assert not np.array_equal(released, prepare(chosen).federation.sizes)
    assert Seeing.seen
    for sizes, claimed in Seeing.seen:
        assert np.array_equal(sizes, released)
        assert all(released[client] == examples for client, examples in claimed.items())
    assert all(released[client.client] == client.examples for record in records for client in record.clients)


@dataclass(frozen=True)
class Seeing(Weigher):
    """Notes what it sees."""

    name: ClassVar[str] = "seeing"
    seen: ClassVar[list[Any]] = []

    fact: str = "label_counts"

    @property
    def facts(self) -> Any:
        return (FACTS[self.fact](),)

    def weigh(self, updates: Any, context: Any) -> Weighing:
        Seeing.seen.append((context.clients.sizes, {update.client: update.num_examples for update in updates}))
        return Weighing(np.full(len(updates), 1 / len(updates)))


@pytest.mark.parametrize(("where", "plain"), [("server", 2 * CLIENTS), ("peers", CLIENTS * (CLIENTS - 1))])
def test_what_goes_along_with_models_is_traffic(tmp_path: Any, where: str, plain: int) -> None:
    """SCAFFOLD sends a control variate, as large as the model, along with it; between peers it was not counted."""
    for method, times in (("fedavg", 1), ("scaffold", 2)):
        record = play(tmp_path / method, experiment(where, {"name": method}))[1]
        assert record.bytes_up + record.bytes_down == times * plain * MODEL


@pytest.mark.parametrize("where", WHERE)
def test_what_a_weigher_says_of_its_weights_can_be_stored(
    tmp_path: Any, where: str, monkeypatch: Any, registered: Any
) -> None:
    """An empty table as the origin of weights let the run fail after its last round."""
    for number, origin in enumerate(({}, {"a": np.float64(1.5), "b": True, "c": "x", "d": None})):
        monkeypatch.setattr(Telling, "origin", origin)
        records = play(tmp_path / str(number), experiment(where, {"weigher": "telling"}))
        told = records[1].peers[0].origins[0] if where == "peers" and origin else None
        told = records[1].clients[0].origin if where == "server" else told
        assert (told or {}) == ({} if not origin else {"a": 1.5, "b": True, "c": "x", "d": None})
        assert (tmp_path / str(number) / "metrics.parquet").exists()


@pytest.mark.parametrize("where", WHERE)
def test_what_cannot_be_stored_is_found_out_in_the_first_round(
    tmp_path: Any, where: str, monkeypatch: Any, registered: Any
) -> None:
    monkeypatch.setattr(Telling, "origin", {"values": np.zeros(3)})
    with pytest.raises(EntrofedError, match="weigher 'telling': origins: 'values'"):
        play(tmp_path, experiment(where, {"weigher": "telling"}))
    assert not RunFolder(tmp_path).records()


@dataclass(frozen=True)
class Telling(Weigher):
    """Says something of each weight."""

    name: ClassVar[str] = "telling"
    origin: ClassVar[dict[str, Any]] = {}

    def weigh(self, updates: Any, context: Any) -> Weighing:
        return Weighing(np.full(len(updates), 1 / len(updates)), [dict(self.origin) for _ in updates])


@pytest.mark.parametrize("where", WHERE)
def test_unusable_weights_become_data_sizes(tmp_path: Any, where: str, monkeypatch: Any) -> None:
    monkeypatch.setattr("entrofed.weighers.uniform.Uniform.weigh", lambda *_: Weighing(np.array([np.nan])))
    records = play(tmp_path, experiment(where, {"weigher": "uniform"}))
    sizes = np.array([client.examples for client in records[0].clients])
    assert list(weights(records[0]).values()) == pytest.approx(sizes / sizes.sum())


@dataclass(frozen=True)
class Brightness(Fact):
    """The mean pixel of a client's pictures: a fact that is not about labels, in one place."""

    name: ClassVar[str] = "brightness"
    when: ClassVar[Any] = "once"
    reveals: ClassVar[str] = "how bright its pictures are"

    def measure(self, data: Any, model: Any) -> Any:
        return data.x.double().abs().mean().numpy()

    def problem(self, value: Any, classes: int) -> str | None:
        return None if 0 <= value <= 10 else "a brightness is between 0 and 10"


@dataclass(frozen=True)
class Bright(Weigher):
    """Brighter clients count more."""

    name: ClassVar[str] = "bright"
    facts: ClassVar[tuple[Fact, ...]] = (Brightness(),)

    def weigh(self, updates: Any, context: Any) -> Weighing:
        told = context.clients.told(Brightness.name, "weigher 'bright'")
        found = np.array([told[update.client] for update in updates])
        return Weighing(found / found.sum())


@pytest.mark.parametrize("where", WHERE)
def test_a_new_fact_is_one_file(tmp_path: Any, where: str, registered: Any) -> None:
    """Measured on each client's data, told once, counted as traffic, and said in the run folder."""
    chosen = experiment(where, {"weigher": "bright"})
    first, second = play(tmp_path, chosen)
    federation = prepare(chosen).federation
    pixels = federation.data.train_x / federation.data.full_scale
    means = np.array([pixels[rows].mean() for rows in federation.shards])
    assert list(weights(first).values()) == pytest.approx(means / means.sum(), rel=1e-6)
    assert first.bytes_up - second.bytes_up == 8 * (CLIENTS if where == "server" else CLIENTS * (CLIENTS - 1))
    assert RunFolder(tmp_path).method()["reveals"]["once"] == ["how bright its pictures are"]


@pytest.mark.parametrize("where", WHERE)
def test_dropouts_are_recorded(tmp_path: Any, where: str) -> None:
    for record in play(tmp_path, experiment(where, faults={"dropout": 0.5})):
        assert [refusal.reason for refusal in record.refused] == ["dropped out"] * 3
        assert len(record.clients) == 3


@pytest.mark.parametrize("where", WHERE)
def test_facts_go_along_and_are_admitted(tmp_path: Any, where: str) -> None:
    def change(update: Any) -> Any:
        if update.client == 4:
            update.facts["mean_prediction"][0] += 1
        return update

    for record in play(
        tmp_path, experiment(where, {"name": "reselection"} if where == "peers" else {"weigher": "reselection"}), change
    ):
        assert [(refusal.client, refusal.reason[:16]) for refusal in record.refused] == [(4, "mean_prediction:")]


def test_a_peers_draws_come_from_a_stream_of_its_own(tmp_path: Any) -> None:
    """The permuted weights of peer k must not be those of another seed's peer: streams are named, not computed."""
    chosen = experiment("peers", {"weigher": {"name": "permuted", "weigher": "data_size"}})
    records = play(tmp_path, chosen)
    orders = {tuple(peer.weights) for peer in records[0].peers}
    assert len(orders) > 1


def test_pooling_moves_no_model() -> None:
    assert PoolTask.near
    assert not TrainTask.near
    assert not PredictTask.near
