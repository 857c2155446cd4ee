"""The nearest of each row, held to the matrix of all cosines; again after changes, with the same result."""

import numpy as np
import pytest

from entrofed.info import nearest as module
from entrofed.info.nearest import nearest, refreshed
from entrofed.info.similarity import closest


def table(rng, clients=40, width=7):
    rows = rng.standard_normal((clients, width)).astype(np.float32)
    rows[3] = 0
    rows[5] = rows[4] * 3
    return rows


@pytest.mark.parametrize("together", [1, 7, 1024])
def test_it_is_the_largest_cosine(together, monkeypatch):
    monkeypatch.setattr(module, "TOGETHER", together)
    rows = table(np.random.default_rng(0))
    found = nearest(list(rows))
    np.testing.assert_allclose(found.cosine, closest(list(rows)), rtol=1e-12)
    assert found.other[3] == -1
    assert (found.other[4], found.other[5]) == (5, 4)


def test_only_what_changed_is_compared_again(monkeypatch):
    rng = np.random.default_rng(1)
    rows = table(rng)
    found, compared = nearest(list(rows)), []
    cosines = module._cosines
    monkeypatch.setattr(module, "_cosines", lambda a, b: compared.append(len(a) * len(b)) or cosines(a, b))
    for _ in range(5):
        changed = np.zeros(len(rows), np.bool_)
        changed[rng.integers(len(rows), size=3)] = True
        rows[changed] = rng.standard_normal((changed.sum(), rows.shape[1]))
        found = refreshed(list(rows), found, changed)
        np.testing.assert_allclose(found.cosine, closest(list(rows)), rtol=1e-12)
    assert sum(compared) < 5 * len(rows) ** 2 / 2


def test_nobody_and_one():
    assert nearest([]).other.tolist() == []
    assert np.isnan(nearest([np.ones(3)]).cosine[0])
