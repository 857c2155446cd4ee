"""Clients that train together, held to the plain loop: every objective, rule, optimizer and kind of network."""

from dataclasses import dataclass, replace
from functools import partial
from typing import ClassVar

import numpy as np
import pytest
import torch
from torch import nn

from entrofed.client.loss_module import LossModule
from entrofed.client.model import LocalModel
from entrofed.client.runtime import ClientRuntime, one_thread
from entrofed.client.stacked.chain import Chain
from entrofed.client.stacked.forms import UnstackableError, form_of, layers_of, of_logits
from entrofed.client.stacked.train import train_together
from entrofed.client.train import train
from entrofed.client.work import work
from entrofed.core.params import Layout
from entrofed.core.parts import Objective
from entrofed.core.seeds import stream, torch_stream
from entrofed.core.tasks import StackTask, TrainTask
from entrofed.core.types import Failure
from entrofed.facts.mean_prediction import MeanPrediction
from entrofed.models.concatenated import Concatenated
from entrofed.models.networks import build
from entrofed.models.text import text
from entrofed.objectives import OBJECTIVES
from entrofed.objectives.branch import Branch
from entrofed.objectives.contrastive import Contrastive
from entrofed.objectives.cross_entropy import CrossEntropy
from entrofed.objectives.proximal import Proximal
from entrofed.objectives.sharpness import Sharpness
from entrofed.objectives.wrapped import WrappedObjective
from entrofed.privacy.updates import LocalNoise
from entrofed.servers import CLIENT_RULES
from entrofed.servers.concat import FewBatches
from entrofed.servers.scaffold import ControlVariate

CLIENTS, CLASSES = 6, 10
PLAIN = CrossEntropy()


class OwnForward(nn.Module):
    """A network of which only its forward says what it does."""

    def __init__(self):
        super().__init__()
        self.first, self.last, self.unused = nn.Linear(64, 24), nn.Linear(24, CLASSES), nn.Linear(3, 3)

    def represent(self, x):
        h = torch.tanh(self.first(x.flatten(1)))
        return self.last(h), h

    def forward(self, x):
        return self.represent(x)[0]


def normed():
    layers = nn.Linear(64, 24), nn.BatchNorm1d(24), nn.ReLU(), nn.Dropout(0.3), nn.Linear(24, CLASSES)
    return nn.Sequential(nn.Flatten(), *layers)


def dropping():
    hidden = nn.Linear(64, 32, bias=False), nn.GELU(), nn.Dropout(0.4), nn.Linear(32, 16), nn.Tanh(), nn.Dropout(0.1)
    return nn.Sequential(nn.Flatten(), *hidden, nn.Linear(16, CLASSES))


def convolving():
    """Smooth, so that it can be followed over many steps: see ``test_single_steps_of_a_network_with_kinks``."""
    return nn.Sequential(nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4), nn.Tanh(), nn.Flatten(), nn.Linear(144, CLASSES))


def half_frozen():
    network = build("digits_mlp", (1, 8, 8), CLASSES)
    network.encoder.requires_grad_(False)
    return network


NETWORKS = {
    "chain": partial(build, "digits_mlp", (1, 8, 8), CLASSES),
    "dropout": dropping,
    "half_frozen": half_frozen,
    "own_forward": OwnForward,
    "batch_norm": normed,
    "convolutions": convolving,
}
CHAINS = {"chain", "dropout", "half_frozen"}


