"""Tasks and updates as messages, and back: nothing is lost on the way."""

import pytest

pytest.importorskip("flwr", reason="needs the extra flower")

from dataclasses import replace
from functools import cache
from io import BytesIO

import hypothesis.extra.numpy as hnp
import numpy as np
import torch
from flwr.app import Array, ArrayRecord, ConfigRecord, RecordDict
from hypothesis import given, settings
from hypothesis import strategies as st

from entrofed.core.params import Layout, Params
from entrofed.core.tasks import TrainTask
from entrofed.core.types import Failure, Training, Update
from entrofed.errors import ConfigError, DataError
from entrofed.flower.arrays import KEPT, Format, read_array, read_state, size_of, write_state
from entrofed.flower.wire import read_task, read_update, write_task, write_update
from entrofed.methods import METHODS

MODELS = {
    "dense": lambda: torch.nn.Sequential(torch.nn.Linear(3, 2), torch.nn.Linear(2, 2)),
    "batch norm": lambda: torch.nn.Sequential(torch.nn.Conv2d(1, 2, 3), torch.nn.BatchNorm2d(2), torch.nn.Linear(2, 1)),
    "norm first": lambda: torch.nn.Sequential(torch.nn.BatchNorm1d(2), torch.nn.Linear(2, 3), torch.nn.BatchNorm1d(3)),
}


@cache
def layout_of(model):
    return Layout.of(MODELS[model]())


@st.composite
def params(draw, layout):
    floats = hnp.arrays(np.float32, layout.floats, elements=st.floats(width=32))
    return Params(draw(floats), draw(hnp.arrays(np.int64, layout.counters)))


names = st.text("abcdefgh./_0123", min_size=1, max_size=8).filter(lambda name: not name.startswith("__"))
arrays = hnp.arrays(st.sampled_from(KEPT), hnp.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=3))
states = st.dictionaries(names, arrays, max_size=3)


def equal(one, two):
    return one.dtype == two.dtype and one.shape == two.shape and one.tobytes() == two.tobytes()


def same_states(one, two):
    return one.keys() == two.keys() and all(equal(one[key], two[key]) for key in one)


def same_params(one, two):
    return equal(one.values, two.values) and equal(one.counters, two.counters)


@given(arrays)
def test_arrays(values):
    assert equal(read_array(Array(values)), values)


@given(hnp.arrays(np.float32, (2, 3)))
def test_arrays_with_columns_first(values):
    file = BytesIO()
    np.save(file, np.asfortranarray(values))
    found = read_array(Array("float32", (2, 3), "numpy.ndarray", file.getvalue()))
    assert equal(np.ascontiguousarray(found), values)


@settings(max_examples=200)
@given(st.binary(max_size=200), st.integers(0, 200))
def test_bytes_that_are_no_array(noise, place):
    """Bytes of an array with some replaced: an array of the same size, or a DataError."""
    file = BytesIO()
    np.save(file, np.arange(6, dtype=np.float32))
    data = file.getvalue()
    data = data[:place] + noise + data[place + len(noise) :]
    try:
        found = read_array(Array("float32", (6,), "numpy.ndarray", data))
    except DataError:
        return
    assert found.dtype in KEPT
    assert found.nbytes <= len(data)


@pytest.mark.parametrize("kind", ["f16", "c8", "U3", "M8[s]", "V4", "f4,i4", ">f4"])
def test_types_of_arrays_that_are_not_taken(kind):
    with pytest.raises(DataError, match="an array of type"):
        read_array(Array(np.zeros(2, kind)))


def test_other_ways_to_write_an_array():
    with pytest.raises(DataError, match="written as 'pickle'"):
        read_array(Array("float32", (1,), "pickle", b"cos\nsystem\n(S'true'\ntR."))


@given(st.sampled_from(sorted(MODELS)), st.data())
def test_models(model, data):
    form = Format.by_layout(layout_of(model))
    here = data.draw(params(form.layout))
    assert same_params(form.read(form.write(here)), here)


@pytest.mark.parametrize("model", MODELS)
def test_a_model_is_known_by_its_arrays(model):
    """The layout is that of the module, and the keys keep their task."""
    module = MODELS[model]()
    record = ArrayRecord(module.state_dict())
    form, layout = Format.of(record), Layout.of(module)
    assert form.layout == layout
    written = form.write(form.read(record))
    assert list(written) == list(module.state_dict())
    assert same_params(form.read(record), layout.read(module))
    module.load_state_dict(written.to_torch_state_dict())


def test_a_model_that_cannot_be():
    with pytest.raises(ConfigError, match="float16"):
        Format.of(ArrayRecord({"w": Array(np.zeros(2, np.float16))}))


