"""Whatever clients send, to whatever server rule and weigher: nothing raises, and the model stays one."""

import pytest
from tests.soak.hostile import campaign


@pytest.mark.parametrize("rounds", [1, pytest.param(4, marks=pytest.mark.slow)])
def test_hostile_updates_end_nothing(rounds: int) -> None:
    """Handed to the round directly, 522 ended in a traceback, and 130 in a model that was not finite."""
    found = campaign(rounds, rounds)
    assert found.pop("inputs") > 5000
    assert found == {"nonfinite": 0, "poisoned": 0, "raised": 0}
