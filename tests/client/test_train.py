"""Local training, held to the loop everyone writes."""

from dataclasses import replace
from functools import partial

import numpy as np
import pytest
import torch

from entrofed.client.runtime import ClientRuntime, one_thread
from entrofed.client.train import batches
from entrofed.client.train import train as train_client
from entrofed.core.params import Layout
from entrofed.core.parts import ClientRule, Correction
from entrofed.core.seeds import stream, torch_stream
from entrofed.core.tasks import TrainTask
from entrofed.models.networks import build
from entrofed.objectives.cross_entropy import CrossEntropy

CLIENT = 3


def train(runtime, task):
    return train_client(task, runtime.client_data(task.client), runtime.model)


@pytest.fixture(params=["digits_mlp", "cnn"])
def network(request):
    return partial(build, request.param, (1, 8, 8), 10)


def task_for(network, training):
    with torch_stream(0, "init"):
        model = network()
    params = Layout.of(model).read(model)
    return TrainTask(CLIENT, round=2, seed=5, params=params, objective=CrossEntropy(), training=training, cost=1)


def twin(federation, network, task):
    """The same training with torch.optim, ordinary memory order and no reuse."""
    training = task.training
    with torch_stream(0, "init"):
        model = network()
    x = torch.from_numpy(federation.data.train_x[federation.shards[CLIENT]]).float() / federation.data.full_scale
    x = (x - torch.from_numpy(federation.shift)[:, None, None]) / torch.from_numpy(federation.scale)[:, None, None]
    y = torch.from_numpy(federation.data.train_y[federation.shards[CLIENT]])
    make = {"sgd": torch.optim.SGD, "adam": torch.optim.Adam, "adamw": torch.optim.AdamW}[training.optimizer]
    extra = {"momentum": training.momentum, "nesterov": training.nesterov} if training.optimizer == "sgd" else {}
    optimizer = make(model.parameters(), lr=training.lr, weight_decay=training.weight_decay, **extra)
    rng = stream(task.seed, "train", task.round, task.client)
    total, steps = 0.0, 0
    has_bn = any(isinstance(m, torch.nn.BatchNorm2d) for m in model.modules())
    model.train()
    with torch_stream(task.seed, "layers", task.round, task.client):
        for _ in range(training.epochs):
            shuffled = rng.permutation(len(y))
            for i in range(0, len(y), training.batch_size):
                rows = shuffled[i : i + training.batch_size]
                if has_bn and len(rows) == 1:
                    continue
                optimizer.zero_grad()
                loss = torch.nn.functional.cross_entropy(model(x[rows]), y[rows])
                loss.backward()
                if training.clip_gradients is not None:
                    torch.nn.utils.clip_grad_norm_(model.parameters(), training.clip_gradients)
                optimizer.step()
                total += loss.item() * len(rows)
                steps += 1
    return Layout.of(model).read(model), total / (len(y) * training.epochs), steps


# Not cnn with adam: where a gradient is zero but for rounding, its first steps are plus or minus the whole rate.
@pytest.mark.parametrize(
    ("name", "optimizer", "options"),
    [
        ("digits_mlp", "sgd", {}),
        ("digits_mlp", "sgd", {"nesterov": True}),
        ("digits_mlp", "sgd", {"clip_gradients": 0.5}),
        ("digits_mlp", "adam", {}),
        ("digits_mlp", "adamw", {"weight_decay": 0.3}),
        ("digits_mlp", "adamw", {"clip_gradients": 0.1}),
        ("cnn", "sgd", {}),
        ("cnn", "sgd", {"clip_gradients": 0.5, "nesterov": True}),
    ],
)
def test_training_equals_the_plain_loop(digits, training, name, optimizer, options):
    network = partial(build, name, (1, 8, 8), 10)
    momentum = 0.9 if optimizer == "sgd" else 0.0
    training = replace(training, **{"optimizer": optimizer, "momentum": momentum, "lr": 0.01, **options})
    task = task_for(network, training)
    with one_thread():
        update = train(ClientRuntime(digits, network, compiled=False), task)
        params, loss, steps = twin(digits, network, task)
    assert update.num_steps == steps
    assert update.train_loss == pytest.approx(loss, rel=1e-4)
    assert np.array_equal(update.params.counters, params.counters)
    np.testing.assert_allclose(update.params.values, params.values, atol=2e-5)


