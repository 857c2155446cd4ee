"""What docs/privacy.md shows works."""

import re
import tomllib
from pathlib import Path

import pytest

from entrofed.experiment.config import parse
from entrofed.privacy.plan import plan

PAGE = (Path(__file__).parents[2] / "docs" / "privacy.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("text", re.findall(r"```toml\n(.*?)```", PAGE, re.DOTALL))
def test_its_tables_are_experiments(text: str) -> None:
    assert parse({"model": "digits_mlp", **tomllib.loads(text)}).privacy is not None


@pytest.mark.slow
@pytest.mark.parametrize(("epsilon", "column"), [(2.0, 2), (8.0, 4)])
def test_its_prices_are_those_that_are_computed(epsilon: float, column: int) -> None:
    rows = [
        line.split("|")[1:-1]
        for line in PAGE.splitlines()
        if re.match(r"\| (`poisson`, a|`random`, a|FedEnt|by data)", line) and "±" not in line
    ]
    printed = [float(row[column]) for row in rows]
    ways = plan(clients=1000, cohort=100, rounds=100, epsilon=epsilon, delta=1e-5, counts=0.5, rests=(0.5, 0.9))
    assert printed == [pytest.approx(way.noise, abs=6e-4) for way in ways]
    assert [int(row[1]) for row in rows] == [way.steps for way in ways]
