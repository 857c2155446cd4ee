"""Water-filled caps."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from entrofed.info.simplex import water_fill

shares = st.lists(st.floats(0, 1), min_size=1, max_size=8).filter(lambda w: sum(w) > 1e-3)


@settings(deadline=None, max_examples=300)
@given(shares, st.floats(0.01, 1))
def test_capped_complete_and_in_order(raw, cap):
    weights = np.array(raw) / sum(raw)
    filled = water_fill(weights, cap)
    assert filled.sum() == pytest.approx(1, abs=1e-12)
    assert (filled >= 0).all()
    if cap * len(weights) > 1:
        assert (filled <= cap + 1e-12).all()
    else:
        assert filled == pytest.approx(np.full(len(weights), 1 / len(weights)))
    order = np.argsort(weights, kind="stable")
    assert (np.diff(filled[order]) >= -1e-12).all()
    if weights.max() <= cap:
        assert filled == pytest.approx(weights, abs=1e-12)


def test_those_below_the_cap_keep_their_proportions():
    filled = water_fill(np.array([0.9, 0.06, 0.02, 0.02]), 0.5)
    assert filled == pytest.approx([0.5, 0.3, 0.1, 0.1])


def test_the_next_is_capped_too():
    assert water_fill(np.array([0.8, 0.15, 0.05]), 0.4) == pytest.approx([0.4, 0.4, 0.2])


def test_weights_of_zero_take_what_is_left():
    assert water_fill(np.array([1.0, 0.0, 0.0]), 0.5) == pytest.approx([0.5, 0.25, 0.25])


def test_unusable_weights_stay_unusable():
    assert np.isnan(water_fill(np.array([np.nan, 1.0]), 0.5)).all()
