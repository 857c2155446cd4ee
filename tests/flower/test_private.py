"""Private updates on a grid: noise at the client, and a client's own limit."""

import json
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("flwr", reason="needs the extra flower")

from tests.flower.fake import Federation, bits, iris, start

from entrofed.errors import ConfigError
from entrofed.flower import EntroStrategy
from entrofed.privacy.accountant import Accounting

UPDATES = {"clip": 0.5, "noise": 2.0, "where": "client"}


def private(**changes):
    return {"privacy": {"updates": {**UPDATES, **changes}}}


def test_noise_is_added_at_the_client_and_never_the_same() -> None:
    found = []
    for _ in range(2):
        federation = Federation.of(iris())
        strategy, result = start(federation, rounds=1, **private())
        found.append(bits(result.arrays))
        assert all(client["train_loss"] is None for client in strategy.records[0]["clients"])
    assert found[0] != found[1]


def test_the_server_adds_it_where_it_is_trusted() -> None:
    _, plain = start(Federation.of(iris()), rounds=1)
    _, noised = start(Federation.of(iris()), rounds=1, **private(where="server"))
    assert bits(plain.arrays) != bits(noised.arrays)


def test_a_client_refuses_beyond_its_own_limit(tmp_path: Path) -> None:
    """Noise 2: two rounds cost epsilon 2.9 at delta 1e-5, three 3.6; what was spent is on disk."""
    fits = Accounting(2.0, 1e-5)
    assert fits.epsilon(2) < 3.2 < fits.epsilon(3)
    strategy, _ = start(Federation.of(iris(), limit=(3.2, 1e-5), store=tmp_path), rounds=3, **private())
    assert [len(record["clients"]) for record in strategy.records] == [5, 5, 0]
    assert "limit is epsilon 3.2" in strategy.records[2]["refused"][0]["reason"]
    files = sorted(tmp_path.glob("*.updates.json"))
    assert len(files) == 5
    assert json.loads(files[0].read_text())["epsilon"] == pytest.approx(fits.epsilon(2))
    again, _ = start(Federation.of(iris(), limit=(3.2, 1e-5), store=tmp_path), rounds=1, **private())
    assert again.records[0]["skipped"]  # after a restart, and for another server


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({}, "nothing without noise"),
        (private(where="server"), "nothing without noise"),
        ({"privacy": {"simulate": True, "updates": UPDATES}}, "hides nothing from the server"),
    ],
)
def test_a_client_with_a_limit_sends_nothing_unprotected(options, reason, tmp_path: Path) -> None:
    strategy, _ = start(Federation.of(iris(), limit=(3.0, 1e-5), store=tmp_path), rounds=1, **options)
    assert reason in strategy.records[0]["refused"][0]["reason"]
    assert not list(tmp_path.glob("*"))


def test_a_damaged_account_is_no_empty_one(tmp_path: Path) -> None:
    start(Federation.of(iris(), limit=(9.0, 1e-5), store=tmp_path), rounds=1, **private())
    for path in tmp_path.glob("*.updates.json"):
        path.write_text("{")
    strategy, _ = start(Federation.of(iris(), limit=(9.0, 1e-5), store=tmp_path), rounds=1, **private())
    assert "not known what was spent" in strategy.records[0]["refused"][0]["reason"]


def test_masks_or_nothing() -> None:
    strategy, _ = start(Federation.of(iris(), secure_only=True), rounds=1)
    assert "secure aggregation only" in strategy.records[0]["refused"][0]["reason"]
    strategy, _ = start(Federation.of(iris(), secure_only=True), rounds=1, privacy={"secure": True})
    assert len(strategy.records[0]["clients"]) == 5


def test_shares_of_noise_under_masks() -> None:
    """Quorum 5: each client adds 2 / sqrt(5) of the clip; the mean has 2 / 5 of it, in every parameter."""
    found = []
    for _ in range(6):
        options = {"quorum": 5, "weigher": "uniform", "lr": 1e-9, "privacy": {"secure": True, "updates": UPDATES}}
        federation = Federation.of(iris())
        _, result = start(federation, rounds=1, **options)
        first, last = (
            np.concatenate([array.numpy().ravel() for array in arrays.values()])
            for arrays in (federation.arrays, result.arrays)
        )
        found.append(last - first)
    assert np.std(found) == pytest.approx(2 * 0.5 / 5, rel=4 / np.sqrt(2 * np.size(found)))


def test_the_budget_ends_a_strategy() -> None:
    strategy, _ = start(Federation.of(iris()), rounds=6, **private(epsilon=3.2))
    assert len(strategy.records) == 2


def test_what_a_strategy_cannot_protect() -> None:
    with pytest.raises(ConfigError, match="noise is needed"):
        EntroStrategy("fedavg", privacy={"updates": {"clip": 1.0, "epsilon": 3.0}})
    with pytest.raises(ConfigError, match="option of EntroStrategy: privacy"):
        EntroStrategy("fedavg", privacy={"update": {}})
    with pytest.raises(ConfigError, match="releases none"):
        EntroStrategy("fedavg", privacy={"epsilon": 1.0})


@pytest.mark.parametrize(
    ("privacy", "words"),
    [
        ({"epsilon": 0.5}, r"privacy.epsilon noises nothing here.*client_app\(..., epsilon=0.5\)"),
        ({"epsilon": 0.5, "sizes": True}, "privacy.sizes cannot act here"),
    ],
)
def test_what_a_server_cannot_noise_is_refused(privacy, words):
    with pytest.raises(ConfigError, match=words):
        EntroStrategy("fedentopt", classes=3, privacy=privacy)
