"""The benchmarks still do what they say, on next to nothing; times are not looked at."""

import importlib
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).parents[1]


@pytest.fixture(autouse=True)
def beside(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))


@pytest.mark.parametrize(("quantity", "sizes"), [("choice", (60, 3)), ("finish", (5, 40)), ("pooling", (10, 4))])
def test_what_grows_can_be_played(quantity, sizes):
    assert getattr(importlib.import_module("growth"), quantity)(*sizes)() is not None


def test_the_table_of_ratios_goes_to_its_place():
    compare = importlib.import_module("compare")
    ours, theirs = compare.Found(0.01, 2.0, 4e8), compare.Found(0.03, 3.0, 2e8)
    table = compare.table_of({"toy": {"ours": ours, "other": theirs, "third": "none: no"}}, {"pfl": "not installed"})
    assert "| ours | 10.0 ms / 2.0 s / 400 MB |" in table
    assert "| other | 3.00 / 1.50 / 0.50 |" in table
    assert "| third | – |" in table
    assert "pfl: not installed; skipped." in table
    page = (ROOT / "docs" / "benchmarks.md").read_text(encoding="utf-8")
    once = compare.placed(page, table)
    assert table in once
    assert compare.placed(once, table) == once
    with pytest.raises(SystemExit, match="no place"):
        compare.placed("# Another page", table)


def test_what_rounds_lack_is_told_from_weights_and_labels():
    labels = importlib.import_module("effective_labels")
    counts = np.array([[4.0, 0.0], [0.0, 2.0], [1.0, 3.0]])
    rounds = labels.mixtures(counts, [[0, 1], [2], []], [[0.25, 0.75], [1.0], []])
    assert rounds.tolist() == [[0.25, 0.75], [0.25, 0.75]]  # a round that was skipped has no labels
    assert labels.moving(np.array([[1.0, 0.0], [0.0, 1.0]])).tolist() == [[1.0, 0.0], [0.9, pytest.approx(0.1)]]


def test_the_data_that_counts():
    """Sizes 10 and 30: one round each counts the larger one three times; alone it is three quarters of all."""
    labels = importlib.import_module("effective_labels")
    assert labels.effective(np.array([10.0, 30.0]), [[0], [1]], [[1.0], [1.0]]) == pytest.approx(1)
    assert labels.effective(np.array([10.0, 30.0]), [[0, 1]], [[0.75, 0.25]]) == pytest.approx(0.75)
