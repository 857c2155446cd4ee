"""What every part has to keep, tested on every part there is; a new part is covered by being registered."""

import json
import pickle
from collections.abc import Mapping, Sequence
from copy import deepcopy
from dataclasses import FrozenInstanceError, fields, is_dataclass, replace
from functools import partial
from typing import Any, get_args

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.special import softmax

from entrofed.client.runtime import ClientRuntime
from entrofed.client.train import train
from entrofed.core.params import Layout, Params, TensorEntry
from entrofed.core.parts import ALL_CLIENTS, VALIDATION, LabelFact, Method, Sees, When
from entrofed.core.seeds import torch_stream
from entrofed.core.tasks import TrainTask
from entrofed.core.types import ClientData, ClientTable, Context, Update
from entrofed.core.validation import safe_weights
from entrofed.data.dataset import Dataset
from entrofed.data.federation import Federation
from entrofed.errors import ConfigError, EntrofedError
from entrofed.experiment.sections.method import MethodSection
from entrofed.facts.label_counts import LabelCounts
from entrofed.facts.label_mixture import LabelMixture
from entrofed.facts.loss import Loss
from entrofed.facts.mean_prediction import MeanPrediction
from entrofed.info.prediction import Predictions
from entrofed.info.simplex import water_fill
from entrofed.models.concatenated import Concatenated
from entrofed.models.networks import build as build_model
from entrofed.objectives.cross_entropy import CrossEntropy
from entrofed.registry import PART_KINDS, build, describe, known

KINDS = (*PART_KINDS, "client_rule", "fact")
PARTS = [(kind, name) for kind in KINDS for name in known(kind)]
FLOATS, CLASSES = 15, 3
LAYOUT = Layout(
    (
        TensorEntry("encoder.weight", "trainable", (2, 3), 0, 6),
        TensorEntry("encoder.bias", "trainable", (2,), 6, 2),
        TensorEntry("output.weight", "trainable", (3, 1), 8, 3),
        TensorEntry("output.bias", "trainable", (3,), 11, 3),
        TensorEntry("norm.running_var", "buffer", (1,), 14, 1),
        TensorEntry("norm.batches", "counter", (1,), 0, 1),
    ),
    trainable=14,
    floats=FLOATS,
    counters=1,
)
SIZES_COUNT = {"data_size", "reselection", "permuted", "capped"}
"""Weighers to which the number of examples matters."""
SIZES_COUNT_TOO = {"discrepancy"}
"""Weighers to which the number of examples matters among other things."""
TAKES_ALL = {"full"}
"""Selectors that do not keep to the size of the cohort."""
MAY_TAKE_FEWER = {"kl", "clustered_size", "clustered_similarity"}
"""Selectors that stop when nobody left adds anything, or draw somebody twice."""
OF_PRIVACY = {"local_noise"}
"""Client rules that any server rule gets by [privacy.updates]."""
ONE_COHORT = {"kl"}
"""Selectors that choose once, for all rounds."""
BY_COINS = {"poisson"}
"""Selectors whose cohorts may be of any size, and empty."""
SHUFFLES = {"permuted"}
"""Weighers whose weights are another client's."""
CAPS = {"capped"}
"""Weighers with a most that one client can weigh."""
SCRIPTED = {"scripted"}
"""Selectors that choose whom they are told to."""
BRANCHES = {"branch"}
"""Objectives that train a part of a concatenated network."""
AVERAGES = {"average", "median", "trimmed_mean", "krum"}
"""Server rules whose values lie between the lowest and the highest of the clients'."""
TRAINED = {"first_update"}
"""Facts that are trained by a task, not measured."""


def of_kind(kind: str, *, without: set[str] = frozenset()) -> pytest.MarkDecorator:  # type: ignore[assignment]
    parts = [build(kind, name) for name in known(kind) if name not in without]
    return pytest.mark.parametrize("part", parts, ids=lambda part: part.name)


# Parts in general


@pytest.mark.parametrize(("kind", "name"), PARTS)
def test_name_and_words(kind: str, name: str) -> None:
    part = known(kind)[name]
    assert part.name == name  # type: ignore[attr-defined]
    assert isinstance(getattr(part, "reference", "") if kind == "fact" else part.reference, str)
    words = part.__doc__ or ""
    assert words.split("\n")[0].strip()
    assert not words.startswith(f"{part.__name__}(")  # what dataclass writes where nobody wrote anything


@pytest.mark.parametrize(("kind", "name"), PARTS)
def test_frozen_hyperparameters(kind: str, name: str) -> None:
    part = build(kind, name)
    assert is_dataclass(part)
    assert vars(part).keys() == {field.name for field in fields(part)}
    for attribute in [*vars(part), "name", "anything"]:
        with pytest.raises(FrozenInstanceError):
            setattr(part, attribute, None)


