import pytest

from entrofed.errors import ConfigError
from entrofed.suite import play as playing
from entrofed.suite.tune import search, spaces

from .test_sweep import file  # noqa: F401

optuna = pytest.importorskip("optuna")


class StoppedError(Exception):
    """The power went off."""


def play(runs):
    playing.play(runs, resume=True)


def tried(file, out, trials, play=play, **options):  # noqa: F811
    wanted = {"seeds": 1, "metric": "accuracy_id_last_10", **options}
    return search(
        file, [], ["method.lr=0.001..1 log", "method.epochs=1..3"], trials=trials, folder=out, play=play, **wanted
    )


def test_spaces():
    found = spaces(["a=1..10", "b=0.1..1 log", "c=x,y"])
    assert found["a"] == optuna.distributions.IntDistribution(1, 10)
    assert found["b"] == optuna.distributions.FloatDistribution(0.1, 1.0, log=True)
    assert found["c"] == optuna.distributions.CategoricalDistribution(["x", "y"])


@pytest.mark.parametrize("option", ["a", "a=", "a=1..x", "a=5..1", "a=1..2 linear", "a=-1..1 log", "=1..2"])
def test_spaces_that_are_none(option):
    with pytest.raises(ConfigError, match=r"^tune "):
        spaces([option])


def test_a_stopped_search_goes_on_as_if_it_had_not_been(file, tmp_path):  # noqa: F811
    whole = tried(file, tmp_path / "a", 4)
    calls = []

    def stop_in_the_third(runs):
        calls.append(runs)
        if len(calls) == 3:
            raise StoppedError
        play(runs)

    with pytest.raises(StoppedError):
        tried(file, tmp_path / "b", 4, stop_in_the_third)
    resumed = tried(file, tmp_path / "b", 4)
    assert [(t.params, t.value) for t in resumed] == [(t.params, t.value) for t in whole]
    assert [t.value for t in whole] == sorted((t.value for t in whole), reverse=True)
    assert len(list((tmp_path / "b").glob("*/seed-0/summary.json"))) == 4
    assert len(tried(file, tmp_path / "b", 2)) == 4  # nothing is left to do


def test_the_test_set_is_not_peeked_at(file, tmp_path):  # noqa: F811
    file.write_text(file.read_text().replace("holdout = 0.2\n", ""))
    with pytest.raises(ConfigError, match=r"data\.holdout"):
        tried(file, tmp_path, 1)
    assert len(tried(file, tmp_path, 1, metric="accuracy_last_10")) == 1
    with pytest.raises(ConfigError, match="unknown metric"):
        tried(file, tmp_path, 1, metric="accuraccy")


def test_judged_by_the_same_data_in_every_round(file, tmp_path):  # noqa: F811
    """Only where a run is judged, and never by the test set."""
    with pytest.raises(ConfigError, match=r"set stop\.patience"):
        tried(file, tmp_path / "out", 1, metric="accuracy_judged_last_10")
    options = ["stop.patience=99", "stop.on='test'"]
    with pytest.raises(ConfigError, match="no test data"):
        search(
            file,
            options,
            ["method.lr=0.1..1"],
            trials=1,
            seeds=1,
            metric="accuracy_judged_last_10",
            folder=tmp_path / "out",
            play=play,
        )
