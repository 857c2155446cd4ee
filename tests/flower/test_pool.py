"""Label counts as a secure sum on a grid: the weights of the counts, and nobody's counts told."""

import json

import numpy as np
import pytest

pytest.importorskip("flwr", reason="needs the extra flower")

from tests.flower.fake import Federation, bits, iris, mute, start
from tests.flower.test_secure import asked, at

from entrofed.errors import ConfigError, DataError
from entrofed.flower.secure_client import COUNTS, UNMASK, masked_counts

TOLD = {"name": "pooled_kl", "mode": "histogram"}
SUMMED = {**TOLD, "told": "distance"}


def weights(strategy):
    return [[client["weight"] for client in record["clients"]] for record in strategy.records]


@pytest.mark.parametrize("privacy", [{}, {"privacy": {"secure": True}}])
def test_weights_are_those_of_the_counts(privacy) -> None:
    by_counts, _ = start(Federation.of(iris()), weigher=TOLD)
    federation = Federation.of(iris())
    by_distance, _ = start(federation, weigher=SUMMED, **privacy)
    np.testing.assert_allclose(weights(by_distance), weights(by_counts), rtol=1e-7)
    counts = federation.setup.federation.label_counts.sum(axis=0)
    np.testing.assert_allclose(by_distance.play.pool, counts, rtol=1e-9)
    questions = [json.loads(str(message.content["config"]["ask"])) for _, message in federation.grid.sent("query")]
    facts = {question["fact"]["name"] for question in questions if question["what"] == "fact"}
    assert facts == {"label_distance"}
    assert sum(question["what"] == COUNTS for question in questions) == 5  # once for each client


def test_noise_comes_before_the_sum(tmp_path) -> None:
    federation = Federation.of(iris(), epsilon=1.0, store=tmp_path)
    strategy, _ = start(federation, weigher=SUMMED, rounds=1)
    kept = [json.loads(path.read_text())["counts"] for path in tmp_path.glob("*.json")]
    np.testing.assert_allclose(strategy.play.pool, np.sum(kept, axis=0), atol=1e-6)
    assert np.abs(np.sum(kept, axis=0) - federation.setup.federation.label_counts.sum(axis=0)).max() > 1e-3


def test_a_client_is_in_one_sum_only() -> None:
    federation = Federation.of(iris())
    start(federation, weigher=SUMMED, rounds=1)
    context = federation.grid.named(0).context
    with pytest.raises(DataError, match="in a sum already"):
        masked_counts({"session": "another", "shares": {}}, np.ones(3), context)
    again, _ = start(federation, weigher=SUMMED, rounds=1)  # of the same run: another sum is refused
    assert again.records[0]["skipped"]


@pytest.mark.parametrize("stage", [COUNTS, UNMASK])
def test_one_that_drops_out_is_left_out_or_in(stage) -> None:
    federation = Federation.of(iris())
    federation.grid.named(2).tamper = {"query": at(stage, mute)}
    strategy, _ = start(federation, weigher=SUMMED, rounds=1)
    counts = federation.setup.federation.label_counts
    expected = counts.sum(axis=0) - (counts[2] if stage == COUNTS else 0)
    np.testing.assert_allclose(strategy.play.pool, expected, rtol=1e-9)
    assert len(strategy.records[0]["clients"]) == 5  # it tells its distance all the same


def test_below_the_threshold_there_is_no_pool_and_no_round() -> None:
    federation = Federation.of(iris())
    for name in (0, 1):
        federation.grid.named(name).tamper = {"query": at(COUNTS, mute)}
    strategy, result = start(federation, weigher=SUMMED, rounds=1)
    assert strategy.records[0]["skipped"]
    assert strategy.play.pool is None
    assert bits(result.arrays) == bits(federation.arrays)
    assert not any(asked(message) == UNMASK for _, message in federation.grid.sent("query"))


def test_a_strategy_goes_on_with_its_pool(tmp_path) -> None:
    whole, expected = start(Federation.of(iris()), weigher=SUMMED, rounds=2)
    start(Federation.of(iris()), weigher=SUMMED, rounds=1, folder=tmp_path)
    federation = Federation.of(iris(), shift=500)
    strategy, result = start(federation, weigher=SUMMED, rounds=2, folder=tmp_path)
    assert strategy.play.pool == whole.play.pool
    assert bits(result.arrays) == bits(expected.arrays)
    assert not any(asked(message) == COUNTS for _, message in federation.grid.sent("query"))


def test_class_weights_of_everybody() -> None:
    objective = {"name": "cross_entropy", "class_weights": "pooled"}
    federation = Federation.of(iris())
    strategy, _ = start(federation, objective=objective, rounds=1)
    assert len(strategy.records[0]["clients"]) == 5
    with pytest.raises(ConfigError, match="say how many there are"):
        start(federation, objective=objective, rounds=1, classes=None)
