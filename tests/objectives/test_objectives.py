"""PROX-1, MOON-1, RS-1/2, LC-1/2, and the reductions to plain cross entropy."""

from dataclasses import replace
from functools import partial

import numpy as np
import pytest
import torch
from tests.quadratics import Point, Quadratic, points

from entrofed.client.runtime import ClientRuntime
from entrofed.client.train import train
from entrofed.core.tasks import TrainTask
from entrofed.data.dataset import Dataset
from entrofed.data.federation import Federation
from entrofed.errors import ConfigError
from entrofed.experiment.build import prepare
from entrofed.experiment.config import parse
from entrofed.experiment.sections.method import MethodSection
from entrofed.models.networks import build
from entrofed.objectives.calibrated import Calibrated
from entrofed.objectives.contrastive import Contrastive
from entrofed.objectives.cross_entropy import CrossEntropy
from entrofed.objectives.proximal import Proximal
from entrofed.objectives.restricted_softmax import RestrictedSoftmax
from entrofed.registry import build as build_part

IDENTITY = torch.nn.Identity()


TRAINING = replace(MethodSection().training(), batch_size=1, lr=0.1)


def trained(runtime, start, part, training=TRAINING, number=0, seed=0, **task):
    """The update of the only client."""
    return train(TrainTask(0, number, seed, start, part, training, **task), runtime.client_data(0), runtime.model)


@pytest.mark.parametrize(("steps", "expected"), [(1, 1.3), (2, 1.555), (3, 1.77175)])
def test_prox_1(steps, expected):
    runtime = ClientRuntime(points((1, 4)), Point, compiled=False)
    found = trained(runtime, runtime.model.dump(), Proximal(0.5, Quadratic()), replace(TRAINING, epochs=steps))
    assert found.params.values[0] == pytest.approx(expected, rel=1e-6)


def unit(cosine):
    """A vector with that cosine to (1, 0)."""
    return torch.tensor([[cosine, (1 - cosine**2) ** 0.5]], dtype=torch.float64)


@pytest.mark.parametrize(
    ("towards", "away", "expected"),
    [(0, 1, 2.12692801104297), (1, 0, 0.126928011042973), (0.3, 0.3, 0.693147180559945)],
)
def test_moon_1(towards, away, expected):
    found = Contrastive().contrast(unit(1.0), {"global": unit(towards), "previous": unit(away)})
    assert float(found) == pytest.approx(expected, rel=1e-9)


def loss(part, logits, label, **given):
    tensors = {name: torch.tensor(values, dtype=torch.float64) for name, values in given.items()}
    return float(part.loss(IDENTITY, torch.tensor([logits], dtype=torch.float64), torch.tensor([label]), tensors))


def test_rs_1_and_2():
    part = RestrictedSoftmax()
    assert loss(part, [2, 1, 0.5], 0, scale=[1, 1, 0.5]) == pytest.approx(0.432855466878769, rel=1e-9)
    assert loss(CrossEntropy(), [2, 1, 0.5], 0) == pytest.approx(0.464368784107945, rel=1e-9)
    assert loss(part, [-2, 1, 3], 1, scale=[0.5, 1, 1]) == pytest.approx(2.1429316284999, rel=1e-9)
    assert loss(part, [2, 1, 0.5], 0, scale=[1, 0.75, 0.583333333333333]) == pytest.approx(0.383677665357174, rel=1e-9)


def test_lc_1_and_2():
    part = Calibrated()
    margin = [16**-0.25, 81**-0.25, 100]
    assert loss(part, [2, 1, 0.5], 0, margin=margin) == pytest.approx(0.360884815934203, rel=1e-9)
    assert loss(part, [2, 1, 0.5], 1, margin=margin) == pytest.approx(1.19421814926754, rel=1e-9)
    halved = [0.5 * 10**-0.25, 0.5 * 1000**-0.25]
    assert loss(part, [2, 1], 0, margin=halved) == pytest.approx(0.368706449484314, rel=1e-9)


def labelled_runtime(counts, model="digits_mlp"):
    """One client with that many samples of each class."""
    labels = np.repeat(np.arange(len(counts)), counts)
    x = np.random.default_rng(0).integers(0, 256, (len(labels), 1, 8, 8), dtype=np.uint8)
    half, rows = np.full(1, 0.5, np.float32), np.arange(len(labels))
    classes = tuple(map(str, range(len(counts))))
    data = Dataset("made", "image", x, labels, x, labels, classes)
    federation = Federation(data, half, half, (rows,), (rows[:0],), np.arange(1), np.array([counts]))
    return ClientRuntime(federation, partial(build, model, (1, 8, 8), len(counts)), compiled=False)


