"""The table under four selectors: what it keeps of an update, for how long, and in what form."""

import pickle
import subprocess
import sys
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from entrofed.core.params import Params
from entrofed.core.types import ClientTable, PartState, Update
from entrofed.errors import ConfigError, DataError
from entrofed.facts.first_update import FirstUpdate
from entrofed.methods.infodiv import convex_hull, interior, max_sim, minimax_sim
from entrofed.selectors.convex_hull import ConvexHull, Interior
from entrofed.selectors.gradient_table import GradientTable, sketch
from entrofed.selectors.minimax_sim import MaxSim, MiniMaxSim

PARTS: list[type[GradientTable]] = [MiniMaxSim, MaxSim, ConvexHull, Interior]
every = pytest.mark.parametrize("part", PARTS, ids=lambda part: part.name)
NO_COUNTERS = np.zeros(0, np.int64)
TRAINABLE = 3
PINNED = [2.0, -16.0, -3.0, -3.0]


def params(*values: float) -> Params:
    return Params(np.array(values, np.float32), NO_COUNTERS)


def update(client: int, *values: float) -> Update:
    return Update(client, params(*values), 10, 1, 0.5, 0.5)


def begin(part: GradientTable, clients: int = 6) -> PartState:
    return part.init(ClientTable(np.full(clients, 10), trainable=TRAINABLE), np.arange(clients))


def rows(part: GradientTable, state: PartState, among: Sequence[int]) -> tuple[dict[int, list[float]], list[int]]:
    there, found, without = part.table(state, np.array(among))
    return {int(client): row.tolist() for client, row in zip(there, found, strict=True)}, without


START = params(1, 1, 1, 7, 7)


@every
def test_a_row_is_what_training_took_away(part: type[GradientTable]) -> None:
    """w_t - w_k, the buffers at the end left out."""
    state = part().observe(begin(part()), START, [update(2, 0, 3, 1, 9, 9), update(0, 1, 1, 2, -5, 0)])
    assert rows(part(), state, [2, 0]) == ({0: [0, 0, -1], 2: [1, -2, 0]}, [])
    assert all(row.dtype == np.float32 for row in part().table(state, np.array([0, 2]))[1])


@every
def test_rows_stay_until_replaced(part: type[GradientTable]) -> None:
    survey = part().observe(begin(part()), START, [update(k, k, 0, 0, 0, 0) for k in range(3)])
    before = {name: array.copy() for name, array in survey.items()}
    later = params(10, 10, 10, 0, 0)
    state = part().observe(survey, later, [update(1, 9, 9, 9, 0, 0)])  # 0 and 2 were not chosen, or failed
    assert rows(part(), state, [0, 1, 2]) == ({0: [1, 1, 1], 1: [1, 1, 1], 2: [-1, 1, 1]}, [])
    assert rows(part(), survey, [1]) == ({1: [0, 1, 1]}, [])
    assert survey.keys() == before.keys()
    assert all(np.array_equal(survey[name], before[name]) for name in before)
    assert part().observe(state, later, []).keys() == state.keys()


@every
def test_clients_without_a_usable_row(part: type[GradientTable]) -> None:
    state = part().observe(begin(part()), START, [update(4, np.nan, 0, 0, 0, 0), update(1, 0, np.inf, 0, 0, 0)])
    state = part().observe(state, START, [update(2, 0, 0, 0, np.nan, 0)])  # a broken buffer is no part of the row
    assert rows(part(), state, [5, 4, 2, 1]) == ({2: [1, 1, 1]}, [1, 4, 5])


@every
def test_a_model_that_exploded_before_and_after(part: type[GradientTable]) -> None:
    start = params(np.inf, 3e38, np.nan, 0, 0)
    state = part().observe(begin(part()), start, [update(0, np.inf, -3e38, 1, 0, 0)])
    assert rows(part(), state, [0]) == ({}, [0])


@every
def test_all_are_asked_once_before_the_first_round(part: type[GradientTable]) -> None:
    assert part.facts == (FirstUpdate(),)
    assert not part().needs
    assert "Information-Theoretic" in part.reference


@every
def test_survives_a_checkpoint(part: type[GradientTable]) -> None:
    state = part().observe(begin(part()), START, [update(k, k, k * k, 1, 0, 0) for k in range(4)])
    assert all(isinstance(name, str) and isinstance(array, np.ndarray) for name, array in state.items())
    there = pickle.loads(pickle.dumps(dict(state)))  # noqa: S301 (our own bytes)
    assert rows(part(), there, range(6)) == rows(part(), state, range(6))


@every
@pytest.mark.parametrize("dim", [0, -3])
def test_impossible_sketches(part: type[GradientTable], dim: int) -> None:
    with pytest.raises(ConfigError, match=f"{part.name}: sketch_dim = {dim}"):
        part(sketch_dim=dim)


@every
@pytest.mark.parametrize("trainable", [0, 6])
def test_a_client_table_that_does_not_say_what_is_trained(part: type[GradientTable], trainable: int) -> None:
    state = part().init(ClientTable(np.ones(2, int), trainable=trainable), np.arange(2))
    with pytest.raises(DataError, match=rf"{trainable} of 5 values are trainable"):
        part().observe(state, START, [update(0, 0, 0, 0, 0, 0)])


