"""One round at one peer: train, let neighbours have the model, get theirs, admit, weigh, pool.

The functions are those of the simulation (:mod:`entrofed.core.gossip`), applied by one node to what it has got: in a
run without faults, or with faults on purpose, every peer's model has the bits that the simulation gives it.
"""

import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from entrofed.core.admission import bound
from entrofed.core.gossip import peer_record, seen_by, usable, view_of
from entrofed.core.job import Job
from entrofed.core.params import Params
from entrofed.core.records import ClientRecord, PeerRecord, Refusal, RoundRecord, Stopwatch
from entrofed.core.round import Evaluation, PeersEvaluated, Pooled
from entrofed.core.tasks import Backend, PoolTask, TrainTasks
from entrofed.core.types import LABEL_COUNTS, PartState, State, Update
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

    def is_behind(self, state: State) -> bool:
        """Whether the neighbours have played this round without this peer."""
        return state.round < self._target

    def play(self, state: State) -> tuple[State, RoundRecord]:
        """One round; returns the state after it and its record."""
        job, number = self._told.job(), state.round
        if number == 0 and self._outbox.of(0) is None:
            self._join(job, state)
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
        got, reasons, admission = self._admitted(job, state, update, heard) if awake else ({}, {}, state.admission)
        refused |= reasons
        pooled = self._pool(job, state, got) if awake else None
        watch.lap("aggregate")

        after = self._after(state, got.get(self._node), pooled, admission, awake=awake)
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

    def _admitted(
        self, job: Job, state: State, update: Update | None, heard: Mapping[int, Heard]
    ) -> tuple[dict[int, Update], dict[int, str], PartState]:
        """The updates that can be used, this peer's own among them; why others cannot; how large they were."""
        refused = {n: found.refused for n, found in heard.items() if found.refused is not None}
        sent = {n: found.update for n, found in heard.items() if found.update is not None}
        strict = replace(job, rules=replace(job.rules, nonfinite="drop"))  # whatever holds for one's own models
        updates, reasons = admit(strict, list(sent), list(sent.values()))
        refused |= reasons
        broadcast = job.method.server.broadcast(state.server)
        orders = {}
        for one in updates:
            tasks = TrainTasks(job, replace(state, round=heard[one.client].round))
            orders[one.client] = tasks.task(one.client, broadcast, params=self._start(state.params, one.params))
        strangers = set(orders)
        if update is not None:
            updates = [update, *updates]
            orders[self._node] = TrainTasks(job, state).task(self._node, broadcast)
        found, reasons, admission = bound(strict, orders, updates, state.admission, elsewhere=strangers)
        refused |= reasons
        for n, reason in refused.items():
            log.warning("round %d: the model of number %d is refused: %s", state.round + 1, n, reason)
        kept = {u.client: u if u.client == self._node else replace(u, client_state={}) for u in found}
        return kept, refused, admission

    @staticmethod
    def _start(mine: Params, theirs: Params) -> Params:
        """What stands for the model that a neighbour started from: one's own; it may have counted fewer batches."""
        return Params(mine.values, np.clip(theirs.counters, 0, mine.counters))

    def _pool(self, job: Job, state: State, got: Mapping[int, Update]) -> Pooled | None:
        """The next model; None if there are too few updates, or no model comes of them."""
        if len(got) < job.rules.quorum:
            log.warning(
                "round %d: %d usable models, quorum %d: the model stays", state.round + 1, len(got), job.rules.quorum
            )
            return None
        view = view_of(job, self._node, self._hood)
        ordered = seen_by(view, self._hood, [got[n] for n in sorted(got)])
        task = PoolTask(view, state.round, state.params, state.server, ordered)
        found: Pooled = usable(self._backend.run([task])[0])
        if not found.enough:
            log.warning("round %d: %s: the model stays", state.round + 1, found.reason)
        return found if found.enough else None

    def _after(
        self, state: State, update: Update | None, pooled: Pooled | None, admission: PartState, *, awake: bool
    ) -> State:
        kept = {self._node: update.client_state} if pooled and update is not None and update.client_state else {}
        return State(
            round=state.round + 1,
            params=state.params if pooled is None else pooled.params,
            selector={},
            server=state.server if pooled is None else pooled.server,
            client_states=state.client_states | kept,
            skipped=state.skipped + 1 if awake and pooled is None else 0,
            admission=admission if pooled else state.admission,
        )

    def _join(self, job: Job, state: State) -> None:
        """A newcomer goes on where most of its neighbours are, with the model of one of them."""
        rounds = self._exchange.look()
        ahead = [n for n, at in rounds.items() if at >= KEEP]  # they no longer have the models of the first
        if not self._exchange.mostly(ahead):
            return
        middle = _lower_median(rounds[n] for n in ahead)
        for n in sorted(ahead, key=lambda n: abs(rounds[n] - middle)):
            found = self._exchange.newest(n)
            got, _, _ = self._admitted(job, state, None, {} if found is None else {n: found})
            if n in got and found is not None:
                self._target, self._adopted = found.round, got[n].params
                log.info("joined in round %d with the model of number %d", found.round + 1, n)
                return

    def _catch_up(self, number: int, heard: Mapping[int, Heard]) -> None:
        """Go on where most of the neighbours that are there are, if they are further by more than a round."""
        ahead = {n: found.round for n, found in heard.items() if found.round > number + 1 and found.refused is None}
        if self._exchange.mostly(ahead):
            self._target = _lower_median(ahead.values())
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


def _lower_median(rounds: Iterable[int]) -> int:
    """The one in the middle, or the lower of two: that of a single hostile one only if there is no other."""
    ordered = sorted(rounds)
    return ordered[(len(ordered) - 1) // 2]


def _pooled_entropy(job: Job, numbers: Sequence[int]) -> float | None:
    """Of the label counts of peers, bits; None where the method does not make them tell these."""
    counts = job.clients.facts.get(LABEL_COUNTS)
    if counts is None or not numbers:
        return None
    pooled: NDArray[np.float64] = np.asarray(counts)[list(numbers)].sum(axis=0)
    return float(entropy_of_counts(pooled, base="bits"))
