"""A peer's whole run: from its folder, over its rounds, to its summary.

::

    basel/
      peer.toml  agreed.toml  key.pem  certificate.pem
      neighbours/bern.pem
      run/               an ordinary run folder, and
        peer.json        which peer of which run it is
        status.json      how its neighbours are
        outbox/          the models of its last rounds, as they were sent
        told/            how neighbours introduced themselves
        sketches.f32     a short stand-in for the model of each round
"""

import json
import logging
import time
from math import inf
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from entrofed.backends.base import Backend
from entrofed.backends.inline import InlineBackend
from entrofed.client.metrics import CLIENT_ACCURACY
from entrofed.core.graphs import closed_neighbourhoods
from entrofed.core.job import Job
from entrofed.core.records import RoundRecord
from entrofed.core.round import tell_once
from entrofed.core.types import State
from entrofed.errors import ConfigError
from entrofed.experiment.build import Setup, client_table, federate, job_of, prepare, release_once
from entrofed.experiment.evaluation import FederationEvaluation
from entrofed.experiment.judge import Judge
from entrofed.experiment.model_file import ModelFile
from entrofed.experiment.rounds import Observer, Runner
from entrofed.experiment.run_folder import RunFolder
from entrofed.experiment.runner import logging_to
from entrofed.experiment.summary import summarize
from entrofed.experiment.tracked import tracked_run
from entrofed.files import write_whole
from entrofed.peer import keys, sketch
from entrofed.peer.agreement import agreed_on
from entrofed.peer.config import RUN, PeerFolder
from entrofed.peer.exchange import Exchange
from entrofed.peer.faults import EdgeFaults
from entrofed.peer.limits import Meter
from entrofed.peer.link import Link
from entrofed.peer.outbox import Outbox
from entrofed.peer.own import share_of, whole_of
from entrofed.peer.round import Patience, PeerRounds
from entrofed.peer.service import Local, Service
from entrofed.peer.told import Told
from entrofed.peer.whole import PEER, SKETCHES
from entrofed.peer.wire import Arrays, Hello, most_bytes
from entrofed.tracking import Trackers, trackers_of

log = logging.getLogger("entrofed")

STATUS = "status.json"


def setup_of(folder: PeerFolder, data_directory: Path | None = None) -> Setup:
    """What the experiment stands for, with this peer's samples alone."""
    experiment, section = folder.experiment(), folder.section
    federation = federate(experiment.data, experiment.seed, data_directory)
    if section.data is None:
        own = share_of(federation, section.number)
    else:
        nodes = 1 + max([section.number, *(neighbour.number for neighbour in folder.neighbours)])
        own = whole_of(federation, section.number, nodes)
    if folder.neighbours and (last := folder.neighbours[-1]).number >= len(own.shards):
        raise ConfigError(
            f"neighbour {last.name} has number {last.number}, and the experiment deals its data out to "
            f"{len(own.shards)} peers; give the peer data of its own ([data] in peer.toml)"
        )
    return prepare(experiment, data_directory, federation=own)


