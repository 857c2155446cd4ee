"""States on disk: what goes in comes out, and damage is noticed and survived."""

import json
from hashlib import sha256
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays
from safetensors.numpy import load, save

from entrofed.core.params import Layout, Params
from entrofed.core.types import PartState, State
from entrofed.errors import CheckpointError
from entrofed.experiment.checkpoint import KEEP, Checkpoints, pack, unpack
from entrofed.experiment.client_state import ClientStates, ClientStateStore

MODEL = torch.nn.Sequential(torch.nn.Linear(3, 2), torch.nn.BatchNorm1d(2))
LAYOUT = Layout.of(MODEL)


def state(number: int = 4, **parts: Any) -> State:
    params = Params(np.arange(LAYOUT.floats, dtype=np.float32) + number, np.array([number]))
    return State(**{"round": number, "params": params, "selector": {}, "server": {}, "client_states": {}, **parts})


def check_arrays(found: PartState, expected: PartState) -> None:
    assert found.keys() == expected.keys()
    for name, array in expected.items():
        assert found[name].shape == array.shape
        assert found[name].dtype == array.dtype
        np.testing.assert_array_equal(found[name], array)


def check_same(found: State | None, expected: State) -> None:
    assert found is not None
    assert (found.round, found.skipped) == (expected.round, expected.skipped)
    np.testing.assert_array_equal(found.params.values, expected.params.values)
    np.testing.assert_array_equal(found.params.counters, expected.params.counters)
    check_arrays(found.selector, expected.selector)
    check_arrays(found.server, expected.server)
    assert found.client_states.keys() == expected.client_states.keys()
    for client, values in expected.client_states.items():
        check_arrays(found.client_states[client], values)


def check_survives(whole: State) -> None:
    """Packed and unpacked, a state is the same."""
    with TemporaryDirectory() as folder:
        store = ClientStateStore(Path(folder), 0)
        raw = pack(whole, LAYOUT, (ClientStates(store) | whole.client_states).write())
        check_same(unpack(raw, LAYOUT, store), whole)


any_array = st.sampled_from([np.float32, np.float64, np.int64, np.int32, np.uint8, np.bool_]).flatmap(
    lambda dtype: arrays(dtype, array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=3))
)
part_states = st.dictionaries(st.text(min_size=1, max_size=6), any_array, max_size=3)


@settings(deadline=None)
@given(
    part_states,
    part_states,
    st.dictionaries(st.integers(0, 10**6), part_states, max_size=3),
    st.integers(0, 10**9),
    st.integers(0, 9),
)
def test_what_goes_in_comes_out(
    selector: PartState, server: PartState, memory: dict[int, PartState], number: int, skipped: int
) -> None:
    whole = state(number, selector=selector, server=server, client_states=memory, skipped=skipped)
    check_survives(whole)


@pytest.mark.parametrize(
    "array",
    [
        np.array(7),
        np.array(2.5, np.float32),
        np.zeros(0),
        np.zeros((2, 0, 3), np.int64),
        np.asfortranarray(np.arange(6.0).reshape(2, 3)),
        np.arange(10)[::-3],
    ],
    ids=["number", "float number", "empty", "empty 3d", "fortran", "strided"],
)
def test_odd_arrays(array: np.ndarray) -> None:
    whole = state(selector={"x": array}, server={"x": array}, client_states={3: {"x": array}})
    check_survives(whole)


def test_tensors_carry_torchs_names() -> None:
    tensors = load(pack(state(4), LAYOUT, {}))
    model = {name.removeprefix("model/"): array for name, array in tensors.items() if name.startswith("model/")}
    assert model.keys() == MODEL.state_dict().keys()
    assert model["0.weight"].tolist() == [[4, 5, 6], [7, 8, 9]]
    assert model["1.num_batches_tracked"].shape == ()


def changed(**tensors: np.ndarray | None) -> bytes:
    """A packed state with some tensors replaced or removed."""
    kept = {**load(pack(state(), LAYOUT, {})), **{name.replace("__", "/"): t for name, t in tensors.items()}}
    return save({name: tensor for name, tensor in kept.items() if tensor is not None})


@pytest.mark.parametrize(
    ("raw", "said"),
    [
        (b"", "not a checkpoint of this model"),
        (b"{}", "not a checkpoint of this model"),
        (b"\xff" * 100, "not a checkpoint of this model"),
        (pack(state(), LAYOUT, {})[:-1], "not a checkpoint of this model"),
        (save({"nowhere": np.zeros(1)}), "not a checkpoint of this model"),
        (save({"elsewhere/x": np.zeros(1)}), "not a checkpoint of this model"),
        (changed(run__round=None), "not a checkpoint of this model"),
        (changed(run__round=np.zeros(0, np.int64)), "not a checkpoint of this model"),
        (changed(memory__three=np.zeros(32, np.uint8)), "not a checkpoint of this model"),
        (changed(memory__3=np.zeros(32, np.uint8)), f"{'00' * 32}.safetensors: unreadable state of a client"),
        (changed(**{"model__0.bias": None}), "'0.bias' should have shape (2,), found nothing"),
        (changed(**{"model__0.bias": np.zeros(3, np.float32)}), "'0.bias' should have shape (2,), found (3,)"),
    ],
)
def test_what_is_no_checkpoint(tmp_path: Path, raw: bytes, said: str) -> None:
    with pytest.raises(CheckpointError) as caught:
        unpack(raw, LAYOUT, ClientStateStore(tmp_path, 0))
    assert said in str(caught.value)


