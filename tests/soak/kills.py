"""Processes that die: runs, worker processes, Ray's actors. What is resumed or goes on has the bits of a quiet run."""

import logging
import multiprocessing
import os
import shutil
import signal
import sys
import threading
import time
import traceback
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

import numpy as np
from tests.soak.folders import METHODS, WRITERS, experiment, result, unbroken

from entrofed.backends import Backend
from entrofed.backends.processes import ProcessBackend
from entrofed.experiment.run_folder import RunFolder
from entrofed.experiment.runner import run
from entrofed.files import write_whole

PATIENCE = 300.0
"""Seconds after which a cluster of Ray's is given up."""


def _child(go: Callable[[], object], write: int | None) -> int:
    """A process of its own that does something, and ends; before or after some write it kills itself."""
    child = os.fork()
    if child:
        return child

    left = -1 if write is None else write

    def dying(path: Path, content: Any) -> None:
        nonlocal left
        left -= 1
        if left == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        write_whole(path, content)

    try:
        for module in WRITERS:
            module.write_whole = dying  # type: ignore[attr-defined]
        go()
    except BaseException:
        os._exit(1)
    os._exit(0)


def runs(seed: int) -> dict[str, int]:
    """Kill a run some times, by the clock or before one of its writes, and resume it."""
    rng, number = np.random.default_rng(seed), seed % len(METHODS)
    found = {"kills": 0, "different": 0, "failed": 0}
    right = result(unbroken(number))
    place = Path(mkdtemp(prefix="soak-"))
    folder = RunFolder(place / "iris" / "seed-0")
    try:
        for _ in range(6):
            write = int(rng.integers(1, 25)) if rng.random() < 0.7 else None
            child = _child(lambda: run(experiment(number), folder, resume=True), write)
            if write is None:
                time.sleep(float(rng.uniform(0.0, 0.4)))
                os.kill(child, signal.SIGKILL)
            status = os.waitpid(child, 0)[1]
            found["kills"] += os.WIFSIGNALED(status)
            found["failed"] += os.WIFEXITED(status) and os.WEXITSTATUS(status) != 0
        try:
            run(experiment(number), folder, resume=True)
            found["different"] += result(folder.path) != right
        except Exception:
            sys.stderr.write(f"kills, seed {seed}:\n{traceback.format_exc()}")
            found["failed"] += 1
    finally:
        shutil.rmtree(place)
    return found


def workers(seed: int, backend: ProcessBackend) -> dict[str, int]:
    """Kill a worker process after every round."""
    rng = np.random.default_rng(seed)

    def kill() -> bool:
        process = backend._workers[int(rng.integers(len(backend._workers)))]._process
        if process.pid is None or not process.is_alive():
            return False
        os.kill(process.pid, signal.SIGKILL)
        return True

    return _killed(seed, backend, "worker kills", kill)


def actors(seed: int, runs: int = 2) -> dict[str, int]:
    """Kill one of Ray's actors while the next round is played; in another process: Ray's threads are not forked."""
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        try:
            return pool.apply_async(_actors, (seed, runs)).get(PATIENCE)
        except multiprocessing.TimeoutError:  # it hangs, or died
            return {"clusters": 1, "failed": 1}


def _actors(seed: int, runs: int) -> dict[str, int]:
    from entrofed.backends.ray import RayBackend

    logging.getLogger("entrofed").setLevel(logging.CRITICAL)
    os.environ.setdefault("RAY_worker_niceness", "0")  # Ray's default starves its actors on a busy machine
    found = Counter[str]({"clusters": 1})
    try:
        backend = RayBackend(2)
    except Exception:  # Ray's own, of no class: a machine that is too busy for its cluster to come up
        return {**found, "not started": 1}
    try:
        for turn in range(runs):
            rng = np.random.default_rng([seed, turn])

            def kill(rng: np.random.Generator = rng) -> bool:
                doomed = backend._actors[int(rng.integers(len(backend._actors)))]
                threading.Timer(float(rng.uniform(0.0, 0.02)), lambda: backend._ray.kill(doomed)).start()
                return True

            found.update(_killed(seed + turn, backend, "actor kills", kill))
    finally:
        backend.close()
    return dict(found)


def _killed(seed: int, backend: Backend, what: str, kill: Callable[[], bool]) -> dict[str, int]:
    """A run on a backend of which something is killed after every round but the last."""
    number = seed % len(METHODS)
    found = {what: 0, "different": 0, "failed": 0}
    place = Path(mkdtemp(prefix="soak-"))
    folder = RunFolder(place / "iris" / "seed-0")

    def after(record: Any) -> None:
        found[what] += record.round < 2 and kill()

    try:
        run(experiment(number), folder, backend=backend, observer=after)
        found["different"] += result(folder.path) != result(unbroken(number))
    except Exception:
        sys.stderr.write(f"{what}, seed {seed}:\n{traceback.format_exc()}")
        found["failed"] += 1
    finally:
        shutil.rmtree(place)
    return found
