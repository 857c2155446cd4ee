"""Four hospitals, one peer each: every reading of FedEP, FedAvg, label entropy, maxent per neighbourhood."""

from pathlib import Path

import pytest
from tests.peer.trial import assert_equal, together, trial

from entrofed.experiment.config import read

EXAMPLE = Path(__file__).parents[2] / "examples" / "peers-hospitals.toml"
READINGS = ("smoothed", "paper", "printed", "histogram", "authors")
METHODS = {
    **{f"fedep-{mode}": [f"method.weigher.mode={mode}"] for mode in READINGS},
    "fedavg": ["method.name=fedavg", 'method.weigher="data_size"'],
    "label-entropy": ["method.name=max_entropy", 'method.weigher="label_entropy"'],
    "maxent": ["method.name=maxent_weights", 'method.weigher="maxent"'],
}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "kind"), [*((name, "ring") for name in METHODS), ("fedep-smoothed", "full"), ("maxent", "full")]
)
def test_hospitals_equal_the_simulation(tmp_path, name, kind):
    changes = [*METHODS[name], f"topology.kind={kind}", "rounds=2", "engine.backend=inline", "data.clients=4"]
    chosen = read(EXAMPLE, changes)
    paths = trial(tmp_path / "trial", chosen)
    together(paths)
    assert_equal(paths, chosen, tmp_path / "simulation")
