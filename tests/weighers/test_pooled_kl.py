"""FedEP's weights: what clients tell for them, and one rule for servers, peers and the study of topologies."""

from typing import get_args

import networkx as nx
import numpy as np
import pytest

from entrofed.core.job import Job, Network, Rules
from entrofed.core.params import Layout, Params
from entrofed.core.round import pool
from entrofed.core.types import ClientTable, State, Update
from entrofed.errors import ConfigError, DataError
from entrofed.experiment.sections.method import MethodSection
from entrofed.facts.label_counts import LabelCounts
from entrofed.facts.label_mixture import LabelMixture
from entrofed.info.mixture import fit
from entrofed.info.pooling import Mode, pooling_weights
from entrofed.studies.topology import weighings
from entrofed.weighers.pooled_kl import PooledKL

MODES = get_args(Mode)
COUNTS = np.array([[30.0, 0.0, 0.0], [10.0, 10.0, 0.0], [0.0, 5.0, 5.0]])
APART = np.array([[30.0, 0.0, 0.0], [0.0, 30.0, 30.0]])
AT_NODES = [(0.027034133844, 0.972965866156), (0.999251279402, 0.000748720598)]
"""The authors' weights at each of the two nodes: a node looks at its own labels only."""


def table_of(part, counts, silent=()):
    """Clients that told what the weigher asks for, except those who are silent."""
    told = [None if k in silent else part.facts[0].of_counts(row) for k, row in enumerate(counts)]
    facts = np.array(told) if part.facts == (LabelCounts(),) else told
    return ClientTable(counts.sum(axis=1).astype(np.int64), counts.shape[1], facts={part.facts[0].name: facts})


def test_what_clients_tell():
    assert PooledKL().facts == (LabelMixture(0.5, "components"),)
    assert PooledKL(ratio=0.3, penalty="free_params").facts == (LabelMixture(0.3, "free_params"),)
    assert PooledKL(mode="histogram", ratio=0.3).facts == (LabelCounts(),)
    for mode in MODES:
        assert PooledKL(mode=mode).facts == PooledKL(mode=mode).facts
        assert not PooledKL(mode=mode).needs


@pytest.mark.parametrize("direction", ["divergent", "aligned"])
@pytest.mark.parametrize("mode", MODES)
def test_the_rule_of_info(cohort, mode, direction):
    part = PooledKL(mode=mode, direction=direction, alpha_min=0.1)
    weighing = part.weigh(*cohort(clients=[2, 0], table=table_of(part, COUNTS)))
    told = [row if mode == "histogram" else fit(row).to_vector() for row in COUNTS]
    weights, far = pooling_weights(told, 3, mode=mode, direction=direction, present=[2, 0], alpha_min=0.1)
    assert weighing.weights.tolist() == weights[[2, 0]].tolist()
    unit = "kl_bits" if mode == "authors" else "kl_nats"
    assert [origin[unit] for origin in weighing.origins] == far[[2, 0]].tolist()
    assert not any(("kl_nats" if mode == "authors" else "kl_bits") in origin for origin in weighing.origins)


def test_a_fallback_is_recorded(cohort):
    """Two mixtures in the same place: as printed, the sharper one is nearer to the pool than the pool itself."""
    part = PooledKL(mode="printed")
    told = [np.array([30.0, 1, 1, 0.01]), np.array([10.0, 1, 1, 0.02]), np.array([10.0, 1, 0, 0.01])]
    table = ClientTable(np.array([30, 10, 10]), 3, facts={LabelMixture.name: told[:2]})
    weighing = part.weigh(*cohort(clients=[0, 1], table=table))
    assert weighing.origins[0]["kl_nats"] < 0 < weighing.origins[1]["kl_nats"]
    assert [origin["fallback"] for origin in weighing.origins] == [True, True]
    assert weighing.weights.tolist() == [0.75, 0.25]
    table = ClientTable(np.array([30, 10]), 3, facts={LabelMixture.name: [told[0], told[2]]})
    apart = part.weigh(*cohort(clients=[0, 1], table=table))
    assert [origin["fallback"] for origin in apart.origins] == [False, False]
    kl = [origin["kl_nats"] for origin in apart.origins]
    assert apart.weights == pytest.approx(np.array(kl) / sum(kl))


def test_a_histogram_by_hand(cohort):
    """Pooled by size, each smoothed by 0.01."""
    part = PooledKL(mode="histogram")
    weights = part.weigh(*cohort(clients=[0, 1], table=table_of(part, COUNTS[:2]))).weights
    smooth = (np.array([[1, 0, 0], [0.5, 0.5, 0]]) + 0.01) / 1.03
    pooled = np.array([0.6, 0.4]) @ smooth
    far = (pooled * np.log(pooled / smooth)).sum(axis=1)
    np.testing.assert_allclose(weights, far / far.sum())


