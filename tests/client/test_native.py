"""Blocks in C++, held to torch's layers."""

import copy
import shutil

import numpy as np
import pytest
import torch
from safetensors.numpy import load_file
from torch import nn

from entrofed.client.augment import AUGMENTS
from entrofed.client.model import Inputs
from entrofed.client.native import replace_blocks
from entrofed.client.native_augment import fused
from entrofed.core.seeds import stream
from entrofed.data.federation import Federation
from entrofed.errors import ConfigError
from entrofed.experiment.build import prepare
from entrofed.experiment.config import parse
from entrofed.experiment.run_folder import RunFolder
from entrofed.experiment.runner import run
from entrofed.models.classifier import Classifier
from entrofed.models.networks import build

pytestmark = pytest.mark.skipif(shutil.which("g++") is None, reason="there is no C++ compiler")


def classifier(channels, side, outputs, kernel):
    after = (side - kernel + 1) // 2
    encoder = nn.Sequential(nn.Conv2d(channels, outputs, kernel), nn.MaxPool2d(2), nn.ReLU(), nn.Flatten())
    return Classifier(encoder, nn.Linear(outputs * after * after, 3)), (channels, side, side)


def both(model, shape):
    native = copy.deepcopy(model)
    replace_blocks(native, shape)
    return model, native


def gradients(model, x, y):
    loss = nn.functional.cross_entropy(model(x), y)
    return loss.detach(), torch.autograd.grad(loss, list(model.parameters()))


@pytest.mark.parametrize("samples", [1, 16, 37])
@pytest.mark.parametrize(
    "network",
    ["lenet5-colour", "lenet5-gray", (1, 9, 5, 3), (4, 8, 2, 1), (7, 10, 8, 4), (2, 7, 1, 2)],
    ids=str,
)
def test_loss_and_gradients_are_torch_s_but_for_rounding(network, samples):
    torch.manual_seed(3)
    if isinstance(network, str):
        shape = (3, 32, 32) if network.endswith("colour") else (1, 28, 28)
        model = build("lenet5", shape, 10)
    else:
        model, shape = classifier(*network)
    plain, native = both(model, shape)
    x, y = torch.randn(samples, *shape), torch.randint(0, 3, (samples,))
    (loss, slopes), (ours, our_slopes) = gradients(plain, x, y), gradients(native, x, y)
    torch.testing.assert_close(ours, loss)
    for slope, our_slope in zip(slopes, our_slopes, strict=True):
        torch.testing.assert_close(our_slope, slope, rtol=1e-4, atol=1e-6)
    channels_last = x.contiguous(memory_format=torch.channels_last)
    assert torch.equal(native(channels_last), native(x))


def test_gradients_of_equal_values_go_to_the_first_of_them():
    model, shape = classifier(1, 6, 2, 3)
    plain, native = both(model, shape)
    x, y = torch.ones(2, *shape), torch.tensor([0, 1])
    for slope, ours in zip(gradients(plain, x, y)[1], gradients(native, x, y)[1], strict=True):
        torch.testing.assert_close(ours, slope)


@pytest.mark.parametrize("value", [torch.nan, torch.inf, -torch.inf])
def test_what_is_not_finite_shows_as_in_torch(value):
    model, shape = classifier(1, 6, 2, 3)
    plain, native = both(model, shape)
    x = torch.randn(5, *shape)
    x[2, 0, 3, 3] = value
    torch.testing.assert_close(native(x), plain(x), equal_nan=True)


