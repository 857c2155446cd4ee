"""Stopping early: by data that nobody trains on, and at the same round however often a run is broken off."""

import shutil
from dataclasses import replace
from functools import partial

import pytest
from tests.kills import killed_around

from entrofed.backends.inline import InlineBackend
from entrofed.errors import ConfigError
from entrofed.experiment.build import prepare, rules_of
from entrofed.experiment.config import parse
from entrofed.experiment.judge import Best, Judge
from entrofed.experiment.model_file import model_facts
from entrofed.experiment.run_folder import RunFolder
from entrofed.experiment.runner import is_finished, run

DIGITS = {"name": "digits", "clients": 3}
"""Iris has a validation set of its own; these have none."""
HELD_OUT = {"name": "iris", "partition": "contiguous", "clients": 3, "holdout": 0.2}


def experiment(**changes):
    table = {
        "rounds": 30,
        "seed": 2,
        "checkpoint_seconds": 0,
        "model": "iris_mlp",
        "data": HELD_OUT,
        "method": {"cohort": 3, "lr": 0.2, "momentum": 0.9},
        "engine": {"backend": "inline"},
    }
    return parse({**table, **changes})


def play(path, resume=False, **changes):
    folder = RunFolder(path / "x" / "seed-2")
    return folder, run(experiment(**changes), folder, backend=InlineBackend(), resume=resume)


def outcome(folder):
    """Everything that must be the same; without times."""
    records = [replace(record, seconds={}) for record in folder.records()]
    return records, (folder.path / "model.safetensors").read_bytes(), folder.summary()["stopped"]


def test_it_ends_in_the_first_round_that_reaches_the_target(tmp_path):
    folder, summary = play(tmp_path, stop={"target": 0.9})
    judged = [record.judged for record in folder.records()]
    assert judged[-1] >= 0.9 > max(judged[:-1])
    assert 1 < summary["rounds"] == len(judged) < 30
    assert summary["stopped"] == (
        f"ended after round {len(judged)} of 30: accuracy {judged[-1]:.4f} on the held-out data of all participating "
        "clients has reached the target, 0.9"
    )
    assert model_facts(folder.path / "model.safetensors")["round"] == len(judged)
    assert is_finished(experiment(stop={"target": 0.9}), folder)


def test_it_ends_when_patience_does(tmp_path):
    folder, summary = play(tmp_path, stop={"patience": 3}, method={"cohort": 3, "lr": 2.0})
    judged = [record.judged for record in folder.records()]
    best = judged.index(max(judged))
    assert len(judged) == best + 1 + 3 < 30
    assert f"has not risen above {max(judged):.4f} (round {best + 1}) for 3 rounds" in summary["stopped"]
    assert model_facts(folder.path / "model.safetensors")["round"] == best + 1


def test_a_run_that_is_not_stopped_says_so(tmp_path):
    _, summary = play(tmp_path, stop={"target": 1.0}, rounds=2)
    assert summary["stopped"] is None
    assert "stopped" not in play(tmp_path / "plain", rounds=2)[1]


