from dataclasses import replace
from pathlib import Path

import pytest

from entrofed.errors import ConfigError, DataError
from entrofed.experiment.config import parse
from entrofed.experiment.run_folder import RunFolder
from entrofed.papers import reproduce
from entrofed.papers.reproduce import LEAST_SHARE, fit, planned, seconds_of, select
from entrofed.papers.results import SERIES, Result, read, read_all, store
from entrofed.papers.tables import find
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


def test_rounds_that_were_not_evaluated_are_kept_too(tmp_path):
    """Every third of five rounds and the last two were evaluated; all have a cohort."""
    series = {name: [0.125, 0.25, 0.5] for name in SERIES}
    course = {
        "bytes_up": [1, 2, 3, 4, 5],
        "bytes_down": [5] * 5,
        "cohort_entropy": [1.0, None, 2.0, 2.0, 2.0],
        "alignment_error": [None, 0.25, None, 0.5, None],
        "alignment_cosine": [None, 1.0, None, -0.5, None],
        "cohort": [[0, 1], [], [2], [3], [4]],
        "weights": [[0.5, 0.5], [], [1.0], [1.0], [1.0]],
        "confusion": [None, None, None, None, [3, 1, 0, 4]],
    }
    run = Result(IRIS, "iris", "FedAvg", 0, "0.2", "", series, (3, 4, 5), course)
    assert run.rounds == 5
    assert run.value("accuracy") == 0.5
    assert run.value("accuracy_mean") is None  # of all rounds, and not all are known
    assert run.value("convergence") == 5
    [path] = store([run, made("FedAvg", 1, [0.1, 0.2])], tmp_path)
    assert read(path) == [run, made("FedAvg", 1, [0.1, 0.2])]


def test_results_of_version_01_are_read():
    """As stored then: a row for each round, all evaluated, and nothing of cohorts."""
    found = read(Path(__file__).with_name("results-0.1.parquet"))
    assert [run.rounds for run in found] == [150]


@pytest.mark.parametrize(
    ("accuracy", "settled"),
    [
        ([0.5] * 10, True),
        ([0.1] * 90 + [0.50, 0.504] * 5, True),
        ([0.50, 0.54] * 5, False),  # swings by 2 points around its mean
        ([0.50 + 0.002 * i for i in range(10)], False),  # rises by 2 points in ten rounds
        ([0.50 + 0.0005 * i for i in range(10)], True),
        ([0.5] * 9, False),  # too few to say
        ([*[0.5] * 9, None], False),
    ],
)
def test_when_a_run_has_settled(accuracy, settled):
    assert made("FedAvg", 0, accuracy).settled("accuracy_last_10") is settled


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


def test_a_table_of_gains_brings_the_other_along():
    assert [part.path for part in select("fedentopt/table2", ["cifar10-c2"], ["FedRS"])] == [
        "fedentopt/table1",
        "fedentopt/table2",
    ]


def test_a_replay_has_its_own_seeds(tmp_path):
    """The page's command must make what the page shows: seed 42 for the replay, any for the other cell."""
    [selection] = select("fedklentropy/table2", columns=["FedAvg", "Uniform"])
    runs = selection.plan(tmp_path, None, 3)
    seeds = {cell: [run.experiment.seed for run in runs if run.cell.id == cell] for cell in ("mnist", "mnist-seeded")}
    assert seeds == {"mnist": [42, 42], "mnist-seeded": [0, 0, 1, 1, 2, 2]}
    drawn = parse(selection.table.cell("mnist-seeded").experiment(runs[-1].column, seed=1))
    assert (drawn.data.partition, drawn.method.selector) == ("dirichlet_plain", "random")


def test_unknown_names_are_refused():
    with pytest.raises(ConfigError, match="unknown cell"):
        select(IRIS, ["irys"])
    with pytest.raises(ConfigError, match="unknown column"):
        select(IRIS, columns=["FedAvgg"])


@pytest.mark.parametrize("budget", ["", "30", "min", "-3h", "0s", "3 weeks"])
def test_budgets_that_are_none(budget):
    with pytest.raises(ConfigError, match=r"^budget = "):
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
    found = first.result()
    assert found.rounds == 2
    assert [sorted(cohort) for cohort in found.course["cohort"]] == [[0, 1, 2]] * 2
    assert sum(found.course["weights"][0]) == pytest.approx(1, abs=1e-3)
    first_round, last = found.course["confusion"]
    assert first_round is None
    assert (len(last), sum(last)) == (9, 30)
    assert sum(last[::4]) / 30 == pytest.approx(found.series["accuracy"][-1])
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