def tasks_for(network, training, objective=None, rule=None, **changes):
    """Clients that differ in size, epochs, model, and in what they keep; one that may use few of its samples."""
    with torch_stream(0, "init"):
        model = network()
    layout = Layout.of(model)
    params, rng = layout.read(model), np.random.default_rng(0)
    control, near = (0.5 / np.sqrt(layout.trainable) * rng.standard_normal((2, layout.trainable))).astype(np.float32)
    previous = replace(params, values=params.values + 0.01 * rng.standard_normal(layout.floats).astype(np.float32))
    previous.values[layout.trainable :] = params.values[layout.trainable :]
    broadcast = {
        "control": control,
        "trainable": np.array(layout.trainable),
        "phase": np.array(1),
        "clusters": np.arange(CLIENTS) % 2,
        "cohort_labels": np.arange(1.0, CLASSES + 1),
    }
    tasks = [
        TrainTask(c, 2, 5, params, objective or CrossEntropy(), training, 1, rule=rule, broadcast=broadcast, **changes)
        for c in range(CLIENTS)
    ]
    kept = {"control": near, "gradient": near, "previous": previous.values, "previous_counters": previous.counters}
    tasks[1] = replace(tasks[1], client_state=kept)
    tasks[2] = replace(tasks[2], training=replace(training, epochs=1))
    tasks[3] = replace(tasks[3], params=previous, client_state=kept)
    tasks[4] = replace(tasks[4], limits=np.full(CLASSES, 2))
    return tasks


def both(digits, network, tasks):
    """What came of the tasks one by one, and together."""
    runtime = ClientRuntime(digits, network, compiled=False)
    with one_thread():
        alone = [train(task, runtime.client_data(task.client), runtime.model) for task in tasks]
        found = train_together(tasks, runtime.clients_data([task.client for task in tasks]), runtime.model)
    return alone, found


def assert_equal_but_for_rounding(alone, found, off=2e-6):
    """Sums in another order: per step, a gradient of length about 1 is off by a few units of its last place.

    Measured: at most 3e-7 in any of these cases, of weights up to 1. A batch, mask or sample that is another than in
    the plain loop moves weights by 1e-3 and more. Adam divides a gradient by its own size, so that where there is
    hardly any its rounding counts as much as itself: 3.1e-6 with torch 2.6, at steps of 1e-3.
    """
    assert len(alone) == len(found)
    for one, other in zip(alone, found, strict=True):
        assert (other.client, other.num_examples, other.num_steps) == (one.client, one.num_examples, one.num_steps)
        np.testing.assert_allclose(other.params.values, one.params.values, rtol=0, atol=off)
        assert np.array_equal(other.params.counters, one.params.counters)
        told = ("train_loss", "train_loss_last_epoch")
        for name in told:
            assert getattr(other, name) == pytest.approx(getattr(one, name), rel=1e-4, nan_ok=True)
        assert other.terms == pytest.approx(one.terms, rel=1e-4)
        for mine, theirs in ((other.client_state, one.client_state), (other.facts, one.facts)):
            assert mine.keys() == theirs.keys()
            for name, value in theirs.items():
                assert mine[name].dtype == value.dtype
                np.testing.assert_allclose(mine[name], value, rtol=1e-4, atol=1e-4)


@pytest.fixture
def gentle(training):
    """Few steps, at a rate at which rounding does not grow."""
    return replace(training, lr=0.02, batch_size=49)  # of 197 samples one is left, which BatchNorm skips


@dataclass(frozen=True)
class Doubled(CrossEntropy):
    """A subclass with another loss, and no formula for its slope."""

    name: ClassVar[str] = "doubled"

    def loss(self, model, x, y, given):
        return 2 * super().loss(model, x, y, given)

    def stacked_loss(self, logits, y, given):
        return 2 * super().stacked_loss(logits, y, given)


@dataclass(frozen=True)
class DoubledWrapper(WrappedObjective):
    """The same around another objective, which has a formula."""

    name: ClassVar[str] = "doubled_wrapper"

    objective: CrossEntropy = PLAIN

    def loss(self, model, x, y, given):
        return 2 * super().loss(model, x, y, given)

    def stacked_loss(self, logits, y, given):
        return 2 * super().stacked_loss(logits, y, given)