def test_it_is_judged_where_it_is_evaluated(tmp_path):
    folder, _ = play(tmp_path, stop={"patience": 2}, evaluate_every=5, method={"cohort": 3, "lr": 2.0})
    judged = [record.judged for record in folder.records()]
    assert len(judged) % 5 == 0
    assert [value is not None for value in judged] == [False, False, False, False, True] * (len(judged) // 5)


def test_the_test_set_only_if_told(tmp_path):
    folder, summary = play(tmp_path, stop={"target": 0.9, "on": "test"}, data={"name": "iris", "clients": 3})
    records = folder.records()
    assert [record.judged for record in records] == [record.test.accuracy for record in records]
    assert "on the test set" in summary["stopped"]
    assert "on the test set" in model_facts(folder.path / "model.safetensors")["reason"]


def test_peers_are_judged_by_what_each_holds_out(tmp_path):
    folder, _ = play(tmp_path, stop={"patience": 2}, topology={"kind": "ring"}, method={"lr": 0.2})
    for record in folder.records():
        assert record.judged == record.in_distribution.accuracy


def test_all_held_out_data_counts_not_the_cohorts(tmp_path):
    folder, _ = play(tmp_path, stop={"patience": 30}, method={"cohort": 1, "lr": 0.1}, rounds=4)
    judged = [record.judged for record in folder.records()]
    assert judged != [record.in_distribution.accuracy for record in folder.records()]
    sizes = sum(len(rows) for rows in prepare(experiment()).federation.holdouts)
    assert all(round(value * sizes) == pytest.approx(value * sizes) for value in judged)


@pytest.mark.parametrize("stop", [{"target": 0.9}, {"patience": 3}, {"target": 0.9, "patience": 2}])
def test_a_resumed_run_ends_in_the_same_round(tmp_path, stop):
    method = {"cohort": 3, "lr": 0.3, "momentum": 0.9}
    folder, _ = play(tmp_path / "unbroken", stop=stop, method=method)
    unbroken = outcome(folder)
    rounds = len(unbroken[0])
    assert rounds < 30
    for after in (0, rounds // 2, rounds - 1):
        broken = RunFolder(tmp_path / str(after))

        def interrupt(record, after=after):
            if record.round == after:
                raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            run(experiment(stop=stop, method=method), broken, backend=InlineBackend(), observer=interrupt)
        run(experiment(stop=stop, method=method), broken, backend=InlineBackend(), resume=True)
        assert outcome(broken) == unbroken, f"interrupted after round {after}"
    run(experiment(stop=stop, method=method), folder, backend=InlineBackend(), resume=True)  # it is over
    run(experiment(stop=stop, method=method, rounds=40), folder, backend=InlineBackend(), resume=True)
    assert outcome(folder)[:2] == unbroken[:2]


@pytest.mark.slow
def test_killed_before_and_after_every_write(tmp_path, monkeypatch):
    wanted = experiment(stop={"target": 0.8, "patience": 2}, method={"cohort": 3, "lr": 0.3, "momentum": 0.9})
    run(wanted, RunFolder(tmp_path / "unbroken"), backend=InlineBackend())
    expected = outcome(RunFolder(tmp_path / "unbroken"))
    for number in range(100):
        for moment in ("before", "after"):
            folder = RunFolder(tmp_path / f"{number} {moment}")
            go = partial(run, wanted, folder)
            died = killed_around(number, moment, ("checkpoint", "run_folder", "manifest"), go, monkeypatch)
            run(wanted, folder, backend=InlineBackend(), resume=True)
            assert outcome(folder) == expected, f"killed {moment} write {number}"
            shutil.rmtree(folder.path)
        if not died:
            break
    assert number > 10


@pytest.mark.parametrize(
    ("best", "played", "ends"),
    [
        (Best(), 9, None),
        (Best(0.8, 4), 6, None),
        (Best(0.8, 4), 7, "has not risen above"),
        (Best(0.9, 4), 4, "has reached"),
        (Best(0.9, 4), 3, None),  # of a later round: not reached yet
    ],
)
def test_the_end_follows_from_the_best(best, played, ends):
    wanted = experiment(stop={"target": 0.9, "patience": 3})
    judge = Judge(wanted, "holdout", rules_of(wanted, 3), None)
    found = judge.end(played, best)
    assert (found is None) == (ends is None)
    assert ends is None or ends in found


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"stop": {}}, "stop needs a target"),
        ({"stop": {"target": 90}}, r"stop.target = 90: an accuracy above 0 and up to 1 is expected; 90 % is 0.9"),
        ({"stop": {"target": 0}}, "stop.target = 0:"),
        ({"stop": {"patience": 0}}, "stop.patience = 0"),
        ({"stop": {"patience": 3, "on": "tests"}}, "stop.on"),
        ({"stop": {"patience": 3, "over": 1}}, "stop.over"),
    ],
)
def test_what_makes_no_sense_is_refused(changes, words):
    with pytest.raises(ConfigError, match=words):
        experiment(**changes)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"data": DIGITS}, r"there is none.*data.holdout = 0.1.*data.validation = 0.1"),
        ({"data": DIGITS, "stop": {"patience": 2, "on": "holdout"}}, "data.holdout = 0.1"),
        ({"data": DIGITS, "stop": {"patience": 2, "on": "validation"}}, "data.validation = 0.1"),
        ({"stop": {"patience": 2, "on": "validation"}, "topology": {}, "method": {}}, "there is no server"),
        ({"topology": {}, "method": {}, "data": DIGITS}, r"data.holdout = 0.1\); or say"),
    ],
)
def test_without_data_to_judge_by_it_is_refused(changes, words):
    with pytest.raises(ConfigError, match=words):
        prepare(experiment(**{"stop": {"patience": 2}, "model": "mlp", **changes}))
