"""What it costs to have tasks done elsewhere: a Ray cluster of two nodes against worker processes, four of each.

    python benchmarks/ray_cluster.py [--repeats 2] [--rounds 8] [--sizes 3]

Clients train one batch of 20 samples, so that a round is nearly all transport: the median round by clients per round
and size of the model, and from the two cohorts of a size what one more task costs. Sides alternate, best of the
repeats. Both nodes are on this machine: there is no network between them, and they share its cores.
Ray's workers get the priority of all others.
"""

import argparse
import os
import sys
import tempfile
import time
from pathlib import Path
from statistics import median

import numpy as np
import torch

from entrofed.data.federation import Federation
from entrofed.experiment.build import prepare
from entrofed.experiment.config import parse
from entrofed.experiment.run_folder import RunFolder
from entrofed.experiment.runner import run

WORKERS, CLIENTS, SIZE, FEATURES = 4, 200, 20, 64
COHORTS = (10, 100)
HIDDEN = {"2,410": 32, "240,010": 3200, "4,800,010": 64_000}
"""Parameters of a network with one hidden layer, and how wide that is."""


def rounds_of(backend: str, hidden: int, cohort: int, rounds: int) -> list[float]:
    """Seconds of each round but the first."""
    rng = np.random.default_rng(0)
    many = CLIENTS * SIZE
    x, y = rng.random((many, FEATURES), np.float32), rng.integers(0, 10, many)
    federation = Federation.partition(x, y, "contiguous", clients=CLIENTS, test=(x[:100], y[:100]), normalize="unit")
    layers = (torch.nn.Linear(FEATURES, hidden), torch.nn.ReLU(), torch.nn.Linear(hidden, 10))
    experiment = parse(
        {
            "rounds": rounds,
            "evaluate_every": rounds,
            "data": {"name": "digits", "clients": CLIENTS},
            "method": {"name": "fedavg", "epochs": 1, "batch_size": SIZE, "lr": 0.01, "cohort": cohort},
            "engine": {"backend": backend, "workers": WORKERS},
        }
    )
    setup = prepare(experiment, federation=federation, model=torch.nn.Sequential(*layers))
    ends: list[float] = []
    with tempfile.TemporaryDirectory() as folder:
        run(
            experiment,
            RunFolder(Path(folder) / "seed-0"),
            setup=setup,
            observer=lambda record: ends.append(time.perf_counter()),
        )
    return np.diff(ends[:-1]).tolist()  # the last one is evaluated


def main() -> None:
    """Measure, and print a table in Markdown."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=8)
    parser.add_argument("--sizes", type=int, default=len(HIDDEN), help="how many of the models, the smallest first")
    options = parser.parse_args()
    os.environ |= {"RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0", "RAY_worker_niceness": "0"}
    from ray.cluster_utils import Cluster

    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": WORKERS // 2})
    cluster.add_node(num_cpus=WORKERS // 2)
    os.environ["RAY_ADDRESS"] = cluster.address
    lines = [
        "| parameters | clients per round | processes | Ray, two nodes | one more task: processes | Ray |",
        "|---|---|---|---|---|---|",
    ]
    try:
        for name, hidden in list(HIDDEN.items())[: options.sizes]:
            best: dict[tuple[str, int], float] = {}
            for _ in range(options.repeats):
                for cohort in COHORTS:
                    for backend in ("processes", "ray"):
                        found = median(rounds_of(backend, hidden, cohort, options.rounds))
                        best[backend, cohort] = min(found, best.get((backend, cohort), np.inf))
            more = {
                backend: (best[backend, COHORTS[1]] - best[backend, COHORTS[0]]) / (COHORTS[1] - COHORTS[0])
                for backend in ("processes", "ray")
            }
            for cohort in COHORTS:
                times = f"{1e3 * best['processes', cohort]:.1f} ms | {1e3 * best['ray', cohort]:.1f} ms"
                each = f"{1e3 * more['processes']:.2f} ms | {1e3 * more['ray']:.2f} ms"
                lines.append(f"| {name} | {cohort} | {times} | {each} |")
            print(f"{name}: done", file=sys.stderr, flush=True)
    finally:
        cluster.shutdown()
    print("\n".join(lines))


if __name__ == "__main__":
    main()