OWN_WAYS = [
    Doubled(),
    DoubledWrapper(),
    *(cls() for name, cls in OBJECTIVES.items() if name != "branch"),
    CrossEntropy(label_smoothing=0.2, class_weights="balanced"),
    CrossEntropy(class_weights=tuple(range(1, CLASSES + 1))),
    Proximal(0.5, Sharpness(0.05)),
    Sharpness(0.05, Contrastive()),
]
RULES = [None, *(cls() for name, cls in CLIENT_RULES.items() if name != "local_noise")]
RULES += [ControlVariate("niid_bench"), LocalNoise(1.0, 0.1, simulate=True)]


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: "none" if rule is None else str(rule))
@pytest.mark.parametrize("objective", OWN_WAYS, ids=str)
def test_objectives_and_rules(digits, gentle, objective, rule):
    tasks = tasks_for(NETWORKS["chain"], gentle, objective, rule)
    assert_equal_but_for_rounding(*both(digits, NETWORKS["chain"], tasks))


@pytest.mark.parametrize("objective", OWN_WAYS, ids=str)
@pytest.mark.parametrize("name", [name for name in NETWORKS if name != "chain"])
def test_networks(digits, gentle, name, objective):
    if "Contrastive" in str(objective) and not hasattr(NETWORKS[name](), "represent"):
        pytest.skip("the network shows no representation")
    tasks = tasks_for(NETWORKS[name], gentle, objective, ControlVariate())
    assert_equal_but_for_rounding(*both(digits, NETWORKS[name], tasks))


@pytest.mark.parametrize(
    "options",
    [
        {"momentum": 0.0},
        {"nesterov": True},
        {"clip_gradients": 0.1},
        {"persist_optimizer": True},
        {"momentum": 0.0, "persist_optimizer": True},
        {"optimizer": "adam", "persist_optimizer": True, "lr": 0.001},
        {"optimizer": "adamw", "weight_decay": 0.3, "lr": 0.001},
        {"augment": ("crop", "flip")},
        {"batch_size": 1000},
        {"batch_size": 5, "epochs": 1, "lr": 0.002},
    ],
    ids=str,
)
@pytest.mark.parametrize("name", ["chain", "dropout", "own_forward"])
def test_ways_to_train(digits, gentle, name, options):
    tasks = tasks_for(NETWORKS[name], replace(gentle, **options), facts=(MeanPrediction(),))
    alone, found = both(digits, NETWORKS[name], tasks)
    off = 0.01 * options["lr"] if "optimizer" in options else 2e-6
    assert_equal_but_for_rounding(alone, found, off)
    again = [replace(task, client_state=update.client_state) for task, update in zip(tasks, alone, strict=True)]
    if all(update.num_steps == alone[0].num_steps for update in alone) or options.get("optimizer", "sgd") == "sgd":
        assert_equal_but_for_rounding(*both(digits, NETWORKS[name], again), off)


def test_single_steps_of_a_network_with_kinks(digits, training):
    """From the same weights a stack takes the same step, wherever the plain loop has got.

    Over many steps they may part, and float32 parts from float64: where pooling has a tie or ReLU bends, the last bit
    decides where a gradient goes. Measured in steps' lengths: 2e-6 as a rule, 7e-5 where that happened. Other samples
    make steps that are off by 0.1 and more.
    """
    network = partial(build, "cnn", (1, 8, 8), CLASSES)
    tasks = tasks_for(network, training)
    once = replace(training, batch_size=1000, epochs=1, momentum=0.0, lr=1.0)
    trainable, off = slice(Layout.of(network()).trainable), []
    for _ in range(5):
        alone, found = both(digits, network, [replace(task, training=once) for task in tasks])
        for task, one, other in zip(tasks, alone, found, strict=True):
            start, plain, stacked = (params.values[trainable] for params in (task.params, one.params, other.params))
            assert one.num_steps == other.num_steps == 1
            off.append(np.linalg.norm(stacked - plain) / np.linalg.norm(plain - start))
        further, _ = both(digits, network, tasks)
        tasks = [replace(task, params=update.params) for task, update in zip(tasks, further, strict=True)]
    assert np.median(off) < 1e-5
    assert max(off) < 1e-3


