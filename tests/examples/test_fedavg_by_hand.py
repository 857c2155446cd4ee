"""The plain twin of a whole run."""

import importlib.util
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load

from entrofed.experiment.run_folder import RunFolder

EXAMPLE = Path(__file__).parents[2] / "examples" / "fedavg_by_hand.py"


def test_a_run_by_hand_is_the_run_by_entrofed(tmp_path):
    spec = importlib.util.spec_from_file_location("fedavg_by_hand", EXAMPLE)
    assert spec is not None
    example = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(example)
    accuracies, params = example.by_hand()
    assert example.by_entrofed(tmp_path) == pytest.approx(accuracies, abs=1e-12)
    assert max(accuracies) > 0.6
    tensors = load(max(RunFolder(tmp_path).checkpoints.glob("round-*.safetensors")).read_bytes())
    names = ["encoder.1.weight", "encoder.1.bias", "output.weight", "output.bias"]
    ours = np.concatenate([tensors[f"model/{name}"].ravel() for name in names])
    np.testing.assert_allclose(ours, params.numpy(), atol=1e-6)


def test_it_is_short():
    assert len(EXAMPLE.read_text().splitlines()) < 80
