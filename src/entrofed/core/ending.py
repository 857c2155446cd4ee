"""After the last round: what clients tell then, and the model that the server rule makes of it."""

from dataclasses import dataclass, replace

from entrofed.core.job import Job
from entrofed.core.params import Params
from entrofed.core.records import Traffic
from entrofed.core.round import ask
from entrofed.core.tasks import Backend
from entrofed.core.types import Context, State
from entrofed.errors import blamed


@dataclass(frozen=True)
class Ended:
    """The model made at the end, and the bytes that it took."""

    params: Params
    traffic: Traffic


def finish_run(job: Job, state: State, backend: Backend) -> Ended | None:
    """Ask everybody who takes part for the facts of the end; None if the method asks for none."""
    asked = job.method.facts_told("at_end")
    if not asked:
        return None
    there = job.participants[job.clients.sizes[job.participants] > 0]
    told = {fact.name: ask(fact, job, state.params, there, backend, first=True) for fact in asked}
    clients = replace(job.clients, facts={**job.clients.facts, **told})
    context = Context(state.params, state.round, clients, job.layout, job.seed, job.predict)
    with blamed(f"server rule {job.method.server.name!r}"):
        params = job.method.server.finish(state.params, context)
    up = sum(value.nbytes for table in told.values() for value in table if value is not None)
    return None if params is None else Ended(params, Traffic(len(there) * job.layout.nbytes, up))
