"""Real peers, in step, have the bits of the simulation: methods, topologies, noise, faults on purpose."""

from dataclasses import replace

import numpy as np
import pytest
from tests.peer import trial as played
from tests.peer.trial import assert_equal, experiment, together, trial

from entrofed.backends.inline import InlineBackend
from entrofed.core.tasks import TrainTask
from entrofed.experiment.run_folder import RunFolder
from entrofed.peer import node as real


@pytest.mark.parametrize(
    ("method", "more"),
    [
        ({"name": "fedep"}, {}),
        ({"name": "fedep", "weigher": {"name": "pooled_kl", "mode": "authors"}}, {}),
        ({"name": "fedavg", "weigher": "label_entropy"}, {"topology": {"kind": "star"}}),
        ({"name": "fedavg", "weigher": "maxent", "server": "median"}, {"topology": {"kind": "full"}}),
        ({"name": "scaffold", "momentum": 0.5}, {}),
        ({"name": "fedavgm", "momentum": 0.5, "persist_optimizer": True}, {}),
        ({"name": "fedasl"}, {"data_holdout": 0.2}),
        (
            {"name": "fedavg", "weigher": "label_entropy"},
            {"privacy": {"epsilon": 1.0, "simulate": True, "sizes": True}},
        ),
    ],
    ids=["fedep", "authors", "label-entropy-star", "maxent-median", "scaffold", "fedavgm", "fedasl-holdout", "privacy"],
)
def test_in_step_peers_equal_the_simulation(tmp_path, method, more):
    more = dict(more)
    held = more.pop("data_holdout", 0.0)
    chosen = experiment(3, 4, method, **more)
    chosen = chosen.model_copy(update={"data": chosen.data.model_copy(update={"holdout": held})})
    paths = trial(tmp_path / "trial", chosen)
    together(paths)
    assert_equal(paths, chosen, tmp_path / "simulation")


@pytest.mark.parametrize(
    "faults",
    [
        {"topology": {"message_loss": 0.3}},
        {"topology": {"up": 0.6, "split": [1, 3]}, "faults": {"stragglers": 0.5, "straggler_redraw": True}},
        {"topology": {"message_loss": 0.2}, "faults": {"dropout": 0.3, "joining": 0.3, "leaving": 0.3}},
        {"topology": {"message_loss": 0.4}, "method": {"quorum": 2}},
        {"topology": {"training": 0.6}},
    ],
    ids=["lost", "split", "dropout", "quorum", "some-train"],
)
def test_faults_on_purpose_are_those_of_the_simulation(tmp_path, faults):
    faults = dict(faults)
    chosen = experiment(5, 5, {"name": "fedep", "epochs": 2, **faults.pop("method", {})}, **faults)
    paths = trial(tmp_path / "trial", chosen)
    together(paths)
    assert_equal(paths, chosen, tmp_path / "simulation")


@pytest.mark.parametrize("kind", ["ring", "full"])
def test_a_lied_size_counts_for_what_can_be_believed_in_both(tmp_path, monkeypatch, kind):
    """A neighbour that introduced itself with 10^9 examples had all of the weight."""
    table, run = played.client_table, InlineBackend.run

    def lying_table(setup, released):
        told = table(setup, released)
        return replace(told, sizes=np.where((np.arange(4) == 2) & (told.sizes > 0), 10**9, told.sizes))

    def lying(backend, tasks):
        return [
            replace(outcome, num_examples=10**9) if isinstance(task, TrainTask) and task.client == 2 else outcome
            for task, outcome in zip(tasks, run(backend, tasks), strict=True)
        ]

    for module in (played, real):
        monkeypatch.setattr(module, "client_table", lying_table)
    monkeypatch.setattr(InlineBackend, "run", lying)
    chosen = experiment(3, 4, {"name": "fedavg"}, topology={"kind": kind})
    paths = trial(tmp_path / "trial", chosen)
    together(paths)
    assert_equal(paths, chosen, tmp_path / "simulation")
    for record in RunFolder(paths[1] / "run").records():
        assert 0.5 < record.peers[0].mixing[2] < 0.97
