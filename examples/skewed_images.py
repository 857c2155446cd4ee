"""Skewed images: fifty clients with two of ten kinds of clothes each. Which cohorts learn, and which forget?

    python examples/skewed_images.py

With Fashion-MNIST (``entrofed data fetch fashion-mnist``), else with the digits that come with scikit-learn. Compared
are random cohorts, random cohorts with equal weights, and cohorts whose pooled labels have maximal entropy.
"""

from pathlib import Path

import numpy as np
from sklearn.datasets import load_digits

import entrofed as ef
from entrofed.data.catalog import load

METHODS = ("fedavg", "fedavg_uniform", "fedentopt")
SETTING = {"model": "cnn", "cohort": 5, "epochs": 2, "batch_size": 20, "lr": 0.02, "momentum": 0.9}


def images(directory: Path | None = None) -> tuple[tuple, tuple]:
    """6,000 images with labels to train on, and 2,000 to test on."""
    try:
        data = load("fashion-mnist", directory)
    except ef.DataError as missing:
        print(f"{str(missing).splitlines()[0]}\nThe digits of scikit-learn take their place.")
        x, y = load_digits(return_X_y=True)
        x = x.reshape(-1, 1, 8, 8).astype("float32") / 16
        return (x[:1500], y[:1500]), (x[1500:], y[1500:])
    some = np.random.default_rng(0).permutation(len(data.train_y))[:6000]
    return (data.train_x[some], data.train_y[some]), (data.test_x[:2000], data.test_y[:2000])


def main(rounds: int = 60, seeds: int = 3, directory: Path | None = None, progress: bool = True) -> ef.Comparison:
    """All methods on the same clients, dealt out anew for each seed."""
    train, test = images(directory)

    def federation(seed: int) -> ef.Federation:
        return ef.Federation.partition(*train, "label_quantity", clients=50, labels_per_client=2, test=test, seed=seed)

    runs = [
        ef.run(federation, method=method, rounds=rounds, seeds=seeds, progress=progress, **SETTING)
        for method in METHODS
    ]
    return ef.compare(*runs, against="fedavg")


if __name__ == "__main__":
    print(main())
