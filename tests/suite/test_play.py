"""Many runs played: on which workers, what the observer is told, what goes wrong."""

import multiprocessing
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from entrofed.backends import InlineBackend
from entrofed.core.records import RoundRecord
from entrofed.errors import ConfigError, EntrofedError
from entrofed.experiment.config import Experiment, parse
from entrofed.experiment.run_folder import RunFolder
from entrofed.suite import play as module
from entrofed.suite.play import PlayObserver, play

IRIS: dict[str, Any] = {
    "rounds": 2,
    "model": "iris_mlp",
    "data": {"name": "iris", "clients": 3},
    "method": {"cohort": 2},
    "engine": {"backend": "inline"},
}


def planned(root: Path, name: str, **changes: Any) -> tuple[Experiment, RunFolder]:
    return parse({**IRIS, "name": name, **changes}), RunFolder(root / name / "seed-0")


class Told(PlayObserver):
    """Writes down what it is told."""

    def __init__(self) -> None:
        self.words: list[str] = []

    def run_started(self, experiment: Experiment, folder: RunFolder) -> None:
        self.words.append(f"{experiment.name} started in {folder.label}")

    def round_finished(self, experiment: Experiment, folder: RunFolder, record: RoundRecord) -> None:
        self.words.append(f"{experiment.name} round {record.round}")

    def run_finished(self, folder: RunFolder, summary: dict[str, Any]) -> None:
        self.words.append(f"{folder.label} finished after {summary['rounds']}")

    def run_failed(self, folder: RunFolder, error: EntrofedError) -> None:
        self.words.append(f"{folder.label} failed: {type(error).__name__}")


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What became of backends."""
    seen: list[str] = []

    class Watched(InlineBackend):
        def close(self) -> None:
            seen.append("closed")

    def watched(name: str, workers: int, timeout: float) -> InlineBackend:
        seen.append(f"{name} with {workers}")
        return Watched()

    monkeypatch.setattr(module, "backend_of", watched)
    return seen


def test_the_observer_is_told_everything(tmp_path: Path) -> None:
    told = Told()
    assert play([planned(tmp_path, name) for name in ("a", "b")], observer=told) == {}
    assert told.words == [
        line
        for name in ("a", "b")
        for line in (
            f"{name} started in {name}/seed-0",
            f"{name} round 0",
            f"{name} round 1",
            f"{name}/seed-0 finished after 2",
        )
    ]


def test_runs_share_workers_while_the_engine_stays_the_same(tmp_path: Path, opened: list[str]) -> None:
    engines: Sequence[dict[str, Any]] = [{"workers": 1}, {"workers": 1}, {"workers": 2}]
    play([planned(tmp_path, f"r{i}", engine={"backend": "inline", **e}) for i, e in enumerate(engines)])
    assert opened == ["inline with 1", "closed", "inline with 2", "closed"]


def test_workers_are_let_go_of_whatever_happens(
    tmp_path: Path, opened: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def stop(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(module, "run", stop)
    with pytest.raises(KeyboardInterrupt):
        play([planned(tmp_path, "a")])
    assert opened[-1] == "closed"


def test_nothing_starts_if_one_of_the_runs_cannot(tmp_path: Path) -> None:
    play([planned(tmp_path, "b")])
    with pytest.raises(ConfigError, match="there is a run already"):
        play([planned(tmp_path, "a"), planned(tmp_path, "b")])
    assert not (tmp_path / "a").exists()
    with pytest.raises(ConfigError, match=r"changed: method\.lr"):
        play([planned(tmp_path, "a"), planned(tmp_path, "b", method={"cohort": 2, "lr": 0.5})], resume=True)
    assert not (tmp_path / "a").exists()
    assert play([planned(tmp_path, "b", rounds=3)], resume=True) == {}
    assert len(RunFolder(tmp_path / "b" / "seed-0").records()) == 3


def test_a_run_that_fails_keeps_the_others_going_if_asked(tmp_path: Path) -> None:
    lost, told = planned(tmp_path, "lost", data={"name": "mnist", "clients": 3}, model="mlp"), Told()
    runs = [planned(tmp_path, "a"), lost, planned(tmp_path, "b")]
    failed = play(runs, data_directory=tmp_path / "no-data", keep_going=True, observer=told)
    assert list(failed) == [str(lost[1].path)]
    assert told.words[4:6] == ["lost started in lost/seed-0", "lost/seed-0 failed: DataError"]
    assert told.words[-1] == "b/seed-0 finished after 2"
    with pytest.raises(EntrofedError, match="mnist is not in"):
        play([lost], data_directory=tmp_path / "no-data", resume=True)


def test_an_engine_with_workers_of_its_own(tmp_path: Path, opened: list[str]) -> None:
    called = []

    def simulate(experiment: Experiment, folder: RunFolder, **options: Any) -> dict[str, Any]:
        called.append((experiment.name, folder.label, options["resume"], options["data_directory"]))
        options["observer"](RoundRecord(0))
        return {"rounds": 1}

    told = Told()
    play(
        [planned(tmp_path, "f", engine={"backend": "flower"})],
        resume=True,
        data_directory=tmp_path,
        observer=told,
        simulators={"flower": simulate},
    )
    assert called == [("f", "f/seed-0", True, tmp_path)]
    assert told.words[1:] == ["f round 0", "f/seed-0 finished after 1"]
    assert opened == []


def test_without_it_the_engine_is_not_known(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="Flower brings its own grid"):
        play([planned(tmp_path, "f", engine={"backend": "flower"})])


def test_side_by_side_gives_the_same_runs(tmp_path: Path) -> None:
    names, told = ("a", "b", "c"), Told()
    alone, together = tmp_path / "alone", tmp_path / "together"
    play([planned(alone, name, seed=seed) for seed, name in enumerate(names)])
    runs = [planned(together, name, seed=seed) for seed, name in enumerate(names)]
    assert play(runs, jobs=2, observer=told) == {}
    for name in names:
        files = [root / name / "seed-0" / "model.safetensors" for root in (alone, together)]
        assert files[0].read_bytes() == files[1].read_bytes()
        assert [line for line in told.words if line.startswith(f"{name} round")] == [
            f"{name} round 0",
            f"{name} round 1",
        ]
        assert f"{name}/seed-0 finished after 2" in told.words


def test_side_by_side_what_fails_keeps_the_others_going_if_asked(tmp_path: Path) -> None:
    lost, told = planned(tmp_path, "lost", data={"name": "mnist", "clients": 3}, model="mlp"), Told()
    runs = [lost, planned(tmp_path, "a"), planned(tmp_path, "b")]
    failed = play(runs, data_directory=tmp_path / "no-data", keep_going=True, observer=told, jobs=2)
    assert list(failed) == [str(lost[1].path)]
    assert "lost/seed-0 failed: DataError" in told.words
    assert "b/seed-0 finished after 2" in told.words
    with pytest.raises(EntrofedError, match="mnist is not in"):
        play([lost], data_directory=tmp_path / "no-data", resume=True, jobs=2)


class Interrupts(Told):
    def round_finished(self, experiment: Experiment, folder: RunFolder, record: RoundRecord) -> None:
        raise KeyboardInterrupt


def test_side_by_side_an_interrupt_saves_and_resuming_ends_as_if_nothing_had_been(tmp_path: Path) -> None:
    long = {"rounds": 400}
    runs = [planned(tmp_path, name, seed=seed, **long) for seed, name in enumerate("ab")]
    with pytest.raises(KeyboardInterrupt):
        play(runs, observer=Interrupts(), jobs=2)
    rounds = [len(folder.records()) for _, folder in runs]
    assert all(0 < done < 400 for done in rounds)
    play(runs, resume=True, jobs=2)
    play([planned(tmp_path / "whole", name, seed=seed, **long) for seed, name in enumerate("ab")])
    for name in "ab":
        files = [root / name / "seed-0" / "model.safetensors" for root in (tmp_path, tmp_path / "whole")]
        assert files[0].read_bytes() == files[1].read_bytes()


class Kills(Told):
    def __init__(self) -> None:
        super().__init__()
        self.killed, self.others = False, multiprocessing.active_children()

    def round_finished(self, experiment: Experiment, folder: RunFolder, record: RoundRecord) -> None:
        if experiment.name == "a" and not self.killed:
            self.killed = True
            players = [child for child in multiprocessing.active_children() if child not in self.others]
            min(players, key=lambda child: child.pid or 0).kill()  # the first plays the first


def test_side_by_side_a_process_that_dies_takes_one_run_along(tmp_path: Path) -> None:
    runs = [planned(tmp_path, name, rounds=400 if name == "a" else 2) for name in "abc"]
    failed = play(runs, keep_going=True, observer=Kills(), jobs=2)
    assert [str(error) for error in failed.values()] == [
        "the process that played it died; resume it, with fewer jobs if memory ran out"
    ]
    assert all(RunFolder(tmp_path / name / "seed-0").summary() for name in "bc")


def test_side_by_side_is_for_this_machine(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"engine.backend = 'ray' has workers of its own"):
        play([planned(tmp_path, "f", engine={"backend": "ray"})], jobs=2)
