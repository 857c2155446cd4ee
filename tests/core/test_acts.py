"""What cannot act is refused; what leaves a client is no more than was promised."""

import json
import os
import threading
from typing import Any

import numpy as np
import pytest

from entrofed.core.faults import Faults
from entrofed.errors import ConfigError, DataError
from entrofed.experiment.build import prepare
from entrofed.experiment.config import parse
from entrofed.experiment.run_folder import RunFolder
from entrofed.experiment.runner import run

DIGITS = {"name": "digits", "partition": "dirichlet_balanced", "clients": 6, "alpha": 0.5}


@pytest.mark.parametrize("method", ["fedentopt", "kl", "minimax_sim", "power_of_choice"])
def test_methods_that_choose_are_refused_where_nobody_is_chosen(method: str) -> None:
    """On a ring, ``fedentopt``, ``kl`` and ``fedavg`` were the same run under three names."""
    with pytest.raises(ConfigError, match=r"nobody is chosen: every node trains|needs a server"):
        parse({"data": DIGITS, "method": {"name": method}, "topology": {"kind": "ring"}})
    parse({"data": DIGITS, "method": {"name": "fedep"}, "topology": {"kind": "ring"}})


def test_a_cohort_larger_than_the_federation() -> None:
    with pytest.raises(ConfigError, match=r"method.cohort = 50, and 6 clients take part; choose at most 6"):
        prepare(parse({"data": DIGITS, "method": {"cohort": 50}}))
    prepare(parse({"data": DIGITS, "method": {"cohort": 6}}))
    prepare(parse({"data": DIGITS}))


@pytest.mark.parametrize(
    ("table", "words"),
    [
        ({"topology": {"kindd": "ring"}}, r"unknown key 'topology.kindd'.*did you mean 'kind'"),
        ({"privacy": {"epsilonn": 1.0}, "method": {"name": "fedentopt"}}, r"did you mean 'epsilon'"),
        ({"engine": {"timeout": 1e10}}, "engine.timeout"),
        ({"engine": {"workers": 5000}}, "choose fewer"),
    ],
)
def test_ordinary_mistakes_are_no_unexpected_errors(table: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        parse({"data": DIGITS, **table})


@pytest.mark.parametrize("method", ["fedentopt", "fednova", "scaffold"])
def test_steps_do_not_tell_the_exact_size(tmp_path: Any, method: str) -> None:
    """With batches of one example, the number of steps was the size, 10 times of 10."""
    chosen = {"name": method, "selector": "fedentopt", "batch_size": 1, "cohort": 4}
    private = {"epsilon": 0.05, "simulate": True, "sizes": True}
    experiment = parse({"rounds": 1, "data": DIGITS, "method": chosen, "privacy": private})
    sizes = prepare(experiment).federation.sizes
    run(experiment, RunFolder(tmp_path))
    (record,) = RunFolder(tmp_path).records()
    assert len(record.clients) == 4
    for client in record.clients:
        assert client.steps == client.examples
    assert sum(client.steps != sizes[client.client] for client in record.clients) >= 3


def test_counts_that_are_asked_for_at_once_are_drawn_once(tmp_path: Any) -> None:
    """23 of 40 simultaneous first questions drew two noises."""
    pytest.importorskip("flwr")
    from entrofed.flower.answers import released_counts

    found: list[Any] = []

    def ask() -> None:
        found.append(released_counts([0, 1, 1], 3, "clinic", 0.5, tmp_path)["counts"])

    threads = [threading.Thread(target=ask) for _ in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 16
    assert all(counts == found[0] for counts in found)


def test_a_claim_of_uniform_counts() -> None:
    counts = np.array([[7, 0, 0], [0, 5, 5]])
    claimed = Faults(liars=1.0, claim="uniform").claimed(0, counts)
    assert claimed.tolist() == [[3, 2, 2], [4, 3, 3]]


def participation(most: float | None, buffer: float) -> float:
    """How often the one client is chosen that claims uniform counts, as a multiple of its share."""
    from entrofed.core.types import ClientTable
    from entrofed.selectors.fedentopt import LabelEntropyGreedy

    rng, clients, cohort, rounds = np.random.default_rng(1), 30, 5, 60
    counts = rng.multinomial(60, rng.dirichlet(np.full(10, 0.1), clients)[0], clients).astype(np.float64)
    counts = np.array([rng.multinomial(60, rng.dirichlet(np.full(10, 0.1))) for _ in range(clients)], np.float64)
    counts[7] = 6
    selector = LabelEntropyGreedy(buffer=buffer, most=most)
    table = ClientTable(np.full(clients, 60), 10, facts={"label_counts": counts})
    state, chosen = selector.init(table, np.arange(clients)), 0
    for _ in range(rounds):
        selection = selector.select(state, table, np.arange(clients), cohort, rng)
        state, chosen = selection.state, chosen + (7 in selection.clients)
        assert len(selection.clients) == cohort
    return chosen / (rounds * cohort / clients)


def test_participation_is_bounded() -> None:
    """Without a buffer the adversary was in every round, 6 times its share; with the default 1.5 to 1.7 times."""
    assert participation(None, 0.0) > 4
    assert participation(1.25, 0.0) <= 1.3
    assert participation(1.25, 0.5) <= 1.3


def test_a_damaged_dataset_is_not_read(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """What was checked is remembered in the user's cache, and nothing beside the files."""
    from hashlib import sha256

    from entrofed.data import verified
    from entrofed.data.sources import File

    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    root, known = tmp_path / "data", tmp_path / "cache" / "entrofed" / "verified.json"
    root.mkdir()
    path = root / "table.csv"
    path.write_bytes(b"1,2,3\n")
    file = File("table.csv", 6, sha256(b"1,2,3\n").hexdigest())
    verified.check_files("table", [file], root)
    assert not known.exists()  # only just written: another change might not show in its time
    os.utime(path, (1e9, 1e9))
    verified.check_files("table", [file], root)
    assert list(root.iterdir()) == [path]
    assert list(json.loads(known.read_text())) == [str(path)]
    with monkeypatch.context() as once:
        once.setattr(verified, "is_right", None)
        verified.check_files("table", [file], root)
    path.write_bytes(b"1,2,4\n")
    with pytest.raises(DataError, match="damaged: it is not the published file"):
        verified.check_files("table", [file], root)
