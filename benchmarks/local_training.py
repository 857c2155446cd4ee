"""Local training of one round: the loop everyone writes against our engine, in one run.

    python benchmarks/local_training.py [--compile] [--repeats 5] [--only lenet5]

(a) the plain loop: clients one after the other, ``nn.Module`` and ``torch.optim.SGD``, tensor slicing, two
    threads; (b) the process backend with two workers; (c) the same with compiled steps, and with native blocks where
    the network has some, if asked for.
All train the same clients from the same parameters; best of the repeats, sides alternating. ``overhead`` is the
share of a whole round's time (without evaluation) that is not the workers' own training time.
"""

import argparse
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import torch

from entrofed.backends.base import Workload
from entrofed.backends.processes import ProcessBackend
from entrofed.client.device import Compile
from entrofed.core.job import Job, Rules
from entrofed.core.params import Layout, Params
from entrofed.core.parts import Build, Method
from entrofed.core.round import run_round
from entrofed.core.seeds import torch_stream
from entrofed.core.tasks import TrainTask
from entrofed.core.types import ClientTable, State, Training
from entrofed.data.client_rows import ClientRows
from entrofed.data.dataset import Dataset
from entrofed.data.federation import Federation
from entrofed.experiment.evaluation import FederationEvaluation
from entrofed.methods.fedavg import fedavg
from entrofed.models.networks import build
from entrofed.objectives.cross_entropy import CrossEntropy

WORKERS = 2
PAUSE = 0.5
"""Seconds before each timing, in which the threads of the side before go to sleep."""


@dataclass(frozen=True)
class Case:
    """One network and the clients that train it."""

    model: str
    batch: int
    clients: int
    shape: tuple[int, ...] = (1, 28, 28)
    size: int = 500
    epochs: int = 5


CASES = {
    "lenet5": Case("lenet5", 64, 10, (3, 32, 32)),
    "lenet_bn": Case("lenet_bn", 32, 5, epochs=2),
    "mlp": Case("mlp", 32, 10),
}
NATIVE = ("lenet5",)
"""Networks that ``engine.compile = "native"`` is for."""


def federation(case: Case) -> Federation:
    """Random pictures; speed does not depend on what they show."""
    rng = np.random.default_rng(0)
    n = case.clients * case.size
    x, y = rng.integers(0, 256, (n, *case.shape), dtype=np.uint8), rng.integers(0, 10, n)
    shards = ClientRows.of(list(np.arange(n).reshape(case.clients, case.size)))
    channels = case.shape[0]
    counts = np.stack([np.bincount(y[shard], minlength=10) for shard in shards])
    data = Dataset("random", "image", x, y, x[:10], y[:10], tuple("0123456789"))
    ones = np.full(channels, 0.5, np.float32)
    return Federation(data, ones, ones, shards, shards, np.arange(case.clients), counts)


def network(case: Case) -> tuple[Build, Layout, Params]:
    """How the network is built, its layout, and the parameters that all start from."""
    make = partial(build, case.model, case.shape, 10)
    with torch_stream(0, "init"):
        model = make()
    layout = Layout.of(model)
    return make, layout, layout.read(model)


def plain(case: Case, fed: Federation, make: Build, training: Training) -> None:
    """The loop everyone writes."""
    torch.set_num_threads(2)
    model = make()
    start = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    for shard in fed.shards:
        model.load_state_dict(start)
        model.train()
        x = (torch.from_numpy(fed.data.train_x[shard]).float() / 255 - 0.5) / 0.5
        y = torch.from_numpy(fed.data.train_y[shard])
        optimizer = torch.optim.SGD(
            model.parameters(), lr=training.lr, momentum=training.momentum, weight_decay=training.weight_decay
        )
        for _ in range(case.epochs):
            order = torch.randperm(len(y))
            for i in range(0, len(y), case.batch):
                rows = order[i : i + case.batch]
                optimizer.zero_grad()
                torch.nn.functional.cross_entropy(model(x[rows]), y[rows]).backward()  # type: ignore[no-untyped-call]
                optimizer.step()


def measure(case: Case, repeats: int, compiled: bool) -> None:
    """Time both sides alternately and print the ratios."""
    fed = federation(case)
    make, layout, params = network(case)
    training = Training(case.epochs, case.batch, "sgd", 0.01, 0.9, 1e-3, False, ())
    tasks = [TrainTask(c, 0, 0, params, CrossEntropy(), training, case.size) for c in range(case.clients)]
    backend = ProcessBackend(WORKERS)
    sides: dict[str, Callable[[], object]] = {"plain loop": lambda: plain(case, fed, make, training)}
    sides["engine"] = lambda: backend.run(tasks)
    backend.open(Workload(fed, make, layout))
    opened = [backend]
    ways: dict[str, Compile] = {"compiled": True, "native": "native"} if case.model in NATIVE else {"compiled": True}
    for name, way in ways.items() if compiled else ():
        opened.append(ProcessBackend(WORKERS))
        opened[-1].open(Workload(fed, make, layout, compiled=way))
        sides[f"engine, {name}"] = partial(opened[-1].run, tasks)
    best = dict.fromkeys(sides, float("inf"))
    for side in sides.values():
        side()
    for _ in range(repeats):
        for name, side in sides.items():
            time.sleep(PAUSE)
            began = time.perf_counter()
            side()
            best[name] = min(best[name], time.perf_counter() - began)
    samples = case.clients * case.size * case.epochs
    for name, seconds in best.items():
        print(f"{case.model:10} {name:18} {samples / seconds:10.0f} samples/s  {best['plain loop'] / seconds:5.2f}x")
    share = overhead(case, fed, layout, params, backend, training, repeats)
    print(f"{case.model:10} {'overhead':18} {100 * share:9.1f} %")
    for each in opened:
        each.close()


def job_for(method: Method, training: Training, fed: Federation, layout: Layout) -> Job:
    """Rounds in which everybody trains, and nothing is evaluated."""
    everybody = np.arange(len(fed.shards))
    rules = Rules(rounds=10**6, cohort=len(everybody), training=training, evaluate_every=10**9)
    return Job(method, rules, ClientTable(fed.sizes, 10, trainable=layout.trainable), everybody, layout, seed=0)


def overhead(
    case: Case,
    fed: Federation,
    layout: Layout,
    params: Params,
    backend: ProcessBackend,
    training: Training,
    repeats: int,
) -> float:
    """Share of a round that is not training: the least of several rounds."""
    job = job_for(fedavg(), training, fed, layout)
    evaluation = FederationEvaluation(fed, job.rules, backend)
    state = State(0, Params(params.values.copy(), params.counters.copy()), {}, {}, {})
    shares = []
    for number in range(repeats):
        _, record = run_round(job, replace(state, round=number), backend, evaluation)
        seconds = record.seconds
        total = sum(v for k, v in seconds.items() if k not in ("clients", "evaluate"))
        pure = seconds["clients"] / case.clients * -(-case.clients // WORKERS)
        shares.append((total - pure) / total)
    return float(min(shares))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--compile", action="store_true")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--only", choices=CASES)
    options = parser.parse_args()
    for name, case in CASES.items():
        if options.only in (None, name):
            measure(case, options.repeats, options.compile)
