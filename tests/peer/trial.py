"""Peers in threads of one process, and the simulation that they have to equal."""

import random
import socket
import threading
from contextlib import closing
from pathlib import Path

import numpy as np

from entrofed.backends.inline import InlineBackend
from entrofed.core.gossip import gossip_round
from entrofed.core.round import tell_once
from entrofed.experiment.build import client_table, first_state_of, job_of, prepare, release_once
from entrofed.experiment.checkpoint import Checkpoints
from entrofed.experiment.client_state import ClientStateStore
from entrofed.experiment.config import parse, to_toml
from entrofed.experiment.evaluation import FederationEvaluation
from entrofed.experiment.run_folder import RunFolder
from entrofed.peer.config import PeerFolder
from entrofed.peer.new import new_trial
from entrofed.peer.node import run_peer
from entrofed.peer.sketch import read, sketch
from entrofed.peer.whole import SKETCHES


def experiment(rounds=3, peers=3, method=None, **sections):
    """A tiny network on few samples."""
    return parse(
        {
            "name": "peers",
            "rounds": rounds,
            "seed": 3,
            "model": "iris_mlp",
            "data": {"name": "iris", "partition": "dirichlet_balanced", "clients": peers, "alpha": 1.0, "min_size": 5},
            "method": {"lr": 0.05, "batch_size": 8, **(method or {})},
            "topology": {"kind": "ring", **sections.pop("topology", {})},
            "engine": {"backend": "inline"},
            **sections,
        }
    )


def free_ports(count):
    """The first of so many ports in a row that nobody uses."""
    for _ in range(100):
        first = random.randrange(20_000, 32_000)
        sockets = []
        try:
            for port in range(first, first + count):
                sockets.append(socket.socket())
                sockets[-1].bind(("127.0.0.1", port))
            return first
        except OSError:
            continue
        finally:
            for one in sockets:
                one.close()
    raise AssertionError("no free ports")


def trial(folder, chosen, deadline=120.0, **changes):
    """The folders of the peers of an experiment; ``changes`` go to the file of each."""
    file = folder.parent / f"{folder.name}.toml"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(to_toml(chosen))
    peers = chosen.data.clients
    paths = new_trial(folder, peers=peers, file=file, port=free_ports(peers), deadline=deadline)
    for path in paths if changes else ():
        change(path, **changes)
    return paths


def change(path, **changes):
    """Change the file of a peer."""
    peer = PeerFolder(path)
    peer.write(type(peer.section).model_validate({**peer.section.model_dump(), **changes}))


def start(path, results, **options):
    """A peer in a thread."""

    def go():
        try:
            results[path.name] = run_peer(path, **options)
        except BaseException as error:
            results[path.name] = error

    thread = threading.Thread(target=go, daemon=True)
    thread.start()
    return thread


def together(paths, seconds=600.0):
    """Run peers until all have ended; returns their summaries."""
    results = {}
    threads = [start(path, results) for path in paths]
    for thread in threads:
        thread.join(seconds)
    assert not any(thread.is_alive() for thread in threads), "a peer has not ended"
    for result in results.values():
        if isinstance(result, BaseException):
            raise result
    return results


def simulated(chosen, folder: Path):
    """The records of a simulation, the models of all nodes after each round, and the state at the end."""
    folder.mkdir(parents=True, exist_ok=True)
    setup, backend = prepare(chosen), InlineBackend()
    with closing(backend):
        backend.open(setup.workload)
        released = release_once(setup, RunFolder(folder))
        job = tell_once(job_of(setup, client_table(setup, released)), setup.params, backend)
        evaluation = FederationEvaluation(setup.federation, job.rules, backend, setup.metrics)
        state, records, models = first_state_of(job, setup.params, {}), [], []
        for _ in range(chosen.rounds):
            state, record = gossip_round(job, state, backend, evaluation)
            records.append(record)
            models.append(list(state.server["values"].models))
    return records, models, state


def last_state(path, layout):
    """The last checkpoint of a peer."""
    run = path / "run"
    store = ClientStateStore(run / "memory", 0)
    state, problems = Checkpoints(run / "checkpoints", layout, store).last()
    assert not problems
    return state


def assert_equal(paths, chosen, folder, rounds=None):
    """Every peer's model has the bits of the simulation, after each round."""
    records, models, state = simulated(chosen, folder)
    layout = prepare(chosen).layout
    for node, path in enumerate(paths):
        mine = RunFolder(path / "run").records()
        assert len(mine) == chosen.rounds
        for number, (ours, theirs) in enumerate(zip(mine, records, strict=True)):
            assert ours.peers == [theirs.peers[node]], f"node {node}, round {number}: {ours} {theirs}"
        sketches = read(path / "run" / SKETCHES)
        for number, row in enumerate(models):
            np.testing.assert_array_equal(sketches[number], sketch(row[node].values, chosen.seed))
        last = last_state(path, layout)
        np.testing.assert_array_equal(last.params.values, models[-1][node].values)
        np.testing.assert_array_equal(last.params.counters, models[-1][node].counters)
        for name, array in state.server.items():
            owner, slash, rest = name.partition("/")
            if slash and int(owner) == node:
                np.testing.assert_array_equal(last.server[rest], array)
        if node in state.client_states:
            for name, array in state.client_states[node].items():
                np.testing.assert_array_equal(last.client_states[node][name], array)
