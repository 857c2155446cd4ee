"""The tables of the inverse prediction entropy paper over many seeds, with a paired test.

    python examples/prediction_entropy_tables.py [--seeds 20] [--data-dir DATA] [--out runs/tables]

Three clients hold equal thirds of the training part in file order; all train in every round. Heart disease and pumpkin
seeds are read from the data directory and left out if they are not there. Runs that are finished are not repeated.
Methods can be added: any experiment settings beside the names below.
"""

import argparse
from pathlib import Path

import numpy as np
from rich.console import Console

from entrofed.backends.inline import InlineBackend
from entrofed.config import parse
from entrofed.data.catalog import CATALOG, data_directory
from entrofed.papers import find
from entrofed.run import run
from entrofed.store import RunFolder
from entrofed.suite.statistics import paired

SETTINGS = {  # dataset: model, local epochs, rounds
    "iris": ("iris_mlp", 10, 10),
    "wheat-seeds": ("seeds_mlp", 10, 8),
    "heart": ("heart_mlp", 5, 20),
    "heart-unique": ("heart_mlp", 5, 20),
    "pumpkin-seeds": ("pumpkin_mlp", 10, 10),
}
METHODS = {
    "fedavg": {"name": "fedavg"},
    "uniform": {"name": "fedavg_uniform"},
    "inv_entropy": {"name": "inv_entropy"},
    "permuted": {"name": "inv_entropy", "weigher": "permuted"},
    "fedadam": {"name": "fedadam"},
    "fedprox": {"name": "fedprox"},
}


def accuracy(dataset: str, method: str, seed: int, out: Path, directory: Path) -> float:
    """Test accuracy after the last round, in %."""
    model, epochs, rounds = SETTINGS[dataset]
    settings = {"cohort": 3, "epochs": epochs, "batch_size": 32, "optimizer": "adam", "lr": 2e-3, **METHODS[method]}
    experiment = parse(
        {
            "name": f"{dataset}-{method}",
            "seed": seed,
            "rounds": rounds,
            "model": model,
            "data": {"name": dataset, "partition": "contiguous", "clients": 3},
            "method": settings,
            "engine": {"backend": "inline"},
        }
    )
    folder = RunFolder(out / experiment.name / f"seed-{seed}")
    summary = folder.summary() if folder.exists() else None
    if summary is None:
        backend = InlineBackend()
        summary = run(experiment, folder, backend=backend, data_directory=directory, resume=folder.exists())
    return 100 * float(summary["accuracy"])


def main() -> None:
    """Run everything and print a line for each dataset and method."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--out", type=Path, default=Path("runs/prediction-entropy-tables"))
    parser.add_argument("--data-dir", type=Path)
    options = parser.parse_args()
    directory, console = data_directory(options.data_dir), Console()
    _, table = find("inv_entropy/table8")
    reported = {cell.setting["data"]["name"]: cell.values["accuracy"] for cell in table.cells.values()}
    for dataset in SETTINGS:
        if not CATALOG[dataset].here(directory):
            console.print(f"{dataset}: not in {directory}, left out")
            continue
        found = {
            method: [accuracy(dataset, method, seed, options.out, directory) for seed in range(options.seeds)]
            for method in METHODS
        }
        told = ", ".join(f"{label} {number.value}" for label, number in reported.get(dataset, {}).items())
        console.print(
            f"{dataset}: {options.seeds} seeds; paper: {told or 'not there'}", highlight=False, soft_wrap=True
        )
        for method, values in found.items():
            line = f"  {method:12} {np.mean(values):6.2f} ± {np.std(values, ddof=1):5.2f}"
            if method != "fedavg":
                test = paired(values, found["fedavg"])
                p = "none" if test.t_p is None else f"{test.t_p:.3f}"
                line += f"   against fedavg {test.difference:+6.2f}, {test.wins} wins, {test.losses} losses, p = {p}"
            console.print(line, highlight=False, soft_wrap=True)


if __name__ == "__main__":
    main()
