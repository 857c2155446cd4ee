"""Cells beside a paper's: means, pairs, what was cut or collapsed."""

from collections.abc import Sequence

import pytest

from entrofed.papers.results import SERIES, Result
from entrofed.papers.verdict import verdicts

IRIS = "inv_entropy/table8"
FULL = 10
"""Rounds of the paper on Iris."""


def made(column: str, seed: int, accuracy: float | Sequence[float], *, table: str = IRIS, cell: str = "iris") -> Result:
    """A run for all rounds, or with these accuracies."""
    values = [accuracy] * FULL if isinstance(accuracy, float) else list(accuracy)
    series: dict[str, list[float | None]] = {name: [0.5] * len(values) for name in SERIES}
    return Result(table, cell, column, seed, "0.1", "rounds = 3", {**series, "accuracy": values})


def runs_of(values, **where):
    return [made(label, seed, value, **where) for label, row in values.items() for seed, value in enumerate(row)]


def test_by_hand():
    found = runs_of(
        {"FedAvg": (0.80, 0.82, 0.84), "Entropy": (0.83, 0.84, 0.88), "Entropy-permuted": (0.83, 0.84, 0.88)}
    )
    [verdict] = verdicts(IRIS, found, metrics=("accuracy",))
    lines = {line.column: line for line in verdict.lines}
    assert lines["FedAvg"].ours.mean == pytest.approx(82)
    assert lines["FedAvg"].ours.spread == pytest.approx(2)
    assert lines["FedAvg"].difference == pytest.approx(82 - 83.33)
    assert lines["Entropy-permuted"].ours_only
    assert lines["Entropy-permuted"].paper is None
    assert verdict.orderings["Entropy"].tau == 1  # Entropy above FedAvg, as in the paper
    gains = {row.method: row.paired for row in verdict.gains}
    assert gains["FedAvg"].difference == pytest.approx(-3)  # FedAvg less Entropy
    assert gains["Entropy-permuted"].difference == 0
    assert verdict.warnings == verdict.collapsed == ()


def test_holm_goes_over_the_whole_table():
    """The same differences in one cell and in two: twice as many tests, twice the smallest p."""
    values = {"FedAvg": (0.80, 0.82, 0.84), "Entropy": (0.83, 0.84, 0.88)}
    one = verdicts(IRIS, runs_of(values), metrics=("accuracy",))
    two = verdicts(IRIS, runs_of(values) + runs_of(values, cell="pumpkin"), metrics=("accuracy",))
    alone = one[0].gains[0].t_p_holm
    assert [verdict.gains[0].t_p_holm for verdict in two] == pytest.approx([2 * alone, 2 * alone])


def test_variants_and_readings_are_no_rivals():
    columns = dict.fromkeys(("FedAvg", "FedEP-printed", "FedEP-authors", "FedEP-permuted"), (0.5, 0.6, 0.7))
    found = [
        Result("fedep/table2", "mnist-dir1", label, seed, "1", "", {name: [value] * 10 for name in SERIES})
        for label, row in columns.items()
        for seed, value in enumerate(row)
    ]
    [verdict] = verdicts("fedep/table2", found, metrics=("macro_f1",))
    assert [(row.against, row.method) for row in verdict.gains] == [
        ("FedEP-printed", "FedAvg"),
        ("FedEP-authors", "FedAvg"),
    ]  # FedEP-permuted shuffles another reading's weights
    assert {line.column: line.paper and line.paper.value for line in verdict.lines} == {
        "FedAvg": 0.431,
        "FedEP-printed": 0.598,
        "FedEP-authors": 0.598,
        "FedEP-permuted": None,
    }
    assert set(verdict.orderings) == {"FedEP-printed", "FedEP-authors"}
    assert verdict.orderings["FedEP-printed"].pairs == 1


def test_pairs_are_in_the_papers_order_on_common_seeds():
    """On average Entropy is behind FedAvg, but not on the seeds that both have."""
    found = [made("FedAvg", seed, value) for seed, value in enumerate((0.8, 0.8, 0.99))]
    found += [made("Entropy", seed, 0.81) for seed in range(2)]
    [verdict] = verdicts(IRIS, found, metrics=("accuracy",))
    assert verdict.orderings["Entropy"].held == 1


