"""Peers as processes of their own, that can be killed."""

import multiprocessing
import time

from entrofed.experiment.run_folder import RunFolder

CONTEXT = multiprocessing.get_context("forkserver")
CONTEXT.set_forkserver_preload(["tests.peer.processes", "entrofed.peer.node", "entrofed.api.run"])


LONG = 120.0
"""Seconds that nothing here takes, on a machine however busy."""
SLACK = 10.0
"""Seconds that a busy machine may add to a deadline."""


def _go(path):
    import torch

    from entrofed.peer.node import run_peer

    torch.set_num_threads(1)
    run_peer(path)


def launch(path):
    """A peer in a process."""
    process = CONTEXT.Process(target=_go, args=(path,), daemon=True)
    process.start()
    return process


def kill(process):
    """As if the machine had lost its power."""
    process.kill()
    process.join()


def played(path):
    """Rounds that a peer has recorded."""
    try:
        return (path / "run" / "metrics.jsonl").read_text().count("\n")
    except FileNotFoundError:
        return 0


def until(condition, seconds=LONG):
    """Wait for something."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it takes too long"
        time.sleep(0.01)


def ended(processes, seconds=LONG):
    """Wait until all have ended well."""
    end = time.monotonic() + seconds
    for process in processes:
        process.join(max(0.0, end - time.monotonic()))
        assert process.exitcode == 0, process.exitcode


def records(path):
    """What a peer has recorded."""
    return RunFolder(path / "run").records()
