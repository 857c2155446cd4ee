"""Clustered sampling: unbiased, and less varied than draws by size."""

import numpy as np
import pytest

from entrofed.core.params import Params
from entrofed.core.types import ClientTable, Update
from entrofed.experiment.config import parse
from entrofed.experiment.run_folder import RunFolder
from entrofed.experiment.runner import run
from entrofed.selectors.clustered import ClusteredBySimilarity, ClusteredBySize

SIZES = np.array([50, 5, 20, 10, 15, 3, 7, 40])
EMPTY = np.zeros(0, np.int64)


def tables(part):
    """A table of clients, and a state after half of them took part."""
    table = ClientTable(SIZES, trainable=4)
    rng = np.random.default_rng(2)
    updates = [Update(k, Params(rng.normal(size=4).astype(np.float32), EMPTY), 1, 1, 0, 0) for k in (0, 2, 3, 6)]
    state = part.init(table, np.arange(8))
    return table, part.observe(state, Params(np.zeros(4, np.float32), EMPTY), updates)


@pytest.mark.parametrize("part", [ClusteredBySize(), ClusteredBySimilarity()], ids=lambda part: part.name)
def test_unbiased_and_less_varied_than_draws_by_size(part):
    table, state = tables(part)
    shares, rng, times, m = SIZES / SIZES.sum(), np.random.default_rng(0), 6000, 4
    weights = np.zeros((times, 8))
    for row in weights:
        selection = part.select(state, table, np.arange(8), m, rng)
        assert sum(selection.draws.values()) == m
        assert list(selection.draws) == selection.clients
        row[selection.clients] = [selection.draws[k] / m for k in selection.clients]
    error = np.sqrt(shares * (1 - shares) / m / times)
    assert (np.abs(weights.mean(axis=0) - shares) < 5 * error).all()
    assert (weights.var(axis=0) < 1.1 * shares * (1 - shares) / m).all()
    assert weights.var(axis=0).sum() < 0.8 * (shares * (1 - shares) / m).sum()


def test_like_clients_are_not_drawn_together():
    """Four clients of equal size, two and two alike: always one of each pair."""
    part, table = ClusteredBySimilarity(), ClientTable(np.full(4, 10), trainable=2)
    rows = {0: [1, 0], 1: [1, 0.01], 2: [0, 1], 3: [0.01, 1]}
    updates = [Update(k, Params(np.array(row, np.float32), EMPTY), 1, 1, 0, 0) for k, row in rows.items()]
    state = part.observe(part.init(table, np.arange(4)), Params(np.zeros(2, np.float32), EMPTY), updates)
    cohorts = [part.select(state, table, np.arange(4), 2, np.random.default_rng(s)).clients for s in range(50)]
    assert {tuple(sorted(k // 2 for k in cohort)) for cohort in cohorts} == {(0, 1)}
    assert len({tuple(sorted(cohort)) for cohort in cohorts}) == 4


@pytest.mark.parametrize("method", ["clustered_size", "clustered_similarity"])
def test_draws_become_weights(tmp_path, method):
    """Through a whole round: who is drawn twice counts twice."""
    data = {"name": "digits", "partition": "quantity", "clients": 8, "alpha": 0.3}
    section = {"name": method, "cohort": 6, "lr": 0.1}
    run(parse({"rounds": 4, "model": "digits_mlp", "data": data, "method": section}), RunFolder(tmp_path))
    records = RunFolder(tmp_path).records()
    for record in records:
        draws = [reason["draws"] for reason in record.reasons]
        assert sum(draws) == 6
        assert [client.weight for client in record.clients] == pytest.approx([number / 6 for number in draws])
    assert any(len(record.cohort) < 6 for record in records)
