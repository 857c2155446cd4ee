"""Compiled gradients, held to the ones of autograd."""

from functools import partial

import pytest
import torch

from entrofed.client.compiled import _pool_by_two
from entrofed.client.model import LocalModel
from entrofed.models.networks import build
from entrofed.objectives.contrastive import Contrastive
from entrofed.objectives.cross_entropy import CrossEntropy

pytestmark = pytest.mark.xdist_group("compiled")  # or the compiler is loaded, and its headers compiled, several times


def batch(size, shape, seed=0):
    g = torch.Generator().manual_seed(seed)
    x = torch.randn((size, *shape), generator=g).to(memory_format=torch.channels_last)
    return x, torch.randint(0, 10, (size,), generator=g)


def step(bench, objective, x, y, given, *, whole):
    """Loss, gradients and buffers of a step from the same state and the same draws."""
    gradients = bench.gradients(objective, x, y, given)
    buffers = [buffer.clone() for buffer in bench.module.buffers()]
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(7)
        loss, slopes = gradients(x, y, given, whole=whole)
        drawn = torch.rand(3)
    changed = [buffer.clone() for buffer in bench.module.buffers()]
    for buffer, before in zip(bench.module.buffers(), buffers, strict=True):
        buffer.copy_(before)
    return loss, slopes, changed, drawn


REPRESENTED = {key: torch.randn((8, 256)) for key in ("global", "previous")}


@pytest.mark.slow
def test_a_compiled_step_is_the_plain_one_but_for_rounding():
    objective, given = Contrastive(), REPRESENTED
    bench = LocalModel(partial(build, "lenet_bn", (1, 17, 16), 10), compiled=True)
    x, y = batch(8, (1, 17, 16))
    plain = step(bench, objective, x, y, given, whole=False)
    first = step(bench, objective, x, y, given, whole=True)  # the one that is recorded
    again = step(bench, objective, x, y, given, whole=True)
    torch.testing.assert_close(first, plain, rtol=1e-4, atol=1e-6)
    assert torch.equal(first[3], plain[3])  # as many draws, so that dropout leaves out the same units
    torch.testing.assert_close(first, again, rtol=0, atol=0)


@pytest.mark.slow
def test_each_shape_of_batches_has_a_graph_of_its_own():
    bench = LocalModel(partial(build, "mlp", (1, 8, 8), 10), compiled=True)
    for size in (8, 5, 8):
        x, y = batch(size, (1, 8, 8), seed=size)
        plain, compiled = (step(bench, CrossEntropy(), x, y, {}, whole=whole) for whole in (False, True))
        torch.testing.assert_close(compiled, plain, rtol=1e-4, atol=1e-6)


def partly_frozen():
    model = build("digits_mlp", (1, 8, 8), 10)
    model.encoder[1].weight.requires_grad_(False)
    return model


@pytest.mark.slow
def test_parameters_without_gradients_are_looked_up_in_every_step():
    bench = LocalModel(partly_frozen, compiled=True)
    x, y = batch(8, (1, 8, 8))
    losses = []
    for _ in range(2):
        plain, compiled = (step(bench, CrossEntropy(), x, y, {}, whole=whole) for whole in (False, True))
        torch.testing.assert_close(compiled, plain, rtol=1e-4, atol=1e-6)
        losses.append(plain[0])
        bench.module.encoder[1].weight.mul_(-1)
    assert losses[0] != losses[1]


def test_gradients_are_those_of_autograd_to_the_bit():
    bench = LocalModel(partial(build, "lenet5", (1, 16, 16), 10))
    x, y = batch(6, (1, 16, 16))
    gradients = bench.gradients(CrossEntropy(), x, y, {})
    loss, slopes = gradients(x, y, {}, whole=True)
    expected = torch.nn.functional.cross_entropy(bench.module(x), y)
    assert torch.equal(loss, expected)
    assert not loss.requires_grad
    by_autograd = torch.autograd.grad(expected, list(bench.module.parameters()))
    assert all(torch.equal(a, b) for a, b in zip(slopes, by_autograd, strict=True))
    assert all(parameter.grad is None for parameter in bench.module.parameters())


def test_a_recurrent_network_is_left_to_torch():
    x, y = torch.randint(0, 10, (4, 6)), torch.randint(0, 10, (4,))
    plain, compiled = (LocalModel(partial(build, "char_lstm", (6,), 10), compiled=c) for c in (False, True))
    expected, found = (bench.gradients(CrossEntropy(), x, y, {})(x, y, {}, whole=True) for bench in (plain, compiled))
    torch.testing.assert_close(found, expected, rtol=0, atol=0)


@pytest.mark.parametrize("shape", [(2, 3, 4, 4), (1, 6, 7, 9), (3, 1, 2, 2)])
@pytest.mark.parametrize("options", [{}, {"stride": [2, 2]}, {"stride": [1, 1]}, {"padding": [1, 1]}, {"ceil": True}])
def test_pooling_finds_the_first_of_equal_maxima(shape, options):
    x = torch.randint(0, 3, shape, generator=torch.Generator().manual_seed(2)).float()
    x = x.to(memory_format=torch.channels_last)
    named = {"ceil_mode" if key == "ceil" else key: value for key, value in options.items()}
    expected = torch.nn.functional.max_pool2d(x, 2, **named, return_indices=True)
    found = _pool_by_two(x, [2, 2], **options)
    assert torch.equal(found[0], expected[0])
    assert torch.equal(found[1], expected[1])
