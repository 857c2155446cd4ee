"""Named streams: the same name the same draws, whatever else is drawn."""

from itertools import pairwise

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from entrofed.core.seeds import stream, streams, torch_stream

word = st.integers(0, 2**32 - 1)
names = st.tuples(st.integers(0, 2**64), st.text(max_size=8), st.lists(word, max_size=3).map(tuple))


def raw(name: tuple[int, str, tuple[int, ...]]) -> list[int]:
    seed, purpose, key = name
    return [int(x) for x in stream(seed, purpose, *key).bit_generator.random_raw(4)]


@given(names)
def test_same_name_same_draws(name: tuple[int, str, tuple[int, ...]]) -> None:
    assert raw(name) == raw(name)


@given(names, names)
def test_different_names_differ(one: tuple[int, str, tuple[int, ...]], other: tuple[int, str, tuple[int, ...]]) -> None:
    assert (raw(one) == raw(other)) == (one == other)


@given(names, st.lists(st.one_of(word, st.integers(0, 2**40)), max_size=5))
def test_streams_named_at_once_are_those_named_one_by_one(
    name: tuple[int, str, tuple[int, ...]], last: list[int]
) -> None:
    seed, purpose, key = name
    for some in (last, [k % 2**32 for k in last]):
        found = [[int(x) for x in one.bit_generator.random_raw(4)] for one in streams(seed, purpose, *key, last=some)]
        assert found == [raw((seed, purpose, (*key, k))) for k in some]


@pytest.mark.parametrize("seed", [0, 7, 2**32 - 1, 2**32, 2**70])
def test_streams_of_seeds_of_any_length(seed: int) -> None:
    found = [one.bit_generator.state for one in streams(seed, "train", 3, last=[0, 1, 2**32 - 1])]
    assert found == [stream(seed, "train", 3, k).bit_generator.state for k in (0, 1, 2**32 - 1)]


def test_neighbouring_names_differ() -> None:
    near = [
        (0, "train", ()),
        (0, "train", (0,)),
        (0, "train", (0, 0)),
        (0, "train", (0, 1)),
        (0, "train", (1, 0)),
        (0, "trains", (1, 0)),
        (1, "train", (1, 0)),
    ]
    draws = {tuple(raw(name)) for name in near}
    assert len(draws) == len(near)


def test_a_stream_does_not_care_what_is_drawn_elsewhere() -> None:
    alone = stream(3, "select", 1).random(5)
    numpy_state = np.random.get_state()  # noqa: NPY002
    try:
        np.random.seed(99)  # noqa: NPY002
        torch.manual_seed(99)
        a, b = stream(3, "select", 1), stream(3, "select", 2)
        mixed = []
        for _ in range(5):
            b.random(17)
            np.random.random()  # noqa: NPY002
            mixed.append(a.random())
    finally:
        np.random.set_state(numpy_state)  # noqa: NPY002
    assert mixed == alone.tolist()


def test_streams_leave_the_ambient_state_alone() -> None:
    before_torch = torch.get_rng_state()
    before_numpy = np.random.get_state()[1].tolist()  # noqa: NPY002
    stream(1, "x").random(100)
    with torch_stream(1, "x"):
        torch.rand(100)
    assert torch.equal(torch.get_rng_state(), before_torch)
    assert np.random.get_state()[1].tolist() == before_numpy  # noqa: NPY002


def test_torch_draws_the_same_twice_whatever_came_before() -> None:
    draws = []
    for ambient in (1, 2):
        torch.manual_seed(ambient)
        with torch_stream(5, "layers", 3, 4):
            draws.append((torch.randn(8), torch.nn.functional.dropout(torch.ones(64)), torch.randperm(9)))
    for first, second in zip(*draws, strict=True):
        assert torch.equal(first, second)


def test_torch_streams_differ_by_name() -> None:
    draws = []
    for seed, purpose, key in ((5, "a", 1), (5, "a", 2), (5, "b", 1), (6, "a", 1)):
        with torch_stream(seed, purpose, key):
            draws.append(torch.randint(2**60, (4,)).tolist())
    assert all(a != b for a, b in pairwise(sorted(draws)))


def test_ambient_torch_draws_go_on_as_if_nothing_had_been() -> None:
    torch.manual_seed(8)
    expected = torch.rand(6)
    torch.manual_seed(8)
    first = torch.rand(3)
    with torch_stream(1, "init"):
        torch.rand(50)
    assert torch.equal(torch.cat([first, torch.rand(3)]), expected)


def test_ambient_state_returns_after_an_exception() -> None:
    def draw_and_fail() -> None:
        torch.rand(5)
        raise KeyError

    before = torch.get_rng_state()
    with pytest.raises(KeyError), torch_stream(1, "init"):
        draw_and_fail()
    assert torch.equal(torch.get_rng_state(), before)


def test_nested_torch_streams() -> None:
    with torch_stream(1, "outer"):
        expected = torch.rand(4)
    with torch_stream(1, "outer"):
        first = torch.rand(2)
        with torch_stream(1, "inner"):
            torch.rand(7)
        second = torch.rand(2)
    assert torch.equal(torch.cat([first, second]), expected)
