"""Sums of models, held to a plain twin: with numpy alone, and compiled."""

import builtins
from collections.abc import Iterator, Sequence
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from entrofed.core import sums
from entrofed.core.sums import BLOCK, weighted_sum


@pytest.fixture(params=["numpy", "compiled"])
def way(request: pytest.FixtureRequest) -> Iterator[str]:
    """Both ways, whatever the size."""
    if request.param == "compiled":
        pytest.importorskip("numba")
    with patch.object(sums, "LARGE", 0 if request.param == "compiled" else 1 << 60):
        yield request.param


def plain_sum(rows: Sequence[np.ndarray], weights: np.ndarray) -> np.ndarray:
    """One number at a time, in Python's own float64."""
    totals = []
    for i in range(len(rows[0])):
        total = 0.0
        for row, weight in zip(rows, weights, strict=True):
            total += float(row[i]) * float(weight)
        totals.append(total)
    return np.array(totals, np.float64)


def same_bits(found: np.ndarray, expected: np.ndarray) -> None:
    assert found.dtype == np.float64
    np.testing.assert_array_equal(found.view(np.uint64), expected.view(np.uint64))


@pytest.mark.parametrize("clients", [3, 4, 6])
@pytest.mark.parametrize("length", [0, 1, BLOCK - 1, BLOCK, BLOCK + 1])
def test_the_plain_sum_around_a_block(way: str, length: int, clients: int) -> None:
    rng = np.random.default_rng(length)
    rows = [rng.standard_normal(length).astype(np.float32) for _ in range(clients)]
    weights = rng.dirichlet(np.ones(clients))
    same_bits(weighted_sum(rows, weights), plain_sum(rows, weights))


numbers = st.floats(width=32, allow_nan=False, allow_infinity=False)


@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data(), st.integers(1, 9), st.integers(0, 40), st.integers(1, 9))
def test_the_plain_sum(way: str, data: st.DataObject, clients: int, length: int, block: int) -> None:
    rows = [
        np.array(data.draw(st.lists(numbers, min_size=length, max_size=length)), np.float32) for _ in range(clients)
    ]
    weights = np.array(data.draw(st.lists(st.floats(0, 1), min_size=clients, max_size=clients)))
    with patch.object(sums, "BLOCK", block):
        same_bits(weighted_sum(rows, weights), plain_sum(rows, weights))


def test_the_order_of_accumulation_is_the_order_given(way: str) -> None:
    big, one, minus, none = (np.array([value], np.float32) for value in (2.0**53, 1, -(2.0**53), 0))
    ones = np.ones(4)
    assert weighted_sum([big, one, minus, none], ones).tolist() == [0]  # 2**53 + 1 is not a float64
    assert weighted_sum([big, minus, one, none], ones).tolist() == [1]


def test_what_is_not_finite_stays_in_its_place(way: str) -> None:
    rows = [np.array([np.inf, 1], np.float32), *(np.array([1, 1], np.float32) for _ in range(4))]
    assert weighted_sum(rows, np.full(5, 0.25)).tolist() == [np.inf, 1.25]


def test_a_weight_for_every_row(way: str) -> None:
    with pytest.raises(ValueError, match="2 rows and 1 weights"):
        weighted_sum([np.zeros(2, np.float32)] * 2, np.ones(1))


def test_inputs_are_left_alone_and_may_be_strided(way: str) -> None:
    row, weights = np.arange(6, dtype=np.float32)[::2], np.full(4, 0.25)
    row.flags.writeable = weights.flags.writeable = False
    assert weighted_sum([row] * 4, weights).tolist() == [0, 2, 4]


def test_large_sums_do_without_numba() -> None:
    def without(name: str, *rest: Any, **named: Any) -> Any:
        if name == "numba":
            raise ImportError(name)
        return load(name, *rest, **named)

    load = builtins.__import__
    rows = [np.full(3, k, np.float32) for k in range(4)]
    sums._compiled.cache_clear()
    try:
        with patch.object(builtins, "__import__", without), patch.object(sums, "LARGE", 0):
            assert weighted_sum(rows, np.ones(4)).tolist() == [6, 6, 6]
            assert sums._compiled() is None
    finally:
        sums._compiled.cache_clear()
