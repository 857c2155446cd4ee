"""The study without training reproduces the published numbers, and its tables and pictures come out."""

import json
from math import log2

import numpy as np
import pytest

from entrofed.charts.studies import selection_chart
from entrofed.cli.main import main
from entrofed.cli.tables.studies import selection_study_tables
from entrofed.core.types import LABEL_COUNTS
from entrofed.data.count_table import CountTable
from entrofed.registry import build, known
from entrofed.studies.selection import choices, play, study, study_counts


def test_numbers_of_the_specification(monkeypatch):
    """Mean cohort entropy in bits over partitions of CIFAR-10's counts, K = 100, M = 10; the spread is between them."""
    shown = [choice for choice in choices((), (0.5,)) if choice[0] != "maxent"]  # which takes its time
    monkeypatch.setattr("entrofed.studies.selection.choices", lambda buffers, epsilons: shown)
    rows = study(clients=100, cohort=10, rounds=60, seeds=5, buffers=(), epsilons=(0.5,))
    found = {(row["partition"], row["selector"]): row for row in rows}
    for partition, selector, expected, spread in (
        ("2 labels per client", "FedEntOpt", 3.296, 0.004),
        ("2 labels per client", "random", 3.010, 0.011),
        ("Dirichlet 0.1", "FedEntOpt", 3.249, 0.014),
        ("Dirichlet 0.1", "random", 2.687, 0.044),
        ("Dirichlet 0.1", "FedEntOpt, epsilon 0.5", 3.253, 0.014),
    ):
        row = found[partition, selector]
        # Two means of five partitions each; their difference has a standard error of spread * sqrt(2 / 5).
        assert row["entropy"] == pytest.approx(expected, abs=4 * spread * (2 / 5) ** 0.5), (partition, selector)
    exceed = found["2 labels per client", "random"]["above"]
    assert exceed == pytest.approx(0.13, abs=4 * (0.13 * 0.87 / 300) ** 0.5)
    assert found["2 labels per client", "FedEntOpt"]["full_coverage"] == 1
    assert found["Dirichlet 0.1", "KL"]["distinct"] <= 10


def test_numbers_by_hand():
    counts = np.array([[5, 0], [0, 5], [5, 0]])
    outcome = play(build("selector", "full"), counts, "iid", 3, 4, None, 0)
    assert outcome.entropy == pytest.approx(-(2 / 3 * log2(2 / 3) + 1 / 3 * log2(1 / 3)))
    assert (outcome.full_coverage, outcome.above, outcome.distinct, outcome.fairness) == (1, 1, 3, 1)
    fixed = play(build("selector", "kl"), np.array([[5, 5], [1, 1], [1, 1]]), "iid", 1, 4, None, 0)
    assert (fixed.distinct, fixed.fairness, fixed.most_used) == (1, pytest.approx(1 / 3), 1)


def test_own_counts():
    """A client without samples is never chosen; noised counts are not noised again."""
    table = CountTable.of([[5, 0], [0, 0], [0, 5], [5, 0]])
    options = {"cohort": 2, "rounds": 6, "seeds": 2, "buffers": (0.25,), "epsilons": (1.0,)}
    rows = study_counts(table, "mine.csv", **options)
    assert [row["selector"] for row in rows] == [
        "random",
        "KL",
        "Fed-CBS",
        "maxent",
        "stratified",
        "FedEntOpt",
        "FedEntOpt, buffer 25%",
        "FedEntOpt, epsilon 1",
    ]
    assert all((row["partition"], row["partitions"]) == ("mine.csv", 2) for row in rows)
    assert 2 <= rows[0]["distinct"] <= 3
    noised = CountTable.of(table.counts * 0.3)
    assert len(study_counts(noised, "mine.csv", **options)) == 7


def test_own_counts_on_the_command_line(tmp_path, capsys):
    path = tmp_path / "counts.csv"
    path.write_text("client,a,b,c\n" + "".join(f"{k},{k % 3 * 4},{k % 2 * 5},{k}\n" for k in range(12)))
    words = ["study", "selection", "--counts", str(path), "--cohort", "3", "--rounds", "4", "--partitions", "2"]
    with pytest.raises(SystemExit) as stop:
        main([*words, "--json", "--plot", str(tmp_path / "s.svg")])
    assert stop.value.code == 0
    rows = json.loads(capsys.readouterr().out)["rows"]
    assert {row["partition"] for row in rows} == {"counts.csv"}
    assert max(row["entropy"] for row in rows) <= log2(3)
    assert "<svg" in (tmp_path / "s.svg").read_text()


def test_table_and_picture():
    rows = study(clients=30, cohort=5, rounds=3, seeds=2, buffers=(0.2,), epsilons=(1.0,))
    assert [table.row_count for table in selection_study_tables(rows)] == [8, 8]
    spec = selection_chart(rows, 10).to_dict()
    assert len(spec["spec"]["layer"]) == 4
    (values,) = (data for data in spec["datasets"].values()) if "datasets" in spec else ([*spec["data"]["values"]],)
    assert len(values) == 16


def test_all_selectors_by_counts_are_there():
    by_counts = {
        name for name in known("selector") if LABEL_COUNTS in {fact.name for fact in build("selector", name).facts}
    }
    assert by_counts <= {spec["name"] for _, spec, _ in choices((), ())}


def test_on_the_command_line(tmp_path, capsys):
    words = ["study", "selection", "--clients", "20", "--cohort", "4", "--rounds", "2", "--partitions", "1", "--json"]
    with pytest.raises(SystemExit) as stop:
        main([*words, "--plot", str(tmp_path / "s.svg")])
    assert stop.value.code == 0
    rows = json.loads(capsys.readouterr().out)["rows"]
    assert {row["partition"] for row in rows} == {"2 labels per client", "Dirichlet 0.1"}
    assert "<svg" in (tmp_path / "s.svg").read_text()
    with pytest.raises(SystemExit) as stop:
        main(["study", "selection", "--cohort", "0"])
    assert stop.value.code == 2


def test_why_clients_were_chosen(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "e.toml").write_text(
        """
        rounds = 3
        [data]
        name = "digits"
        partition = "label_quantity"
        clients = 20
        labels_per_client = 2
        [method]
        name = "fedentopt"
        cohort = 5
        [privacy]
        epsilon = 0.5
        [engine]
        backend = "inline"
        """
    )
    for words in (
        ["run", "e.toml"],
        ["show", "runs/e", "--selection", "--plot", "entropy.png"],
        ["show", "runs/e/seed-0", "--plot", "nowhere/entropy.png"],
    ):
        with pytest.raises(SystemExit) as stop:
            main(words)
        expected = 2 if "nowhere/entropy.png" in words else 0
        assert stop.value.code == expected
    out = capsys.readouterr().out
    assert out.count("each client spent epsilon 0.5 once") >= 2
    assert "runner up" in out
    assert "greedy" in out
    assert "20 clients, pooled entropy" in out.replace("\n", " ")
    assert (tmp_path / "entropy.png").read_bytes().startswith(b"\x89PNG")
