"""Cohorts from a list."""

import numpy as np
import pytest

from entrofed.core.types import ClientTable
from entrofed.errors import ConfigError
from entrofed.registry import build
from entrofed.selectors.scripted import Scripted

CLIENTS, RNG = ClientTable(sizes=np.ones(6, np.int64)), np.random.default_rng(0)


def test_one_cohort_a_round_without_those_who_are_away():
    part = build("selector", {"name": "scripted", "cohorts": [[3, 1], [0, 5, 2], [4]]})
    state = part.init(CLIENTS, np.arange(6))
    cohorts = []
    for among in (np.arange(6), np.array([0, 1, 2, 3]), np.arange(6)):
        selection = part.select(state, CLIENTS, among, 2, RNG)
        cohorts.append(selection.clients)
        state = selection.state
    assert cohorts == [[3, 1], [0, 2], [4]]
    with pytest.raises(ConfigError, match="lists 3 cohorts, and this is round 4"):
        part.select(state, CLIENTS, np.arange(6), 2, RNG)


def test_clients_that_do_not_take_part():
    with pytest.raises(ConfigError, match="client 7 is not one of the 6 that take part"):
        Scripted(((7,),)).init(CLIENTS, np.arange(6))


@pytest.mark.parametrize("cohort", [(1, 1), (0, -1)])
def test_bad_cohorts(cohort):
    with pytest.raises(ConfigError, match=r"cohort 1 = .* must be different clients"):
        Scripted(((0,), cohort))