def test_forward_passes_may_interleave():
    model, shape = classifier(1, 8, 4, 3)
    plain, native = both(model, shape)
    a, b = torch.randn(2, 3, *shape)
    found = [torch.autograd.grad(net(a).sum() * net(b).sum(), list(net.parameters())) for net in (plain, native)]
    for slope, ours in zip(*found, strict=True):
        torch.testing.assert_close(ours, slope, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    "encoder",
    [
        nn.Sequential(nn.Flatten()),
        nn.Sequential(nn.Conv2d(1, 2, 3, padding=1), nn.MaxPool2d(2), nn.ReLU(), nn.Flatten()),
        nn.Sequential(nn.Conv2d(1, 2, 3, bias=False), nn.MaxPool2d(2), nn.ReLU(), nn.Flatten()),
        nn.Sequential(nn.Conv2d(1, 2, 3), nn.MaxPool2d(3), nn.ReLU(), nn.Flatten()),
        nn.Sequential(nn.Conv2d(1, 2, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten()),
        nn.Sequential(nn.Conv2d(1, 2, 3), nn.MaxPool2d(2), nn.ReLU(), nn.Dropout(), nn.Flatten()),
    ],
    ids=["no block", "padding", "no bias", "pool by three", "other order", "no flatten"],
)
def test_other_networks_are_refused(encoder):
    with pytest.raises(ConfigError, match=r"such as 'lenet5'; choose engine.compile = true for others"):
        replace_blocks(Classifier(encoder, nn.Linear(1, 2)), (1, 8, 8))


def colours(n=40, height=9, width=7):
    return torch.from_numpy(stream(0, "colours").random((n, height, width, 3), np.float32))


def inputs_of(x):
    shift, scale = np.array([0.4, 0.5, 0.6], np.float32), np.array([0.2, 0.3, 0.25], np.float32)
    return Inputs("image", shift, scale, tuple(x.shape[1:3]))


@pytest.mark.parametrize(
    "names", [("jitter", "flip", "gray"), ("flip", "jitter"), ("gray",), ("flip", "gray"), ("jitter",)], ids="-".join
)
def test_augmentation_in_one_pass_is_that_of_tensor_operations(names):
    x = colours()
    inputs, chosen = inputs_of(x), torch.from_numpy(stream(1, "chosen").permutation(40)[:33])
    expected, drawn, same = x[chosen], stream(2, "changes"), stream(2, "changes")
    for name in names:
        expected = AUGMENTS[name](expected, drawn)
    found = fused(names, inputs.shape, *inputs.moments)(x, chosen, same)
    torch.testing.assert_close(found, inputs.standardize(expected), rtol=1e-4, atol=1e-5)
    assert not torch.allclose(found, inputs.standardize(x[chosen]))
    assert drawn.random() == same.random()


@pytest.mark.parametrize("names", [("crop",), ("gray", "jitter"), ("flip", "flip")], ids="-".join)
def test_other_augmentations_are_left_to_torch(names):
    colour = inputs_of(colours())
    assert fused(names, colour.shape, *colour.moments) is None
    gray = Inputs("image", np.ones(1, np.float32), np.ones(1, np.float32), (8, 8))
    assert fused(("flip",), gray.shape, *gray.moments) is None
    assert fused(("flip",), (), None, None) is None


def images(clients=4, each=24):
    rng = stream(0, "images")
    x = rng.integers(0, 256, (clients * each + 20, 16, 16, 1), dtype=np.uint8)
    y = (x.mean(axis=(1, 2, 3)) > 127).astype(np.int64)
    return Federation.partition(x[:-20], y[:-20], clients=clients, test=(x[-20:], y[-20:]), kind="image")


def experiment(**engine):
    return parse(
        {
            "rounds": 3,
            "model": "lenet5",
            "data": {"name": "mnist", "clients": 4},
            "engine": engine,
            "method": {"name": "scaffold", "cohort": 2, "epochs": 2, "batch_size": 10},
        }
    )


@pytest.mark.slow
def test_the_same_bits_on_every_backend_and_nearly_those_of_torch(tmp_path):
    found = {}
    for name, engine in {
        "inline": {"backend": "inline", "compile": "native"},
        "processes": {"backend": "processes", "workers": 2, "compile": "native"},
        "torch": {"backend": "inline"},
    }.items():
        folder, asked = RunFolder(tmp_path / name), experiment(**engine)
        run(asked, folder, setup=prepare(asked, federation=images()))
        found[name] = load_file(tmp_path / name / "model.safetensors")
    for layer, values in found["inline"].items():
        assert np.array_equal(values, found["processes"][layer])
        np.testing.assert_allclose(values, found["torch"][layer], rtol=1e-3, atol=1e-5)
    assert any(not np.array_equal(values, found["torch"][layer]) for layer, values in found["inline"].items())


def test_an_experiment_that_cannot_use_it_is_refused():
    with pytest.raises(ConfigError, match=r"engine.compile = 'native' is for images"):
        prepare(parse({"model": "mlp", "data": {"name": "digits", "clients": 3}, "engine": {"compile": "native"}}))
    with pytest.raises(ConfigError, match=r"engine.compile is made for engine.precision = 'float32'"):
        experiment(compile="native", precision="bf16")
