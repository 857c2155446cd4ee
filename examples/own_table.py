"""Four hospitals, one table: does learning together help, and which method helps most?

    python examples/own_table.py

``hospitals.csv`` holds the heart-disease data of Cleveland, Budapest, Zurich and Basel, and Long Beach (UCI machine
learning repository, CC BY 4.0: Janosi, Steinbrunn, Pfisterer, Detrano, 1988) with a column that names the hospital.
Compared are FedAvg, FedEntOpt, weights by label entropy, each hospital by itself, and all rows pooled in one place,
which no hospital would allow.
"""

from pathlib import Path

import entrofed as ef

TABLE = Path(__file__).with_name("hospitals.csv")
SETTING = {"model": {"name": "mlp", "hidden": [32]}, "epochs": 2, "batch_size": 16, "lr": 0.02, "momentum": 0.9}


def main(rounds: int = 20, seeds: int = 3, progress: bool = True) -> dict[str, float]:
    """Mean accuracy on the test rows of all hospitals, by method."""
    options = {"label": "diagnosis", "test": 0.2, "missing": "impute"}
    hospitals = ef.Federation.from_table(TABLE, client="hospital", **options)
    pooled = ef.Federation.from_table(TABLE, partition="iid", clients=1, drop=["hospital"], **options)
    common = {**SETTING, "rounds": rounds, "seeds": seeds, "progress": progress}
    found = {
        "fedavg": ef.run(hospitals, method="fedavg", cohort=2, **common),
        "fedentopt": ef.run(hospitals, method="fedentopt", cohort=2, **common),
        "label entropy": ef.run(hospitals, method="max_entropy", cohort=2, **common),
        "pooled (not private)": ef.run(pooled, cohort=1, **common),
    }
    for k, name in enumerate(hospitals.names):
        found[f"{name} alone"] = ef.run(hospitals.only([k]), cohort=1, **common)
    return {name: result.accuracy for name, result in found.items()}


if __name__ == "__main__":
    for name, accuracy in main().items():
        print(f"{name:25} {100 * accuracy:.1f} %")
