"""One round at one peer: train, let neighbours have the model, get theirs, admit, weigh, pool.

The functions are those of the simulation (:mod:`entrofed.core.gossip`), applied by one node to what it has got: in a
run without faults, or with faults on purpose, every peer's model has the bits that the simulation gives it.
"""

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from entrofed.core.gossip import peer_record, usable
from entrofed.core.job import Job
from entrofed.core.params import Params
from entrofed.core.records import ClientRecord, PeerRecord, Refusal, RoundRecord, Stopwatch
from entrofed.core.round import Evaluation, PeersEvaluated, Pooled
from entrofed.core.tasks import Backend, PoolTask, TrainTasks
from entrofed.core.types import LABEL_COUNTS, State, Update
from entrofed.core.validation import admit, check_first
from entrofed.info.entropy import effective_cohort, entropy_of_counts
from entrofed.peer.exchange import Exchange, Heard
from entrofed.peer.limits import Meter
from entrofed.peer.outbox import KEEP, Outbox
from entrofed.peer.told import Told

log = logging.getLogger("entrofed")


@dataclass(frozen=True)
class Patience:
    """How long a peer waits, and for how old a model."""

    deadline: float
    start: float
    staleness: int = 0


class PeerRounds:
    """Plays the rounds of one peer; ``node`` is its number."""

    def __init__(
        self,
        node: int,
        told: Told,
        outbox: Outbox,
        exchange: Exchange,
        backend: Backend,
        evaluation: Evaluation,
        patience: Patience,
        meter: Meter,
    ) -> None:
        self._node, self._told, self._outbox, self._exchange = node, told, outbox, exchange
        self._backend, self._evaluation, self._patience, self._meter = backend, evaluation, patience, meter
        self._hood = np.array(sorted([node, *exchange.presence]), np.int64)
        self._target = 0
        """The round that the neighbours are in, if they are ahead."""
        self._adopted: Params | None = None
        """The model that a newcomer got from one of them."""
        self._shape: Mapping[str, tuple[object, ...]] | None = None

    def is_behind(self, state: State) -> bool:
        """Whether the neighbours have played this round without this peer."""
        return state.round < self._target

    def play(self, state: State) -> tuple[State, RoundRecord]:
        """One round; returns the state after it and its record."""
        job, number = self._told.job(), state.round
        if number == 0 and self._outbox.of(0) is None:
            self._join(job)
        if self.is_behind(state):
            return self._missed(state)
        watch = Stopwatch()
        awake, trains = self._part(job, number)
        update, refused = self._own_update(job, state) if trains else (None, {})
        self._outbox.put(number, update)
        watch.lap("train")

        seconds = self._patience.deadline if number else self._patience.start
        heard = self._exchange.collect(number, staleness=self._patience.staleness, seconds=seconds, bare=not awake)
        watch.lap("wait")
        job = self._told.job()  # with the facts of those who have come
        got, reasons = self._admitted(job, heard) if awake else ({}, {})
        refused |= reasons
        if update is not None:
            got[self._node] = update
        pooled = self._pool(job, state, got) if awake else None
        watch.lap("aggregate")

        after = self._after(state, update, pooled, awake=awake)
        evaluated = PeersEvaluated()
        if job.rules.evaluated(after.round):
            evaluated = self._evaluation.of_peers(
                [after.params] * len(job.clients.sizes), ["own"] * len(job.clients.sizes)
            )
        self._catch_up(number, heard)
        watch.lap("evaluate")
        if not awake:
            refused[self._node] = "dropped out"
        return after, self._record(job, state, got, refused, pooled, evaluated, watch.seconds)

    def _part(self, job: Job, number: int) -> tuple[bool, bool]:
        """Whether the faults of the experiment let this peer take part, and whether it is one of those who train."""
        faults, nodes = job.rules.faults, len(job.clients.sizes)
        present = faults.present(job.seed, number, job.rules.rounds, nodes)
        gone = faults.dropped(job.seed, number, np.flatnonzero(present).tolist())
        awake = [node for node in np.flatnonzero(present).tolist() if node not in gone]
        trained = awake if job.network is None else job.network.trained(job.seed, number, awake)
        return self._node in awake, self._node in trained

    def _own_update(self, job: Job, state: State) -> tuple[Update | None, dict[int, str]]:
        """What this peer has to send: what it had before a restart, or what comes of training."""
        node = self._node
        if (entry := self._outbox.of(state.round)) is not None and entry.update is not None:
            return entry.update, {}
        tasks = TrainTasks(job, state)
        answers = self._backend.run([tasks.task(node, job.method.server.broadcast(state.server))])
        if not state.round:
            check_first(answers)
        updates, refused = admit(job, [node], answers)
        for reason in refused.values():
            log.warning("round %d: this peer's own model is refused: %s", state.round + 1, reason)
        return (updates[0] if updates else None), dict(refused)

    def _admitted(self, job: Job, heard: Mapping[int, Heard]) -> tuple[dict[int, Update], dict[int, str]]:
        """The neighbours' updates that can be used, and why others cannot."""
        refused = {n: found.refused for n, found in heard.items() if found.refused is not None}
        sent = {n: found.update for n, found in heard.items() if found.update is not None}
        strict = replace(job, rules=replace(job.rules, nonfinite="drop"))  # whatever holds for one's own models
        updates, reasons = admit(strict, list(sent), list(sent.values()))
        refused |= reasons
        usable_ones = {}
        for update in updates:
            if self._shape is not None and _shape(update) != self._shape:
                refused[update.client] = f"it says {sorted(update.facts)[:5]} besides the model, or in another shape"
            else:
                usable_ones[update.client] = replace(update, client_state={})
        for n, reason in refused.items():
            log.warning("the model of number %d is refused: %s", n, reason)
        return usable_ones, refused

    def _pool(self, job: Job, state: State, got: Mapping[int, Update]) -> Pooled | None:
        """The next model; None if there are too few updates, or no model comes of them."""
        if len(got) < job.rules.quorum:
            log.warning(
                "round %d: %d usable models, quorum %d: the model stays", state.round + 1, len(got), job.rules.quorum
            )
            return None
        ordered = [replace(got[n], client=int(np.searchsorted(self._hood, n))) for n in sorted(got)]
        task = PoolTask(self._view(job), state.round, state.params, state.server, tuple(ordered))
        found: Pooled = usable(self._backend.run([task])[0])
        if not found.enough:
            log.warning("round %d: %s: the model stays", state.round + 1, found.reason)
        return found if found.enough else None

    def _view(self, job: Job) -> Job:
        return job.at(self._node, self._hood)

    def _after(self, state: State, update: Update | None, pooled: Pooled | None, *, awake: bool) -> State:
        if update is not None:
            self._shape = _shape(update)
        kept = {self._node: update.client_state} if pooled and update is not None and update.client_state else {}
        return State(
            round=state.round + 1,
            params=state.params if pooled is None else pooled.params,
            selector={},
            server=state.server if pooled is None else pooled.server,
            client_states=state.client_states | kept,
            skipped=state.skipped + 1 if awake and pooled is None else 0,
        )

    def _join(self, job: Job) -> None:
        """A newcomer goes on where its neighbours are, with the model of one of them."""
        rounds = self._exchange.look()
        ahead = sorted(n for n, at in rounds.items() if at >= KEEP)  # they no longer have the models of the first
        if 2 * len(ahead) < max(len(rounds), 1):
            return
        for n in ahead:
            found = self._exchange.newest(n)
            got, _ = self._admitted(job, {} if found is None else {n: found})
            if n in got and found is not None:
                self._target, self._adopted = found.round, got[n].params
                log.info("joined in round %d with the model of number %d", found.round + 1, n)
                return

    def _catch_up(self, number: int, heard: Mapping[int, Heard]) -> None:
        """Go on where at least half of the neighbours that were heard are, if that is further."""
        ahead = sorted(found.round for found in heard.values() if found.round > number and found.refused is None)
        if ahead and 2 * len(ahead) >= len(heard) and ahead[0] > number + 1:
            self._target = ahead[0]
            log.warning("this peer is behind: it goes on in round %d", self._target + 1)

    def _missed(self, state: State) -> tuple[State, RoundRecord]:
        """A round that was played without this peer."""
        number = state.round
        after = replace(state, round=number + 1)
        if after.round == self._target and self._adopted is not None:
            after, self._adopted = replace(after, params=self._adopted), None
        return after, RoundRecord(round=number, skipped=True, peers=[PeerRecord(self._node, [self._node], [1.0])])

    def _record(
        self,
        job: Job,
        state: State,
        got: Mapping[int, Update],
        refused: Mapping[int, str],
        pooled: Pooled | None,
        evaluated: PeersEvaluated,
        seconds: dict[str, float],
    ) -> RoundRecord:
        peer = peer_record(self._node, sorted(got), pooled, evaluated)
        counted = [n for n, weight in peer.mixing.items() if weight > 0]
        up, down = self._meter.taken()
        own = got.get(self._node)
        return RoundRecord(
            round=state.round,
            lr=job.training_in(state).lr,
            available=len(self._hood),
            cohort=sorted(got),
            cohort_entropy=_pooled_entropy(job, counted),
            clients=[ClientRecord.of(got[n], peer.mixing.get(n, 0.0)) for n in sorted(got)],
            refused=[Refusal(n, why) for n, why in sorted(refused.items())],
            skipped=pooled is None,
            effective_cohort=float(effective_cohort(np.array(peer.weights))),
            train_loss=None if own is None else own.train_loss,
            bytes_up=up,
            bytes_down=down,
            test=evaluated.tests[self._node] if evaluated.tests else None,
            in_distribution=evaluated.in_distribution,
            peers=[peer],
            seconds={**seconds, "clients": 0.0 if own is None else own.seconds},
        )


