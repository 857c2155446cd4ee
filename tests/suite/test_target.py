"""Rounds, megabytes and seconds to a target."""

import pytest

from entrofed.core.records import Metrics, RoundRecord
from entrofed.errors import ConfigError
from entrofed.suite.target import Reached, checked_target, to_target


def rounds(*accuracies):
    """Rounds of 3 MB and 2 s; None: not evaluated."""
    return [
        RoundRecord(
            number,
            bytes_up=1_000_000,
            bytes_down=2_000_000,
            test=None if accuracy is None else Metrics(None, accuracy, 0, 0, 0, 0),
            seconds={"train": 1.5, "evaluate": 0.5, "clients": 9.0},
        )
        for number, accuracy in enumerate(accuracies)
    ]


@pytest.mark.parametrize(
    ("accuracies", "target", "expected"),
    [
        ([0.1, 0.5, 0.4, 0.9], 0.5, Reached(2, 6.0, 4.0)),  # first reached, though lost again
        ([0.1, None, 0.6], 0.5, Reached(3, 9.0, 6.0)),
        ([0.5], 0.5, Reached(1, 3.0, 2.0)),
        ([0.1, 0.4], 0.5, None),
        ([None, None], 0.5, None),
        ([], 0.5, None),
    ],
)
def test_by_hand(accuracies, target, expected):
    assert to_target(rounds(*accuracies), target) == expected


@pytest.mark.parametrize("target", [90, 1.01, 0, -0.5, float("nan")])
def test_what_is_no_accuracy_is_refused(target):
    with pytest.raises(ConfigError, match=r"above 0 and up to 1 is expected; 90 % is 0.9"):
        checked_target(target)
    with pytest.raises(ConfigError, match=r"90 % is 0.9"):
        to_target(rounds(0.5), target)
