"""Local training, held to the loop everyone writes."""

from dataclasses import replace
from functools import partial

import numpy as np
import pytest
import torch

from entrofed.client.runtime import Site, one_thread
from entrofed.client.train import WorkOrder, batches, train
from entrofed.core.params import Layout
from entrofed.core.seeds import stream, torch_stream
from entrofed.models.networks import build
from entrofed.objectives.cross_entropy import CrossEntropy

CLIENT = 3


@pytest.fixture(params=["digits_mlp", "cnn"])
def network(request):
    return partial(build, request.param, (1, 8, 8), 10)


def order_for(network, training):
    with torch_stream(0, "init"):
        model = network()
    params = Layout.of(model).read(model)
    return WorkOrder(CLIENT, round=2, seed=5, params=params, objective=CrossEntropy(), training=training, cost=1)


def twin(federation, network, order):
    """The same training with torch.optim, ordinary memory order and no reuse."""
    training = order.training
    with torch_stream(0, "init"):
        model = network()
    x = torch.from_numpy(federation.data.train_x[federation.shards[CLIENT]]).float() / federation.data.full_scale
    x = (x - torch.from_numpy(federation.shift)[:, None, None]) / torch.from_numpy(federation.scale)[:, None, None]
    y = torch.from_numpy(federation.data.train_y[federation.shards[CLIENT]])
    make = {"sgd": torch.optim.SGD, "adam": torch.optim.Adam}[training.optimizer]
    extra = {"momentum": training.momentum} if training.optimizer == "sgd" else {}
    optimizer = make(model.parameters(), lr=training.lr, weight_decay=training.weight_decay, **extra)
    rng = stream(order.seed, "train", order.round, order.client)
    total, steps = 0.0, 0
    has_bn = any(isinstance(m, torch.nn.BatchNorm2d) for m in model.modules())
    model.train()
    with torch_stream(order.seed, "layers", order.round, order.client):
        for _ in range(training.epochs):
            shuffled = rng.permutation(len(y))
            for i in range(0, len(y), training.batch_size):
                rows = shuffled[i : i + training.batch_size]
                if has_bn and len(rows) == 1:
                    continue
                optimizer.zero_grad()
                loss = torch.nn.functional.cross_entropy(model(x[rows]), y[rows])
                loss.backward()
                optimizer.step()
                total += loss.item() * len(rows)
                steps += 1
    return Layout.of(model).read(model), total / (len(y) * training.epochs), steps


# Not cnn with adam: where a gradient is zero but for rounding, its first steps are plus or minus the whole rate.
@pytest.mark.parametrize(("name", "optimizer"), [("digits_mlp", "sgd"), ("digits_mlp", "adam"), ("cnn", "sgd")])
def test_training_equals_the_plain_loop(digits, training, name, optimizer):
    network = partial(build, name, (1, 8, 8), 10)
    training = replace(training, optimizer=optimizer, momentum=0.9 if optimizer == "sgd" else 0.0, lr=0.01)
    order = order_for(network, training)
    with one_thread():
        update = train(Site(digits, network, compiled=False), order)
        params, loss, steps = twin(digits, network, order)
    assert update.num_steps == steps
    assert update.train_loss == pytest.approx(loss, rel=1e-4)
    assert np.array_equal(update.params.counters, params.counters)
    np.testing.assert_allclose(update.params.values, params.values, atol=2e-5)


def test_a_parameter_without_gradient_never_moves(digits, training):
    network = partial(build, "cnn", (1, 8, 8), 10)  # its projection branch is in no cross entropy
    order = order_for(network, training)
    site = Site(digits, network, compiled=False)
    update = train(site, order)
    before, after = site.bench.layout.split(order.params), site.bench.layout.split(update.params)
    still = [name for name in before if name.startswith("projection")]
    assert still
    for name in before:
        moved = not np.array_equal(before[name], after[name])
        assert moved == (name not in still), name


def test_the_bench_carries_nothing_from_client_to_client(digits, network, training):
    site = Site(digits, network, compiled=False)
    order = order_for(network, training)
    first = train(site, order)
    train(site, replace(order, client=5))
    again = train(site, order)
    assert first.params.values.tobytes() == again.params.values.tobytes()


