"""The virtual clock: seconds by hand, who is late, devices from a file, and whole runs with a server and with peers."""

from itertools import pairwise

import numpy as np
import pytest

from entrofed.core.clock import LATE, MEGABIT, Clock, Devices
from entrofed.core.records import RoundRecord
from entrofed.errors import ConfigError, DataError
from entrofed.experiment.build import prepare
from entrofed.experiment.config import parse
from entrofed.experiment.run_folder import RunFolder
from entrofed.experiment.runner import run

MODEL = 4 * 4810
WHERE = ["server", "peers"]


def experiment(where="server", clock=None, method=None, **more):
    table = {
        "rounds": 2,
        "seed": 3,
        "data": {"name": "digits", "clients": 6},
        "method": {
            "lr": 0.1,
            "epochs": 2,
            "batch_size": 16,
            **({"selector": "full"} if where == "server" else {}),
            **(method or {}),
        },
        "engine": {"backend": "inline"},
        **({"topology": {"kind": "full"}} if where == "peers" else {}),
        **({} if clock is None else {"clock": clock}),
        **more,
    }
    return parse(table)


def play(folder, chosen):
    run(chosen, RunFolder(folder))
    return RunFolder(folder).records()


def devices_file(tmp_path, speeds, columns="client,samples_per_second,down_mbit,up_mbit"):
    path = tmp_path / "devices.csv"
    rows = [f"{k},{speed},8,4" for k, speed in enumerate(speeds)]
    path.write_text("\n".join([columns, *rows]) + "\n")
    return str(path)


def seconds_by_hand(sizes, speeds, links=1):
    """8 and 4 megabits per second are a million and half a million bytes."""
    return [links * MODEL / 1e6 + 2 * n / speed + links * MODEL / 5e5 for n, speed in zip(sizes, speeds, strict=True)]


@pytest.mark.parametrize("where", WHERE)
def test_a_round_lasts_as_long_as_the_slowest(tmp_path, where):
    speeds = [100, 50, 25, 200, 400, 10]
    chosen = experiment(where, {"devices": devices_file(tmp_path, speeds)})
    sizes = prepare(chosen).federation.sizes
    by_hand = seconds_by_hand(sizes, speeds, 5 if where == "peers" else 1)
    for record in play(tmp_path / "run", chosen):
        assert record.virtual_seconds == pytest.approx(max(by_hand))
        assert not record.refused


@pytest.mark.parametrize("where", WHERE)
def test_who_misses_the_deadline_is_late(tmp_path, where):
    speeds = [100, 50, 25, 200, 400, 10]
    path = devices_file(tmp_path, speeds)
    sizes = prepare(experiment(where)).federation.sizes
    by_hand = seconds_by_hand(sizes, speeds, 5 if where == "peers" else 1)
    deadline = (by_hand[1] + by_hand[2]) / 2  # 2 and 5 are slower
    for record in play(tmp_path / "run", experiment(where, {"devices": path, "deadline": deadline})):
        assert {refusal.client: refusal.reason for refusal in record.refused} == {2: LATE, 5: LATE}
        assert sorted(client.client for client in record.clients) == [0, 1, 3, 4]
        assert record.virtual_seconds == deadline  # the server waits for all


def test_over_selection_ends_a_round_early(tmp_path):
    speeds = [100, 50, 25, 200, 400, 10]
    path = devices_file(tmp_path, speeds)
    method = {"selector": "random", "cohort": 4}
    chosen = experiment(clock={"devices": path, "over_selection": 0.5}, method=method)
    by_hand = seconds_by_hand(prepare(chosen).federation.sizes, speeds)
    for record in play(tmp_path / "run", chosen):
        assert len(record.cohort) == 6
        assert sorted(client.client for client in record.clients) == [0, 1, 3, 4]
        assert record.virtual_seconds == pytest.approx(by_hand[1])


@pytest.mark.parametrize("where", WHERE)
def test_a_slow_client_makes_fewer_epochs(tmp_path, where):
    speeds = [1000, 1000, 1000, 1000, 1000, 60]
    path = devices_file(tmp_path, speeds)
    sizes = prepare(experiment(where)).federation.sizes
    by_hand = seconds_by_hand(sizes, speeds, 5 if where == "peers" else 1)
    one = by_hand[5] - sizes[5] / 60  # with one epoch of two
    clock = {"devices": path, "deadline": float(one + 0.1), "partial": True}
    for record in play(tmp_path / "run", experiment(where, clock)):
        steps = {client.client: client.steps for client in record.clients}
        assert sorted(steps) == list(range(6))
        assert steps[5] * 2 == steps[4] or steps[5] * 2 in (steps[4] - 2, steps[4] + 2)  # sizes differ by one sample
        assert record.virtual_seconds == pytest.approx(one)


def test_questions_before_a_round_take_time(tmp_path):
    speeds = [100] * 6
    path = devices_file(tmp_path, speeds)
    sizes = prepare(experiment()).federation.sizes
    asked = experiment(
        clock={"devices": path}, method={"name": "power_of_choice", "selector": "power_of_choice", "cohort": 6}
    )
    whole = max(seconds_by_hand(sizes, speeds))
    asking = MODEL / 1e6 + max(sizes) / 300  # a pass without training costs a third
    for record in play(tmp_path / "run", asked):
        assert record.virtual_seconds == pytest.approx(whole + asking)


