from dataclasses import replace
from pathlib import Path

import pytest

from entrofed.errors import ConfigError, DataError
from entrofed.experiment.config import parse
from entrofed.experiment.run_folder import RunFolder
from entrofed.papers import reproduce
from entrofed.papers.page import write_page
from entrofed.papers.reproduce import LEAST_SHARE, fit, planned, seconds_of, select
from entrofed.papers.results import SERIES, Result, read, read_all, store
from entrofed.papers.tables import find
from entrofed.papers.verdict import ranking, verdicts
from entrofed.suite.play import play

IRIS = "inv_entropy/table8"


def made(column: str, seed: int, accuracy: list[float | None], *, table: str = IRIS, cell: str = "iris") -> Result:
    series: dict[str, list[float | None]] = {name: [0.5] * len(accuracy) for name in SERIES}
    return Result(table, cell, column, seed, "0.1", "rounds = 3", {**series, "accuracy": accuracy})


def test_metrics_are_what_the_papers_mean():
    run = made("FedAvg", 0, [i / 20 for i in range(20)])
    assert run.value("accuracy") == 0.95
    assert run.value("accuracy_last_10") == pytest.approx(0.725)
    assert run.value("accuracy_mean") == pytest.approx(0.475)
    assert run.value("weighted_f1_mean") == 0.5
    assert run.value("accuracy_id") == 0.5
    with pytest.raises(ConfigError, match="not kept"):
        run.value("auc")


def test_a_diverged_run_has_no_value():
    run = made("FedAvg", 0, [0.5, None])
    assert run.value("accuracy") is None
    assert run.value("accuracy_mean") is None


def test_stored_results_come_back(tmp_path):
    runs = [made("FedAvg", seed, [0.1, None, 0.3]) for seed in range(2)] + [
        made("FedEP", 0, [0.25], table="fedep/table2", cell="mnist-dir1")
    ]
    paths = store(runs, tmp_path)
    assert [path.name for path in paths] == ["inv_entropy-table8.parquet", "fedep-table2.parquet"]
    key = lambda run: (run.table, run.seed)  # noqa: E731
    assert sorted(read_all(tmp_path), key=key) == sorted(runs, key=key)


def test_storing_again_replaces_only_the_same_run(tmp_path):
    store([made("FedAvg", 0, [0.1]), made("FedAvg", 1, [0.2])], tmp_path)
    [path] = store([made("FedAvg", 1, [0.9, 0.8])], tmp_path)
    assert [(run.seed, run.series["accuracy"]) for run in read(path)] == [(0, [0.1]), (1, [0.9, 0.8])]


def test_a_damaged_file_is_named(tmp_path):
    (tmp_path / "x.parquet").write_bytes(b"no")
    with pytest.raises(DataError, match=r"x\.parquet"):
        read_all(tmp_path)
    with pytest.raises(ConfigError, match="no such folder"):
        read_all(tmp_path / "nowhere")


def test_verdict_by_hand():
    values = {"FedAvg": (0.80, 0.82, 0.84), "Entropy": (0.83, 0.84, 0.88), "Entropy-permuted": (0.83, 0.84, 0.88)}
    runs = [made(label, seed, [value]) for label, three in values.items() for seed, value in enumerate(three)]
    [found] = verdicts(IRIS, runs, metrics=("accuracy",))
    lines = {line.column: line for line in found.lines}
    assert lines["FedAvg"].ours.mean == pytest.approx(82)
    assert lines["FedAvg"].ours.spread == pytest.approx(2)
    assert lines["FedAvg"].difference == pytest.approx(82 - 83.33)
    assert lines["Entropy-permuted"].control
    assert lines["Entropy-permuted"].paper is None
    assert found.ordering is not None
    assert found.ordering.tau == 1  # Entropy above FedAvg, as in the paper
    gains = {row.method: row.paired for row in found.gains}
    assert gains["FedAvg"].difference == pytest.approx(-3)  # FedAvg less Entropy
    assert gains["Entropy-permuted"].difference == 0
    assert found.warnings == ("10% of the paper's rounds",)


def test_columns_are_ranked_over_cells_and_seeds():
    values = {"FedAvg": 0.8, "Entropy": 0.9, "Uniform": 0.7}
    runs = [
        made(label, seed, [v], cell=cell)
        for label, v in values.items()
        for seed in range(3)
        for cell in ("iris", "seeds")
    ]
    runs.append(made("FedProx", 0, [0.99]))  # lacks a cell
    found = ranking(IRIS, runs)
    assert [(rank.method, rank.mean_rank, rank.blocks) for rank in found] == [
        ("Entropy", 1, 6),
        ("FedAvg", 2, 6),
        ("Uniform", 3, 6),
    ]
    assert ranking(IRIS, runs[:3]) == []
    ours = [made("Uniform", seed, [1.0], cell="heart-unique") for seed in range(3)]  # the paper has no such cell
    assert ranking(IRIS, [*runs, *ours]) == found
    assert ranking(IRIS, [*ours, *(replace(run, column="FedAvg") for run in ours)])


def test_few_seeds_and_uneven_rounds_are_warned_of():
    runs = [made("FedAvg", 0, [0.8] * 10), made("Entropy", 0, [0.8] * 5)]
    [found] = verdicts(IRIS, runs, metrics=("accuracy",))
    assert any("1 seed" in word for word in found.warnings)
    assert any("do not compare" in word for word in found.warnings)