def _shape(update: Update) -> dict[str, tuple[object, ...]]:
    """What goes along with a model, without its values."""
    return {name: (array.dtype.str, array.shape) for name, array in update.facts.items()}


def _pooled_entropy(job: Job, numbers: Sequence[int]) -> float | None:
    """Of the label counts of peers, bits; None where the method does not make them tell these."""
    counts = job.clients.facts.get(LABEL_COUNTS)
    if counts is None or not numbers:
        return None
    pooled: NDArray[np.float64] = np.asarray(counts)[list(numbers)].sum(axis=0)
    return float(entropy_of_counts(pooled, base="bits"))


class EdgeFaults:
    """Which messages are lost on purpose: those that the simulation of the same experiment loses."""

    def __init__(self, job: Job, node: int) -> None:
        self._node, network, seed = node, job.network, job.seed
        faulty = network is not None and (network.up < 1 or network.loss > 0 or network.split is not None)

        @lru_cache(maxsize=4)
        def senders(number: int) -> list[NDArray[np.int64]]:
            return network.senders(seed, number) if network is not None and faulty else []

        self._senders = senders

    def lost(self, number: int, receiver: int) -> bool:
        """Whether what this node sends in a round does not reach the receiver."""
        hoods = self._senders(number)
        return receiver < len(hoods) and self._node not in hoods[receiver]
