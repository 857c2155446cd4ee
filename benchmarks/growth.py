"""How the parts of a round grow: the exponent that fits the times at several sizes of one quantity, all else equal.

    python benchmarks/growth.py [--repeats 5]

Clients (a round of 50 with FedEntOpt), cohort (admit and aggregate), parameters (the same), classes (FedEntOpt's
choice), edges (peers' pooling): time at the largest size over that at the smallest, as a power of the sizes' ratio.
"""

import argparse
import time
from collections.abc import Callable, Sequence
from math import log

import networkx as nx
import numpy as np

from entrofed.client.work import attempt
from entrofed.core.gossip import gossip_round
from entrofed.core.job import Job, Network, Rules
from entrofed.core.params import Layout, Params
from entrofed.core.records import Traffic
from entrofed.core.round import PeersEvaluated, RoundPlan, finish_round
from entrofed.core.tasks import Task, TrainTask, TrainTasks
from entrofed.core.types import ClientTable, Selection, State, Training, Update
from entrofed.experiment.build import first_state_of
from entrofed.methods.fedavg import fedavg
from entrofed.selectors.fedentopt import LabelEntropyGreedy

TRAINING = Training(1, 20, "sgd", 0.1, 0.0, 0.0, False, ())
MOST = 1.1


def _layout(parameters: int) -> Layout:
    return Layout.of_shapes({"weight": ("trainable", (parameters,))})


def choice(clients: int, classes: int) -> Callable[[], object]:
    """FedEntOpt's choice of 50."""
    rng = np.random.default_rng(0)
    counts = np.floor(rng.standard_gamma(0.3, (clients, classes)) * 30) + (rng.random((clients, classes)) < 1 / classes)
    table = ClientTable(np.maximum(counts.sum(axis=1), 1).astype(np.int64), facts={"label_counts": counts})
    part, everybody = LabelEntropyGreedy(), np.arange(clients)
    state = part.init(table, everybody)
    return lambda: part.select(state, table, everybody, 50, np.random.default_rng(0))


def finish(cohort: int, parameters: int) -> Callable[[], object]:
    """What the server does with the updates of a round of FedAvg."""
    layout, rng = _layout(parameters), np.random.default_rng(0)
    job = Job(
        fedavg(), Rules(10, cohort, TRAINING), ClientTable(np.full(cohort, 20), 10), np.arange(cohort), layout, seed=0
    )
    state = State(0, Params(np.zeros(parameters, np.float32), np.zeros(0, np.int64)), {}, {})
    rows = rng.standard_normal((min(cohort, 64), parameters), np.float32)
    updates = [Update(k, Params(rows[k % len(rows)], state.params.counters), 20, 1, 1.0, 1.0) for k in range(cohort)]
    training = TrainTasks(job, state)
    tasks = tuple(training.task(k, {}) for k in range(cohort))
    plan = RoundPlan(Selection(list(range(cohort)), {}), tasks, cohort, {}, 0.1, Traffic(), {})
    return lambda: finish_round(job, state, plan, updates)


def pooling(peers: int, degree: int) -> Callable[[], object]:
    """A round of peers whose training takes no time."""
    layout = _layout(5000)
    network = Network(nx.random_regular_graph(degree, peers, seed=0))
    job = Job(
        fedavg(),
        Rules(10, peers, TRAINING, evaluate_every=10**9),
        ClientTable(np.full(peers, 20), 10),
        np.arange(peers),
        layout,
        seed=0,
        network=network,
    )
    params = Params(np.zeros(5000, np.float32), np.zeros(0, np.int64))
    state = first_state_of(job, params, {})
    return lambda: gossip_round(job, state, _Idle(), _NoEvaluation())  # type: ignore[arg-type]


class _Idle:
    """A backend whose clients send back what they got; pooling is done."""

    def open(self, workload: object) -> None:
        """Nothing."""

    def run(self, tasks: Sequence[Task]) -> list[object]:
        """The model as it was; all other tasks are done here."""
        return [
            Update(task.client, task.params, 20, 1, 1.0, 1.0) if isinstance(task, TrainTask) else attempt(task, None)
            for task in tasks
        ]

    def close(self) -> None:
        """Nothing."""


class _NoEvaluation:
    """Measures nothing."""

    def of_peers(self, models: object, digests: object) -> PeersEvaluated:
        """Nothing."""
        return PeersEvaluated()

    def cohort_entropy(self, clients: object) -> None:
        """Nothing."""
        return


QUANTITIES: dict[str, tuple[list[int], Callable[[int], Callable[[], object]]]] = {
    "clients": ([50_000, 200_000, 800_000], lambda size: choice(size, 10)),
    "classes": ([10, 40, 160], lambda size: choice(50_000, size)),
    "cohort": ([500, 2_000, 8_000], lambda size: finish(size, 2_000)),
    "parameters": ([100_000, 800_000, 6_400_000], lambda size: finish(10, size)),
    "edges": ([1_000, 4_000, 16_000], lambda size: pooling(size // 2, 4)),
}


def _seconds(work: Callable[[], object], repeats: int) -> float:
    best = float("inf")
    for _ in range(repeats):
        began = time.perf_counter()
        work()
        best = min(best, time.perf_counter() - began)
    return best


def exponents(repeats: int) -> str:
    """A table in Markdown."""
    lines = ["| growth with | sizes | seconds | exponent |", "|---|---|---|---|"]
    for name, (sizes, make) in QUANTITIES.items():
        times = [_seconds(make(size), repeats) for size in sizes]
        exponent = log(times[-1] / times[0]) / log(sizes[-1] / sizes[0])
        shown = " / ".join(f"{seconds:.4f}" for seconds in times)
        mark = "" if exponent <= MOST else f" (above {MOST})"
        lines.append(f"| {name} | {' / '.join(f'{size:,}' for size in sizes)} | {shown} | {exponent:.2f}{mark} |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=5)
    print(exponents(parser.parse_args().repeats))