@pytest.mark.parametrize("phase", [0, 1])
def test_branches(digits, gentle, phase):
    network = partial(Concatenated, NETWORKS["chain"], 2)
    tasks = tasks_for(network, gentle, Branch(), FewBatches())
    broadcast = {**tasks[0].broadcast, "phase": np.array(phase)}
    counters = np.full(1, phase)
    tasks = [replace(task, broadcast=broadcast, params=replace(task.params, counters=counters)) for task in tasks]
    assert_equal_but_for_rounding(*both(digits, network, tasks))


def test_a_released_size_is_said_and_nothing_else(digits, gentle):
    tasks = [replace(task, size=100) for task in tasks_for(NETWORKS["chain"], gentle)]
    alone, found = both(digits, NETWORKS["chain"], tasks)
    assert {update.num_examples for update in found} == {100}
    assert_equal_but_for_rounding(alone, found)


def test_whoever_trains_beside_a_client_that_diverges_does_not_notice(digits, gentle):
    tasks = tasks_for(NETWORKS["chain"], gentle)
    wild = replace(tasks[0].params, values=np.full_like(tasks[0].params.values, np.inf))
    _, calm = both(digits, NETWORKS["chain"], tasks)
    _, beside = both(digits, NETWORKS["chain"], [replace(tasks[0], params=wild), *tasks[1:]])
    assert not np.isfinite(beside[0].params.values).all()
    for one, other in zip(calm[1:], beside[1:], strict=True):
        assert one.params.values.tobytes() == other.params.values.tobytes()
        assert one.train_loss == other.train_loss


def test_every_task_of_a_stack_starts_from_its_own_stream(digits, gentle):
    tasks = tasks_for(NETWORKS["chain"], gentle)
    runtime = ClientRuntime(digits, NETWORKS["chain"], compiled=False)
    data = runtime.clients_data(range(CLIENTS))
    before = stream(0, "any").random()
    first = torch.get_rng_state()
    train_together(tasks, data, runtime.model)
    assert torch.equal(first, torch.get_rng_state())
    assert before == stream(0, "any").random()


@dataclass(frozen=True)
class Changed(CrossEntropy):
    """A subclass that says nothing of stacks."""

    name: ClassVar[str] = "changed"

    def loss(self, model, x, y, given):
        return 2 * super().loss(model, x, y, given)


def by_autograd(module, objective, named, x, y):
    """The twin of a chain: every client's own network and batch, and :func:`torch.autograd.grad`."""
    losses, slopes = [], []
    for k in range(len(x)):
        own = {name: tensor[k].clone().requires_grad_(name in named) for name, tensor in named.items()}
        there = y[k] >= 0
        inside = LossModule(module, objective)
        parameters = {f"model.{name}": tensor for name, tensor in own.items()}
        loss = torch.func.functional_call(inside, parameters, (x[k][there], y[k][there], {}))
        losses.append(loss.detach())
        slopes.append(torch.autograd.grad(loss, list(own.values())))
    return torch.stack(losses), [torch.stack(of_all) for of_all in zip(*slopes, strict=True)]


