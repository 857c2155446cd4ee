"""What clients remember: never changed, never lost, never more at hand than allowed."""

import json
from collections import OrderedDict
from dataclasses import replace
from functools import partial
from hashlib import sha256
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.numpy import load
from tests.instructions import instructions
from tests.kills import killed_around

from entrofed.backends.inline import InlineBackend
from entrofed.core.params import Layout, Params
from entrofed.core.tasks import TrainTask
from entrofed.core.types import PartState, State
from entrofed.errors import CheckpointError, ConfigError
from entrofed.experiment.checkpoint import Checkpoints
from entrofed.experiment.client_state import ClientStates, ClientStateStore, StoredState
from entrofed.experiment.config import parse
from entrofed.experiment.run_folder import RunFolder
from entrofed.experiment.runner import run
from entrofed.files import write_whole


def memory(number: float, size: int = 100) -> PartState:
    return {"velocity": np.full(size, number, np.float32), "steps": np.array(number, np.float64)}


SIZE = len(ClientStateStore(Path(), 10**6).add(memory(0)).raw)


def number(found: PartState) -> float:
    expected = memory(float(found["steps"]))
    assert {name: array.tobytes() for name, array in found.items()} == {n: a.tobytes() for n, a in expected.items()}
    return float(found["steps"])


def files(store: ClientStateStore) -> set[str]:
    return {path.name for path in store.folder.iterdir()} if store.folder.exists() else set()


