"""Methods that need everybody's labels together get the sum, and nobody's alone; their weights are the same."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from entrofed.core.types import LABEL_COUNTS
from entrofed.errors import ConfigError
from entrofed.experiment.build import client_table, pool_once, prepare, release_once
from entrofed.experiment.config import parse
from entrofed.experiment.run_folder import RunFolder, method_facts
from entrofed.experiment.runner import run
from entrofed.facts.label_distance import LabelDistance
from entrofed.objectives.cross_entropy import balanced

DATA = {"name": "iris", "clients": 6, "partition": "dirichlet_plain", "alpha": 0.7}
WAYS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "FedDisco, kl": (
        {"weigher": {"name": "discrepancy", "target": "pooled"}},
        {"weigher": {"name": "discrepancy", "target": "pooled", "told": "distance"}},
    ),
    "FedDisco, l2, capped": (
        {"weigher": {"name": "capped", "weigher": {"name": "discrepancy", "target": "pooled", "metric": "l2"}}},
        {
            "weigher": {
                "name": "capped",
                "weigher": {"name": "discrepancy", "target": "pooled", "metric": "l2", "told": "distance"},
            }
        },
    ),
    "FedDisco, uniform": (
        {"weigher": {"name": "discrepancy"}},
        {"weigher": {"name": "discrepancy", "told": "distance"}},
    ),
    "FedEP": (
        {"weigher": {"name": "pooled_kl", "mode": "histogram"}},
        {"weigher": {"name": "pooled_kl", "mode": "histogram", "told": "distance"}},
    ),
}


def experiment(**table: Any) -> Any:
    method = {"name": "fedavg", "cohort": 4, "lr": 0.1, **table.pop("method", {})}
    return parse({"rounds": 2, "data": DATA, "model": "iris_mlp", "method": method, **table})


def test_the_distance_by_hand() -> None:
    counts = np.array([3.0, 1.0, 0.0])
    target = (2.0, 1.0, 1.0)
    assert LabelDistance(target).of_counts(counts) == pytest.approx(0.75 * np.log(1.5))
    assert LabelDistance(target, "l2").of_counts(counts) == pytest.approx(np.sqrt(2 * 0.25**2))
    own, everybody = np.array([0.85, 0.35, 0.1]) / 1.3, np.array([0.6, 0.35, 0.35]) / 1.3
    found = LabelDistance(target, "pooled_kl", 0.1).of_counts(counts)
    assert found == pytest.approx((everybody * np.log(everybody / own)).sum())
    assert LabelDistance().of_counts(np.array([2.0, 2.0])) == 0
    assert LabelDistance(target).of_counts(np.zeros(3)) == 0
    assert LabelDistance().problem(-1.0, 3)
    assert LabelDistance().problem(np.inf, 3)
    assert LabelDistance().problem([1.0], 3)
    assert LabelDistance().problem(0.5, 3) is None


@pytest.mark.parametrize("title", list(WAYS))
@pytest.mark.parametrize("privacy", [{}, {"privacy": {"secure": True}}])
def test_weights_are_those_of_the_counts(title: str, privacy: dict[str, Any], tmp_path: Path) -> None:
    found = []
    for name, method in zip(("counts", "distance"), WAYS[title], strict=True):
        folder = RunFolder(tmp_path / name)
        run(experiment(method=method, **privacy), folder)
        found.append([[client.weight for client in record.clients] for record in folder.records()])
    np.testing.assert_allclose(*found, rtol=1e-7, atol=1e-9)


@pytest.mark.parametrize("title", list(WAYS))
def test_the_server_knows_nobodys_counts(title: str, tmp_path: Path) -> None:
    """By type: there is no table of label counts to look into."""
    setup = prepare(experiment(method=WAYS[title][1]))
    said = "; ".join(method_facts(setup.method)["reveals"]["once"])
    assert ("in a secure sum" in said) == (title != "FedDisco, uniform")
    assert "its label counts" not in said.replace("its label counts, in a secure sum", "")
    released = release_once(setup, RunFolder(tmp_path))
    table = client_table(pool_once(setup, released), released)
    assert LABEL_COUNTS not in table.facts
    assert all(np.shape(value) == () for value in table.facts["label_distance"])


def test_class_weights_of_everybody(tmp_path: Path) -> None:
    objective = {"name": "proximal", "mu": 0.1, "objective": {"name": "cross_entropy", "class_weights": "pooled"}}
    chosen = experiment(method={"objective": objective})
    setup = prepare(chosen)
    pooled = pool_once(setup, release_once(setup, RunFolder(tmp_path / "kept")))
    expected = balanced(setup.federation.label_counts.sum(axis=0))
    np.testing.assert_allclose(pooled.method.objective.objective.class_weights, expected, rtol=1e-9)  # type: ignore[attr-defined]
    assert run(chosen, RunFolder(tmp_path / "run"))["rounds"] == 2


def test_what_the_pool_costs(tmp_path: Path) -> None:
    """Noise comes before the sum, once; without it, private updates do not go together with a pool."""
    method = WAYS["FedEP"][1]
    updates = {"clip": 0.5, "noise": 2.0}
    with pytest.raises(ConfigError, match="without noise"):
        experiment(method=method, privacy={"updates": updates})
    private = experiment(method=method, privacy={"epsilon": 1.0, "simulate": True, "updates": updates})
    found = run(private, RunFolder(tmp_path / "run"))["privacy"]
    assert found["epsilon"] == 1.0
    assert found["updates"]["unit"] == "record"
    before = RunFolder(tmp_path / "run").released()
    run(private.model_copy(update={"rounds": 3}), RunFolder(tmp_path / "run"), resume=True)
    after = RunFolder(tmp_path / "run").released()
    assert before is not None
    assert after is not None
    np.testing.assert_array_equal(before.counts, after.counts)


def test_what_cannot_be_pooled() -> None:
    with pytest.raises(ConfigError, match="mode = 'histogram'"):
        experiment(method={"weigher": {"name": "pooled_kl", "told": "distance"}})
    with pytest.raises(ConfigError, match="sees all clients"):
        prepare(experiment(method=WAYS["FedEP"][1], topology={"kind": "ring"}))
