"""The study of attacks and defences: what must come of it, small."""

import json

import numpy as np
import pytest

from entrofed.charts.studies import attacks_chart
from entrofed.cli.main import main
from entrofed.studies.attacks import ATTACKS, DEFENCES, marked, study


@pytest.fixture(scope="module")
def found():
    rows = study(seeds=1, rounds=4, attacks=("none", "scaling", "label flip", "backdoor"))
    return {(row["attack"], row["defence"]): row for row in rows}


def test_scaling_ruins_what_nothing_defends_and_admission_stops_it(found):
    assert found["scaling", "nothing"]["accuracy"] < 0.3
    for defence in set(DEFENCES) - {"nothing"}:
        assert found["scaling", defence]["accuracy"] > 0.7
    assert found["scaling", "admission"]["refused"] == 8
    assert found["none", "admission"]["refused"] == 0


def test_admission_costs_nothing_where_nobody_attacks(found):
    assert found["none", "admission"] == {**found["none", "nothing"], "defence": "admission"}


def test_a_backdoor_is_seen(found):
    assert found["backdoor", "nothing"]["backdoor"] > found["none", "nothing"]["backdoor"]


def test_attacks_by_hand():
    own, honest = np.array([1.0, -2.0]), np.array([[1.0, 0.0], [3.0, 0.0]])
    assert ATTACKS["sign flip"](own, honest).tolist() == [-1, 2]
    assert ATTACKS["inner product"](own, honest).tolist() == [-2, 0]
    assert ATTACKS["a little is enough"](own, honest).tolist() == [1, 0]
    assert marked(np.zeros((1, 2, 3)), 9.0).tolist() == [[[9, 9, 9], [9, 0, 0]]]


def test_the_chart_and_the_command(found, capsys):
    assert attacks_chart(list(found.values())).to_dict()["width"] == 90 * len(DEFENCES)
    with pytest.raises(SystemExit) as ended:
        main(["study", "attacks", "--clients", "3", "--hostile", "3"])
    assert ended.value.code == 2
    assert json.dumps(list(found.values()))
