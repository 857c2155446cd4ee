"""The flat form of a model."""

import os
import subprocess
import sys

import numpy as np
import pytest
import torch
from torch import nn

from entrofed.core import params
from entrofed.core.params import Layout, Params, TensorEntry
from entrofed.errors import CheckpointError, ConfigError


def network() -> nn.Sequential:
    """18 + 2 weights of a convolution, 2 + 2 of a batch norm, 6 + 3 of a linear layer."""
    torch.manual_seed(1)
    return nn.Sequential(nn.Conv2d(1, 2, 3), nn.BatchNorm2d(2), nn.Flatten(), nn.Linear(2, 3))


def test_trainable_first_then_float_buffers_and_counters_apart() -> None:
    layout = Layout.of(network())
    assert layout.entries == (
        TensorEntry("0.weight", "trainable", (2, 1, 3, 3), 0, 18),
        TensorEntry("0.bias", "trainable", (2,), 18, 2),
        TensorEntry("1.weight", "trainable", (2,), 20, 2),
        TensorEntry("1.bias", "trainable", (2,), 22, 2),
        TensorEntry("3.weight", "trainable", (3, 2), 24, 6),
        TensorEntry("3.bias", "trainable", (3,), 30, 3),
        TensorEntry("1.running_mean", "buffer", (2,), 33, 2),
        TensorEntry("1.running_var", "buffer", (2,), 35, 2),
        TensorEntry("1.num_batches_tracked", "counter", (), 0, 1),
    )
    assert (layout.trainable, layout.floats, layout.counters) == (33, 37, 1)
    assert layout.nbytes == 4 * 37 + 8


def test_frozen_parameters_are_no_optimizers_business() -> None:
    model = nn.Linear(3, 2)
    model.bias.requires_grad_(False)
    layout = Layout.of(model)
    assert [(e.name, e.kind, e.start) for e in layout.entries] == [
        ("weight", "trainable", 0),
        ("bias", "buffer", 6),
    ]
    assert (layout.trainable, layout.floats) == (6, 8)


def test_passing_buffers_stay_at_home() -> None:
    model = nn.Linear(1, 1)
    model.register_buffer("scratch", torch.zeros(5), persistent=False)
    assert Layout.of(model).floats == 2


def test_read_split_join() -> None:
    model = network()
    model(torch.randn(4, 1, 3, 3))  # moves the statistics
    layout = Layout.of(model)
    params = layout.read(model)
    assert params.values.dtype == np.float32
    assert params.counters.tolist() == [1]
    tensors = layout.split(params)
    state = model.state_dict()
    assert tensors.keys() == state.keys()
    for name, tensor in state.items():
        np.testing.assert_array_equal(tensors[name], tensor.numpy())
        assert tensors[name].shape == tuple(tensor.shape)
    again = layout.join(tensors)
    np.testing.assert_array_equal(again.values, params.values)
    np.testing.assert_array_equal(again.counters, params.counters)


def test_read_copies_and_split_does_not() -> None:
    model = nn.Linear(2, 1)
    layout = Layout.of(model)
    params = layout.read(model)
    before = params.values.copy()
    with torch.no_grad():
        model.weight.fill_(7)
    np.testing.assert_array_equal(params.values, before)
    layout.split(params)["bias"][...] = 5
    assert params.values[2] == 5


@pytest.mark.parametrize(
    ("model", "named"),
    [
        (nn.Linear(2, 2).double(), "'weight' has type torch.float64"),
        (nn.Linear(2, 2).half(), "'weight' has type torch.float16"),
    ],
)
def test_other_types_are_refused(model: nn.Module, named: str) -> None:
    with pytest.raises(ConfigError, match=named) as caught:
        Layout.of(model)
    assert "torch.float32" in str(caught.value)
    assert "Convert it" in str(caught.value)


def test_narrow_counters_are_refused() -> None:
    model = nn.Linear(1, 1)
    model.register_buffer("seen", torch.zeros(1, dtype=torch.int32))
    with pytest.raises(ConfigError, match=r"'seen' has type torch\.int32; it must be torch\.int64"):
        Layout.of(model)


def test_join_wants_every_tensor() -> None:
    layout = Layout.of(nn.Linear(2, 3))
    tensors = {"weight": np.zeros((3, 2), np.float32), "bias": np.zeros(3, np.float32)}
    with pytest.raises(CheckpointError, match=r"'bias' should have shape \(3,\), found nothing"):
        layout.join({"weight": tensors["weight"]})
    with pytest.raises(CheckpointError, match=r"'weight' should have shape \(3, 2\), found \(2, 3\)"):
        layout.join({**tensors, "weight": tensors["weight"].T})
    layout.join({**tensors, "more": np.zeros(1, np.float32)})  # what is not ours is not looked at


def test_the_model_that_all_start_from_is_measured_once(monkeypatch):
    """Ten updates are a pass over each of them, and one over what they started from."""
    layout = Layout.of_shapes({"weight": ("trainable", (3,)), "mean": ("buffer", (2,))})
    start = Params(np.array([3, 4, 0, 0, 2], np.float32), np.zeros(0, np.int64))
    measured = []
    plain = params.distance
    monkeypatch.setattr(params, "distance", lambda values, of=None: measured.append(of is None) or plain(values, of))
    found = [Params(start.values + k, start.counters).moved(start, layout) for k in range(10)]
    assert (found[0].parameters_before, found[0].buffers_before) == (5.0, 2.0)
    assert found[9].parameters == pytest.approx(9 * 3**0.5)
    assert sum(measured) == 2


def test_distances_have_the_same_bits_whatever_the_number_of_threads():
    """A BLAS splits a long product among its threads, and the sum's last bits depend on where."""
    code = (
        "import numpy as np; from entrofed.core.params import distance; rng = np.random.default_rng(0)\n"
        "print([distance(rng.standard_normal(n).astype('f4')).hex() for n in (9_000, 60_000, 200_000)])"
    )
    told = {
        subprocess.run(
            [sys.executable, "-c", code],
            env={**os.environ, "OPENBLAS_NUM_THREADS": threads, "OMP_NUM_THREADS": threads},
            stdout=subprocess.PIPE,
            text=True,
            check=True,
        ).stdout
        for threads in ("1", "2", "3")
    }
    assert len(told) == 1


@pytest.mark.parametrize(
    ("values", "many"),
    [([], 0), ([1.0, -2.0], 0), ([3e38, -3e38, 1e30], 0), ([np.nan, 1.0], 1), ([np.inf, -np.inf, 3e38, np.nan], 3)],
)
def test_how_many_values_are_not_finite(values: list[float], many: int) -> None:
    """Also where the squares of finite values are beyond float32."""
    assert Params(np.array(values, np.float32), np.zeros(0, np.int64)).nonfinite == many