@pytest.mark.parametrize(("kind", "name"), PARTS)
def test_a_description_makes_the_same_part(kind: str, name: str) -> None:
    part = build(kind, name)
    assert describe(part)["name"] == name
    assert build(kind, describe(part)) == part
    assert build(kind, {"name": name}) == part == known(kind)[name]()


@pytest.mark.parametrize(("kind", "name"), PARTS)
def test_parts_travel(kind: str, name: str) -> None:
    part = build(kind, name)
    there = pickle.loads(pickle.dumps(part))  # noqa: S301 (our own bytes)
    assert there == part
    assert hash(there) == hash(part)


VARIANTS = [
    *((kind, name) for kind in PART_KINDS for name in known(kind)),
    *(("weigher", {"name": "pooled_kl", "mode": mode}) for mode in ("smoothed", "paper", "histogram", "authors")),
    ("weigher", {"name": "pooled_kl", "ratio": 0.25, "penalty": "free_params"}),
    *(("weigher", {"name": outer, "weigher": name}) for outer in ("permuted", "capped") for name in known("weigher")),
    *(("objective", {"name": "proximal", "objective": name}) for name in known("objective")),
]
"""Every part, and those whose facts depend on their hyperparameters, in each way."""


@pytest.mark.parametrize(("kind", "spec"), VARIANTS, ids=str)
def test_equal_parts_ask_for_equal_facts(kind: str, spec: Any) -> None:
    part = build(kind, spec)
    assert type(part.facts) is tuple
    for fact in part.facts:
        assert type(fact) is known("fact")[fact.name]
        assert build("fact", describe(fact)) == fact
    assert len({fact.name for fact in part.facts}) == len(part.facts)
    assert part.needs <= {VALIDATION, ALL_CLIENTS}
    there = pickle.loads(pickle.dumps(part))  # noqa: S301 (our own bytes)
    for same_part in (build(kind, spec), build(kind, describe(part)), there, deepcopy(part), replace(part)):
        assert same_part == part
        assert same_part.facts == part.facts
        assert hash(same_part.facts) == hash(part.facts)
        assert same_part.needs == part.needs
        assert same_part.sees == part.sees
    assert part.sees in get_args(Sees)
    assert part.sees == "sum" or kind in ("selector", "weigher", "server")


@pytest.mark.parametrize("name", known("method"))
def test_methods_are_recipes_of_registered_parts(name: str) -> None:
    recipe = known("method")[name]
    assert recipe.__name__ == name
    assert (recipe.__doc__ or "").split("\n")[0]
    method = recipe()
    assert isinstance(method, Method)
    assert method == recipe() == MethodSection(name=name).recipe
    for kind in PART_KINDS:
        part = getattr(method, kind)
        assert type(part) is known(kind)[part.name]
        assert build(kind, describe(part)) == part
    asked = {fact for kind in PART_KINDS for fact in getattr(method, kind).facts}
    assert set(method.facts) == asked
    assert len(method.facts) == len(asked)
    times = [fact for when in get_args(When) for fact in method.facts_told(when)]
    assert sorted(times, key=str) == sorted(method.facts, key=str)
    assert {name for name in known("fact") if method.has_fact(name)} == {fact.name for fact in asked}
    seen = [getattr(method, kind).sees for kind in PART_KINDS]
    assert method.sees == next(much for much in ("models", "scalars", "sum") if much in seen)


def test_a_fact_is_told_in_one_way() -> None:
    """Two parts may ask for the same; what they ask for must then be the same."""
    plain = known("method")["fedavg"]()
    twice = replace(plain, selector=build("selector", "kl"), weigher=build("weigher", "label_entropy"))
    assert twice.facts == (LabelCounts(),)

    class Asks(type(plain.selector)):  # type: ignore[misc]
        facts = (LabelMixture(0.3),)

    with pytest.raises(ConfigError, match=r"ask for 'label_mixture' in different ways: .*0\.3.* and .*0\.5"):
        _ = replace(plain, selector=Asks(), weigher=build("weigher", "pooled_kl")).facts
    same_way = build("weigher", {"name": "pooled_kl", "ratio": 0.3})
    assert replace(plain, selector=Asks(), weigher=same_way).facts == (LabelMixture(0.3),)


def check_memory(state: Mapping[str, Any]) -> None:
    """A checkpoint can hold it."""
    assert all(isinstance(name, str) and isinstance(array, np.ndarray) for name, array in state.items())


