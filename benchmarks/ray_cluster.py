"""What it costs to have tasks done elsewhere: a Ray cluster of two nodes against worker processes, four of each.

    python benchmarks/ray_cluster.py [--rounds 6] [--sizes 3]

Clients train one batch of 20 samples, so that a round is nearly all transport: the best round by clients per round and
size of the model, and from the two cohorts of a size what one more task costs. A round is all that a run does but
evaluation and files. Both nodes are on this machine: there is no network between them, and they share its cores.
Ray's workers get the priority of all others.
"""

import argparse
import os
import time
from dataclasses import replace
from typing import Any

import numpy as np
import torch

from entrofed.backends import backend_of
from entrofed.core.round import finish_round, plan_round
from entrofed.data.federation import Federation
from entrofed.experiment.build import client_table, first_state_of, job_of, prepare
from entrofed.experiment.config import parse

WORKERS, CLIENTS, SIZE, FEATURES = 4, 100, 20, 64
BACKENDS, COHORTS = ("processes", "ray"), (10, 100)
HIDDEN = {"2,410": 32, "240,010": 3200, "4,800,010": 64_000}
"""Parameters of a network with one hidden layer, and how wide that is."""


def setup_of(hidden: int) -> Any:
    """The clients and their network."""
    rng = np.random.default_rng(0)
    many = CLIENTS * SIZE
    x, y = rng.random((many, FEATURES), np.float32), rng.integers(0, 10, many)
    federation = Federation.partition(x, y, "contiguous", clients=CLIENTS, test=(x[:100], y[:100]), normalize="unit")
    layers = (torch.nn.Linear(FEATURES, hidden), torch.nn.ReLU(), torch.nn.Linear(hidden, 10))
    method = {"name": "fedavg", "epochs": 1, "batch_size": SIZE, "lr": 0.01}
    experiment = parse({"rounds": 1, "data": {"name": "digits", "clients": CLIENTS}, "method": method})
    return prepare(experiment, federation=federation, model=torch.nn.Sequential(*layers))


def best_rounds(name: str, hidden: int, rounds: int) -> list[float]:
    """The shortest of some rounds of each cohort, in seconds, after one that does not count."""
    setup, found = setup_of(hidden), list[float]()
    backend = backend_of(name, WORKERS, 600.0)
    try:
        backend.open(setup.workload)
        job = job_of(setup, client_table(setup, None))
        for cohort in COHORTS:
            these = replace(job, rules=replace(job.rules, cohort=cohort))
            state, ends = first_state_of(these, setup.params, {}), list[float]()
            for _ in range(rounds + 2):
                plan = plan_round(these, state, backend)
                state = finish_round(these, state, plan, backend.run(plan.tasks)).state
                ends.append(time.perf_counter())
            found.append(float(np.diff(ends)[1:].min()))
    finally:
        backend.close()
    return found


def main() -> None:
    """Measure, and print a table in Markdown."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=6)
    parser.add_argument("--sizes", type=int, default=len(HIDDEN), help="how many of the models, the smallest first")
    options = parser.parse_args()
    os.environ |= {"RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0", "RAY_worker_niceness": "0"}
    from ray.cluster_utils import Cluster

    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": WORKERS // 2})
    cluster.add_node(num_cpus=WORKERS // 2)
    os.environ["RAY_ADDRESS"] = cluster.address
    print("| parameters | clients per round | processes | Ray, two nodes | one more task: processes | Ray |")
    print("|---|---|---|---|---|---|", flush=True)
    try:
        for name, hidden in list(HIDDEN.items())[: options.sizes]:
            best = {backend: best_rounds(backend, hidden, options.rounds) for backend in BACKENDS}
            more = [1e3 * (best[side][1] - best[side][0]) / (COHORTS[1] - COHORTS[0]) for side in BACKENDS]
            for i, cohort in enumerate(COHORTS):
                times = " | ".join(f"{1e3 * best[side][i]:.1f} ms" for side in BACKENDS)
                print(f"| {name} | {cohort} | {times} | {more[0]:.2f} ms | {more[1]:.2f} ms |", flush=True)
    finally:
        cluster.shutdown()


if __name__ == "__main__":
    main()