# Sketches

vectors = st.integers(0, 2**32).map(lambda seed: np.random.default_rng(seed).standard_normal(300).astype(np.float32))


def sketch_by_hand(row: np.ndarray, dim: int) -> list[float]:
    """The hash read off unit vectors: bucket and sign of each coordinate."""
    sums = [0.0] * dim
    for i, value in enumerate(row.tolist()):
        unit = sketch(np.eye(1, len(row), i, dtype=np.float32)[0], dim)
        (bucket,) = np.flatnonzero(unit)
        assert unit[bucket] in (-1, 1)
        sums[bucket] += float(unit[bucket]) * value
    return sums


def test_every_coordinate_goes_to_one_bucket_with_a_sign() -> None:
    row = np.random.default_rng(0).standard_normal(300).astype(np.float32)
    found = sketch(row, 16)
    assert found.shape == (16,)
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, sketch_by_hand(row, 16), rtol=1e-6, atol=1e-6)


@given(vectors, vectors)
def test_sketches_are_linear(x: np.ndarray, y: np.ndarray) -> None:
    np.testing.assert_allclose(sketch(x + y, 32), sketch(x, 32) + sketch(y, 32), atol=1e-4)


def test_the_hash_is_pinned() -> None:
    """A resumed run must meet the buckets it began with: these numbers must never change."""
    assert sketch(np.arange(1, 9, dtype=np.float32), 4).tolist() == PINNED
    code = "import numpy as np; from entrofed.selectors.gradient_table import sketch; "
    code += "sketch(np.ones(99, 'f4'), 7); print(sketch(np.arange(1, 9, dtype='f4'), 4).tolist())"
    elsewhere = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert elsewhere.stdout.strip() == str(PINNED)


def test_buckets_and_signs_are_even() -> None:
    """Chi-squared with 15 degrees of freedom is below 37.7 with probability 0.999; signs within four deviations."""
    width, dim = 16_000, 16
    total = sum(sketch(np.eye(1, width, i, dtype=np.float32)[0], dim) for i in range(0, width, 10))
    weight = sum(np.abs(sketch(np.eye(1, width, i, dtype=np.float32)[0], dim)) for i in range(0, width, 10))
    assert ((weight - 100) ** 2 / 100).sum() < 37.7
    assert abs(total.sum()) < 4 * np.sqrt(width / 10)


@pytest.mark.parametrize("dim", [256, 1024])
def test_cosines_survive_sketching(dim: int) -> None:
    """Independent directions with cosine rho: the error has deviation (1 - rho^2) / sqrt(dim)."""
    rng = np.random.default_rng(0)
    for rho in (0.0, 0.6, -0.9):
        errors = []
        for _ in range(60):
            x, z = rng.standard_normal((2, 4000))
            y = rho * x + np.sqrt(1 - rho**2) * z
            a, b = (sketch(row.astype(np.float32), dim).astype(np.float64) for row in (x, y))
            exact = x @ y / np.linalg.norm(x) / np.linalg.norm(y)
            errors.append(a @ b / np.linalg.norm(a) / np.linalg.norm(b) - exact)
        expected = (1 - rho**2) / np.sqrt(dim)
        assert np.std(errors) == pytest.approx(expected, rel=3 / np.sqrt(2 * 60))
        assert abs(np.mean(errors)) < 4 * expected / np.sqrt(60)


@every
def test_the_table_keeps_sketches(part: type[GradientTable]) -> None:
    rng = np.random.default_rng(0)
    start, trained = (Params(rng.standard_normal(50).astype(np.float32), NO_COUNTERS) for _ in range(2))
    keeper = part(sketch_dim=8)
    state = keeper.init(ClientTable(np.ones(3, int), trainable=40), np.arange(3))
    state = keeper.observe(state, start, [Update(1, trained, 10, 1, 0.5, 0.5)])
    _, (row,), without = keeper.table(state, np.arange(3))
    np.testing.assert_array_equal(row, sketch((start.values - trained.values)[:40], 8))
    assert without == [0, 2]


@every
def test_a_broken_row_stays_broken_in_a_sketch(part: type[GradientTable]) -> None:
    keeper = part(sketch_dim=2)
    state = keeper.observe(begin(keeper), START, [update(0, np.nan, 0, 0, 0, 0), update(1, np.inf, 0, 0, 0, 0)])
    assert keeper.table(state, np.arange(2))[2] == [0, 1]


# Recipes


@pytest.mark.parametrize(
    ("recipe", "part"),
    [(minimax_sim, MiniMaxSim), (max_sim, MaxSim), (convex_hull, ConvexHull), (interior, Interior)],
)
def test_recipes(recipe: Any, part: type[GradientTable]) -> None:
    method = recipe()
    assert method.selector == part()
    assert [p.name for p in (method.weigher, method.objective, method.server)] == [
        "uniform",
        "cross_entropy",
        "average",
    ]
    assert recipe.__name__ == part.name
    assert method.facts == method.facts_told("once") == (FirstUpdate(),)
    assert not method.needs
