"""Secure aggregation in simulation: who looks at one update is stopped, and the sum is the plain one."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.privacy.test_updates import context, private, update

from entrofed.core.parts import Selector
from entrofed.core.types import Selection
from entrofed.errors import ConfigError, DataError
from entrofed.experiment.build import client_table, first_state_of, job_of, prepare, protected, release_once
from entrofed.experiment.checkpoint import Checkpoints
from entrofed.experiment.client_state import ClientStateStore
from entrofed.experiment.config import parse
from entrofed.experiment.run_folder import RunFolder
from entrofed.experiment.runner import run
from entrofed.methods import method_of
from entrofed.privacy.fixed_point import SCALE, decode, encode
from entrofed.privacy.secure import SealedError, runs_secure, sealed
from entrofed.registry import known


def experiment(**table: Any) -> Any:
    method = {"name": "fedavg", "cohort": 4, "lr": 0.1}
    return parse({"rounds": 3, "data": {"name": "iris", "clients": 8}, "model": "iris_mlp", "method": method, **table})


def test_a_sealed_update_shows_nothing_of_its_model() -> None:
    found = sealed(update(3, np.arange(4)))
    assert (found.client, found.num_examples) == (3, 10)
    assert np.isnan(found.train_loss)
    for name in ("values", "counters"):
        with pytest.raises(SealedError, match="only sums"):
            getattr(found.params, name)
    assert "0.0" not in repr(found.params)
    assert not vars(found.params)


@pytest.mark.parametrize("name", list(known("method")))
def test_methods_run_secure_or_are_refused(name: str, tmp_path: Path) -> None:
    """What the parts declare is what they do: none that may run looks at a single update."""
    method = method_of(name)
    table = {"method": {"name": name, "cohort": 4, "lr": 0.1}, "privacy": {"secure": True}}
    if not runs_secure(method):
        with pytest.raises(ConfigError, match=r"privacy\.secure"):
            experiment(**table)
        return
    summary = run(experiment(**table, rounds=2), RunFolder(tmp_path / "run"))
    assert summary["rounds"] == 2


def test_the_papers_methods_are_told_apart() -> None:
    can = {"fedavg", "fedentopt", "maxent", "scaffold", "fednova", "feddyn"}
    cannot = {"fedklentropy", "inv_entropy", "ccvr"}
    assert can | cannot <= set(known("method"))
    assert {name for name in can | cannot if runs_secure(method_of(name))} == can
    for name in known("method"):  # one truth: what the parts declare, 'advise' lists and 'secure' takes
        assert runs_secure(method_of(name)) == (method_of(name).sees == "sum"), name


def last_model(folder: RunFolder, chosen: Any) -> Any:
    store = ClientStateStore(folder.path / "memory", 1e6)
    state, _ = Checkpoints(folder.checkpoints, prepare(chosen).layout, store).last()
    assert state is not None
    return state.params.values


@pytest.mark.parametrize("name", [name for name in known("method") if runs_secure(method_of(name))])
def test_the_model_is_that_of_the_plain_sum(name: str, tmp_path: Path) -> None:
    """Clients of different sizes, so that weights, numbers of steps and control variates differ."""
    data = {"name": "iris", "clients": 8, "partition": "dirichlet_plain", "alpha": 0.5}
    method = {"name": name, "cohort": 4, "lr": 0.1, "batch_size": 4, "admission": "off"}
    found = []
    for title, more in (("plain", {}), ("secure", {"privacy": {"secure": True}})):
        folder, chosen = RunFolder(tmp_path / title), experiment(data=data, method=method, rounds=2, **more)
        run(chosen, folder)
        found.append(last_model(folder, chosen))
        assert title == "plain" or all(record.train_loss is None for record in folder.records())
    np.testing.assert_allclose(*found, rtol=1e-5, atol=1e-5)


def test_a_part_that_looks_is_stopped(tmp_path: Path) -> None:
    """It declares that sums are enough, and looks all the same."""

    @dataclass(frozen=True)
    class Curious(Selector):
        name = "curious"
        sees = "sum"

        def select(self, state: Any, clients: Any, among: Any, size: int, rng: Any) -> Selection:
            return Selection(among[:size].tolist(), state)

        def observe(self, state: Any, params: Any, updates: Any) -> Any:
            return {"first": updates[0].params.values}

    chosen = experiment(privacy={"secure": True})
    setup = prepare(chosen, method=replace(chosen.method.recipe, selector=Curious()))
    with pytest.raises(SealedError):
        run(chosen, RunFolder(tmp_path / "run"), setup=setup)


def test_numbers_on_the_grid() -> None:
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(50, 200))
    total = np.zeros(200, np.uint64)
    for row in rows:
        total += encode(row)
    np.testing.assert_allclose(decode(total), rows.sum(axis=0), rtol=0, atol=50 / (2 * SCALE) + 1e-12)
    for bad in (np.nan, np.inf, 2.0**21):
        with pytest.raises(DataError, match="cannot be masked"):
            encode(np.array([0.0, bad]))


def test_shares_of_noise_under_secure_aggregation(tmp_path: Path) -> None:
    """Four clients, quorum 4: each adds half the noise that it would need by itself."""
    method = {"name": "fedavg", "cohort": 4, "lr": 0.1, "quorum": 4, "weigher": "uniform"}
    updates = {"clip": 0.5, "noise": 2.0, "where": "client"}
    chosen = experiment(method=method, privacy={"secure": True, "simulate": True, "updates": updates})
    setup = prepare(chosen)
    folder = RunFolder(tmp_path / "run")
    job, protection = protected(setup, job_of(setup, client_table(setup, release_once(setup, folder))))
    assert protection is not None
    rule = job.method.server.client
    assert (rule.clip, rule.noise) == (0.5, 1.0)  # type: ignore[union-attr]
    assert first_state_of(job, setup.params, {}).round == 0
    assert run(chosen, folder)["privacy"]["updates"]["noise"] == 2.0


def test_the_server_rule_gets_one_update() -> None:
    found, _ = private(noise=1e-9).apply([update(0, [1, 0]), update(1, [0, 1])], np.full(2, 0.5), context(dim=2), {})
    np.testing.assert_allclose(found.values, [0.5, 0.5], atol=1e-6)