def same(one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    return one.keys() == other.keys() and all(np.array_equal(one[name], other[name]) for name in one)


def locked(array: np.ndarray) -> np.ndarray:
    array.flags.writeable = False
    return array


# Selectors


def table_of(clients: int, rng: np.random.Generator) -> ClientTable:
    """A server that knows all there is to know."""
    counts = rng.integers(0, 20, (clients, CLASSES))
    counts[:, 0] += 1
    return ClientTable(
        sizes=locked(counts.sum(axis=1)),
        classes=CLASSES,
        partition="iid",
        trainable=FLOATS,
        output_bias=11,
        rounds=20,
        facts={
            LabelCounts.name: locked(counts.astype(np.float64)),
            Loss.name: [locked(np.array(loss)) for loss in rng.random(clients)],
        },
    )


def told_along(part: Any, update: Update) -> Update:
    """The update with the numbers that a selector asks for along with it."""
    asked = [fact.name for fact in part.facts if fact.when == "with_update"]
    return replace(update, facts={name: locked(np.array(0.5)) for name in asked})


def rounds(part: Any, clients: int, among: np.ndarray, size: int, seed: int) -> list[list[int]]:
    """Three rounds, each from what the one before remembered; nothing that comes in may change."""
    table = table_of(clients, np.random.default_rng([seed, 99]))
    start = Params(locked(np.zeros(FLOATS, np.float32)), locked(np.zeros(1, np.int64)))

    def answers(ids: Sequence[int], number: int) -> list[Update]:
        drawn = {client: params(np.random.default_rng([seed, number, client])) for client in ids}
        return [told_along(part, Update(client, found, 10, 2, 1.0, 1.0)) for client, found in drawn.items()]

    state = part.init(table, np.arange(clients))
    if any(fact.name in TRAINED for fact in part.facts):
        state = part.observe(state, start, answers(among.tolist(), 7))
    cohorts = []
    for number in range(3):
        check_memory(state)
        before = deepcopy(dict(state))
        rng = np.random.default_rng([seed, number])
        candidates = part.candidates(table, among, size, rng)
        assert set(candidates.tolist()) <= set(among.tolist())
        selection = part.select(state, table, candidates, size, rng)
        assert same(state, before)
        assert not selection.reasons or [why["client"] for why in selection.reasons] == selection.clients
        assert set(selection.limits) <= set(selection.clients)
        json.dumps(selection.reasons, allow_nan=False)
        cohorts.append(selection.clients)
        state = part.observe(selection.state, start, answers(selection.clients, number))
    check_memory(state)
    return cohorts


@of_kind("selector", without=SCRIPTED)
@settings(deadline=None, max_examples=40)
@given(st.data(), st.integers(1, 12), st.integers(1, 15), st.integers(0, 99))
def test_cohorts(part: Any, data: st.DataObject, clients: int, size: int, seed: int) -> None:
    subset = data.draw(st.sets(st.integers(0, clients - 1), min_size=1))
    among = locked(np.array(sorted(subset), np.int64))
    cohorts = rounds(part, clients, among, size, seed)
    for chosen in cohorts:
        assert isinstance(chosen, list)
        assert all(type(client) is int for client in chosen)
        assert len(set(chosen)) == len(chosen)
        assert chosen or part.name in BY_COINS
        assert set(chosen) <= subset
        if part.name not in TAKES_ALL | BY_COINS:
            assert len(chosen) <= size
    assert rounds(part, clients, among, size, seed) == cohorts


@of_kind("selector", without=SCRIPTED)
def test_all_who_are_there_if_more_are_wanted(part: Any) -> None:
    among = np.array([1, 4, 6])
    for chosen in rounds(part, 8, among, 50, 0):
        assert sorted(chosen) == [1, 4, 6] or (part.name in MAY_TAKE_FEWER and set(chosen) <= {1, 4, 6})


@of_kind("selector", without=SCRIPTED)
def test_a_single_client(part: Any) -> None:
    assert rounds(part, 1, np.array([0]), 1, 0) == [[0]] * 3


@of_kind("selector", without=SCRIPTED)
def test_nobody_there(part: Any) -> None:
    assert rounds(part, 5, np.zeros(0, np.int64), 3, 0) == [[]] * 3


@pytest.mark.parametrize(
    "spec", [*(name for name in known("selector") if name not in SCRIPTED), {"name": "fedentopt", "most": 1.5}], ids=str
)
def test_clients_may_join(spec: Any) -> None:
    """On Flower the table grows during a run: five clients at first, nine from the third round on."""
    part = build("selector", spec)
    nine = table_of(9, np.random.default_rng(3))
    five, seen = nine.of(np.arange(5)), set[int]()
    start = Params(locked(np.zeros(FLOATS, np.float32)), locked(np.zeros(1, np.int64)))

    def answers(ids: Sequence[int], number: int) -> list[Update]:
        drawn = {client: params(np.random.default_rng([number, client])) for client in ids}
        return [told_along(part, Update(client, found, 10, 2, 1.0, 1.0)) for client, found in drawn.items()]

    state = part.init(five, np.arange(5))
    surveyed = any(fact.name in TRAINED for fact in part.facts)
    if surveyed:
        state = part.observe(state, start, answers(range(5), 7))
    for number in range(12):
        table, rng = five if number < 2 else nine, np.random.default_rng(number)
        candidates = part.candidates(table, np.arange(len(table.sizes)), 3, rng)
        selection = part.select(state, table, candidates, 3, rng)
        seen |= set(selection.clients)
        state = part.observe(selection.state, start, answers(selection.clients, number))
    assert surveyed or part.name in ONE_COHORT or seen & {5, 6, 7, 8}


@of_kind("selector", without=SCRIPTED)
def test_what_a_selector_must_see(part: Any) -> None:
    """Models, if it looks at the updates of a round; numbers of each client, if it asks for some, and no more."""
    table, rng = table_of(6, np.random.default_rng(0)), np.random.default_rng(1)
    before = part.init(table, np.arange(6))
    updates = [told_along(part, Update(client, params(rng), 10, 2, 1.0, 1.0)) for client in range(6)]
    others = [replace(update, params=params(rng)) for update in updates]
    seen = part.observe(before, params(np.random.default_rng(2)), updates)
    looks = not same(seen, part.observe(before, params(np.random.default_rng(2)), others))
    asks = any(fact.when in ("before_round", "with_update") for fact in part.facts)
    assert part.sees == ("models" if looks else "scalars" if asks else "sum")


def test_random_selection_reaches_every_pair_about_equally() -> None:
    part = build("selector", "random")
    rng = np.random.default_rng(0)
    counts: dict[tuple[int, ...], int] = {}
    for _ in range(3000):
        pair = tuple(sorted(part.select({}, table_of(4, rng), np.arange(4), 2, rng).clients))
        counts[pair] = counts.get(pair, 0) + 1
    assert len(counts) == 6
    assert all(abs(count - 500) < 5 * (3000 * 1 / 6 * 5 / 6) ** 0.5 for count in counts.values())


# Weighers


def params(rng: np.random.Generator) -> Params:
    values = rng.standard_normal(FLOATS).astype(np.float32)
    values[-1] = abs(values[-1])
    return Params(locked(values), locked(rng.integers(0, 100, 1)))


@st.composite
def cohorts(draw: st.DrawFn, part: Any, most: int = 6) -> tuple[list[Update], Context]:
    """Clients that differ in every respect."""
    n = draw(st.integers(1, most))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    ids = rng.permutation(10)[:n]
    updates = [
        Update(
            client=int(client),
            params=params(rng),
            num_examples=draw(st.integers(1, 10**6)),
            num_steps=draw(st.integers(1, 500)),
            train_loss=draw(st.floats(0, 20)),
            train_loss_last_epoch=draw(st.floats(0, 20)),
            facts={MeanPrediction.name: locked(rng.dirichlet(np.ones(CLASSES)))},
        )
        for client in ids
    ]
    return updates, context_of(params(rng), table_of(10, rng), part, draw(st.integers(0, 100)))


def context_of(start: Params, table: ClientTable, part: Any, number: int = 0) -> Context:
    """A server that has asked the clients for whatever the weigher needs."""
    counts = counts_of(table)
    told = {f.name: [f.of_counts(row) for row in counts] for f in part.facts if isinstance(f, LabelFact)}
    table = replace(table, facts={**told, **table.facts})
    return Context(start, number, table, LAYOUT, seed=5, predict=predict)


def counts_of(table: ClientTable) -> np.ndarray:
    counts = table.facts[LabelCounts.name]
    assert isinstance(counts, np.ndarray)
    return counts


def predict(models: Sequence[Params]) -> Predictions:
    """What models say about two samples; depends on their values alone."""
    return Predictions.of([softmax(model.values[: 2 * CLASSES].reshape(2, CLASSES), axis=1) for model in models])


def check_weights(weights: Any, updates: Sequence[Update]) -> None:
    assert isinstance(weights, np.ndarray)
    assert weights.dtype == np.float64
    assert weights.shape == (len(updates),)
    assert (weights >= 0).all()
    assert weights.sum() == pytest.approx(1, abs=1e-9, rel=0)


@of_kind("weigher")
@settings(deadline=None, max_examples=60)
@given(st.data(), st.randoms(use_true_random=False))
def test_weights(part: Any, data: st.DataObject, random: Any) -> None:
    updates, context = data.draw(cohorts(part))
    kept = list(updates)
    weighing = part.weigh(updates, context)
    weights = weighing.weights
    check_weights(weights, updates)
    assert len(weighing.origins) in (0, len(updates))
    json.dumps(weighing.origins, allow_nan=False)
    assert all(update is old for update, old in zip(updates, kept, strict=True))
    assert part.weigh(updates, context).weights.tolist() == weights.tolist()
    order = list(range(len(updates)))
    random.shuffle(order)
    permuted = part.weigh([updates[i] for i in order], context)
    np.testing.assert_allclose(permuted.weights, weights[order], rtol=1e-9, atol=1e-15)
    if weighing.origins:
        assert [entry.keys() for entry in permuted.origins] == [weighing.origins[i].keys() for i in order]


WRAPPED = [
    {"name": outer, "weigher": name} for outer in ("permuted", "capped") for name in known("weigher") if name != outer
]


@pytest.mark.parametrize("spec", [*known("weigher"), *WRAPPED], ids=str)
def test_what_a_weigher_must_see(spec: Any) -> None:
    """Weights follow from who takes part, sizes and what was told before (``sum``); or also from losses and facts of a
    round (``scalars``); or also from models. No part sees less than it says, or more."""
    part, rng = build("weigher", spec), np.random.default_rng(3)
    losses = rng.random((2, 5))

    def sent(client: int, models: int, numbers: int) -> Update:
        told = np.random.default_rng([client, numbers]).dirichlet(np.ones(CLASSES))
        loss = float(losses[numbers, client])
        model = params(np.random.default_rng([7, client, models]))
        return Update(client, model, 10 + client, 2, loss, loss, facts={MeanPrediction.name: told})

    context = context_of(params(rng), table_of(10, rng), part)
    plain, other_numbers, other_models = (
        part.weigh([sent(client, models, numbers) for client in range(5)], context).weights
        for models, numbers in ((0, 0), (0, 1), (1, 0))
    )
    by_models, by_numbers = (not np.array_equal(plain, found) for found in (other_models, other_numbers))
    assert part.sees == ("models" if by_models else "scalars" if by_numbers else "sum")


def test_own_parts_that_say_nothing_are_taken_to_see_everything() -> None:
    def weigh(updates: Any, context: Any) -> Any:
        return [1 / len(updates) for _ in updates]

    class Says:
        sees = "sum"

        def weigh(self, updates: Any, context: Any) -> Any:
            return weigh(updates, context)

    class SaysNonsense(Says):
        sees = "nothing"

    assert build("weigher", weigh).sees == "models"
    assert build("weigher", Says()).sees == "sum"
    assert build("weigher", {"name": "capped", "weigher": Says()}).sees == "sum"
    assert build("objective", torch.nn.CrossEntropyLoss()).sees == "sum"
    with pytest.raises(ConfigError, match="its sees is 'nothing'; one of sum, scalars, models is expected"):
        build("weigher", SaysNonsense())


@of_kind("weigher")
@settings(deadline=None, max_examples=30)
@given(st.data())
def test_one_update_gets_all(part: Any, data: st.DataObject) -> None:
    assert part.weigh(*data.draw(cohorts(part, most=1))).weights.tolist() == [1.0]


@of_kind("weigher")
@settings(deadline=None, max_examples=30)
@given(st.integers(2, 7), st.data())
def test_identical_updates_weigh_alike(part: Any, n: int, data: st.DataObject) -> None:
    (update,), context = data.draw(cohorts(part, most=1))
    alike = [replace(update, client=client) for client in range(n)]
    counts = counts_of(context.clients)
    same_labels = replace(context.clients, facts={LabelCounts.name: np.tile(counts[:1], (10, 1))})
    context = context_of(context.params, same_labels, part)
    np.testing.assert_allclose(part.weigh(alike, context).weights, 1 / n, rtol=1e-12)
    if part.name in SIZES_COUNT_TOO:
        return
    sizes = data.draw(st.lists(st.integers(1, 10**6), min_size=n, max_size=n))
    resized = [replace(u, num_examples=size) for u, size in zip(alike, sizes, strict=True)]
    expected = np.array(sizes) / sum(sizes) if part.name in SIZES_COUNT else np.full(n, 1 / n)
    if part.name in CAPS:
        expected = water_fill(expected, part.share)
    found = part.weigh(resized, context).weights
    if part.name in SHUFFLES:
        found, expected = np.sort(found), np.sort(expected)
    np.testing.assert_allclose(found, expected, rtol=1e-12)


@of_kind("weigher")
@settings(deadline=None, max_examples=30)
@given(st.data())
def test_a_model_that_is_not_finite_does_no_harm(part: Any, data: st.DataObject) -> None:
    """Admission keeps such models out; if one is let through on purpose, the weights are still usable."""
    updates, context = data.draw(cohorts(part))
    broken = Params(locked(np.full(FLOATS, np.nan, np.float32)), updates[0].params.counters)
    updates[0] = replace(updates[0], params=broken, train_loss=float("nan"), train_loss_last_epoch=float("inf"))
    weighing = safe_weights(part, updates, context)
    check_weights(weighing.weights, updates)
    json.dumps(weighing.origins, allow_nan=False)


# Server rules

finite = st.floats(-(2.0**100), 2.0**100, width=32)
vectors = arrays(np.float32, FLOATS, elements=finite)


def update_of(client: int, values: np.ndarray, counter: int = 1) -> Update:
    return Update(client, Params(locked(values), locked(np.array([counter]))), 10, 2, 1.0, 1.0)


def server_context(start: Params) -> Context:
    return Context(start, 0, table_of(10, np.random.default_rng(1)), LAYOUT, seed=5, predict=predict)


def reported(part: Any, start: Params, updates: list[Update], state: Mapping[str, Any]) -> list[Update]:
    """The updates with what the rule has its clients add."""
    broadcast = part.broadcast(state)
    check_memory(broadcast)
    if (rule := part.client) is None:
        return updates
    task = TrainTask(0, 0, 0, start, CrossEntropy(), MethodSection().training(), rule=rule, broadcast=broadcast)
    added = [rule.report(replace(task, client=update.client), update) for update in updates]
    for update in added:
        check_memory(update.client_state)
        check_memory(update.facts)
    return added


def simplex(raw: list[float]) -> np.ndarray:
    weights = np.array(raw, np.float64)
    return locked(weights / weights.sum())


@of_kind("server")
@settings(deadline=None, max_examples=50)
@given(vectors, st.lists(st.floats(0.01, 1), min_size=1, max_size=6))
def test_nothing_learned_nothing_changed(part: Any, values: np.ndarray, raw: list[float]) -> None:
    """If every client sends back the model it got, that is the next model, to the last bit."""
    start = Params(locked(values.copy()), locked(np.array([4])))
    updates = [update_of(k, values.copy(), 4) for k in range(len(raw))]
    context = server_context(start)
    state = part.init(start, context.clients, np.arange(10))
    check_memory(state)
    for _ in range(2):
        updates = reported(part, start, updates, state)
        after, state = part.apply(updates, simplex(raw), context, state)
        assert after.values.dtype == np.float32
        np.testing.assert_array_equal(after.values, values)
        assert after.counters.tolist() == [4]


@of_kind("server")
@settings(deadline=None, max_examples=50)
@given(st.lists(st.tuples(vectors, st.floats(0.01, 1), st.integers(0, 2**40)), min_size=1, max_size=5), vectors)
def test_the_next_model(part: Any, clients: list[tuple[np.ndarray, float, int]], before: np.ndarray) -> None:
    start = Params(locked(before), locked(np.array([0])))
    updates = [update_of(k, values, counter) for k, (values, _, counter) in enumerate(clients)]
    weights = simplex([weight for _, weight, _ in clients])
    context = server_context(start)
    state = part.init(start, context.clients, np.arange(10))
    updates = reported(part, start, updates, state)
    remembered = deepcopy(dict(state))
    after, following = part.apply(updates, weights, context, state)
    assert same(state, remembered)
    check_memory(following)
    assert after.values.shape == (FLOATS,)
    assert after.values.dtype == np.float32
    assert after.counters.dtype == np.int64
    assert after.counters.tolist() == [max(counter for _, _, counter in clients)]
    again, _ = part.apply(updates, weights, context, state)
    np.testing.assert_array_equal(again.values, after.values)
    if part.name in AVERAGES:
        rows = np.array([values for values, _, _ in clients])
        assert (after.values >= rows.min(axis=0)).all()
        assert (after.values <= rows.max(axis=0)).all()


@of_kind("server")
def test_what_a_server_rule_must_see(part: Any) -> None:
    """With equal weights, a rule to which sums are enough cannot tell models from as many copies of their mean."""
    rng = np.random.default_rng(2)
    rows = rng.standard_normal((10, FLOATS)).astype(np.float32)
    rows[4] *= 100
    start, context = params(rng), server_context(params(rng))
    state = part.init(start, context.clients, np.arange(10))

    def after(values: np.ndarray) -> np.ndarray:
        updates = reported(part, start, [update_of(k, row) for k, row in enumerate(values)], state)
        first, following = part.apply(updates, np.full(10, 0.1), context, state)
        second, _ = part.apply(updates, np.full(10, 0.1), context, following)
        return np.array([first.values, second.values])

    alike = np.allclose(after(rows), after(np.tile(rows.mean(axis=0), (10, 1))), rtol=1e-4, atol=1e-4)
    if part.replaces_network:  # it has its own layers, which are not those of the models here
        assert part.sees == "models"
    else:
        assert alike == (part.sees != "models")
    told = [fact for fact in part.facts if fact.when != "once"]
    assert (part.sees == "sum") == (alike and not told and not part.replaces_network)


@of_kind("server")
def test_what_clients_do_for_a_rule(part: Any) -> None:
    """What they send besides the model is what the rule says, and only if it says so; the rule can work with it."""
    rule = part.client
    assert part.client == rule
    if rule is None:
        return
    assert type(rule) is known("client_rule")[rule.name]
    assert build("client_rule", describe(rule)) == rule
    objective = build("objective", "branch" if part.replaces_network else "cross_entropy")
    runtime = runtime_of(objective)
    model, layout = runtime.model, runtime.model.layout
    start = model.dump()
    table = ClientTable(np.full(10, 10), 10, "iid", layout.trainable, {LabelCounts.name: 10 * np.eye(10)})
    state = part.init(start, table, np.arange(10))
    training = replace(MethodSection().training(), batch_size=4, lr=1e-3)
    task = TrainTask(0, 0, 0, start, objective, training, rule=rule, broadcast=part.broadcast(state))
    plain = train(replace(task, rule=None), runtime.client_data(0), model)
    assert not plain.facts
    update = train(task, runtime.client_data(0), model)
    assert isinstance(rule.sends, str)
    assert bool(update.facts) == bool(rule.sends)
    for fact in update.facts.values():
        assert isinstance(fact, np.ndarray)
        assert fact.dtype.kind in "iuf"
        assert np.isfinite(fact).all()
    check_memory(update.client_state)
    again = train(replace(task, round=1, client_state=update.client_state), runtime.client_data(0), model)
    assert again.facts.keys() == update.facts.keys()
    most = rule.max_steps(task)
    assert most is None or update.num_steps <= most
    correction = rule.correction(task)
    assert correction is None or correction.values.shape == (layout.trainable,)
    context = Context(start, 0, table, layout, seed=5, predict=predict)
    after, _ = part.apply([update], np.ones(1), context, state)
    assert after.problem(layout) is None
    if rule.sends:
        with pytest.raises(KeyError):
            part.apply([replace(update, facts={})], np.ones(1), context, state)


def test_every_client_rule_belongs_to_a_server_rule() -> None:
    rules = [build("server", name).client for name in known("server")]
    assert {rule.name for rule in rules if rule is not None} == set(known("client_rule")) - OF_PRIVACY


def test_average_by_hand() -> None:
    updates = [update_of(0, np.full(FLOATS, 1, np.float32), 7), update_of(1, np.full(FLOATS, 3, np.float32), 5)]
    start = Params(np.full(FLOATS, 99, np.float32), np.array([0]))
    after, state = build("server", "average").apply(updates, np.array([0.25, 0.75]), server_context(start), {})
    assert after.values.tolist() == [2.5] * FLOATS
    assert after.counters.tolist() == [7]
    assert state == {}


# Objectives


def runtime_of(part: Any) -> ClientRuntime:
    """Ten pictures of six of ten classes, and a network that the objective can train."""
    rng = np.random.default_rng(0)
    x, y = rng.integers(0, 256, (10, 1, 28, 28), dtype=np.uint8), np.array([0, 1, 2, 3, 4, 9, 0, 1, 1, 1])
    half, rows = np.full(1, 0.5, np.float32), np.arange(10)
    data = Dataset("ten", "image", x, y, x, y, tuple("0123456789"))
    federation = Federation(data, half, half, (rows,), (rows[:0],), np.arange(1), np.bincount(y, minlength=10)[None])
    make: Any = partial(build_model, "lenet_bn", (1, 28, 28), 10)
    network = partial(Concatenated, make, 5) if part.name in BRANCHES else make
    return ClientRuntime(federation, network, compiled=False)


def task_for(part: Any, runtime: ClientRuntime, *, before: bool) -> TrainTask:
    """A task for a client, with or without a model of its own from before."""
    start = runtime.model.dump()
    previous = {"previous": start.values * np.float32(0.9), "previous_counters": start.counters}
    training = replace(MethodSection().training(), batch_size=4, lr=1e-3)
    broadcast = {"clusters": np.array([1]), "phase": np.array(False)}
    kept = previous if before else {}
    return TrainTask(0, 0, 0, start, part, training, client_state=kept, broadcast=broadcast)


@of_kind("objective")
@pytest.mark.parametrize("before", [False, True])
def test_a_loss_to_descend(part: Any, before: bool) -> None:
    runtime = runtime_of(part)
    model = runtime.model.module
    part.check(model)
    task = task_for(part, runtime, before=before)
    x, y = torch.rand(6, 1, 28, 28), torch.tensor([0, 1, 2, 3, 4, 9])
    kept = x.clone(), y.clone()
    given = part.begin(task, runtime.client_data(0), runtime.model)(x)

    def loss() -> torch.Tensor:
        with torch_stream(0, "dropout"):
            found: torch.Tensor = part.loss(model, x, y, given)
        assert found.shape in ((), (len(part.terms),))
        assert found.isfinite().all()
        return found.sum()

    first = loss()
    first.backward()
    gradients = [p.grad for p in model.parameters() if p.grad is not None]
    assert all(gradient.isfinite().all() for gradient in gradients)
    assert any(gradient.any() for gradient in gradients)
    assert torch.equal(x, kept[0])
    assert torch.equal(y, kept[1])
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.grad is not None:
                parameter -= 1e-3 * parameter.grad
    assert float(loss().detach()) < float(first.detach())
    assert part.pull >= 0


@of_kind("objective")
@pytest.mark.parametrize("before", [False, True])
def test_training_is_a_function_of_the_task(part: Any, before: bool) -> None:
    runtime, other = runtime_of(part), runtime_of(part)
    task = task_for(part, runtime, before=before)
    one, two = (train(task, there.client_data(0), there.model) for there in (runtime, other))
    np.testing.assert_array_equal(one.params.values, two.params.values)
    assert (one.params.values != task.params.values).any()
    check_memory(one.client_state)
    assert same(one.client_state, two.client_state)
    assert tuple(one.terms) == part.terms
    if one.terms:
        assert sum(one.terms.values()) == pytest.approx(one.train_loss)


def test_cross_entropy_by_hand() -> None:
    """-ln(e / (e + 1)) and -ln(1/2)."""
    loss = build("objective", "cross_entropy").loss(
        torch.nn.Identity(), torch.tensor([[1.0, 0.0], [3.0, 3.0]]), torch.tensor([0, 1]), {}
    )
    assert float(loss) == pytest.approx((np.log1p(np.exp(-1)) + np.log(2)) / 2, rel=1e-6)


# Facts

NONSENSE = {
    "too few": np.ones(CLASSES - 1) / (CLASSES - 1),
    "too many": np.ones(CLASSES + 2) / (CLASSES + 2),
    "a table": np.full((1, CLASSES), 1 / CLASSES),
    "negative": np.array([2.0, -1.0, 0.0]),
    "not a number": np.array([np.nan, 1.0, 0.0]),
    "infinite": np.array([np.inf, 0.0, 0.0]),
    "huge": np.full(CLASSES, 1e300),
    "nothing at all": np.zeros(0),
    "text": "nonsense",
    "nothing": None,
    "a mapping": {},
    "a ragged list": [[1, 2], [3]],
    "texts": np.array(["a", "b", "c"]),
    "objects": np.array([1, None, 2], object),
    "complex numbers": np.array([0.5, 0.5j, 0.5]),
    "dates": np.array(["2020-01-01"] * CLASSES, "datetime64[D]"),
}


@of_kind("fact")
def test_what_a_fact_says_of_itself(part: Any) -> None:
    assert part.when in get_args(When)
    assert part.reveals.strip()
    assert part.reveals == type(part).reveals
    assert isinstance(part, LabelFact) <= (part.when == "once")


@of_kind("fact", without=TRAINED)
def test_what_is_measured_is_accepted(part: Any) -> None:
    runtime = runtime_of(build("objective", "cross_entropy"))
    data = runtime.client_data(0)
    kept, start = (data.x.clone(), data.y.clone()), runtime.model.dump()
    value = part.measure(data, runtime.model)
    assert isinstance(value, np.ndarray)
    assert value.dtype.kind in "iuf"
    assert part.problem(value, data.classes) is None
    np.testing.assert_array_equal(part.measure(data, runtime.model), value)
    assert torch.equal(data.x, kept[0])
    assert torch.equal(data.y, kept[1])
    np.testing.assert_array_equal(runtime.model.dump().values, start.values)


counts_told = arrays(np.float64, CLASSES, elements=st.one_of(st.integers(0, 500).map(float), st.floats(0.1, 500)))


@of_kind("fact")
@settings(deadline=None, max_examples=40)
@given(counts_told.filter(np.any))
def test_what_is_made_of_label_counts_is_accepted(part: Any, counts: np.ndarray) -> None:
    """The counts may be noised; a fact about labels is made of those that were released, and of nothing else."""
    if not isinstance(part, LabelFact):
        return
    value = part.of_counts(locked(counts))
    assert part.problem(value, CLASSES) is None
    data = ClientData(torch.zeros(4, 1), torch.tensor([0, 1, 1, 2]), CLASSES)
    np.testing.assert_array_equal(part.measure(replace(data, released=counts), None), value)
    np.testing.assert_array_equal(part.measure(data, None), part.of_counts(np.array([1.0, 2.0, 1.0])))


@of_kind("fact", without=TRAINED)
@pytest.mark.parametrize("what", NONSENSE)
def test_nonsense_is_refused(part: Any, what: str) -> None:
    reason = part.problem(NONSENSE[what], CLASSES)
    assert isinstance(reason, str)
    assert reason.strip()


def test_a_first_update_is_trained() -> None:
    runtime = runtime_of(build("objective", "cross_entropy"))
    for name in TRAINED:
        with pytest.raises(EntrofedError, match="trained, not measured"):
            build("fact", name).measure(runtime.client_data(0), runtime.model)
