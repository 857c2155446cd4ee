"""Decentralized rounds: who hears whom, what nobody hears, and the same bits everywhere."""

from dataclasses import replace

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from entrofed.backends.inline import InlineBackend
from entrofed.core.job import Network
from entrofed.errors import ConfigError
from entrofed.experiment.build import prepare
from entrofed.experiment.checkpoint import Checkpoints
from entrofed.experiment.client_state import ClientStateStore
from entrofed.experiment.config import ANYBODY, parse
from entrofed.experiment.run_folder import RunFolder
from entrofed.experiment.runner import run
from entrofed.methods import method_of
from entrofed.registry import known


def experiment(rounds=3, method=None, clients=6, alpha=0.5, **sections):
    return parse(
        {
            "rounds": rounds,
            "seed": 3,
            "data": {"name": "digits", "partition": "dirichlet_balanced", "clients": clients, "alpha": alpha},
            "method": {"lr": 0.1, **(method or {})},
            "topology": {"kind": "ring", **sections.pop("topology", {})},
            "engine": {"backend": "inline"},
            **sections,
        }
    )


def play(folder, chosen, backend=None, resume=False):
    """The records of a run and the models of its nodes."""
    place = RunFolder(folder)
    run(chosen, place, backend=backend or InlineBackend(), resume=resume)
    state, problems = Checkpoints(
        place.checkpoints, prepare(chosen).layout, ClientStateStore(folder / "memory", 0)
    ).last()
    assert not problems
    return place.records(), state


def without_seconds(records):
    return [replace(record, seconds={}) for record in records]


@pytest.mark.parametrize("weigher", ["data_size", "pooled_kl", "label_entropy", "weight_kl"])
def test_fully_connected_nodes_agree_after_the_first_round(tmp_path, weigher):
    records, state = play(tmp_path, experiment(2, {"weigher": weigher}, topology={"kind": "full"}))
    models = state.server["values"]
    assert (models == models[0]).all()
    assert all(record.consensus < 1e-5 for record in records)
    rows = [entry.weights for entry in records[0].peers]
    assert all(row == rows[0] for row in rows)
    assert len({entry.accuracy for entry in records[0].peers}) == 1


def test_one_node_alone_trains_alone(tmp_path):
    """A node without edges has the model that it would have if nobody else were there."""
    edges = tmp_path / "edges.txt"
    edges.write_text("1 2\n2 3\n3 4\n4 5\n")
    chosen = experiment(2, topology={"kind": "file", "path": str(edges)})
    records, _ = play(tmp_path / "run", chosen)
    alone = records[-1].peers[0]
    assert alone.senders == [0]
    assert alone.weights == [1.0]
    assert records[-1].spectral_gap == pytest.approx(0, abs=1e-9)
    assert records[0].bytes_up == 8 * prepare(chosen).layout.nbytes  # four edges, both ways


def test_weights_are_those_of_the_closed_neighbourhood(tmp_path):
    records, _ = play(tmp_path, experiment(1))
    sizes = prepare(experiment()).federation.sizes
    for entry in records[0].peers:
        node = entry.node
        hood = sorted({node, (node - 1) % 6, (node + 1) % 6})
        assert entry.senders == hood
        assert entry.weights == pytest.approx(sizes[hood] / sizes[hood].sum())