@given(states)
def test_states(state):
    content = RecordDict({"state": write_state(state)})
    assert same_states(read_state(content, "state"), state)
    assert read_state(content, "another") == {}


training = st.builds(
    Training,
    epochs=st.integers(1, 5),
    batch_size=st.integers(1, 64),
    optimizer=st.sampled_from(["sgd", "adam"]),
    lr=st.floats(1e-6, 10),
    momentum=st.floats(0, 0.99),
    weight_decay=st.floats(0, 1),
    persist_optimizer=st.booleans(),
    augment=st.sampled_from([(), ("flip",), ("flip", "crop")]),
)


@given(st.sampled_from(sorted(METHODS)), st.sampled_from(sorted(MODELS)), training, states, states, st.data())
def test_tasks_of_every_method(method, model, train, memory, broadcast, data):
    recipe, form = METHODS[method](), Format.by_layout(layout_of(model))
    limits = data.draw(st.none() | hnp.arrays(np.int64, 3, elements=st.integers(0, 2**53)))
    task = TrainTask(
        client=data.draw(st.integers(0, 10**6)),
        round=data.draw(st.integers(0, 10**6)),
        seed=data.draw(st.integers(0, 2**63)),
        params=data.draw(params(form.layout)),
        objective=recipe.objective,
        training=train,
        cost=3,
        client_state=memory,
        purpose=data.draw(st.sampled_from(["train", "survey"])),
        facts=recipe.facts_told("with_update"),
        limits=limits,
        rule=recipe.server.client,
        broadcast=broadcast,
    )
    content = write_task(task, form, ConfigRecord({"theirs": 1.5}))
    assert content["config"]["theirs"] == 1.5
    assert content["config"]["server-round"] == task.round + 1
    found = read_task(content, form)
    assert same_params(found.params, task.params)
    assert same_states(found.client_state, memory)
    assert same_states(found.broadcast, broadcast)
    assert (found.limits is None) == (limits is None)
    if limits is not None:
        assert equal(found.limits, limits)
    left = {"params": None, "client_state": None, "broadcast": None, "limits": None, "cost": 0}
    assert replace(found, **left) == replace(task, **left)


def a_task(form, method="fedavg"):
    recipe = METHODS[method]()
    start = Params(np.zeros(form.layout.floats, np.float32), np.zeros(form.layout.counters, np.int64))
    how = Training(2, 16, "sgd", 0.1, 0.0, 0.0, False, ())
    return TrainTask(
        7, 3, 0, start, recipe.objective, how, 1, facts=recipe.facts_told("with_update"), rule=recipe.server.client
    )


@given(st.sampled_from(sorted(MODELS)), states, st.integers(1, 10**6), st.floats(), st.data())
def test_updates(model, memory, examples, loss, data):
    form = Format.by_layout(layout_of(model))
    steps = data.draw(st.integers(1, 2 * -(-examples // 16)))
    update = Update(7, data.draw(params(form.layout)), examples, steps, loss, 0.5, 1.5, client_state=memory)
    found = read_update(write_update(update, form), a_task(form), form, ours=True)
    assert isinstance(found, Update)
    assert same_params(found.params, update.params)
    assert same_states(found.client_state, memory)
    np.testing.assert_equal(replace(found, params=None, client_state={}), replace(update, params=None, client_state={}))


def test_the_terms_of_a_loss_come_along():
    form = Format.by_layout(layout_of("dense"))
    task = a_task(form, "moon")
    update = Update(7, task.params, 10, 2, 1.5, 1.5, terms={"cross_entropy": 1.0, "contrastive": 0.5})
    assert read_update(write_update(update, form), task, form, ours=True).terms == update.terms


@settings(max_examples=50)
@given(
    st.dictionaries(names, st.integers(-5, 5) | st.floats() | st.lists(st.integers(0, 5), min_size=1), max_size=3),
    st.dictionaries(names, st.text(max_size=5) | st.booleans() | st.binary(max_size=5), max_size=3),
    st.dictionaries(names, arrays, max_size=3),
    st.sampled_from(["metrics", "m"]),
    st.sampled_from(["arrays", "entrofed.facts"]),
    st.sampled_from(["entrofed.update", "config"]),
)
def test_nonsense_is_a_failure(numbers, words, held, metrics, arrays_name, config):
    from flwr.app import MetricRecord

    form = Format.by_layout(layout_of("dense"))
    records = {metrics: MetricRecord(numbers), config: ConfigRecord(words), arrays_name: write_state(held)}
    content = RecordDict(records)
    assert size_of(content) >= sum(array.nbytes for array in held.values())
    for ours in (True, False):
        assert isinstance(read_update(content, a_task(form), form, ours=ours), Failure)
