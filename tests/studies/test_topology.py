"""The study of topologies without training: numbers by hand, its tables, its picture, its command."""

import json

import numpy as np
import pytest

from entrofed.charts.studies import topology_study_chart
from entrofed.cli.main import main
from entrofed.cli.tables.studies import topology_study_tables
from entrofed.core.graphs import mixing_matrix
from entrofed.errors import ConfigError
from entrofed.info.mixture import fit
from entrofed.info.pooling import pooled_divergences, pooled_weights
from entrofed.studies.topology import KINDS, mixing_metrics, study, weighings

COUNTS = np.array([[30, 0, 0], [10, 10, 0], [0, 5, 5]])
HOOD = np.array([0, 1])


@pytest.fixture(scope="module")
def rows():
    return study(nodes=6, alphas=(20.0, 0.1), seeds=2, kinds=("full", "ring", "erdos_renyi"))


def test_weighings_by_hand():
    found = {title: weigh(1, HOOD) for title, weigh in weighings(COUNTS).items()}
    assert list(found) == [
        "data size", "uniform", "FedEP smoothed", "FedEP paper", "FedEP printed", "FedEP histogram", "FedEP authors",
    ]  # fmt: skip
    np.testing.assert_allclose(found["data size"], [0.6, 0.4])
    np.testing.assert_allclose(found["uniform"], [0.5, 0.5])
    # pooled (40, 10, 0) / 50, each smoothed by 0.01: KL(P || P_0) and KL(P || P_1)
    smooth = (np.array([[1, 0, 0], [0.5, 0.5, 0]]) + 0.01) / 1.03
    pooled = np.array([0.6, 0.4]) @ smooth
    far = (pooled * np.log(pooled / smooth)).sum(axis=1)
    np.testing.assert_allclose(found["FedEP histogram"], far / far.sum())


def test_the_authors_look_at_the_labels_of_the_node_that_pools():
    weigh, mixtures = weighings(COUNTS)["FedEP authors"], [fit(row).to_vector() for row in COUNTS]
    everybody = np.arange(3)
    at = [weigh(node, everybody) for node in range(3)]
    for node, labels in enumerate(([0], [0, 1], [1, 2])):
        expected = pooled_weights(*pooled_divergences(mixtures, 3, mode="authors", labels=labels))
        np.testing.assert_array_equal(at[node], expected)
    assert not np.allclose(at[0], at[2])


def test_empty_nodes_weigh_nothing():
    for title, weigh in weighings(np.array([[30, 0], [0, 0], [10, 10]])).items():
        weights = weigh(1, np.arange(3))
        assert weights.sum() == pytest.approx(1)
        assert weights[1] == (1 / 3 if title == "uniform" else 0)


def test_metrics_by_hand():
    matrix = mixing_matrix([HOOD, HOOD], [[0.75, 0.25], [0.5, 0.5]])
    found = mixing_metrics(matrix, np.array([10, 30]))
    assert (found["own"], found["largest"]) == ([0.75, 0.5], 0.75)
    assert found["gap"] == pytest.approx(0.75)
    assert found["bias"] == pytest.approx(2 / 3 - 1 / 4)
    alone = mixing_metrics(np.eye(2), np.array([10, 30]))
    assert (alone["gap"], alone["bias"]) == (0, None)


def test_rows(rows):
    assert len(rows) == 2 * 3 * 7
    for row in rows:
        assert 0 <= row["own_min"] <= row["own"] <= row["own_max"] <= row["largest"] <= 1
        assert 0 <= row["gap"] <= 1
        assert row["bias"] is None or 0 <= row["bias"] < 1
        assert (row["bias"] is None) == (row["consensus"] == 0)
    assert rows == study(nodes=6, alphas=(20.0, 0.1), seeds=2, kinds=("full", "ring", "erdos_renyi"))


def test_rows_of_known_cases(rows):
    found = {(row["alpha"], row["topology"], row["weighing"]): row for row in rows}
    for alpha in (20.0, 0.1):
        for weighing in ("data size", "uniform", "FedEP smoothed", "FedEP paper", "FedEP printed", "FedEP histogram"):
            assert found[alpha, "full", weighing]["gap"] == pytest.approx(1, abs=1e-9)  # all nodes weigh alike
        assert found[alpha, "full", "data size"]["bias"] == pytest.approx(0, abs=1e-12)
        assert found[alpha, "ring", "uniform"]["gap"] == pytest.approx(1 / 3)
        assert found[alpha, "ring", "uniform"]["own"] == pytest.approx(1 / 3)
        assert found[alpha, "ring", "uniform"]["bias"] == pytest.approx(found[alpha, "full", "uniform"]["bias"])
    assert found[0.1, "full", "FedEP authors"]["gap"] < 0.999  # each over its own labels


def test_tables_and_picture(rows):
    assert [(table.title, table.row_count) for table in topology_study_tables(rows)] == [
        ("Dirichlet 20", 21),
        ("Dirichlet 0.1", 21),
    ]
    spec = topology_study_chart(rows).to_dict()
    values = spec["datasets"][spec["data"]["name"]]
    assert len(values) == 42
    assert all(0 <= value["low"] <= value["gap"] <= value["high"] <= 1 for value in values)
    assert spec["facet"]["column"]["sort"] == ["Dirichlet 20", "Dirichlet 0.1"]


def test_without_consensus_or_spread(monkeypatch):
    monkeypatch.setitem(KINDS, "erdos_renyi", {"probability": 0.0})
    rows = study(nodes=3, alphas=(1.0,), seeds=1, kinds=("erdos_renyi",))
    assert {(row["gap"], row["gap_std"], row["bias"], row["consensus"]) for row in rows} == {(0, None, None, 0)}
    (table,) = topology_study_tables(rows)
    assert list(table.columns[5].cells) == ["none"] * 7


def test_unknown_topology():
    with pytest.raises(ConfigError, match="did you mean 'ring'"):
        study(nodes=3, alphas=(1.0,), seeds=1, kinds=("rings",))


def test_on_the_command_line(tmp_path, capsys):
    words = ["study", "topology", "--nodes", "5", "--partitions", "1", "--alpha", "20", "--alpha", "1"]
    with pytest.raises(SystemExit) as stop:
        main([*words, "--json", "--plot", str(tmp_path / "t.svg")])
    assert stop.value.code == 0
    rows = json.loads(capsys.readouterr().out)["rows"]
    assert {row["alpha"] for row in rows} == {20, 1}
    assert {row["topology"] for row in rows} == set(KINDS)
    assert "<svg" in (tmp_path / "t.svg").read_text()
    with pytest.raises(SystemExit) as stop:
        main([*words[:4], "--partitions", "1", "--alpha", "1"])
    assert stop.value.code == 0
    assert "Dirichlet 1" in capsys.readouterr().out
    for wrong in (["--nodes", "0"], ["--nodes", "4"], ["--alpha", "0"], ["--partitions", "0"]):
        with pytest.raises(SystemExit) as stop:
            main(["study", "topology", *wrong])
        assert stop.value.code == 2