def begun(part, counts, limits=None):
    """What the objective makes of the data that the client trains on."""
    seen = []

    class Watched(CrossEntropy):
        def begin(self, task, data, model):
            given = part.begin(task, data, model)
            seen.append({name: tensor.tolist() for name, tensor in given(torch.zeros(1)).items()})
            return given

    runtime = labelled_runtime(counts)
    trained(runtime, runtime.model.dump(), Watched(), limits=limits)
    (found,) = seen
    return found


def test_scales_and_margins_come_from_the_clients_labels():
    assert begun(RestrictedSoftmax(), [6, 3, 1, 0]) == {"scale": [1, 1, 1, 0.5]}
    proportional = begun(RestrictedSoftmax(mode="proportional"), [6, 3, 1])["scale"]
    assert proportional == pytest.approx([1, 0.75, 0.583333333333333])
    assert begun(Calibrated(), [16, 81, 0])["margin"] == pytest.approx([0.5, 1 / 3, 100])
    limited = begun(Calibrated(tau=0.5), [81, 81, 5], limits=np.array([16, 1, 0]))["margin"]
    assert limited == pytest.approx([0.25, 0.5, 50])  # what it trains on counts, not what it has


REDUCTIONS = {
    "FedProx, mu = 0": Proximal(0.0),
    "MOON, mu = 0": Contrastive(0.0),
    "FedRS, alpha = 1": RestrictedSoftmax(alpha=1.0),
    "FedLC, tau = 0": Calibrated(tau=0.0),
}


@pytest.mark.parametrize("part", REDUCTIONS.values(), ids=REDUCTIONS)
def test_reductions_to_cross_entropy_bit_for_bit(part):
    runtime = labelled_runtime([9, 4, 0, 3])
    start = runtime.model.dump()
    before = {"previous": start.values * np.float32(0.8), "previous_counters": start.counters}
    training = replace(TRAINING, batch_size=5, epochs=3, momentum=0.9, weight_decay=1e-3)
    plain = trained(runtime, start, CrossEntropy(), training, number=3, seed=7)
    found = trained(runtime, start, part, training, number=3, seed=7, client_state=before)
    np.testing.assert_array_equal(found.params.values, plain.params.values)
    assert found.train_loss == plain.train_loss


def test_equal_counts_calibrate_nothing():
    """FedLC with equal counts lowers all logits alike; the softmax does not notice, but for rounding."""
    runtime = labelled_runtime([4, 4, 4])
    start = runtime.model.dump()
    plain, found = (trained(runtime, start, part) for part in (CrossEntropy(), Calibrated()))
    np.testing.assert_allclose(found.params.values, plain.params.values, rtol=1e-4, atol=1e-6)


def test_moon_leaves_its_term_out_without_a_previous_model():
    runtime = labelled_runtime([9, 4, 3])
    start = runtime.model.dump()
    plain, first = (trained(runtime, start, part) for part in (CrossEntropy(), Contrastive()))
    np.testing.assert_array_equal(first.params.values, plain.params.values)
    assert first.terms == {"cross_entropy": first.train_loss, "contrastive": 0.0}
    np.testing.assert_array_equal(first.client_state["previous"], first.params.values)
    second = trained(runtime, start, Contrastive(), number=1, client_state=first.client_state)
    assert second.terms["contrastive"] > 0
    other = trained(runtime, start, CrossEntropy(), number=1)
    assert (second.params.values != other.params.values).any()


def test_the_gradient_of_the_pull_is_that_of_the_squared_norm():
    """The fast path against a loss that is written out."""

    class WrittenOut(CrossEntropy):
        def begin(self, task, data, model):
            start = {n: torch.from_numpy(a.copy()) for n, a in model.layout.split(task.params).items()}
            return lambda x: start

        def loss(self, model, x, y, given):
            square = sum(((p - given[name]) ** 2).sum() for name, p in model.named_parameters())
            return torch.nn.functional.cross_entropy(model(x), y) + 0.3 / 2 * square

    runtime = labelled_runtime([9, 4, 3])
    start = runtime.model.dump()
    training = replace(TRAINING, batch_size=4, epochs=2, momentum=0.5)
    fast, plain = (trained(runtime, start, part, training) for part in (Proximal(0.3), WrittenOut()))
    np.testing.assert_allclose(fast.params.values, plain.params.values, rtol=1e-4, atol=1e-6)


