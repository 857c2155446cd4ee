from math import cos, isnan, pi, sin, sqrt

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from entrofed.info import similarity
from entrofed.info.similarity import blocks, closest, cosines

values = st.one_of(st.just(0.0), st.floats(1e-3, 1e3), st.floats(-1e3, -1e-3))
matrices = st.tuples(st.integers(1, 6), st.integers(1, 5)).flatmap(
    lambda shape: arrays(np.float64, shape, elements=values)
)


def cosine(a, b):
    return sum(x * y for x, y in zip(a, b, strict=True)) / sqrt(sum(x * x for x in a)) / sqrt(sum(y * y for y in b))


def test_unit_vectors():
    rows = [np.array([cos(a * pi / 180), sin(a * pi / 180)]) for a in (0, 30, 90, 180)]
    assert closest(rows) == pytest.approx([0.866025403784439, 0.866025403784439, 0.5, 0], rel=1e-9, abs=1e-15)


def test_five_vectors():
    rows = np.array([[1, 2, 3], [2, 4, 6.1], [-1, 0, 1], [0, -3, 1], [5, 5, -5]])
    expected = [0.999968786189, 0.999968786189, 0.383294762581, 0.22360679775, 0]
    assert closest(rows) == pytest.approx(expected, rel=1e-9, abs=1e-15)


@given(rows=matrices)
def test_pairs_one_by_one(rows):
    found, best = cosines(rows), closest(rows)
    usable = [i for i in range(len(rows)) if rows[i].any()]
    for i in range(len(rows)):
        for j in range(len(rows)):
            if i in usable and j in usable:
                assert found[i, j] == pytest.approx(cosine(rows[i], rows[j]), rel=1e-9, abs=1e-12)
                assert -1 <= found[i, j] <= 1
            else:
                assert isnan(found[i, j])
        others = [cosine(rows[i], rows[j]) for j in usable if j != i] if i in usable else []
        if others:
            assert best[i] == pytest.approx(max(others), rel=1e-9, abs=1e-12)
        else:
            assert best[i] == -np.inf if i in usable else isnan(best[i])


@given(rows=matrices, data=st.data())
def test_length_does_not_count(rows, data):
    powers = data.draw(arrays(np.int64, len(rows), elements=st.integers(-900, 900)))
    np.testing.assert_array_equal(cosines(np.ldexp(rows, powers[:, None])), cosines(rows))


def test_rows_without_direction():
    rows = [np.array(row, np.float32) for row in ([1, 0], [0, 0], [np.nan, 1], [np.inf, 1], [1, 1])]
    np.testing.assert_allclose(closest(rows), [sqrt(0.5), np.nan, np.nan, np.nan, sqrt(0.5)], rtol=1e-15)


def test_duplicates_are_as_alike_as_can_be():
    row = np.random.default_rng(0).standard_normal(1000)
    assert closest([row, -row, row * 3]) == pytest.approx([1, -1, 1], rel=1e-15)


def test_few_rows():
    assert closest([]).shape == (0,)
    assert closest([np.ones(3)]).tolist() == [-np.inf]
    assert isnan(closest([np.zeros(3)])[0])
    assert isnan(closest([np.zeros(0)])[0])


def test_blocks_make_no_difference(monkeypatch):
    """Float32 rows are summed in float64, however many columns are taken at a time."""
    rows = np.random.default_rng(1).standard_normal((5, 1003)).astype(np.float32)
    whole = rows.astype(np.float64)
    expected = whole @ whole.T / np.outer(*[np.linalg.norm(whole, axis=1)] * 2)
    for cells in (1, 7, 64, 10**6):
        monkeypatch.setattr(similarity, "CELLS", cells)
        parts = list(blocks(rows))
        assert len(parts) == -(-1003 // max(1, cells // 5))
        np.testing.assert_array_equal(np.hstack(parts), whole)
        np.testing.assert_allclose(cosines(rows), expected, rtol=1e-12, atol=1e-14)