@pytest.fixture
def written(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """The memory files written, in their order."""
    paths: list[Path] = []

    def write(path: Path, content: bytes) -> None:
        paths.append(path)
        write_whole(path, content)

    monkeypatch.setattr("entrofed.experiment.client_state.write_whole", write)
    return paths


@pytest.mark.parametrize("limit", [0, 10**6])
def test_a_new_one_leaves_the_old_as_it_was(tmp_path: Path, limit: int) -> None:
    empty = ClientStates(ClientStateStore(tmp_path, limit))
    first = empty | {5: memory(1), 2: memory(2)}
    second = first | {5: memory(3), 11: memory(4)}
    assert [len(empty), len(first), len(second)] == [0, 2, 3]
    assert [list(first), list(second)] == [[2, 5], [2, 5, 11]]
    assert {client: number(first[client]) for client in first} == {2: 2, 5: 1}
    assert {client: number(second[client]) for client in second} == {2: 2, 5: 3, 11: 4}
    assert first.get(11, {}) == {}
    assert 11 not in first
    with pytest.raises(KeyError):
        first[11]
    assert second._entries[2] is first._entries[2]  # shared, not copied


@pytest.mark.parametrize("limit", [0, 10**6])
def test_arrays_that_change_change_nothing(tmp_path: Path, limit: int) -> None:
    given = memory(1)
    memories = ClientStates(ClientStateStore(tmp_path, limit)) | {3: given}
    given["velocity"][:] = 9
    memories[3]["velocity"][:] = 8
    assert number(memories[3]) == 1


def test_the_least_recently_used_go_to_disk_first(tmp_path: Path, written: list[Path]) -> None:
    memories = ClientStates(ClientStateStore(tmp_path, 2 * SIZE)) | {1: memory(1), 2: memory(2)}
    assert not written
    assert number(memories[1]) == 1
    memories |= {3: memory(3)}
    assert written == [tmp_path / f"{memories._entries[2].digest}.safetensors"]
    assert 2 in memories  # asking whether it is there is no use of it
    assert [bool(memories._entries[client].raw) for client in (1, 2, 3)] == [True, False, True]
    assert number(memories[2]) == 2
    assert [bool(memories._entries[client].raw) for client in (1, 2, 3)] == [False, True, True]
    assert len(written) == 2
    assert number(memories[1]) == 1  # number 3 is written, number 2 was already
    assert number(memories[2]) == 2
    assert len(written) == 3


def test_what_nobody_holds_takes_no_room(tmp_path: Path, written: list[Path]) -> None:
    """A client that takes part again and again replaces its memory; the old ones must not be spilled."""
    store = ClientStateStore(tmp_path, 3 * SIZE)
    memories = ClientStates(store)
    for turn in range(20):
        memories |= {1: memory(turn)}
        assert store.held == SIZE
    assert not written


@pytest.mark.parametrize("limit", [0, 10**6])
def test_a_new_one_takes_the_same_work_whatever_else_is_kept(tmp_path: Path, limit: int) -> None:
    """The sum of all that is held was made anew each time: 16,000 memories took 10 s."""
    store = ClientStateStore(tmp_path, limit)
    memories, work = ClientStates(store), list[int]()
    for kept in (10, 300):
        memories |= {client: memory(client, 1) for client in range(len(memories), kept)}
        work.append(instructions(lambda: store.add(memory(kept, 1))))  # noqa: B023
    assert work[0] == work[1] > 20


uses = st.lists(st.tuples(st.sampled_from(["write", "read", "save"]), st.integers(0, 5)), max_size=25)


@settings(deadline=None, max_examples=30)
@given(uses, st.integers(0, 4))
def test_like_a_dict_whatever_the_limit(steps: list[tuple[str, int]], room: int) -> None:
    with TemporaryDirectory() as folder:
        store = ClientStateStore(Path(folder), room * SIZE)
        memories, expected, recent = ClientStates(store), dict[int, float](), OrderedDict[int, None]()
        for turn, (step, client) in enumerate(steps):
            if step == "write":
                memories, expected = memories | {client: memory(turn)}, {**expected, client: float(turn)}
            elif step == "save":
                assert memories.write().keys() == expected.keys()
                store.prune(set())
            elif client in expected:
                assert number(memories[client]) == expected[client]
            if client in expected and step != "save":
                recent[client] = None
                recent.move_to_end(client)
            held = {c for c, entry in memories._entries.items() if entry.raw}
            assert store.held == len(held) * SIZE <= store.limit
            assert held == set(list(recent)[len(recent) - len(held) :])  # those used last
        assert {client: number(memories[client]) for client in memories} == expected


@pytest.mark.parametrize("damage", ["a bit", "gone"])
def test_a_damaged_file_is_named(tmp_path: Path, damage: str) -> None:
    memories = ClientStates(ClientStateStore(tmp_path, 0)) | {1: memory(1)}
    [path] = tmp_path.iterdir()
    spoil(path, damage)
    with pytest.raises(CheckpointError, match="entrofed resume") as caught:
        memories[1]
    assert str(path) in str(caught.value)


def spoil(path: Path, damage: str) -> None:
    if damage == "gone":
        path.unlink()
    else:
        raw = bytearray(path.read_bytes())
        raw[-1] ^= 1
        path.write_bytes(raw)


# Checkpoints

LAYOUT = Layout.of(torch.nn.Linear(2, 1))
START = State(0, Params(np.zeros(LAYOUT.floats, np.float32), np.zeros(0, np.int64)), {}, {}, {})


@pytest.fixture(params=[0, 10**6], ids=["on disk", "at hand"])
def kept(tmp_path: Path, request: pytest.FixtureRequest) -> Checkpoints:
    return Checkpoints(tmp_path / "checkpoints", LAYOUT, ClientStateStore(tmp_path / "memory", request.param))


def after(state: State, **turns: int) -> State:
    """The state one round later; ``c3=5`` gives client 3 the memory 5."""
    return replace(
        state,
        round=state.round + 1,
        client_states=state.client_states | {int(c[1:]): memory(turn) for c, turn in turns.items()},
    )


def file_of(turn: int) -> str:
    return sha256(ClientStateStore(Path(), 10**6).add(memory(turn)).raw).hexdigest() + ".safetensors"


def test_only_what_is_new_is_written(kept: Checkpoints, written: list[Path]) -> None:
    state = after(
        replace(START, client_states=ClientStates(kept.store)), **{f"c{client}": client for client in range(50)}
    )
    kept.save(state)
    assert len(written) == 50
    state = after(state, c7=100, c8=101)
    kept.save(state)
    assert [path.name for path in written[50:]] == [file_of(100), file_of(101)]
    kept.save(after(state))
    found, _ = Checkpoints(kept.folder, LAYOUT, ClientStateStore(kept.store.folder, 0)).last()
    assert found is not None
    kept.save(after(found))  # of another store, so all are new to this one
    assert len(written) == 52 + 50


def test_files_stay_as_long_as_somebody_needs_them(kept: Checkpoints) -> None:
    states = [after(replace(START, client_states=ClientStates(kept.store)), c1=1, c2=2)]
    kept.save(states[0])
    for turn in (3, 4):
        states.append(after(states[-1], c1=turn))
        kept.save(states[-1])
    assert files(kept.store) == {file_of(turn) for turn in (1, 2, 3, 4)}  # the first state is still alive
    del states[0]
    kept.prune(3)
    assert files(kept.store) == {file_of(turn) for turn in (2, 3, 4)}  # two checkpoints
    del states[0]
    kept.prune(3)
    assert files(kept.store) == {file_of(turn) for turn in (2, 3, 4)}
    kept.save(after(states[0], c2=5))
    del states[0]
    kept.prune(4)
    assert files(kept.store) == {file_of(turn) for turn in (2, 4, 5)}


def test_plain_dicts_are_kept_too(kept: Checkpoints) -> None:
    kept.save(after(START, c1=1))
    found, problems = kept.last()
    assert found is not None
    assert {client: number(values) for client, values in found.client_states.items()} == {1: 1}
    assert problems == []


@pytest.mark.parametrize("damage", ["a bit", "gone"])
def test_with_a_damaged_memory_the_checkpoint_before_serves(kept: Checkpoints, damage: str) -> None:
    first = after(replace(START, client_states=ClientStates(kept.store)), c1=1, c2=2)
    kept.save(first)
    kept.save(after(first, c1=3))
    path = kept.store.folder / file_of(3)
    spoil(path, damage)
    resumed = Checkpoints(kept.folder, LAYOUT, ClientStateStore(kept.store.folder, 0))
    found, problems = resumed.last()
    assert found is not None
    assert found.round == 1
    assert {client: number(values) for client, values in found.client_states.items()} == {1: 1, 2: 2}
    assert len(problems) == 1
    assert "round-000002" in problems[0]
    assert str(path) in problems[0]
    resumed.save(after(found, c1=3))  # the same again: the damaged file must not be taken for it
    found, problems = Checkpoints(kept.folder, LAYOUT, ClientStateStore(kept.store.folder, 0)).last()
    assert found is not None
    assert (found.round, number(found.client_states[1]), problems) == (2, 3, [])


def test_an_unreadable_manifest_needs_nothing(kept: Checkpoints) -> None:
    kept.save(after(START, c1=1))
    kept.save(replace(after(START, c1=2), round=2))
    for content in ("[]", "{}", '{"memory": [1]}', '{"memory": {"1": []}}', "\x00"):
        (kept.folder / "round-000001.json").write_text(content)
        kept.prune(2)
        assert files(kept.store) == {file_of(2)}


# Runs


def experiment(**changes):
    settings = {
        "rounds": 4,
        "checkpoint_seconds": 0,
        "model": "iris_mlp",
        "data": {"name": "iris", "clients": 8},
        "method": {"cohort": 4, "lr": 0.1, "momentum": 0.9, "persist_optimizer": True},
        "engine": {"backend": "inline"},
    }
    return parse({**settings, **changes})


NOTHING_AT_HAND = {"backend": "inline", "memory_mb": 0}


def result(folder: RunFolder):
    """Everything that must be the same, bit for bit: records without times, states, memories."""
    records = [replace(record, seconds={}) for record in folder.records()]
    states = {path.name: path.read_bytes() for path in folder.checkpoints.iterdir()}
    memories = {path.name: path.read_bytes() for path in (folder.path / "memory").iterdir()}
    return records, states, memories


def listed(folder: RunFolder, rounds: int) -> dict[str, str]:
    return json.loads((folder.checkpoints / f"round-{rounds:06d}.json").read_text())["memory"]


@pytest.fixture(scope="module")
def unbroken(tmp_path_factory: pytest.TempPathFactory):
    folder = RunFolder(tmp_path_factory.mktemp("unbroken"))
    run(experiment(), folder)
    return result(folder)


def test_a_run_keeps_the_memories_of_its_last_two_checkpoints(tmp_path: Path, unbroken) -> None:
    folder = RunFolder(tmp_path)
    run(experiment(), folder)
    assert result(folder) == unbroken
    needed = {*listed(folder, 3).values(), *listed(folder, 4).values()}
    assert unbroken[2].keys() == {f"{digest}.safetensors" for digest in needed}
    trained = {client for record in unbroken[0] for client in record.cohort}
    assert listed(folder, 4).keys() == {str(client) for client in trained}
    assert all(load(raw)["velocity"].any() for raw in unbroken[2].values())


def test_the_limit_changes_no_bit(tmp_path: Path, unbroken) -> None:
    run(experiment(engine=NOTHING_AT_HAND), RunFolder(tmp_path))
    assert result(RunFolder(tmp_path)) == unbroken


@pytest.mark.parametrize(("first", "then"), [(0, 1024), (1024, 0), (0, 0), (0.05, 0.03)])
def test_resumed_with_another_limit(tmp_path: Path, unbroken, first: float, then: float) -> None:
    def interrupt(record) -> None:
        if record.round == 1:
            raise KeyboardInterrupt

    folder = RunFolder(tmp_path)
    with pytest.raises(KeyboardInterrupt):
        run(experiment(engine={"backend": "inline", "memory_mb": first}), folder, observer=interrupt)
    run(experiment(engine={"backend": "inline", "memory_mb": then}), folder, resume=True)
    assert result(folder) == unbroken


@pytest.mark.parametrize("at_hand", [0, 1024])
def test_killed_before_and_after_every_write_of_a_memory(tmp_path: Path, monkeypatch, at_hand: int) -> None:
    method = {"cohort": 2, "lr": 0.1, "momentum": 0.9, "persist_optimizer": True}
    few = experiment(rounds=2, method=method, engine={"backend": "inline", "memory_mb": at_hand})
    run(few, RunFolder(tmp_path / "unbroken"))
    expected = result(RunFolder(tmp_path / "unbroken"))
    killed = 0
    for last in range(100):
        for moment in ("before", "after"):
            folder = RunFolder(tmp_path / f"{last} {moment}")
            died = killed_around(last, moment, ("client_state",), partial(run, few, folder), monkeypatch)
            killed += died
            run(few, folder, resume=True)
            assert result(folder) == expected, f"killed {moment} write {last}"
        if not died:
            break
    assert killed == 2 * 2 * 2  # before and after, two clients in two rounds


class Forgetful(InlineBackend):
    """From the third round on, what half of the clients send is not finite."""

    def run(self, tasks):
        outcomes = super().run(tasks)
        for task, outcome in zip(tasks, outcomes, strict=True):
            if isinstance(task, TrainTask) and task.round >= 2 and task.client < 4:
                outcome.params.values[0] = np.nan
        return outcomes


@pytest.mark.parametrize("at_hand", [0, 1024])
@pytest.mark.parametrize("how", ["dropped out", "refused", "below the quorum"])
def test_who_drops_out_keeps_its_memory(tmp_path: Path, at_hand: int, how: str) -> None:
    method = {"cohort": 8, "lr": 0.1, "momentum": 0.9, "persist_optimizer": True}
    changes = {
        "dropped out": {"faults": {"dropout": 0.5}},
        "refused": {},
        "below the quorum": {"method": {**method, "quorum": 5}},
    }[how]
    wanted = experiment(
        **{"rounds": 3, "method": method, "engine": {"backend": "inline", "memory_mb": at_hand}, **changes}
    )
    folder = RunFolder(tmp_path)
    run(wanted, folder, backend=None if how == "dropped out" else Forgetful())
    before, now = listed(folder, 2), listed(folder, 3)
    record = folder.records()[2]
    answered = set() if record.skipped else {str(client.client) for client in record.clients}
    assert len(record.refused) == 4
    assert record.skipped == (how == "below the quorum")
    assert before.keys() <= now.keys()
    assert {client for client in now if before.get(client) != now[client]} == answered
    assert before.keys() - answered  # somebody had something to lose


def test_the_limit_is_no_part_of_the_experiment(tmp_path: Path) -> None:
    assert experiment(engine=NOTHING_AT_HAND).decisive() == experiment().decisive()
    assert experiment().engine.memory_mb == 1024
    with pytest.raises(ConfigError, match=r"engine\.memory_mb = -1"):
        experiment(engine={"memory_mb": -1})


@pytest.mark.parametrize("limit", [10**6, 5 * SIZE])
def test_a_new_state_costs_the_same_whatever_else_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, limit: int
) -> None:
    """Counted in states that are looked at, in memory and out of it."""
    looked_at = 0

    class Counted(StoredState):
        def __getattribute__(self, name: str) -> object:
            nonlocal looked_at
            looked_at += name == "raw"
            return super().__getattribute__(name)

    monkeypatch.setattr("entrofed.experiment.client_state.StoredState", Counted)
    states = ClientStates(ClientStateStore(tmp_path, limit))
    costs = []
    for first in (0, 50):
        looked_at = 0
        states = states | {client: memory(client) for client in range(first, first + 50)}
        costs.append(looked_at)
    assert costs[1] <= costs[0] + 20