def test_a_proximal_term_goes_around_any_objective():
    section = MethodSection(name="fedrs", objective={"name": "proximal", "mu": 0.1})
    assert section.recipe.objective == Proximal(0.1, RestrictedSoftmax())
    nested = MethodSection(objective={"name": "proximal", "objective": {"name": "contrastive", "mu": 2.0}})
    part = nested.recipe.objective
    assert part == Proximal(0.01, Contrastive(2.0))
    assert part.terms == ("cross_entropy", "contrastive")
    assert part.pull == 0.01


def test_smoothing_and_weights_are_torchs():
    logits, labels = torch.tensor([[2.0, 1.0, 0.5], [0.1, 3.0, -1.0]]), torch.tensor([0, 2])
    weights = torch.tensor([0.5, 1.0, 4.0])
    expected = torch.nn.functional.cross_entropy(logits, labels, weights, label_smoothing=0.1)
    assert torch.equal(CrossEntropy(0.1, (0.5, 1, 4)).loss(IDENTITY, logits, labels, {"weights": weights}), expected)


def test_smoothing_by_hand():
    """0.9 of the label itself, and 0.1 spread over two classes."""
    p = np.exp([1.0, 0.0]) / np.exp([1.0, 0.0]).sum()
    expected = -0.9 * np.log(p[0]) - 0.05 * np.log(p).sum()
    assert loss(CrossEntropy(0.1), [1, 0], 0) == pytest.approx(expected, rel=1e-9)


def test_balanced_weights_come_from_the_labels_that_a_client_trains_on():
    assert begun(CrossEntropy(class_weights="balanced"), [6, 3, 1, 0])["weights"] == pytest.approx(
        [5 / 9, 10 / 9, 10 / 3, 0]
    )
    limited = begun(CrossEntropy(class_weights="balanced"), [6, 3, 1], limits=np.array([2, 2, 0]))["weights"]
    assert limited == [1, 1, 0]
    assert begun(CrossEntropy(class_weights=(1.0, 2.0, 3.0)), [6, 3, 1])["weights"] == [1, 2, 3]
    assert begun(CrossEntropy(label_smoothing=0.3), [6, 3, 1]) == {}


def test_equal_weights_change_nothing_but_rounding_and_unequal_ones_do():
    runtime = labelled_runtime([9, 4, 3])
    start = runtime.model.dump()
    parts = (CrossEntropy(), CrossEntropy(class_weights=(2.0, 2.0, 2.0)), CrossEntropy(class_weights="balanced"))
    plain, equal, other = (trained(runtime, start, part, replace(TRAINING, batch_size=8)) for part in parts)
    np.testing.assert_allclose(equal.params.values, plain.params.values, rtol=1e-4, atol=1e-6)
    assert np.abs(other.params.values - plain.params.values).max() > 1e-3


def test_only_the_plain_loss_is_what_any_client_minimizes():
    assert CrossEntropy().plain
    assert not CrossEntropy(label_smoothing=0.1).plain
    assert not CrossEntropy(class_weights="balanced").plain


def test_every_class_has_a_weight():
    weights = {"name": "cross_entropy", "class_weights": [1, 2, 3]}
    words = "class_weights has 3 values, and the data has 10 classes; give one for each"
    for spec in (weights, {"name": "proximal", "objective": weights}):
        with pytest.raises(ConfigError, match=words):
            prepare(parse({"method": {"objective": spec}, "data": {"clients": 3}}))
    nested = MethodSection(objective=weights).recipe.objective
    assert nested == CrossEntropy(class_weights=(1.0, 2.0, 3.0))


def test_moon_wants_a_representation():
    with pytest.raises(ConfigError, match="compares representations, and Identity has no method 'represent'"):
        Contrastive().check(IDENTITY)
    prepare(parse({"method": {"name": "moon"}, "data": {"clients": 3}}))  # every network of ours has one


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: Proximal(-1.0), "mu = -1.0"),
        (lambda: Contrastive(float("nan")), "mu = nan"),
        (lambda: Contrastive(temperature=0.0), "temperature = 0.0"),
        (lambda: RestrictedSoftmax(alpha=1.1), "alpha = 1.1"),
        (lambda: Calibrated(tau=float("inf")), "tau = inf"),
        (lambda: CrossEntropy(1.0), "label_smoothing = 1.0 must be at least 0 and below 1"),
        (lambda: CrossEntropy(class_weights=(1.0, 0.0)), "must be above 0"),
        (lambda: CrossEntropy(class_weights=()), "must be above 0"),
        (lambda: build_part("objective", {"name": "cross_entropy", "class_weights": "even"}), "class_weights"),
    ],
)
def test_bad_options(make, words):
    with pytest.raises(ConfigError, match=words):
        make()