def test_a_clock_without_limits_changes_nothing_else(tmp_path):
    plain, clocked = (play(tmp_path / str(i), experiment(clock=clock)) for i, clock in enumerate((None, {})))
    for one, other in zip(plain, clocked, strict=True):
        a, b = one.to_json(), other.to_json()
        assert b.pop("virtual_seconds") > 0
        a.pop("seconds"), b.pop("seconds")
        assert a == b


def test_records_keep_it():
    record = RoundRecord(0, virtual_seconds=1.5)
    assert RoundRecord.from_json(record.to_json()) == record
    assert "virtual_seconds" not in RoundRecord(0).to_json()


def test_devices_are_those_of_the_seed():
    clock = Clock(speed=100.0, speed_spread=0.5, down=20.0, up=5.0)
    one, same, other = clock.drawn(1, 2000), clock.drawn(1, 2000), clock.drawn(2, 2000)
    assert np.array_equal(one.speed, same.speed)
    assert not np.array_equal(one.speed, other.speed)
    assert np.median(one.speed) == pytest.approx(100, rel=0.05)
    assert np.log(one.speed).std() == pytest.approx(0.5, rel=0.05)
    assert np.allclose(one.down / one.up, 4)
    assert np.median(one.down) == pytest.approx(20 * MEGABIT, rel=0.1)
    still = Clock(speed_spread=0.0, bandwidth_spread=0.0).drawn(0, 3)
    assert still.speed.tolist() == [100.0] * 3


def test_closing_a_round_by_hand():
    seconds = {0: 1.0, 1: 4.0, 2: 2.0, 3: 2.0}
    ended = Clock().close(seconds, chosen=4, cohort=4)
    assert (ended.seconds, ended.late) == (4.0, {})
    first = Clock(over_selection=1.0).close(seconds, chosen=4, cohort=2)
    assert (first.seconds, sorted(first.late)) == (2.0, [1, 3])  # of equals, the lower number
    missing = Clock(deadline=9.0).close(seconds, chosen=5, cohort=5)  # one dropped out: nobody knows, all wait
    assert (missing.seconds, missing.late) == (9.0, {})
    unlimited = Clock().close({}, chosen=2, cohort=2)
    assert unlimited.seconds == 0.0
    few = Clock(over_selection=0.5).close({7: 3.0}, chosen=1, cohort=4)  # only one was there
    assert (few.seconds, few.late) == (3.0, {})


def test_seconds_grow_with_the_deadline_and_fall_with_over_selection():
    rng = np.random.default_rng(0)
    seconds = dict(enumerate(rng.exponential(10, 20).tolist()))
    ends = [Clock(deadline=limit).close(seconds, 20, 20).seconds for limit in (1.0, 5.0, 20.0, 500.0)]
    assert all(a <= b for a, b in pairwise(ends))
    assert ends[-1] == max(seconds.values())
    late = [len(Clock(deadline=limit).close(seconds, 20, 20).late) for limit in (1.0, 5.0, 20.0, 500.0)]
    assert all(a >= b for a, b in pairwise(late))


def test_devices_of_a_file(tmp_path):
    path = tmp_path / "kinds.csv"
    path.write_text("name,samples_per_second,down_mbit,up_mbit\nphone,10,8,4\nlaptop,100,80,40\n")
    found = Clock(devices=str(path)).drawn(0, 1000)
    assert set(found.speed) == {10.0, 100.0}
    assert 0.4 < (found.speed == 10).mean() < 0.6
    assert set(found.down[found.speed == 10]) == {1e6}
    assert np.array_equal(found.speed, Clock(devices=str(path)).drawn(0, 1000).speed)


@pytest.mark.parametrize(
    ("text", "match"),
    [
        ("", "no devices"),
        ("samples_per_second,down_mbit\n1,2\n", "no column 'up_mbit'"),
        ("samples_per_second,down_mbit,up_mbit\n1,0,2\n", "line 2: down_mbit = '0'"),
        ("samples_per_second,down_mbit,up_mbit\n1,2\n", "line 2: up_mbit = None"),
        ("samples_per_second,down_mbit,up_mbit\n1,2,nan\n", "up_mbit = 'nan'"),
        ("client,samples_per_second,down_mbit,up_mbit\n1,1,1,1\n", "clients 0 to 2 is expected once"),
    ],
)
def test_files_that_are_none(tmp_path, text, match):
    path = tmp_path / "devices.csv"
    path.write_text(text)
    with pytest.raises(DataError, match=match):
        Clock(devices=str(path)).drawn(0, 3)


def test_settings_that_cannot_act_are_refused():
    with pytest.raises(DataError, match=r"gone\.csv is not readable"):
        Clock(devices="gone.csv").drawn(0, 3)
    with pytest.raises(ConfigError, match=r"clock\.over_selection has no meaning with a \[topology\]"):
        experiment("peers", {"over_selection": 0.3})
    with pytest.raises(ConfigError, match=r"clock\.deadline"):
        experiment(clock={"partial": True})
    with pytest.raises(ConfigError, match=r"clock\.speed = 0"):
        experiment(clock={"speed": 0})
    with pytest.raises(ConfigError, match="did you mean 'deadline'"):
        experiment(clock={"deadlin": 3})


def test_a_path_is_seen_from_the_file(tmp_path):
    from entrofed.experiment.config import read

    devices_file(tmp_path, [1, 2, 3])
    (tmp_path / "e.toml").write_text('[clock]\ndevices = "devices.csv"\n')
    assert read(tmp_path / "e.toml").clock.devices == str(tmp_path / "devices.csv")


def test_devices_by_hand():
    assert Devices(np.array([1.0, 50.0]), np.ones(2), np.array([1.0, 4.0])).seconds(1, samples=100, up=2) == 2.5