@pytest.mark.parametrize("mode", [mode for mode in MODES if mode != "histogram"])
def test_who_told_nothing_is_not_pooled(cohort, mode):
    part = PooledKL(mode=mode)
    some = part.weigh(*cohort(clients=[0, 1], table=table_of(part, COUNTS, silent=[2]))).weights
    without = part.weigh(*cohort(clients=[0, 1], table=table_of(part, COUNTS[:2]))).weights
    assert some.tolist() == without.tolist()
    of_three = part.weigh(*cohort(clients=[0, 1, 2], table=table_of(part, COUNTS, silent=[2]))).weights
    assert of_three.tolist() == [*without.tolist(), 0]


@pytest.mark.parametrize(("mode", "what"), [("smoothed", "label mixture"), ("histogram", "label counts")])
def test_nobody_told_anything(cohort, mode, what):
    words = f"weigher 'pooled_kl' needs the clients' {what}, and none were released"
    with pytest.raises(DataError, match=words):
        PooledKL(mode=mode).weigh(*cohort(clients=[0]))


# Peers: a node knows the labels that it has itself


@pytest.mark.parametrize("node", [0, 1])
def test_a_peers_own_labels_count(cohort, node):
    part, own = PooledKL(mode="authors"), np.flatnonzero(APART[node])
    made = cohort(clients=[0, 1], table=table_of(part, APART), own_labels=own)
    assert part.weigh(*made).weights == pytest.approx(AT_NODES[node], abs=1e-9)


def job_of_peers(part, counts, edges):
    graph = nx.Graph(edges)
    graph.add_nodes_from(range(len(counts)))
    section = MethodSection(name="fedavg")
    method = MethodSection(name="fedep", weigher={"name": "pooled_kl", "mode": part.mode}).recipe
    rules = Rules(rounds=1, cohort=len(counts), training=section.training())
    network = Network(graph, labels=tuple(np.flatnonzero(row) for row in counts))
    nodes = np.arange(len(counts))
    return Job(method, rules, table_of(part, counts), nodes, Layout((), 1, 1, 0), 0, network=network)


def pooled_at(job, node, hood):
    """The weights in a round, as a peer comes by them."""
    params = Params(np.zeros(1, np.float32), np.zeros(0, np.int64))
    updates = [Update(k, params, int(job.clients.sizes[i]), 1, 1.0, 1.0) for k, i in enumerate(hood)]
    return pool(job.at(node, hood), State(0, params, {}, {}), updates).weighing.weights


@pytest.mark.parametrize("node", [0, 1])
def test_so_they_do_in_a_round_and_in_the_study(node):
    hood = np.arange(2)
    job = job_of_peers(PooledKL(mode="authors"), APART, [(0, 1)])
    found = pooled_at(job, node, hood)
    assert found == pytest.approx(AT_NODES[node], abs=1e-9)
    studied = weighings(APART.astype(np.int64))["FedEP authors"](node, hood)
    np.testing.assert_allclose(found, studied, rtol=1e-14)


@pytest.mark.parametrize("mode", MODES)
def test_one_rule_for_rounds_and_study(mode):
    """A line of three nodes: the ends see two, the middle sees all."""
    job = job_of_peers(PooledKL(mode=mode), COUNTS, [(0, 1), (1, 2)])
    study = weighings(COUNTS.astype(np.int64))[f"FedEP {mode}"]
    for node, hood in enumerate((np.array([0, 1]), np.arange(3), np.array([1, 2]))):
        np.testing.assert_allclose(pooled_at(job, node, hood), study(node, hood), rtol=1e-14)


def test_a_server_has_no_labels(cohort):
    part = PooledKL(mode="authors")
    everything = part.weigh(*cohort(clients=[0, 1], table=table_of(part, APART))).weights
    own = part.weigh(*cohort(clients=[0, 1], table=table_of(part, APART), own_labels=np.arange(3))).weights
    assert everything.tolist() == own.tolist()


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"smoothing": -0.1}, "smoothing = -0.1 must be between 0"),
        ({"smoothing": float("nan")}, "smoothing = nan"),
        ({"alpha_min": 1.5}, "alpha_min = 1.5 must be between 0 and 1"),
        ({"ratio": 0.0}, "ratio = 0.0 must be above 0"),
        ({"ratio": float("inf")}, "ratio = inf"),
    ],
)
def test_bad_options(options, words):
    with pytest.raises(ConfigError, match=words):
        PooledKL(**options)
