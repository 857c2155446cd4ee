"""Which updates come in time, and how long a round lasts, on the virtual clock; for a server as for peers."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from entrofed.core.clock import FORWARD
from entrofed.core.job import Job
from entrofed.core.parts import TrainTask
from entrofed.core.types import Update


@dataclass(frozen=True)
class Arrivals:
    """The updates that came in time, who was late and why, and the seconds of the round; None without a clock."""

    updates: list[Update]
    late: Mapping[int, str]
    seconds: float | None = None


def arrivals(
    job: Job, tasks: Sequence[TrainTask], updates: Sequence[Update], chosen: int, down: int, links: Sequence[int] = ()
) -> Arrivals:
    """What came in time of the updates of ``tasks``, for which ``chosen`` clients were asked.

    ``down``: bytes that each client receives; ``links``: of peers, by node, to how many others each sends its update,
    and from how many it receives as much.
    """
    clock, devices = job.rules.clock, job.devices
    if clock is None or devices is None:
        return Arrivals(list(updates), {})
    training, seconds = {task.client: task.training for task in tasks}, {}
    for update in updates:
        how, k = training[update.client], update.client
        samples = min(update.num_steps * how.batch_size, how.epochs * update.num_examples)
        times = links[k] if links else 1
        seconds[k] = devices.seconds(k, samples=samples, down=times * down, up=times * update_bytes(job, update))
    closed = clock.close(seconds, chosen, chosen if links else job.rules.cohort)
    return Arrivals([update for update in updates if update.client not in closed.late], closed.late, closed.seconds)


def asking_seconds(job: Job, clients: NDArray[np.int64], *, trains: bool = False) -> float:
    """Until the slowest of some clients has received the model, passed over its data once and told something small.

    ``trains``: until it has trained and sent its update.
    """
    if job.devices is None or not len(clients):
        return 0.0
    passes, up = (job.rules.training.epochs, job.layout.nbytes) if trains else (FORWARD, 0)
    sizes = job.clients.sizes
    return max(
        job.devices.seconds(k, samples=passes * sizes[k], down=job.layout.nbytes, up=up) for k in clients.tolist()
    )


def update_bytes(job: Job, update: Update) -> int:
    """Bytes of an update on its way: the model, and what goes along with it."""
    return job.layout.nbytes + sum(array.nbytes for array in update.facts.values())