class PeerNode(Local):
    """One peer, from its start to its end."""

    def __init__(self, folder: PeerFolder, setup: Setup, backend: Backend) -> None:
        self._folder, self._setup, self._section = folder, setup, folder.section
        self._run = RunFolder(folder.path / RUN)
        self._node = folder.section.number
        self._backend = backend
        self._meter = Meter()
        self._at = 0

    def hello(self) -> bytes:
        """Who this peer is."""
        return self._told.hello(self._node, self._at)

    def introduced(self, number: int, hello: Hello, facts: Arrays) -> None:
        """A neighbour has said who it is."""
        self._told.introduced(number, hello, facts)

    def lost(self, number: int, receiver: int) -> bool:
        """Whether a message is lost on purpose."""
        return self._faults.lost(number, receiver)

    def play(self, observer: Observer = lambda record: None) -> dict[str, Any]:
        """Play the rounds that are left, from the last checkpoint on; returns the summary."""
        run, setup, experiment, section = self._run, self._setup, self._setup.experiment, self._section
        with run.claimed():
            run.check(experiment, resume=True)
            run.check_data(setup.federation)
            run.start(experiment, setup.method)
            run.keep_federation(setup.federation, own=True)
            write_whole(run.path / PEER, json.dumps(self._identity(), indent=2) + "\n")
            with logging_to(run.path / "log.txt"):
                released = release_once(setup, run)
                self._backend.open(setup.workload)
                job = tell_once(job_of(setup, client_table(setup, released)), setup.params, self._backend)
                self._check_edges(job)
                self._faults = EdgeFaults(job, self._node)
                agreed = agreed_on(setup, own_data=section.data is not None)
                self._told = Told(run.path / "told", job, section.run, agreed, self._folder.neighbours)
                outbox = Outbox(run.path / "outbox", section.run, self._node)
                evaluation = FederationEvaluation(
                    setup.federation,
                    job.rules,
                    self._backend,
                    setup.metrics,
                    by_client=CLIENT_ACCURACY in experiment.metrics,
                )
                runner = Runner(
                    run,
                    setup.layout,
                    max_skipped=experiment.method.max_skipped,
                    quorum=experiment.method.quorum,
                    checkpoint_seconds=0.0,  # nothing of a round leaves before the round before it is on disk
                    memory_bytes=experiment.engine.memory_mb * 1e6,
                    judge=Judge(experiment, setup.judged, job.rules, evaluation),
                    model=ModelFile.of(run.path, setup.build, setup.federation),
                )
                view = job.at(self._node, self._hood())

                def first() -> State:
                    params = setup.params
                    server = setup.method.server.init(params, view.clients, view.participants)
                    return State(0, params, {}, server, runner.client_states)

                runner.begin(first, resume=True, start_over=False)
                self._at = runner.state.round
                outbox.restore(self._at)
                service = Service(self._folder, self, outbox, self._meter)
                exchange = self._exchange(setup, service)
                patience = Patience(section.deadline, section.start, section.staleness)
                rounds = PeerRounds(
                    self._node, self._told, outbox, exchange, self._backend, evaluation, patience, self._meter
                )
                told = Trackers(trackers_of(experiment.track, run.path))
                summary: dict[str, Any] | None = None
                service.start()
                told.start(tracked_run(run), run.records())
                try:
                    log.info("%s listens on %s, in round %d", section.name, section.listen, self._at + 1)

                    def play_round(state: State) -> tuple[State, RoundRecord]:
                        self._at = state.round
                        after, record = rounds.play(state)
                        missed = rounds.is_behind(after)  # checkpoints of rounds without it would be many, and alike
                        runner.checkpoint_seconds = inf if missed else 0.0
                        if not missed:
                            sums = sketch.sketch(after.params.values, experiment.seed)
                            sketch.write(run.path / SKETCHES, state.round, sums)
                            self._keep_status(record, exchange, service)
                        return after, record

                    def seen(record: RoundRecord) -> None:
                        told.log(record)
                        observer(record)

                    runner.play(play_round, experiment.rounds, seen)
                    self._at = experiment.rounds
                    summary = {**summarize(run.records()), "privacy": None if released is None else released.spent}
                    run.finish(summary)
                    exchange.farewell(section.deadline)
                finally:
                    told.finish(summary)
                    exchange.close()
                    service.stop()
                return summary

    def _hood(self) -> NDArray[np.int64]:
        return np.array(sorted([self._node, *(neighbour.number for neighbour in self._folder.neighbours)]), np.int64)

    def _exchange(self, setup: Setup, service: Service) -> Exchange:
        folder, most = self._folder, most_bytes(setup.layout)
        for pem, where in [(folder.certificate, "this peer")] + [(n.certificate, n.name) for n in folder.neighbours]:
            if (words := keys.expired(pem, where)) is not None:
                log.warning("the certificate of %s has %s", where, words)
        links = [Link(known, folder.key, folder.certificate, most, self._meter) for known in folder.neighbours]
        section, rounds = self._section, setup.experiment.rounds
        return Exchange(links, self._told, section.run, rounds, section.deadline, self.hello, service)

    def _identity(self) -> dict[str, Any]:
        section = self._section
        return {
            "run": section.run,
            "name": section.name,
            "number": section.number,
            "nodes": len(self._setup.federation.shards),
            "names": {str(n.number): n.name for n in self._folder.neighbours} | {str(section.number): section.name},
        }

    def _check_edges(self, job: Job) -> None:
        """Faults on purpose fall on the edges of the experiment's graph; they must be the ones there are."""
        network = job.network
        if network is None or (network.up == 1 and not network.loss and network.split is None):
            return
        hood = closed_neighbourhoods(network.graph)[self._node].tolist()
        if hood != self._hood().tolist():
            raise ConfigError(
                f"topology.up, message_loss and split are for the edges of the experiment's graph, in which number "
                f"{self._node} has the neighbours {[n for n in hood if n != self._node]}; here they are "
                f"{[n.number for n in self._folder.neighbours]}"
            )

    def _keep_status(self, record: RoundRecord, exchange: Exchange, service: Service) -> None:
        neighbours = {
            known.name: {
                "number": known.number,
                "round": exchange.presence[known.number].last,
                "misses": exchange.presence[known.number].misses,
                "words": exchange.presence[known.number].words,
                "too_many": service.refused.get(known.number, 0),
            }
            for known in self._folder.neighbours
        }
        content = {"round": record.round, "time": time.time(), "neighbours": neighbours}
        write_whole(self._run.path / STATUS, json.dumps(content) + "\n")


def run_peer(
    path: Path,
    *,
    data_directory: Path | None = None,
    observer: Observer = lambda record: None,
    backend: Backend | None = None,
) -> dict[str, Any]:
    """Run the peer in a folder until its last round; returns the summary. Started again, it goes on where it was."""
    folder = PeerFolder(path)
    used = backend or InlineBackend()
    try:
        return PeerNode(folder, setup_of(folder, data_directory), used).play(observer)
    finally:
        if backend is None:
            used.close()