def test_a_parameter_without_gradient_never_moves(digits, training):
    network = partial(build, "cnn", (1, 8, 8), 10)  # its projection branch is in no cross entropy
    task = task_for(network, training)
    runtime = ClientRuntime(digits, network, compiled=False)
    update = train(runtime, task)
    before, after = runtime.model.layout.split(task.params), runtime.model.layout.split(update.params)
    still = [name for name in before if name.startswith("projection")]
    assert still
    for name in before:
        moved = not np.array_equal(before[name], after[name])
        assert moved == (name not in still), name


def test_the_bench_carries_nothing_from_client_to_client(digits, network, training):
    runtime = ClientRuntime(digits, network, compiled=False)
    task = task_for(network, training)
    first = train(runtime, task)
    train(runtime, replace(task, client=5))
    again = train(runtime, task)
    assert first.params.values.tobytes() == again.params.values.tobytes()


def test_persistent_momentum_changes_the_next_participation(digits, bench, training):
    runtime = ClientRuntime(digits, bench.build, compiled=False)
    task = task_for(bench.build, replace(training, persist_optimizer=True))
    first = train(runtime, task)
    velocity = first.client_state["velocity"]
    assert velocity.shape == (bench.layout.trainable,)
    assert np.abs(velocity).max() > 0
    fresh = train(runtime, replace(task, params=first.params, round=3))
    continued = train(runtime, replace(task, params=first.params, round=3, client_state=first.client_state))
    assert not np.array_equal(fresh.params.values, continued.params.values)
    assert not train(runtime, task_for(bench.build, training)).client_state


def test_persistent_state_equals_one_unbroken_optimizer(digits, bench, training):
    """Two participations of one epoch with persistent Adam are two epochs of one optimizer."""
    training = replace(training, optimizer="adam", momentum=0.0, epochs=1, persist_optimizer=True)
    runtime = ClientRuntime(digits, bench.build, compiled=False)
    task = task_for(bench.build, training)
    first = train(runtime, task)
    second = train(runtime, replace(task, round=3, params=first.params, client_state=first.client_state))

    with torch_stream(0, "init"):
        model = bench.build()
    optimizer = torch.optim.Adam(model.parameters(), lr=training.lr, weight_decay=training.weight_decay)
    for number in (2, 3):
        for x, y, _ in batches(
            runtime.client_data(CLIENT), runtime.model, training, stream(task.seed, "train", number, CLIENT)
        ):
            optimizer.zero_grad()
            torch.nn.functional.cross_entropy(model(x), y).backward()
            optimizer.step()
    np.testing.assert_allclose(second.params.values, bench.layout.read(model).values, atol=1e-5)


def stepped(digits, network, training, steps):
    """The values after steps of the only batch of a client."""
    runtime = ClientRuntime(digits, network, compiled=False)
    training = replace(training, epochs=steps, batch_size=1000)
    return train(runtime, task_for(network, training)).params.values


@pytest.mark.parametrize(
    "options",
    [
        {"nesterov": True},
        {"optimizer": "adamw", "momentum": 0.0, "weight_decay": 0.5},
        {"clip_gradients": 0.7},
        {"clip_gradients": 1e6},
    ],
)
def test_one_step_is_torchs_own_to_the_bit(digits, bench, training, options):
    """Of the fused optimizers; clipping, to the bit of :func:`torch.nn.utils.clip_grad_norm_`."""
    training = replace(training, epochs=1, batch_size=1000, **options)
    runtime, task = ClientRuntime(digits, bench.build, compiled=False), task_for(bench.build, training)
    with torch_stream(0, "init"):
        model = bench.build()
    made = {"lr": training.lr, "weight_decay": training.weight_decay, "fused": True}
    if training.optimizer == "sgd":
        optimizer = torch.optim.SGD(model.parameters(), momentum=training.momentum, nesterov=training.nesterov, **made)
    else:
        optimizer = torch.optim.AdamW(model.parameters(), **made)
    with one_thread():
        update = train(runtime, task)
        rng = stream(task.seed, "train", task.round, CLIENT)
        for x, y, _ in batches(runtime.client_data(CLIENT), runtime.model, training, rng):
            torch.nn.functional.cross_entropy(model(x), y).backward()
            if training.clip_gradients is not None:
                norm = torch.nn.utils.clip_grad_norm_(model.parameters(), training.clip_gradients)
                assert (norm > training.clip_gradients) == (training.clip_gradients < 1)
            optimizer.step()
    assert update.params.values.tobytes() == bench.layout.read(model).values.tobytes()


