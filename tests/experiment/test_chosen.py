"""Metrics of the user's own: from a file, from Python, and what happens if they fail."""

from functools import partial

import numpy as np
import pytest

from entrofed.backends.inline import InlineBackend
from entrofed.errors import ConfigError
from entrofed.experiment.build import prepare
from entrofed.experiment.chosen import named
from entrofed.experiment.config import parse, read
from entrofed.experiment.run_folder import RunFolder
from entrofed.experiment.runner import run

OWN = """
def cost(logits, labels):
    return float((logits.argmax(axis=1) != labels).mean())

def balanced_accuracy(logits, labels):
    return 0.0

NUMBER = 3
"""


@pytest.fixture
def write(tmp_path):
    """Writes an experiment file beside my_metrics.py, and reads it."""
    (tmp_path / "my_metrics.py").write_text(OWN)

    def made(metrics, more=""):
        (tmp_path / "t.toml").write_text(
            f'rounds = 2\nmodel = "iris_mlp"\nmetrics = {metrics}\n{more}\n[data]\nname = "iris"\nclients = 3\n'
            'holdout = 0.2\n[engine]\nbackend = "inline"\n'
        )
        return read(tmp_path / "t.toml")

    return made


def test_a_function_in_a_file(write, tmp_path):
    experiment = write('["my_metrics.py:cost", "balanced_accuracy"]')
    folder = RunFolder(tmp_path / "x" / "seed-0")
    run(experiment, folder, backend=InlineBackend())
    for record in folder.records():
        assert record.test.extra["cost"] == pytest.approx(1 - record.test.accuracy)
        assert record.in_distribution.extra["cost"] == pytest.approx(1 - record.in_distribution.accuracy)
    (tmp_path / "my_metrics.py").unlink()
    assert folder.experiment().metrics == (f"{tmp_path}/my_metrics.py:cost", "balanced_accuracy")  # read without it
    assert folder.summary()["metrics_test"]["cost"] == folder.records()[-1].test.extra["cost"]


def test_functions_at_hand(tmp_path):
    """A lambda will do: nothing is sent to a worker."""

    def share(logits, labels, of):
        return (labels == of).mean()

    names, own = named(["balanced_accuracy", lambda logits, labels: logits.max(), partial(share, of=1)])
    assert [name.rpartition(":")[2].rpartition(".")[2] for name in names] == ["balanced_accuracy", "<lambda>", "share"]
    table = {"rounds": 1, "model": "iris_mlp", "data": {"name": "iris", "clients": 3}, "metrics": names}
    experiment = parse({**table, "engine": {"backend": "inline"}})
    folder = RunFolder(tmp_path)
    run(experiment, folder, backend=InlineBackend(), setup=prepare(experiment, metrics=own))
    assert set(folder.records()[0].test.extra) == {"balanced_accuracy", "lambda", "share"}
    assert folder.records()[0].test.extra["share"] == pytest.approx(13 / 30)


def test_of_peers_the_mean_over_nodes(tmp_path):
    table = {
        "rounds": 2,
        "model": "iris_mlp",
        "topology": {"kind": "ring"},
        "metrics": ["balanced_accuracy", "client_accuracy"],
    }
    table |= {"data": {"name": "iris", "partition": "contiguous", "clients": 3, "holdout": 0.2}}
    folder = RunFolder(tmp_path)
    run(parse({**table, "engine": {"backend": "inline"}}), folder, backend=InlineBackend())
    for record in folder.records():
        own = [peer.held_out for peer in record.peers]
        assert record.in_distribution.extra["client_accuracy_mean"] == pytest.approx(np.mean(own))
        assert record.in_distribution.extra["client_accuracy_worst"] == min(own)
        assert record.test.extra["balanced_accuracy"] == pytest.approx(np.mean(record.test.class_accuracy))


@pytest.mark.parametrize(
    ("metrics", "words"),
    [
        ('["my_metrics.py:cots"]', "did you mean 'cost'"),
        ('["my_metrics.py:NUMBER"]', "is a int; a function"),
        ('["my_metrics.py:balanced_accuracy"]', "there is another metric called 'balanced_accuracy'"),
        ('["no_such.py:cost"]', "no_such.py: there is no such file"),
        ('["no_such_package:cost"]', "there is no module 'no_such_package'"),
        ('["my_metrics.py:"]', "a reference looks like"),
    ],
)
def test_what_is_no_metric_is_refused(write, metrics, words):
    with pytest.raises(ConfigError, match=words):
        prepare(write(metrics))


def test_what_is_no_function_is_refused():
    with pytest.raises(ConfigError, match=r"metric 7: a name or a function of \(logits, labels\) is expected"):
        named(["auroc", 7])


@pytest.mark.parametrize(
    ("metric", "words"),
    [(lambda logits, labels: 1 // 0, "raised ZeroDivisionError"), (lambda logits, labels: labels, "must return one")],
)
def test_one_that_fails_ends_the_run_and_loses_nothing(tmp_path, metric, words):
    """Rounds before are kept, and go on once it is mended."""
    table = {"rounds": 4, "evaluate_every": 2, "model": "iris_mlp", "data": {"name": "iris", "clients": 3}}
    names, own = named([metric])
    experiment = parse({**table, "metrics": names, "engine": {"backend": "inline"}})
    folder = RunFolder(tmp_path)
    with pytest.raises(ConfigError, match=words):
        run(experiment, folder, backend=InlineBackend(), setup=prepare(experiment, metrics=own))
    assert len(folder.records()) == 1
    mended = {names[0]: lambda logits, labels: 0.5}
    run(experiment, folder, backend=InlineBackend(), setup=prepare(experiment, metrics=mended), resume=True)
    assert [record.test and record.test.extra for record in folder.records()] == [None, {"lambda": 0.5}] * 2
