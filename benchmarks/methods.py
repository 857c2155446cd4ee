"""What a method costs beside FedAvg: local training and aggregation of a round, in one run.

    python benchmarks/methods.py [--repeats 5] [--only moon]

Ten clients with LeNet-5 (MOON: five clients with LeNet-BN, which has a projection); two workers. Clients take part for
the second time, so that MOON has a previous model and SCAFFOLD its control variates. Best of the repeats, methods
alternating; evaluation is left out.
"""

import argparse
from dataclasses import replace
from functools import partial

import numpy as np

from entrofed.backends.processes import ProcessBackend
from entrofed.core.params import Layout
from entrofed.core.round import run_round
from entrofed.core.seeds import torch_stream
from entrofed.core.tasks import Rules
from entrofed.core.types import Ledger, State
from entrofed.experiment.config import MethodSection
from entrofed.models.networks import build
from local_training import CASES, WORKERS, Case, federation

METHODS = {
    "lenet5": ("fedprox", "fedrs", "fedlc", "scaffold", "fednova", "fedavgm", "fedadam"),
    "lenet_bn": ("moon",),
}


def measure(case: Case, methods: tuple[str, ...], repeats: int) -> None:
    """Time the methods beside FedAvg and print the ratios."""
    fed = federation(case)
    make = partial(build, case.model, case.shape, 10)
    with torch_stream(0, "init"):
        model = make()
    layout = Layout.of(model)
    start = layout.read(model)
    backend = ProcessBackend(WORKERS)
    backend.host(fed, make, layout)
    section = MethodSection(epochs=case.epochs, batch_size=case.batch, lr=0.01, momentum=0.9, weight_decay=1e-3)
    rules = Rules(seed=0, rounds=2, cohort=case.clients, training=section.training(), evaluate_every=10**9)
    ledger = Ledger(sizes=fed.sizes, classes=10, trainable=layout.trainable)
    recipes = {name: MethodSection(name=name).recipe() for name in ("fedavg", *methods)}
    best = dict.fromkeys(recipes, float("inf"))
    states = {}
    for name, method in recipes.items():
        everybody = np.arange(case.clients)
        state = State(0, start, {}, method.server.init(start, ledger, everybody), {})
        states[name], _ = run_round(state, method, rules, ledger, fed, layout, backend)
    for _ in range(repeats):
        for name, method in recipes.items():
            _, record = run_round(replace(states[name], round=1), method, rules, ledger, fed, layout, backend)
            seconds = record["seconds"]
            best[name] = min(best[name], sum(v for k, v in seconds.items() if k not in ("clients", "evaluate")))
    backend.close()
    for name, seconds in best.items():
        print(f"{case.model:10} {name:10} {seconds:7.3f} s a round  {seconds / best['fedavg']:5.2f}x")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--only", choices=[name for methods in METHODS.values() for name in methods])
    options = parser.parse_args()
    for network, methods in METHODS.items():
        chosen = tuple(name for name in methods if options.only in (None, name))
        if chosen:
            measure(CASES[network], chosen, options.repeats)