@pytest.fixture
def kept(tmp_path: Path) -> Checkpoints:
    return Checkpoints(tmp_path / "checkpoints", LAYOUT, ClientStateStore(tmp_path / "memory", 10**6))


def names(checkpoints: Checkpoints) -> list[str]:
    return sorted(path.name for path in checkpoints.folder.iterdir())


def test_nothing_kept_yet(kept: Checkpoints) -> None:
    assert kept.last() == (None, [])


def test_only_the_last_two_are_kept(kept: Checkpoints) -> None:
    assert KEEP == 2
    for number in (1, 2, 9, 10, 11):
        kept.save(state(number))
        found, problems = kept.last()
        check_same(found, state(number))
        assert problems == []
    assert names(kept) == [
        "round-000010.json",
        "round-000010.safetensors",
        "round-000011.json",
        "round-000011.safetensors",
    ]


def test_the_manifest_vouches(kept: Checkpoints) -> None:
    kept.save(state(5, client_states={3: {"x": np.zeros(2)}}))
    raw = (kept.folder / "round-000005.safetensors").read_bytes()
    manifest = json.loads((kept.folder / "round-000005.json").read_text())
    [remembered] = kept.store.folder.iterdir()
    assert manifest == {
        "round": 5,
        "bytes": len(raw),
        "sha256": sha256(raw).hexdigest(),
        "memory": {"3": sha256(remembered.read_bytes()).hexdigest()},
    }


def flip_a_bit(path: Path) -> None:
    raw = bytearray(path.read_bytes())
    raw[-3] ^= 1
    path.write_bytes(raw)


DAMAGE = {
    "a bit": ("safetensors", flip_a_bit, "damaged: its SHA-256 is"),
    "cut off": ("safetensors", lambda path: path.write_bytes(path.read_bytes()[:-7]), "damaged: its SHA-256 is"),
    "emptied": ("safetensors", lambda path: path.write_bytes(b""), "damaged: its SHA-256 is"),
    "tensors gone": ("safetensors", Path.unlink, "unreadable checkpoint"),
    "garbage": ("json", lambda path: path.write_bytes(b"\xff\x00{"), "unreadable checkpoint"),
    "half": ("json", lambda path: path.write_text(path.read_text()[:20]), "unreadable checkpoint"),
    "a list": ("json", lambda path: path.write_text("[1]"), "unreadable checkpoint"),
    "no hash": ("json", lambda path: path.write_text('{"round": 2}'), "unreadable checkpoint"),
    "hash null": ("json", lambda path: path.write_text('{"sha256": null}'), "damaged: its SHA-256 is"),
    "hash a number": ("json", lambda path: path.write_text('{"sha256": 5}'), "damaged: its SHA-256 is"),
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_a_damaged_last_one_is_named_and_the_one_before_serves(kept: Checkpoints, damage: str) -> None:
    suffix, spoil, said = DAMAGE[damage]
    kept.save(state(1))
    kept.save(state(2))
    spoil(kept.folder / f"round-000002.{suffix}")
    found, problems = kept.last()
    check_same(found, state(1))
    assert len(problems) == 1
    assert "round-000002" in problems[0]
    assert said in problems[0]


@pytest.mark.parametrize("damage", DAMAGE)
def test_all_damaged(kept: Checkpoints, damage: str) -> None:
    suffix, spoil, _ = DAMAGE[damage]
    for number in (1, 2):
        kept.save(state(number))
    for number in (1, 2):
        spoil(kept.folder / f"round-{number:06d}.{suffix}")
    found, problems = kept.last()
    assert found is None
    assert ["round-000002" in problems[0], "round-000001" in problems[1]] == [True, True]


def test_without_a_manifest_it_does_not_count(kept: Checkpoints) -> None:
    kept.save(state(1))
    kept.save(state(2))
    (kept.folder / "round-000002.json").unlink()
    found, problems = kept.last()
    check_same(found, state(1))
    assert problems == []


def test_another_models_checkpoint_is_named(kept: Checkpoints) -> None:
    kept.save(state(1))
    found, problems = Checkpoints(kept.folder, Layout.of(torch.nn.Linear(3, 3)), kept.store).last()
    assert found is None
    assert "round-000001.safetensors: tensor 'weight' should have shape (3, 3), found nothing" in problems[0]


def test_starting_over_replaces_what_could_not_be_used(kept: Checkpoints) -> None:
    """Both are damaged, the run starts from the beginning: its first checkpoint must not be forgotten."""
    for number in (8, 9):
        kept.save(state(number))
        flip_a_bit(kept.folder / f"round-{number:06d}.safetensors")
    kept.save(state(3))
    found, problems = kept.last()
    check_same(found, state(3))
    assert problems == []
    assert names(kept) == ["round-000003.json", "round-000003.safetensors"]
