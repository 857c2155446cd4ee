"""Power-of-Choice."""

import numpy as np
import pytest

from entrofed.core.types import ClientTable
from entrofed.errors import ConfigError, DataError
from entrofed.facts.loss import Loss
from entrofed.selectors.power_of_choice import PowerOfChoice


def table_of(losses, sizes=None):
    """Clients that told these losses; None is one that was not asked."""
    told = [None if loss is None else np.array(loss) for loss in losses]
    return ClientTable(sizes=np.array(sizes or [10] * len(told)), facts={Loss.name: told})


def chosen(losses, among, size):
    return PowerOfChoice().select({}, table_of(losses), np.array(among), size, np.random.default_rng(0)).clients


def test_poc_1():
    assert chosen([None, 0.7, None, 0.2, 0.9], [1, 3, 4], 2) == [4, 1]


def test_ties_by_number_and_bad_losses_last():
    assert chosen([1.0, 2.0, 2.0, 0.5], [0, 1, 2, 3], 3) == [1, 2, 0]
    assert chosen([np.nan, 0.1, np.inf, 0.2], [0, 1, 2, 3], 2) == [3, 1]
    assert chosen([np.nan, 0.1, np.inf, 0.2], [0, 1, 2, 3], 4) == [3, 1, 0, 2]
    assert chosen([None, 0.1, np.inf, 0.2], [0, 1, 2, 3], 4) == [3, 1, 0, 2]  # nor does one that did not tell


def test_candidates_are_drawn_by_size():
    part, rng = PowerOfChoice(pool=1), np.random.default_rng(0)
    known = table_of([1.0] * 3, sizes=[10, 30, 60])
    drawn = [int(part.candidates(known, np.arange(3), 1, rng)[0]) for _ in range(3000)]
    shares = np.bincount(drawn, minlength=3) / 3000
    np.testing.assert_allclose(shares, [0.1, 0.3, 0.6], atol=4 * (0.24 / 3000) ** 0.5)


def test_everybody_is_a_candidate_unless_said_otherwise():
    known, rng = table_of([1.0] * 6), np.random.default_rng(0)
    assert PowerOfChoice().candidates(known, np.arange(6), 2, rng).tolist() == list(range(6))
    assert len(PowerOfChoice(pool=3).candidates(known, np.arange(6), 2, rng)) == 3
    assert len(PowerOfChoice(pool=1).candidates(known, np.arange(6), 2, rng)) == 2  # at least a cohort
    assert len(PowerOfChoice(pool=99).candidates(known, np.arange(6), 2, rng)) == 6


def test_bad_pool():
    with pytest.raises(ConfigError, match="pool"):
        PowerOfChoice(pool=0)


def test_no_losses():
    table = ClientTable(sizes=np.ones(3, np.int64))
    with pytest.raises(DataError, match="selector 'power_of_choice' needs the clients' loss, and none were released"):
        PowerOfChoice().select({}, table, np.arange(3), 2, np.random.default_rng(0))
    assert PowerOfChoice().facts == (Loss(),)
    assert not PowerOfChoice().needs


def test_reasons():
    found = PowerOfChoice().select({}, table_of([0.3, 0.9, 0.6]), np.arange(3), 2, np.random.default_rng(0))
    assert found.reasons[0] == {"client": 1, "score": 0.9, "runner_up": 2, "runner_up_score": 0.6, "pool": 3}
