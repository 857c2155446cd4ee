"""What a method costs beside FedAvg: local training and aggregation of a round, in one run.

    python benchmarks/methods.py [--repeats 5] [--only moon]

Ten clients with LeNet-5 (MOON: five clients with LeNet-BN, which has a projection); two workers. Clients take part for
the second time, so that MOON has a previous model and SCAFFOLD its control variates. Best of the repeats, methods
alternating; evaluation is left out.
"""

import argparse
from dataclasses import replace

from entrofed.backends.base import Workload
from entrofed.backends.processes import ProcessBackend
from entrofed.core.round import run_round
from entrofed.core.types import State
from entrofed.experiment.evaluation import FederationEvaluation
from entrofed.experiment.sections.method import MethodSection
from local_training import CASES, WORKERS, Case, federation, job_for, network

METHODS = {
    "lenet5": ("fedprox", "fedrs", "fedlc", "scaffold", "fednova", "fedavgm", "fedadam"),
    "lenet_bn": ("moon",),
}


def measure(case: Case, methods: tuple[str, ...], repeats: int) -> None:
    """Time the methods beside FedAvg and print the ratios."""
    fed = federation(case)
    make, layout, start = network(case)
    backend = ProcessBackend(WORKERS)
    backend.open(Workload(fed, make, layout))
    section = MethodSection(epochs=case.epochs, batch_size=case.batch, lr=0.01, momentum=0.9, weight_decay=1e-3)
    jobs = {
        name: job_for(MethodSection(name=name).recipe, section.training(), fed, layout) for name in ("fedavg", *methods)
    }
    best = dict.fromkeys(jobs, float("inf"))
    states = {}
    for name, job in jobs.items():
        evaluation = FederationEvaluation(fed, job.rules, backend)
        state = State(0, start, {}, job.method.server.init(start, job.clients, job.participants), {})
        states[name], _ = run_round(job, state, backend, evaluation)
    for _ in range(repeats):
        for name, job in jobs.items():
            _, record = run_round(job, replace(states[name], round=1), backend, evaluation)
            laps = record.seconds
            best[name] = min(best[name], sum(v for k, v in laps.items() if k not in ("clients", "evaluate")))
    backend.close()
    for name, seconds in best.items():
        print(f"{case.model:10} {name:10} {seconds:7.3f} s per round  {seconds / best['fedavg']:5.2f}x")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--only", choices=[name for methods in METHODS.values() for name in methods])
    options = parser.parse_args()
    for model, methods in METHODS.items():
        chosen = tuple(name for name in methods if options.only in (None, name))
        if chosen:
            measure(CASES[model], chosen, options.repeats)
