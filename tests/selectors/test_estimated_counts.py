"""Label counts that are estimated from updates, for selectors that work with counts."""

import tomllib
from pathlib import Path

import numpy as np
import pytest

from entrofed.core.params import Params
from entrofed.core.types import LABEL_COUNTS, ClientTable, Update
from entrofed.errors import ConfigError
from entrofed.experiment.config import parse
from entrofed.registry import build, known
from entrofed.selectors.bias_table import NOT_ASKED
from entrofed.selectors.estimated_counts import EstimatedCounts

EMPTY = np.zeros(0, np.int64)
START = Params(np.zeros(3, np.float32), EMPTY)
COUNT_BASED = [
    name for name in known("selector") if any(fact.name == LABEL_COUNTS for fact in build("selector", name).facts)
]


def table(clients=4, sizes=None):
    return ClientTable(np.array(sizes or [10] * clients), 3, trainable=3, output_bias=0)


def update(client, *move, examples=10):
    return Update(client, Params(np.array(move, np.float32), EMPTY), examples, 1, 0.0, 0.0)


def test_estimates_by_hand():
    """Two updates of client 0 rise by (4, 0, 0) and (0, 2, 2): shares (1/2, 1/4, 1/4) of its 20 samples."""
    part, known_of = EstimatedCounts(), table()
    state = part.init(known_of, np.arange(4))
    state = part.observe(state, START, [update(0, 4, -2, -2, examples=20), update(1, -1, -1, 2)])
    state = part.observe(state, START, [update(0, -4, 2, 2, examples=20)])
    counts = part.counts(state, known_of)
    assert counts[:2].tolist() == [[10, 5, 5], [0, 0, 10]]
    assert counts[2:] == pytest.approx(np.array([[2.5, 1.25, 6.25]] * 2))  # the mean of (1/2, 1/4, 1/4) and (0, 0, 1)


def test_whoever_was_never_asked_comes_first():
    part, known_of, everybody = EstimatedCounts(), table(5), np.arange(5)
    state = part.init(known_of, everybody)
    seen = []
    for number in range(3):
        selection = part.select(state, known_of, everybody, 2, np.random.default_rng(number))
        seen.append(selection)
        state = part.observe(selection.state, START, [update(k, 1, -1, 0) for k in selection.clients])
    assert sorted(seen[0].clients + seen[1].clients + seen[2].clients[:1]) == [0, 1, 2, 3, 4]
    assert [reason["how"] for reason in seen[0].reasons] == [NOT_ASKED] * 2
    assert [reason["how"] for reason in seen[2].reasons] == [NOT_ASKED, "random"]  # FedEntOpt's first pick
    later = part.select(state, known_of, everybody, 2, np.random.default_rng(3))
    assert [reason["how"] for reason in later.reasons] == ["random", "greedy"]


def test_who_does_not_answer_is_not_tried_first_again():
    part, known_of, everybody = EstimatedCounts(), table(2), np.arange(2)
    state = part.select(part.init(known_of, everybody), known_of, everybody, 2, np.random.default_rng(0)).state
    again = part.select(state, known_of, everybody, 1, np.random.default_rng(0))
    assert again.reasons[0]["how"] == "random"
    joined = part.select(state, table(3), np.arange(3), 1, np.random.default_rng(0))
    assert joined.clients == [2]


@pytest.mark.parametrize("name", COUNT_BASED)
def test_chooses_as_with_true_counts_where_estimates_are_exact(name):
    """Clients with one class each: shares are exact, and so is every choice by counts, from the same state."""
    sizes, labels = [30, 10, 20, 40, 10, 25], [0, 1, 2, 0, 1, 2]
    known_of, everybody = table(sizes=sizes), np.arange(6)
    counts = np.eye(3)[labels] * np.array(sizes)[:, None]
    inner = build("selector", name)
    part = EstimatedCounts(inner)
    state = part.select(part.init(known_of, everybody), known_of, everybody, 6, np.random.default_rng(0)).state
    moves = [update(k, *(np.eye(3)[c] - 1 / 3), examples=sizes[k]) for k, c in enumerate(labels)]
    state = part.observe(state, START, moves)
    assert part.counts(state, known_of) == pytest.approx(counts)
    true = ClientTable(known_of.sizes, 3, facts={LABEL_COUNTS: counts})
    for seed in range(5):
        chosen = part.select(state, known_of, everybody, 3, np.random.default_rng(seed))
        rng = np.random.default_rng(seed)
        rng.permutation(np.zeros(0))  # nobody is left who was never asked
        expected = inner.select(inner.init(true, everybody), true, everybody, 3, rng)
        assert chosen.clients == expected.clients


def test_nothing_about_labels_is_released():
    assert EstimatedCounts().facts == ()
    assert COUNT_BASED == ["fedentopt", "maxent", "class_balanced", "stratified", "kl"]
    for name in ("fedentopt_estimated", "maxent_estimated"):
        method = known("method")[name]()
        assert method.facts == ()
        assert method.sees == "models"


def test_around_the_methods_own_selector():
    method = known("method")["fedcbs"](selector="estimated_counts")
    assert method.selector == EstimatedCounts(build("selector", "class_balanced"))
    with pytest.raises(ConfigError, match="'random' works with no label counts that could be estimated; give one"):
        known("method")["fedavg"](selector="estimated_counts")


def test_the_page_about_it():
    page = (Path(__file__).parents[2] / "docs" / "estimated_counts.md").read_text(encoding="utf-8")
    method = parse(tomllib.loads(page.split("```toml\n")[1].split("```")[0])).method.recipe
    assert method.selector == EstimatedCounts()
    assert method.facts == ()


def test_a_network_without_a_bias():
    with pytest.raises(ConfigError, match="selector 'estimated_counts' looks at the bias of the output layer"):
        EstimatedCounts().init(ClientTable(np.ones(2, np.int64), 3), np.arange(2))
