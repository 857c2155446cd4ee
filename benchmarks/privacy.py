"""What privacy costs in accuracy: Fashion-MNIST, 1,000 clients of about 60 (two labels each), 100 per round.

    python benchmarks/privacy.py [--rounds 100] [--seeds 3] [--epsilons 2 8] [--arms poisson random fedentopt maxent]

Each arm is FedAvg on a network of 50,890 parameters (64 hidden units) with steps cut to one length: cohorts by chance
with amplification (poisson, random), by FedEntOpt with rest (buffer 90 %), and by maximum-entropy cohorts with the same
rest and maximum-entropy weights (none above 2 %). Those that look at labels release counts with epsilon 0.5, out of the
same budget. Without noise (inf), steps are cut all the same. Noise comes from the seed: this is a simulation. What was
run is not repeated.
"""

import argparse
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

from entrofed.experiment.config import parse
from entrofed.experiment.run_folder import RunFolder
from entrofed.experiment.runner import is_finished, run

CLIP, COUNTS = 0.5, 0.5
ARMS: dict[str, dict[str, Any]] = {
    "poisson": {"selector": "poisson", "weigher": "uniform"},
    "random": {"selector": "random", "weigher": "uniform"},
    "fedentopt": {"selector": {"name": "fedentopt", "buffer": 0.9}, "weigher": "uniform"},
    "maxent": {
        "selector": {"name": "maxent", "buffer": 0.9},
        "weigher": {"name": "capped", "share": 0.02, "weigher": "maxent"},
    },
}
LOOK_AT_LABELS = {"fedentopt", "maxent"}


def table(arm: str, epsilon: float, rounds: int, seed: int) -> dict[str, Any]:
    """The experiment of an arm."""
    method = {"name": "fedavg", "cohort": 100, "lr": 0.1, "epochs": 2, "batch_size": 10, **ARMS[arm]}
    privacy: dict[str, Any] = {"simulate": True}
    if arm in LOOK_AT_LABELS:
        privacy["epsilon"] = COUNTS
    if epsilon == float("inf"):
        method["server"] = {"name": "clipped", "norm": CLIP}
    else:
        privacy["updates"] = {"clip": CLIP, "epsilon": epsilon}
    data = {"name": "fashion-mnist", "partition": "label_quantity", "labels_per_client": 2, "clients": 1000}
    return {
        "name": f"{arm}-{epsilon:g}",
        "seed": seed,
        "rounds": rounds,
        "evaluate_every": rounds,
        "model": "digits_mlp",
        "data": data,
        "method": method,
        **({"privacy": privacy} if len(privacy) > 1 else {}),
    }


def main() -> None:
    """Play what is missing, and print the table."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=100)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--epsilons", type=float, nargs="+", default=[2.0, 8.0])
    parser.add_argument("--arms", nargs="+", default=list(ARMS), choices=list(ARMS))
    parser.add_argument("--out", type=Path, default=Path("runs/privacy"))
    parser.add_argument("--data-dir", type=Path)
    given = parser.parse_args()
    print("| arm | epsilon | spent | noise | accuracy, % |\n|---|---|---|---|---|")
    for arm in given.arms:
        for epsilon in [*given.epsilons, float("inf")]:
            found = []
            for seed in range(given.seeds):
                experiment = parse(table(arm, epsilon, given.rounds, seed))
                folder = RunFolder(given.out / f"{arm}-{epsilon:g}-{given.rounds}" / f"seed-{seed}")
                done = is_finished(experiment, folder)
                there = folder.exists()
                summary = (
                    folder.summary() if done else run(experiment, folder, data_directory=given.data_dir, resume=there)
                )
                found.append(summary or {})
            accuracies = [100 * one["accuracy"] for one in found]
            spread = f" ± {stdev(accuracies):.1f}" if len(found) > 1 else ""
            updates = (found[0].get("privacy") or {}).get("updates", {})
            spent = f"{updates['epsilon']:.2f} | {updates['noise']:.2f}" if updates else "- | 0"
            print(f"| {arm} | {epsilon:g} | {spent} | {fmean(accuracies):.1f}{spread} |", flush=True)


if __name__ == "__main__":
    main()
