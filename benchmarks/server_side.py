"""What the server does with the updates of a round, against the plain way, in one run.

    python benchmarks/server_side.py [--clients 100] [--values 4000000] [--repeats 3]

- the weighted sum of updates in float64, against one read of them (a sum of each);
- histograms of weights, against ``numpy.histogram`` for each client, with identical counts;
- prediction entropies of ten LeNet-5 in one pass over the validation set, against a pass for each;
- the server's share (admit, weigh, aggregate) of a round of FedKLEntropy with ten clients and LeNet-5.
Best of the repeats, sides alternating.
"""

import argparse
import time
from collections.abc import Callable
from dataclasses import replace

import numpy as np

from entrofed.backends.base import Workload
from entrofed.backends.inline import InlineBackend
from entrofed.backends.processes import ProcessBackend
from entrofed.client.evaluate import predictions
from entrofed.core.params import Params
from entrofed.core.round import run_round
from entrofed.core.sums import weighted_sum
from entrofed.core.types import State, Training
from entrofed.experiment.evaluation import FederationEvaluation
from entrofed.info.histogram import count_equal
from entrofed.methods.weighing import fedklentropy
from local_training import CASES, WORKERS, federation, job_for, network

BINS = 100


def race(sides: dict[str, Callable[[], object]], repeats: int) -> dict[str, float]:
    """The best time of each side, in seconds."""
    best = dict.fromkeys(sides, float("inf"))
    for _ in range(repeats):
        for name, side in sides.items():
            began = time.perf_counter()
            side()
            best[name] = min(best[name], time.perf_counter() - began)
    return best


def vectors(clients: int, values: int, repeats: int) -> None:
    """Weighted sum and histograms."""
    rng = np.random.default_rng(0)
    rows = [rng.standard_normal(values, np.float32) for _ in range(clients)]
    weights = rng.dirichlet(np.ones(clients))
    best = race({"read": lambda: [row.sum() for row in rows], "sum": lambda: weighted_sum(rows, weights)}, repeats)
    print(f"weighted sum of {clients} x {values:,}: {best['sum']:.3f} s, {best['sum'] / best['read']:.1f}x one read")
    low, high = float(min(row.min() for row in rows)), float(max(row.max() for row in rows))
    plain = [np.histogram(row, bins=BINS, range=(low, high))[0] for row in rows]
    if not all(np.array_equal(count_equal(row, low, high, BINS), p) for row, p in zip(rows, plain, strict=True)):
        raise SystemExit("the counts differ from numpy.histogram's")
    best = race(
        {
            "numpy": lambda: [np.histogram(row, bins=BINS, range=(low, high)) for row in rows],
            "ours": lambda: [count_equal(row, low, high, BINS) for row in rows],
        },
        repeats,
    )
    nanoseconds = {name: 1e9 * seconds / clients / values for name, seconds in best.items()}
    print(
        f"histograms of {clients} x {values:,}: {nanoseconds['ours']:.2f} ns per value, numpy.histogram "
        f"{nanoseconds['numpy']:.2f}, {best['numpy'] / best['ours']:.1f}x, identical counts"
    )


def lenets(repeats: int) -> None:
    """Prediction entropy and the share of the server."""
    case = CASES["lenet5"]
    fed = federation(case)
    fed = replace(fed, data=replace(fed.data, valid_x=fed.data.train_x[:2000], valid_y=fed.data.train_y[:2000]))
    make, layout, start = network(case)
    models = [Params(start.values * np.float32(scale), start.counters) for scale in np.linspace(0.5, 1.5, 10)]
    inline = InlineBackend()
    inline.open(Workload(fed, make, layout))
    best = race(
        {
            "apart": lambda: [predictions(inline, 2000, [one]) for one in models],
            "together": lambda: predictions(inline, 2000, models),
        },
        repeats,
    )
    print(
        f"prediction entropy of 10 models, 2,000 samples, one thread: {best['together']:.2f} s in one pass, "
        f"{best['apart'] / best['together']:.2f}x a pass for each"
    )
    backend = ProcessBackend(WORKERS)
    backend.open(Workload(fed, make, layout))
    training = Training(case.epochs, case.batch, "sgd", 0.01, 0.9, 1e-3, False, ())
    job, state = job_for(fedklentropy(), training, fed, layout), State(0, start, {}, {}, {})
    evaluation = FederationEvaluation(fed, job.rules, backend)
    shares = []
    for number in range(repeats):
        _, record = run_round(job, replace(state, round=number), backend, evaluation)
        seconds = record.seconds
        server = sum(seconds[phase] for phase in ("admit", "weigh", "aggregate"))
        shares.append(server / (server + seconds["select"] + seconds["train"]))
    backend.close()
    print(f"server's share of a round, 10 clients, LeNet-5, FedKLEntropy: {100 * min(shares):.2f} %")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--clients", type=int, default=100)
    parser.add_argument("--values", type=int, default=4_000_000)
    parser.add_argument("--repeats", type=int, default=3)
    options = parser.parse_args()
    vectors(options.clients, options.values, options.repeats)
    lenets(options.repeats)