def test_scaffold_on_a_full_graph_is_the_central_one(tmp_path):
    method = {"name": "scaffold", "weigher": "uniform", "momentum": 0.5}
    _, peers = play(tmp_path / "peers", experiment(3, method, topology={"kind": "full"}))
    central = parse(
        {
            "rounds": 3,
            "seed": 3,
            "data": {"name": "digits", "partition": "dirichlet_balanced", "clients": 6, "alpha": 0.5},
            "method": {"lr": 0.1, "cohort": 6, "selector": "full", **method},
            "engine": {"backend": "inline"},
        }
    )
    _, server = play(tmp_path / "server", central)
    np.testing.assert_allclose(peers.server["values"][0], server.params.values, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("method", ["fedep", "scaffold", "moon", "fedavgm"])
def test_interrupted_and_spread_over_processes(tmp_path, two_workers, method):
    more = {"topology": {"up": 0.7, "message_loss": 0.2}, "faults": {"dropout": 0.2}}
    whole, one = play(tmp_path / "whole", experiment(4, {"name": method}, **more))
    play(tmp_path / "halves", experiment(2, {"name": method}, **more), two_workers)
    halves, two = play(tmp_path / "halves", experiment(4, {"name": method}, **more), two_workers, resume=True)
    assert without_seconds(whole) == without_seconds(halves)
    for name, array in one.server.items():
        np.testing.assert_array_equal(array, two.server[name])


@pytest.mark.parametrize("name", sorted(known("method")))
def test_every_method_without_a_server(tmp_path, name):
    if method_of(name).needs:
        with pytest.raises(ConfigError, match="needs a server"):
            experiment(2, {"name": name}, clients=5)
        return
    if method_of(name).selector.name not in ANYBODY:
        with pytest.raises(ConfigError, match="nobody is chosen: every node trains"):
            experiment(2, {"name": name}, clients=5)
        return
    records, _ = play(tmp_path, experiment(2, {"name": name}, clients=5))
    for record in records:
        assert len(record.peers) == 5
        for entry in record.peers:
            assert sum(entry.weights) == pytest.approx(1)
            assert min(entry.weights) >= 0


@pytest.mark.parametrize(
    ("sections", "words"),
    [
        ({"method": {"name": "inv_entropy"}}, "needs a server with a validation set"),
        ({"method": {"name": "fedconcat"}}, "needs a server that sees all clients"),
        ({"method": {"name": "ccvr"}}, "needs a server that sees all clients"),
        ({"method": {"selector": "fedentopt"}}, "method.selector has no meaning"),
        ({"topology": {"kind": "rings"}}, "did you mean 'ring'"),
        ({"topology": {"kind": "ring", "degree": 3}}, "topology.degree does not apply"),
        ({"topology": {"kind": "regular"}}, "needs topology.degree"),
        ({"topology": {"up": 0.0}}, "topology.up"),
    ],
)
def test_what_peers_cannot_do(sections, words):
    with pytest.raises(ConfigError, match=words):
        experiment(**sections)


def test_a_split_that_heals(tmp_path):
    chosen = experiment(6, topology={"kind": "full", "split": (1, 3)})
    records, _ = play(tmp_path, chosen)
    for record in records:
        expected = [0, 1, 2] if 1 <= record.round < 3 else [0, 1, 2, 3, 4, 5]
        assert record.peers[0].senders == expected
    consensus = [record.consensus for record in records]
    assert min(consensus[1:3]) > 1e-3
    assert max(consensus[0], *consensus[3:]) < 1e-5


@settings(max_examples=25)
@given(st.integers(1, 7), st.floats(0, 1), st.integers(0, 99), st.floats(0.05, 1), st.floats(0, 0.9))
def test_everybody_hears_at_least_itself(nodes, density, seed, up, loss):
    graph = nx.gnp_random_graph(nodes, density, seed=seed)
    for node, heard in enumerate(Network(graph, up, loss, (0, 2)).senders(seed, 1)):
        assert node in heard
        assert set(heard.tolist()) <= {node, *graph[node]}


@pytest.mark.parametrize("kind", ["ring", "line", "star", "full"])
def test_no_stall_whoever_is_missing(tmp_path, kind):
    """With a fault that takes nodes away in every round, the others go on; who is away keeps its model."""
    chosen = experiment(4, topology={"kind": kind}, faults={"dropout": 0.34, "leaving": 0.17})
    records, _ = play(tmp_path, chosen)
    assert len(records) == 4
    for record in records:
        awake = set(record.cohort)
        assert 0 < len(awake) < 6
        for entry in record.peers:
            if entry.node not in awake:
                assert entry.senders == [entry.node]
            else:
                assert entry.node in entry.senders
                assert set(entry.senders) <= awake


def test_a_liar_takes_over_unless_it_is_capped(tmp_path):
    """One of ten claims to hold nothing but the rarest class."""
    base = {"clients": 10, "alpha": 20.0, "topology": {"kind": "full"}, "faults": {"liars": 0.1}}
    part = {"name": "pooled_kl", "mode": "histogram"}
    records, _ = play(tmp_path / "free", experiment(1, {"name": "fedep", "weigher": part}, **base))
    honest, _ = play(tmp_path / "honest", experiment(1, {"name": "fedep", "weigher": part}, **{**base, "faults": {}}))
    free = np.array(records[0].peers[0].weights)
    liar = int((free - np.array(honest[0].peers[0].weights)).argmax())
    capped = {"name": "capped", "share": 0.15, "weigher": part}
    limited, _ = play(tmp_path / "capped", experiment(1, {"name": "fedep", "weigher": capped}, **base))
    assert honest[0].peers[0].weights[liar] < 0.25
    assert free[liar] > 0.5
    assert limited[0].peers[0].weights[liar] == pytest.approx(0.15)


def test_every_node_is_also_judged_by_its_own_held_out_data(tmp_path):
    table = {
        "rounds": 2,
        "model": "iris_mlp",
        "data": {"name": "iris", "partition": "iid", "clients": 4, "holdout": 0.25},
        "topology": {"kind": "ring"},
        "engine": {"backend": "inline"},
    }
    folder = RunFolder(tmp_path / "held" / "seed-0")
    run(parse(table), folder)
    record = folder.records()[-1]
    own = [peer.held_out for peer in record.peers]
    sizes = [len(rows) for rows in prepare(parse(table)).federation.holdouts]
    assert record.in_distribution.accuracy == pytest.approx(np.average(own, weights=sizes))
    assert folder.summary()["accuracy_id"] == record.in_distribution.accuracy


def test_a_share_of_the_nodes_trains_and_all_pool(tmp_path):
    """Of seven nodes max(0.3 * 7, 1) = 2 train; everybody's model is made of theirs alone."""
    records, state = play(tmp_path, experiment(3, clients=7, topology={"kind": "full", "training": 0.3}))
    sizes = prepare(experiment(clients=7)).federation.sizes
    for record in records:
        assert len(record.cohort) == 2
        assert [client.client for client in record.clients] == record.cohort
        for peer in record.peers:
            assert peer.senders == record.cohort
            assert peer.weights == pytest.approx(sizes[record.cohort] / sizes[record.cohort].sum())
    assert len({tuple(record.cohort) for record in records}) > 1
    assert (state.server["values"] == state.server["values"][0]).all()
    sent = prepare(experiment(clients=7)).layout.nbytes
    assert records[1].bytes_up == 2 * 6 * sent


def test_whom_no_trained_model_reaches_keeps_its_own(tmp_path):
    chosen = experiment(1, clients=6, topology={"kind": "ring", "training": 0.1})
    records, _ = play(tmp_path, chosen)
    [trained] = records[0].cohort
    near = {(trained + step) % 6 for step in (-1, 0, 1)}
    for peer in records[0].peers:
        assert peer.senders == ([trained] if peer.node in near else [peer.node])


@pytest.mark.parametrize(("share", "many"), [(1.0, 7), (0.99, 6), (0.29, 2), (0.01, 1)])
def test_how_many_train(share, many):
    network = Network(nx.complete_graph(7), training=share)
    assert len(network.trained(0, 0, range(7))) == many
    assert network.trained(0, 0, []) == []
