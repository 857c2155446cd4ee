"""What was configured and never did anything: a comparison by it would compare a run with itself.

A limit that was never reached, a fault that fell on nobody, a choice where there was none: said in the summary
(``never_acted``), by ``run`` and by ``show``. It follows from the records and the last state, so a resumed run says the
same. A clip of ``[privacy]`` is left out on purpose: whether it ever cut tells something of the clients.
"""

from collections.abc import Iterator, Sequence

import numpy as np

from entrofed.core.clock import LATE
from entrofed.core.job import Job
from entrofed.core.parts import LabelFact, Part
from entrofed.core.records import RoundRecord
from entrofed.core.types import State
from entrofed.selectors.buffered import BufferedGreedy
from entrofed.selectors.full import FullSelection
from entrofed.selectors.random import RandomSelection
from entrofed.servers.averaged import Averaged
from entrofed.servers.clipped import CUT, Clipped
from entrofed.servers.trimmed_mean import TrimmedMean
from entrofed.weighers.capped import Capped

LEAST = 3
"""Of so many updates some can be left out as extremes."""


def never_acted(job: Job, records: Sequence[RoundRecord], state: State) -> list[str]:
    """A sentence for each thing that never acted."""
    return [*_selector(job, records), *_weigher(job, records), *_server(job, records, state), *_faults(job, records)]


def _layers(part: Part) -> Iterator[Part]:
    """A part, and those that it is around."""
    yield part
    if (inner := getattr(part, "wrapped", None)) is not None:
        yield from _layers(inner)


def _selector(job: Job, records: Sequence[RoundRecord]) -> Iterator[str]:
    if job.network is not None or not any(record.cohort for record in records):
        return
    everybody = all(len(record.cohort) >= record.available for record in records)
    *_, part = _layers(job.method.selector)
    if everybody and not isinstance(part, FullSelection | RandomSelection):
        rests = ", and its buffer rests nobody" if isinstance(part, BufferedGreedy) else ""
        yield f"selector {part.name!r}: every client was chosen in every round{rests}; set a smaller method.cohort"


def _weigher(job: Job, records: Sequence[RoundRecord]) -> Iterator[str]:
    for part in _layers(job.method.weigher):
        if isinstance(part, Capped) and not any(_capped(record) for record in records):
            yield f"weigher 'capped': no weight was above share = {part.share:g}"


def _capped(record: RoundRecord) -> bool:
    """Whether somebody's weight was cut: what it would have been is noted where it came from."""
    pairs = [(client.weight, client.origin) for client in record.clients]
    pairs += [pair for peer in record.peers for pair in zip(peer.weights, peer.origins, strict=False)]
    return any(float(origin.get("uncapped") or 0.0) > weight + 1e-9 for weight, origin in pairs)


def _server(job: Job, records: Sequence[RoundRecord], state: State) -> Iterator[str]:
    pooled = [len(record.used) for record in records if not record.peers]
    pooled += [sum(weight > 0 for weight in peer.weights) for record in records for peer in record.peers]
    for part in _layers(job.method.server):
        if isinstance(part, Clipped):
            counts = [array for name, array in state.server.items() if name.rpartition("/")[2] == CUT]
            if counts and not np.sum(counts):
                yield f"server 'clipped': no step was longer than norm = {part.norm:g}"
        elif isinstance(part, TrimmedMean) and (part.share == 0 or max(pooled, default=0) < LEAST):
            yield f"server 'trimmed_mean': nobody was left out; share above 0 and {LEAST} updates in a round are needed"
        elif isinstance(part, Averaged) and part.start >= job.rules.rounds - 1:
            yield f"server 'averaged': start = {part.start}, and the run ends before two models are averaged"


def _faults(job: Job, records: Sequence[RoundRecord]) -> Iterator[str]:
    faults, clock, clients = job.rules.faults, job.rules.clock, len(job.clients.sizes)
    reasons = {refusal.reason for record in records for refusal in record.refused}
    if faults.dropout and "dropped out" not in reasons:
        yield f"faults.dropout = {faults.dropout:g}: nobody dropped out; that share of a cohort rounds to 0"
    if faults.stragglers and job.rules.training.epochs == 1:
        yield "faults.stragglers: slow clients train 1 to method.epochs epochs, and that is 1"
    for name in ("stragglers", "joining", "leaving", "liars"):
        share = getattr(faults, name)
        if share and not np.floor(share * clients + 0.5):
            yield f"faults.{name} = {share:g}: of {clients} clients that is nobody"
    if faults.liars and not any(isinstance(fact, LabelFact) for fact in job.method.facts):
        yield f"faults.liars: method {job.method.name!r} looks at nobody's label counts, and there is nothing to claim"
    if clock is not None and clock.deadline is not None and not clock.partial and LATE not in reasons:
        yield f"clock.deadline = {clock.deadline:g}: nobody came too late"
