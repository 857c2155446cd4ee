"""Oort: scores by hand, exploration, the pacer, what happens to the slow and the silent."""

from dataclasses import replace

import numpy as np
import pytest

from entrofed.core.params import Params
from entrofed.core.types import ClientTable, Update
from entrofed.experiment.config import parse
from entrofed.experiment.run_folder import RunFolder
from entrofed.experiment.runner import run
from entrofed.selectors.oort import Oort

START = Params(np.zeros(2, np.float32), np.zeros(0, np.int64))
GREEDY = Oort(explore=0.0, least=0.0, clip=1.0, percentile=50.0)


def table(seconds=None, clients=3):
    return ClientTable(np.full(clients, 10), seconds=None if seconds is None else np.array(seconds, float))


def update(client, examples, loss):
    return Update(client, START, examples, 1, 0.0, 0.0, facts={"squared_loss": np.array(loss)})


def remembering(part, **known):
    """Client 0: 10 samples, loss 1; 1: 20 and 2; 2: 5 and 4; after round 3."""
    state = part.observe(
        part.init(table(), np.arange(3)), START, [update(0, 10, 1.0), update(1, 20, 2.0), update(2, 5, 4.0)]
    )
    return {**state, "round": np.array([3]), "last": np.array([1, 2, 4]), "tried": np.ones(3, bool), **known}


def scores(selection):
    return {why["client"]: why["score"] for why in selection.reasons}


def test_scores_by_hand():
    """Utilities 10, 40, 20 become 0.25, 1, 0.5; sqrt(0.1 ln 4 / L) is 0.372329, 0.263276, 0.186165; the slow one's
    are multiplied by (2 / 4)^2, the median of 1, 2, 4 seconds being 2."""
    found = GREEDY.select(remembering(GREEDY), table([1, 2, 4]), np.arange(3), 3, np.random.default_rng(0))
    assert scores(found) == pytest.approx({0: 0.622329, 1: 1.263276, 2: 0.171541}, abs=1e-6)


def test_without_a_clock_all_are_equally_fast():
    found = GREEDY.select(remembering(GREEDY), table(), np.arange(3), 3, np.random.default_rng(0))
    assert scores(found) == pytest.approx({0: 0.622329, 1: 1.263276, 2: 0.686165}, abs=1e-6)
    assert all(why["seconds"] is None for why in found.reasons)


def test_utilities_are_clipped():
    part = replace(GREEDY, clip=0.5)
    found = part.select(remembering(part), table(), np.arange(3), 3, np.random.default_rng(0))
    assert scores(found)[1] == pytest.approx(1 + 0.263276, abs=1e-6)  # 40 is cut to the median, 20
    assert scores(found)[0] == pytest.approx(0.5 + 0.372329, abs=1e-6)


def test_only_those_near_the_last_place_are_drawn():
    """For one place the cut is 0.95 of the best score, 1.263: nobody else comes near."""
    state = remembering(GREEDY)
    drawn = {GREEDY.select(state, table(), np.arange(3), 1, np.random.default_rng(i)).clients[0] for i in range(30)}
    assert drawn == {1}
    loose = replace(GREEDY, cut_off=0.5)  # the scores are 0.62, 1.26 and 0.69
    drawn = {loose.select(state, table(), np.arange(3), 1, np.random.default_rng(i)).clients[0] for i in range(60)}
    assert drawn == {1, 2}


def test_exploration_takes_its_share_and_prefers_the_fast():
    part = Oort(explore=0.6, decay=1.0)
    clients = table([1.0] * 5 + [1000.0] * 5, clients=10)
    state = part.init(clients, np.arange(10))
    first = part.select(state, clients, np.arange(10), 5, np.random.default_rng(0))
    assert sum(client < 5 for client in first.clients) >= 4
    state = part.observe(first.state, START, [update(client, 10, 1.0) for client in first.clients])
    second = part.select(state, clients, np.arange(10), 5, np.random.default_rng(1))
    assert [why["why"] for why in second.reasons] == ["utility"] * 2 + ["unexplored"] * 3
    assert set(second.clients[:2]) <= set(first.clients)
    assert not set(second.clients[2:]) & set(first.clients)


def test_exploration_falls_to_the_least():
    part = Oort(explore=0.9, decay=0.5, least=0.2)
    clients = table(clients=100)
    state = part.observe(part.init(clients, np.arange(100)), START, [update(k, 10, 1.0) for k in range(50)])
    explored = []
    for number in range(4):
        found = part.select(
            {**state, "round": np.array([number])}, clients, np.arange(100), 10, np.random.default_rng(0)
        )
        explored.append(sum(why["why"] == "unexplored" for why in found.reasons))
    assert explored == [9, 5, 3, 2]  # 10 - floor(10 (1 - e)) for e = 0.9, 0.45, 0.225, 0.2


def test_who_did_not_answer_comes_last():
    part = Oort(explore=1.0, least=1.0, decay=1.0)
    clients = table(clients=4)
    first = part.select(part.init(clients, np.arange(4)), clients, np.arange(4), 2, np.random.default_rng(0))
    state = part.observe(first.state, START, [])
    second = part.select(state, clients, np.arange(4), 3, np.random.default_rng(1))
    assert not set(second.clients[:2]) & set(first.clients)
    assert set(second.clients[2:]) <= set(first.clients)


@pytest.mark.parametrize(
    ("number", "history", "expected"),
    [
        (4, [2.0, 2.0, 1.0, 1.0], 60.0),  # utilities fall: slower clients are welcome
        (4, [1.0, 1.0, 2.0, 2.0], 50.0),
        (5, [2.0, 2.0, 1.0, 1.0], 50.0),  # it looks every two rounds
        (2, [2.0, 2.0, 1.0, 1.0], 50.0),  # and not before there are two windows
    ],
)
def test_the_pacer(number, history, expected):
    part = replace(GREEDY, window=2, step=10.0)
    state = remembering(part, round=np.array([number]), history=np.array(history))
    found = part.select(state, table(), np.arange(3), 2, np.random.default_rng(0))
    assert found.state["percentile"][0] == expected


def test_it_saves_time_on_slow_clients(tmp_path):
    """Slow and fast clients: Oort's rounds are shorter than random ones, and the run can be resumed."""
    base = {
        "rounds": 12,
        "data": {"name": "digits", "clients": 20},
        "clock": {"speed_spread": 2.0},
        "engine": {"backend": "inline"},
    }
    virtual = {}
    for name in ("oort", "fedavg"):
        folder = RunFolder(tmp_path / name)
        method = {"name": name, "cohort": 4, "lr": 0.1}
        virtual[name] = run(parse({**base, "name": name, "method": method}), folder)["virtual_seconds"]
    assert virtual["oort"] < 0.7 * virtual["fedavg"]


@pytest.mark.parametrize("loss", [np.inf, 1e308, 1e-320, 0.0])
@pytest.mark.parametrize("clip", [0.5, 0.95, 1.0])
def test_no_loss_that_a_client_tells_stops_the_run(loss, clip):
    """One infinite loss made all scores NaN, and the draw of the next round raised."""
    part, rng = Oort(explore=0.0, least=0.0, clip=clip, window=1), np.random.default_rng(0)
    state = part.observe(part.init(table(), np.arange(3)), START, [update(0, 10, 1.0), update(1, 20, loss)])
    for _ in range(4):
        found = part.select(state, table(), np.arange(3), 2, rng)
        assert all(np.isfinite(why["score"]) for why in found.reasons if why["score"] is not None)
        state = part.observe(
            found.state, START, [update(client, 9, loss if client else 1.0) for client in found.clients]
        )