def test_gains_are_differences_from_the_table_below():
    cell = "cifar10-c2"
    below = [made("FedRS", seed, [0.40], table="fedentopt/table1", cell=cell) for seed in (0, 1)]
    above = [made("FedRS", seed, [0.42], table="fedentopt/table2", cell=cell) for seed in (0, 1, 2)]
    [found] = verdicts("fedentopt/table2", below + above)
    [line] = found.lines
    assert line.ours.mean == pytest.approx(2)
    assert line.ours.n == 2  # seed 2 has nothing to be a gain over
    assert [part.path for part in select("fedentopt/table2", [cell], ["FedRS"])] == [
        "fedentopt/table1",
        "fedentopt/table2",
    ]


def test_unknown_names_are_refused():
    with pytest.raises(ConfigError, match="unknown cell"):
        select(IRIS, ["irys"])
    with pytest.raises(ConfigError, match="unknown column"):
        select(IRIS, columns=["FedAvgg"])


@pytest.mark.parametrize("budget", ["", "30", "min", "-3h", "0s", "3 weeks"])
def test_budgets_that_are_none(budget):
    with pytest.raises(ConfigError, match="--budget"):
        seconds_of(budget)


@pytest.mark.parametrize("budget", [10.0, 60.0, 100.0, 299.0, 300.0, 1e6])
def test_a_fit_fits_and_takes_rounds_first(budget):
    found = fit([60.0, 40.0], 3, budget)
    assert found.seconds <= budget * (1 + 1e-12)
    assert found.seconds == pytest.approx(min(budget, 300))
    assert found.seeds == 3 or 100 * LEAST_SHARE * (found.seeds + 1) > budget


def test_what_was_played_longer_stays(tmp_path):
    cell = find(IRIS)[1].cell("iris")
    first = planned(IRIS, cell, "FedAvg", 2, 0, tmp_path)
    assert not first.done
    play([(first.experiment, first.folder)])
    assert first.done
    assert first.result().rounds == 2
    shorter = planned(IRIS, cell, "FedAvg", 1, 0, tmp_path)
    assert shorter.experiment.rounds == 2
    assert shorter.done
    assert not planned(IRIS, cell, "FedAvg", 3, 0, tmp_path).done  # goes on from 2
    assert [found.column for found in reproduce.finished(tmp_path)] == ["FedAvg"]


def test_a_run_that_fails_does_not_stop_the_others(tmp_path):
    cell = find(IRIS)[1].cell("iris")
    first, second = (planned(IRIS, cell, label, 1, 0, tmp_path) for label in ("FedAvg", "Uniform"))
    lost = replace(
        first, experiment=parse({**cell.experiment(cell.columns["FedAvg"]), "data": {"name": "mnist", "clients": 3}})
    )
    runs = [(run.experiment, run.folder) for run in (lost, second)]
    failed = play(runs, data_directory=tmp_path / "no-data", resume=True, keep_going=True)
    assert list(failed) == [str(first.folder.path)]
    assert second.done


def test_the_page_tells_all(tmp_path):
    runs = [
        made(label, seed, [value + 0.01 * seed])
        for label, value in (("FedAvg", 0.8), ("Entropy", 0.9), ("Uniform", 0.8))
        for seed in range(3)
    ]
    page, picture = write_page(runs, tmp_path / "results.md")
    text = page.read_text()
    assert "| Entropy | 91.00 ± 1.00 |" in text
    assert "| Uniform* | 81.00 ± 1.00 |" in text
    assert "| Entropy | FedAvg | 3 | +10.00 |" in text
    assert "1 of 1 pairs hold" in text
    assert "Precision, recall and F1 are weighted" in text
    assert picture.read_text().startswith("<svg")
    assert f"images/{picture.name}" in text
    again, _ = write_page(runs, tmp_path / "results.md")
    assert again.read_text() == text


def test_the_page_begins_with_what_each_table_comes_to(tmp_path):
    values = {"FedAvg": [0.80, 0.81, 0.83], "Entropy": [0.90, 0.91, 0.92], "Uniform": [0.92, 0.92, 0.92]}
    runs = [made(label, seed, [value]) for label, row in values.items() for seed, value in enumerate(row)]
    page, _ = write_page(runs, tmp_path / "results.md")
    [line] = [line for line in page.read_text().splitlines() if line.startswith(f"| [{IRIS}]")]
    told, here, controls = line.strip("| ").split(" | ")[-3:]
    assert told.startswith("ahead in ")
    assert here == "ahead in 1 of 1; shown: 1 better, 0 worse"
    assert controls == "ahead in 0 of 1; shown: 0 better, 0 worse"


def test_a_warning_names_the_columns_with_few_seeds():
    runs = [made(label, seed, [0.9]) for label, n in (("FedAvg", 3), ("Entropy", 2)) for seed in range(n)]
    [found] = verdicts(IRIS, runs, metrics=("accuracy",))
    assert found.warnings[0].startswith("Entropy: rests on 2 seeds")


def test_probing_leaves_nothing_behind(tmp_path):
    [selection] = select(IRIS, ["iris"], ["FedAvg", "Entropy"])
    runs, found = reproduce.shorten([selection], tmp_path / "out", None, 3, 1e9, None)
    assert (found.share, found.seeds) == (1, 3)
    assert len(runs) == 6
    assert {run.experiment.rounds for run in runs} == {10}
    assert not (tmp_path / "out").exists()
    runs, found = reproduce.shorten([selection], tmp_path / "out", None, 3, 1e-6, None)
    assert found.seeds == 1
    assert {run.experiment.rounds for run in runs} == {1}
    assert isinstance(runs[0].folder, RunFolder)
    assert Path(runs[0].folder.path).parts[-3:] == ("iris", "FedAvg", "seed-0")
