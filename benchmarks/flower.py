"""Flower's simulation runtime against our worker processes: the same experiment, the same bits, start-up and rounds.

    python benchmarks/flower.py [--rounds 6] [--repeats 2] [--data-dir DATA]

LeNet-5 on CIFAR-10 with ten of a hundred clients per round, if CIFAR-10 is in the data directory; else the digits. Both
sides run in turn. A round is the best of the repeats; the first of each, in which workers load their data, does not
count. Start-up is the whole time less that of the rounds, of the first run: later ones find things loaded already.
"""

import argparse
import logging
import tempfile
import time
from dataclasses import replace
from pathlib import Path
from statistics import median

from entrofed.core.records import RoundRecord
from entrofed.data.catalog import CATALOG, data_directory
from entrofed.experiment.config import parse
from entrofed.experiment.run_folder import RunFolder
from entrofed.experiment.runner import run
from entrofed.flower.experiment import simulate

SIDES = {"processes": run, "flower": simulate}


def main() -> None:
    """Time both sides and print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=6)
    parser.add_argument("--repeats", type=int, default=2)
    parser.add_argument("--data-dir", type=Path)
    options = parser.parse_args()
    logging.getLogger("flwr").setLevel(logging.ERROR)
    there = CATALOG["cifar-10"].here(data_directory(options.data_dir))
    name, model, clients = ("cifar-10", "lenet5", 100) if there else ("digits", "digits_mlp", 30)
    print(f"{model} on {name}, 10 of {clients} clients per round, {options.rounds} rounds, best of {options.repeats}")
    found: dict[str, list[tuple[float, float]]] = {side: [] for side in SIDES}
    records: dict[str, list[RoundRecord]] = {}
    for _ in range(options.repeats):
        for side, play in SIDES.items():
            experiment = parse(
                {
                    "rounds": options.rounds,
                    "model": model,
                    "data": {"name": name, "partition": "dirichlet_balanced", "clients": clients, "alpha": 0.3},
                    "method": {"cohort": 10, "epochs": 5, "batch_size": 64, "lr": 0.01, "momentum": 0.9},
                    "engine": {"backend": side, "workers": 2},
                }
            )
            with tempfile.TemporaryDirectory() as folder:
                began = time.perf_counter()
                place = RunFolder(Path(folder) / "seed-0")
                play(experiment, place, data_directory=options.data_dir)
                whole = time.perf_counter() - began
                played = place.records()
            train = [record.seconds["train"] for record in played]
            found[side].append((whole - sum(record.duration for record in played), median(train[1:])))
            records[side] = [replace(record, seconds={}) for record in played]
    print("records are the same" if records["processes"] == records["flower"] else "RECORDS DIFFER")
    print(f"{'':12} {'start-up':>10} {'per round':>10}")
    best = {side: (times[0][0], min(one_round for _, one_round in times)) for side, times in found.items()}
    for side, (start, one_round) in best.items():
        print(f"{side:12} {start:8.1f} s {one_round:8.2f} s")
    start, one_round = (best["flower"][i] / best["processes"][i] for i in (0, 1))
    print(f"Flower takes {start:.1f} times as long to start, and {one_round:.2f} times as long to train a round")


if __name__ == "__main__":
    main()
