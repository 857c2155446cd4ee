"""Splits against scikit-learn's, row by row."""

import numpy as np
import pytest
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

from entrofed.data.splits import split, stratified_split
from entrofed.data.tables import digits


@pytest.mark.parametrize("seed", range(20))
def test_the_rows_are_those_of_scikit_learn(seed: int) -> None:
    rng = np.random.default_rng(seed)
    labels = np.sort(rng.integers(0, rng.integers(2, 8), rng.integers(60, 300)))
    share, rows = float(rng.uniform(0.2, 0.6)), np.arange(len(labels))
    plain = train_test_split(rows, test_size=share, random_state=seed)
    stratified = train_test_split(rows, test_size=share, random_state=seed, stratify=labels)
    assert [part.tolist() for part in split(len(labels), share, seed=seed)] == [part.tolist() for part in plain]
    assert [part.tolist() for part in stratified_split(labels, share, seed=seed)] == [
        part.tolist() for part in stratified
    ]


def test_digits_are_those_of_scikit_learn() -> None:
    x, y = load_digits(return_X_y=True)
    found = train_test_split(x.reshape(-1, 1, 8, 8), y, test_size=0.2, random_state=42, stratify=y)
    ours = digits()
    for mine, theirs in zip((ours.train_x, ours.test_x, ours.train_y, ours.test_y), found, strict=True):
        assert np.array_equal(mine, theirs)