@pytest.mark.parametrize(
    "objective", [CrossEntropy(), CrossEntropy(label_smoothing=0.1), Doubled(), DoubledWrapper()], ids=str
)
@pytest.mark.parametrize("hidden", [nn.ReLU, nn.GELU, nn.Tanh])
def test_the_way_back_of_a_chain_is_that_of_autograd(hidden, objective):
    torch.manual_seed(0)
    shared = nn.Linear(12, 12)
    layers = nn.Linear(7, 12, bias=False), hidden(), shared, nn.Dropout(0.0), hidden(), shared, nn.Linear(12, 5)
    model = LocalModel(lambda: nn.Sequential(*layers), compiled=False)
    x, y = torch.randn(3, 8, 7), torch.randint(0, 5, (3, 8))
    y[1, 5:] = -100
    used = [name for name, _ in model.module.named_parameters()]
    named = {name: torch.randn(3, *p.shape) / 3 for name, p in model.module.named_parameters()}
    chain = Chain(model, objective, used, x.shape[2:])
    losses, slopes = chain(list(named.values()), {}, x, y, {}, [])
    expected, twins = by_autograd(model.module, objective, named, x, y)
    torch.testing.assert_close(losses, expected)
    for slope, twin in zip(slopes, twins, strict=True):
        torch.testing.assert_close(slope, twin, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("scale", [1.0, 30.0, 1000.0])
def test_the_formula_of_cross_entropy_is_what_autograd_finds(scale):
    torch.manual_seed(1)
    logits, y = scale * torch.randn(4, 10, 9), torch.randint(0, 10, (4, 9))
    y[2, 1:] = -100
    losses, slopes = CrossEntropy().stacked_slopes(logits, y, {})
    expected, twins = Objective.stacked_slopes(CrossEntropy(), logits, y, {})
    torch.testing.assert_close(losses, expected)
    torch.testing.assert_close(slopes, twins, rtol=1e-5, atol=1e-7)


def test_which_objectives_are_of_logits():
    found = {name for name, cls in OBJECTIVES.items() if of_logits(cls())}
    assert found == OBJECTIVES.keys() - {"contrastive", "branch"}
    assert not of_logits(Changed())
    assert not of_logits(Proximal(0.1, Contrastive()))
    assert not of_logits(Proximal(0.1, Changed()))


def test_an_objective_that_says_nothing_of_stacks_is_mapped(digits, gentle):
    tasks = tasks_for(NETWORKS["chain"], gentle, Changed())
    assert_equal_but_for_rounding(*both(digits, NETWORKS["chain"], tasks))


@pytest.mark.parametrize("name", NETWORKS)
def test_which_networks_are_chains(name):
    form, why = form_of(NETWORKS[name](), CrossEntropy(), (1, 8, 8))
    assert (form, why == "") == (("chain", True) if name in CHAINS else ("mapped", False))


def test_what_is_no_chain():
    def reason(*layers):
        return form_of(nn.Sequential(*layers), CrossEntropy(), (1, 8, 8))[1]

    hooked = nn.Linear(64, 10)
    hooked.register_forward_hook(lambda *_: None)
    assert "not flattened" in reason(nn.Linear(8, 10))
    assert "LSTM" in reason(nn.Flatten(), nn.LSTM(64, 10))
    assert "hooks" in reason(nn.Flatten(), hooked)
    assert "last layer" in reason(nn.Flatten(), nn.Linear(64, 10), nn.ReLU())
    assert "Flatten" in reason(nn.Flatten(0), nn.Linear(64, 10))


def test_what_cannot_be_stacked_is_trained_one_by_one(digits, gentle):
    @dataclass(frozen=True)
    class Looking(CrossEntropy):
        name: ClassVar[str] = "looking"

        def loss(self, model, x, y, given):
            loss = super().loss(model, x, y, given)
            return loss if loss.item() > 0 else 2 * loss  # a number that vmap does not have

    tasks = tasks_for(NETWORKS["chain"], gentle, Looking())
    runtime = ClientRuntime(digits, NETWORKS["chain"], compiled=False)
    found = work(StackTask(tuple(tasks)), runtime)
    assert "item" in found.apart
    for task, update in zip(tasks, found.outcomes, strict=True):
        alone = train(task, runtime.client_data(task.client), runtime.model)
        assert update.params.values.tobytes() == alone.params.values.tobytes()


def test_one_client_that_fails_fails_alone(digits, gentle):
    tasks = tasks_for(NETWORKS["chain"], gentle)
    tasks[2] = replace(tasks[2], params=replace(tasks[2].params, values=np.zeros(3, np.float32)))
    found = work(StackTask(tuple(tasks)), ClientRuntime(digits, NETWORKS["chain"], compiled=False))
    assert found.apart
    assert [isinstance(outcome, Failure) for outcome in found.outcomes] == [k == 2 for k in range(CLIENTS)]


def test_recurrent_networks_say_why():
    network = text((5,), 3, vocabulary=7)
    assert form_of(network, CrossEntropy(), (5,)) == ("mapped", "TokenEncoder is no layer of a chain")
    with pytest.raises(UnstackableError, match="TokenEncoder"):
        layers_of(network)
