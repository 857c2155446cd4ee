"""Power-of-Choice."""

import numpy as np
import pytest

from entrofed.core.types import Ledger
from entrofed.errors import ConfigError
from entrofed.selectors.power_of_choice import PowerOfChoice


def ledger(losses, sizes=None):
    losses = np.array(losses, np.float64)
    return Ledger(sizes=np.array(sizes or [10] * len(losses)), losses=losses)


def chosen(losses, among, size):
    return PowerOfChoice().select({}, ledger(losses), np.array(among), size, np.random.default_rng(0)).clients


def test_poc_1():
    losses = np.full(5, np.nan)
    losses[[1, 3, 4]] = 0.7, 0.2, 0.9
    assert chosen(losses, [1, 3, 4], 2) == [4, 1]


def test_ties_by_number_and_bad_losses_last():
    assert chosen([1.0, 2.0, 2.0, 0.5], [0, 1, 2, 3], 3) == [1, 2, 0]
    assert chosen([np.nan, 0.1, np.inf, 0.2], [0, 1, 2, 3], 2) == [3, 1]
    assert chosen([np.nan, 0.1, np.inf, 0.2], [0, 1, 2, 3], 4) == [3, 1, 0, 2]


def test_candidates_are_drawn_by_size():
    part, rng = PowerOfChoice(pool=1), np.random.default_rng(0)
    known = ledger([1.0] * 3, sizes=[10, 30, 60])
    drawn = [int(part.candidates(known, np.arange(3), 1, rng)[0]) for _ in range(3000)]
    shares = np.bincount(drawn, minlength=3) / 3000
    np.testing.assert_allclose(shares, [0.1, 0.3, 0.6], atol=4 * (0.24 / 3000) ** 0.5)


def test_everybody_is_a_candidate_unless_said_otherwise():
    known, rng = ledger([1.0] * 6), np.random.default_rng(0)
    assert PowerOfChoice().candidates(known, np.arange(6), 2, rng).tolist() == list(range(6))
    assert len(PowerOfChoice(pool=3).candidates(known, np.arange(6), 2, rng)) == 3
    assert len(PowerOfChoice(pool=1).candidates(known, np.arange(6), 2, rng)) == 2  # at least a cohort
    assert len(PowerOfChoice(pool=99).candidates(known, np.arange(6), 2, rng)) == 6


def test_bad_pool():
    with pytest.raises(ConfigError, match="pool"):
        PowerOfChoice(pool=0)


def test_reasons():
    found = PowerOfChoice().select({}, ledger([0.3, 0.9, 0.6]), np.arange(3), 2, np.random.default_rng(0))
    assert found.reasons[0] == {"client": 1, "score": 0.9, "runner_up": 2, "runner_up_score": 0.6, "pool": 3}