def test_intervals_of_shares_stay_shares():
    found = runs_of({"FedAvg": (0.99, 0.80, 0.98), "Entropy": (0.01, 0.2, 0.02)})
    [verdict] = verdicts(IRIS, found, metrics=("accuracy",))
    assert verdict.lines[0].ours.high == 100
    assert verdict.lines[1].ours.low == 0


def test_a_collapsed_run_is_named():
    found = runs_of({"FedAvg": (0.8, 0.82, 0.11)})
    found += [
        made("Entropy", 0, [0.9] * 9 + [0.3]),
        made("FedProx", 0, 0.1),
    ]  # FedProx never learned, with its only seed
    [verdict] = verdicts(IRIS, found, metrics=("accuracy",))
    assert verdict.collapsed == (
        "Entropy, seed 0: collapsed to an accuracy of 30.0 % after the last round (its best was 90.0 %)",
        "FedAvg, seed 2: never above an accuracy of 11.0 % (other seeds end at 81.0 %)",
    )


def test_cut_runs_that_swing_show_nothing():
    table, cell = "fedentopt/table1", "cifar10-dir0.1"
    swinging = {seed: [0.3] * 140 + [0.36 + 0.01 * seed, 0.42] * 5 for seed in range(3)}
    found = [made("FedAvg", seed, values, table=table, cell=cell) for seed, values in swinging.items()]
    for label in ("FedEntOpt", "FedLC"):
        offset = 0.5 if label == "FedEntOpt" else 0.4
        found += [made(label, seed, [offset + 0.001 * seed] * 150, table=table, cell=cell) for seed in range(3)]
    [verdict] = verdicts(table, found)
    assert verdict.unsettled == {"FedAvg"}
    outcomes = {row.method: verdict.outcome(row) for row in verdict.gains}
    assert outcomes["FedAvg"] == "unsettled"
    assert outcomes["FedLC"] != "unsettled"
    assert verdict.orderings["FedEntOpt"].pairs == 1  # against FedLC
    assert "unsettled when they were cut, so that nothing is shown: FedAvg" in verdict.warnings
    assert any("30 % of the paper's rounds" in word for word in verdict.warnings)


def test_runs_of_all_rounds_need_not_settle():
    [verdict] = verdicts(IRIS, runs_of({"FedAvg": ([0.1 * i for i in range(10)],)}), metrics=("accuracy",))
    assert not verdict.unsettled


def test_longer_runs_replace_cut_ones():
    table, cell = "fedentopt/table1", "cifar10-dir0.1"
    found = [made("FedAvg", 0, [0.5] * 500, table=table, cell=cell)]
    found += [made("FedAvg", seed, [0.4] * 150, table=table, cell=cell) for seed in (1, 2)]
    found += [made("FedEntOpt", seed, [0.45] * 150, table=table, cell=cell) for seed in range(3)]
    [verdict] = verdicts(table, found)
    [line] = [line for line in verdict.lines if line.column == "FedAvg"]
    assert (line.ours.n, line.rounds) == (1, 500)
    assert verdict.gains == ()  # 500 rounds and 150 do not compare
    assert verdict.orderings["FedEntOpt"].pairs == 0
    assert any("only those of one length are compared" in word for word in verdict.warnings)


def test_few_seeds_are_warned_of():
    [verdict] = verdicts(IRIS, [made("FedAvg", 0, 0.8), made("Entropy", 0, 0.8)], metrics=("accuracy",))
    assert any("1 seed" in word for word in verdict.warnings)
    uneven = runs_of({"FedAvg": (0.9, 0.9, 0.9), "Entropy": (0.9, 0.9)})
    [verdict] = verdicts(IRIS, uneven, metrics=("accuracy",))
    assert verdict.warnings[0].startswith("Entropy: rests on 2 seeds")


def test_gains_are_differences_from_the_table_below():
    cell = "cifar10-c2"
    below = [made("FedRS", seed, 0.40, table="fedentopt/table1", cell=cell) for seed in (0, 1)]
    above = [made("FedRS", seed, 0.38, table="fedentopt/table2", cell=cell) for seed in (0, 1, 2)]
    [verdict] = verdicts("fedentopt/table2", below + above)
    [line] = verdict.lines
    assert line.ours.mean == pytest.approx(-2)
    assert line.ours.n == 2  # seed 2 has nothing to be a gain over