def test_clipping_by_a_norm_that_is_never_reached_changes_nothing(digits, bench, training):
    plain, free = (stepped(digits, bench.build, replace(training, clip_gradients=most), 3) for most in (None, 1e9))
    np.testing.assert_array_equal(plain, free)


def test_what_a_rule_corrects_is_not_clipped(digits, bench, training):
    """A client at rest, whose gradient is clipped to nothing, moves by the correction alone."""

    class Pushed(ClientRule):
        name = "pushed"

        def correction(self, task):
            return Correction(np.ones(bench.layout.trainable, np.float32))

    training = replace(training, momentum=0.0, weight_decay=0.0, clip_gradients=1e-9, epochs=1, batch_size=1000)
    runtime = ClientRuntime(digits, bench.build, compiled=False)
    task = replace(task_for(bench.build, training), rule=Pushed())
    moved = train(runtime, task).params.values - task.params.values
    np.testing.assert_allclose(moved, -training.lr, rtol=1e-4)


def test_batch_norm_skips_a_batch_of_one(digits, make_bench, training):
    size = len(digits.shards[CLIENT])
    training = replace(training, epochs=1, batch_size=size - 1)
    with_norm = make_bench("cnn")
    assert (
        train(ClientRuntime(digits, with_norm.build, compiled=False), task_for(with_norm.build, training)).num_steps
        == 1
    )
    without = make_bench("digits_mlp")
    assert train(ClientRuntime(digits, without.build, compiled=False), task_for(without.build, training)).num_steps == 2


def test_losses_of_all_epochs_and_of_the_last(digits, bench, training):
    runtime = ClientRuntime(digits, bench.build, compiled=False)
    one = train(runtime, task_for(bench.build, replace(training, epochs=1)))
    two = train(runtime, task_for(bench.build, training))
    assert one.train_loss == one.train_loss_last_epoch
    assert two.train_loss == pytest.approx((one.train_loss + two.train_loss_last_epoch) / 2)
    assert two.train_loss_last_epoch < one.train_loss


def test_epochs_pass_over_every_sample_once_shuffled(digits, bench, training):
    runtime = ClientRuntime(digits, bench.build, compiled=False)
    seen = list(batches(runtime.client_data(CLIENT), runtime.model, training, np.random.default_rng(0)))
    labels = digits.data.train_y[digits.shards[CLIENT]]
    for epoch in range(2):
        got = np.concatenate([y.numpy() for _, y, number in seen if number == epoch])
        assert sorted(got) == sorted(labels)
    whole, rest = divmod(len(labels), 16)
    assert rest
    assert [len(y) for _, y, n in seen if n == 0] == [16] * whole + [rest]


def test_augmented_batches_are_drawn_anew_each_epoch(digits, bench, training):
    runtime = ClientRuntime(digits, bench.build, compiled=False)
    training = replace(training, augment=("crop",), batch_size=1000)
    (first, y1, _), (second, y2, _) = batches(
        runtime.client_data(CLIENT), runtime.model, training, np.random.default_rng(0)
    )
    assert first.shape == second.shape
    assert not torch.equal(first[y1.argsort(stable=True)], second[y2.argsort(stable=True)])


@pytest.mark.parametrize(("name", "most"), [("digits_mlp", None), ("cnn", None), ("digits_mlp", 0.5)])
@pytest.mark.slow
@pytest.mark.xdist_group("compiled")
def test_compiled_training_agrees_with_eager(digits, make_bench, training, name, most):
    made = make_bench(name)
    training = replace(training, epochs=1, lr=0.01, clip_gradients=most)
    task = task_for(made.build, training)
    with one_thread():
        eager = train(ClientRuntime(digits, made.build, compiled=False), task)
        runtime = ClientRuntime(digits, made.build, compiled=True)
        compiled, again = train(runtime, task), train(runtime, task)
    assert compiled.params.values.tobytes() == again.params.values.tobytes()
    assert compiled.num_steps == eager.num_steps
    assert np.array_equal(compiled.params.counters, eager.params.counters)
    np.testing.assert_allclose(compiled.params.values, eager.params.values, atol=1e-5)  # the draws are the same
    assert compiled.train_loss == pytest.approx(eager.train_loss, rel=1e-5)
