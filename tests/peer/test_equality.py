"""Real peers, in step, have the bits of the simulation: methods, topologies, noise, faults on purpose."""

import pytest
from tests.peer.trial import assert_equal, experiment, together, trial


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