def test_persistent_momentum_changes_the_next_participation(digits, bench, training):
    site = Site(digits, bench.build, compiled=False)
    order = order_for(bench.build, replace(training, persist_optimizer=True))
    first = train(site, order)
    velocity = first.memory["velocity"]
    assert velocity.shape == (bench.layout.trainable,)
    assert np.abs(velocity).max() > 0
    fresh = train(site, replace(order, params=first.params, round=3))
    continued = train(site, replace(order, params=first.params, round=3, memory=first.memory))
    assert not np.array_equal(fresh.params.values, continued.params.values)
    assert not train(site, order_for(bench.build, training)).memory


def test_persistent_state_equals_one_unbroken_optimizer(digits, bench, training):
    """Two participations of one epoch with persistent Adam are two epochs of one optimizer."""
    training = replace(training, optimizer="adam", momentum=0.0, epochs=1, persist_optimizer=True)
    site = Site(digits, bench.build, compiled=False)
    order = order_for(bench.build, training)
    first = train(site, order)
    second = train(site, replace(order, round=3, params=first.params, memory=first.memory))

    with torch_stream(0, "init"):
        model = bench.build()
    optimizer = torch.optim.Adam(model.parameters(), lr=training.lr, weight_decay=training.weight_decay)
    for number in (2, 3):
        for x, y, _ in batches(site, digits.shards[CLIENT], training, stream(order.seed, "train", number, CLIENT)):
            optimizer.zero_grad()
            torch.nn.functional.cross_entropy(model(x), y).backward()
            optimizer.step()
    np.testing.assert_allclose(second.params.values, bench.layout.read(model).values, atol=1e-5)


def test_batch_norm_skips_a_batch_of_one(digits, make_bench, training):
    size = len(digits.shards[CLIENT])
    training = replace(training, epochs=1, batch_size=size - 1)
    with_norm = make_bench("cnn")
    assert train(Site(digits, with_norm.build, compiled=False), order_for(with_norm.build, training)).num_steps == 1
    without = make_bench("digits_mlp")
    assert train(Site(digits, without.build, compiled=False), order_for(without.build, training)).num_steps == 2


def test_losses_of_all_epochs_and_of_the_last(digits, bench, training):
    site = Site(digits, bench.build, compiled=False)
    one = train(site, order_for(bench.build, replace(training, epochs=1)))
    two = train(site, order_for(bench.build, training))
    assert one.train_loss == one.train_loss_last_epoch
    assert two.train_loss == pytest.approx((one.train_loss + two.train_loss_last_epoch) / 2)
    assert two.train_loss_last_epoch < one.train_loss


def test_epochs_pass_over_every_sample_once_shuffled(digits, bench, training):
    site = Site(digits, bench.build, compiled=False)
    seen = list(batches(site, digits.shards[CLIENT], training, np.random.default_rng(0)))
    labels = digits.data.train_y[digits.shards[CLIENT]]
    for epoch in range(2):
        got = np.concatenate([y.numpy() for _, y, number in seen if number == epoch])
        assert sorted(got) == sorted(labels)
    whole, rest = divmod(len(labels), 16)
    assert rest
    assert [len(y) for _, y, n in seen if n == 0] == [16] * whole + [rest]


def test_augmented_batches_are_drawn_anew_each_epoch(digits, bench, training):
    site = Site(digits, bench.build, compiled=False)
    training = replace(training, augment=("crop",), batch_size=1000)
    (first, y1, _), (second, y2, _) = batches(site, digits.shards[CLIENT], training, np.random.default_rng(0))
    assert first.shape == second.shape
    assert not torch.equal(first[y1.argsort(stable=True)], second[y2.argsort(stable=True)])


@pytest.mark.parametrize("name", ["digits_mlp", "cnn"])
def test_compiled_training_agrees_with_eager(digits, make_bench, training, name):
    made = make_bench(name)
    training = replace(training, epochs=1, lr=0.01)
    order = order_for(made.build, training)
    with one_thread():
        eager = train(Site(digits, made.build, compiled=False), order)
        site = Site(digits, made.build, compiled=True)
        compiled, again = train(site, order), train(site, order)
    assert compiled.params.values.tobytes() == again.params.values.tobytes()
    assert compiled.num_steps == eager.num_steps
    assert np.array_equal(compiled.params.counters, eager.params.counters)
    np.testing.assert_allclose(compiled.params.values, eager.params.values, atol=1e-5)  # the draws are the same
    assert compiled.train_loss == pytest.approx(eager.train_loss, rel=1e-5)
