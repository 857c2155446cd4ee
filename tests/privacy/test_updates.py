"""Private updates: the sensitivity by hand, the noise as it should be, refusals with their reasons, budgets."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from entrofed.core.params import Layout, Params
from entrofed.core.types import ClientTable, Context, Update
from entrofed.errors import ConfigError
from entrofed.experiment.config import parse
from entrofed.experiment.run_folder import RunFolder
from entrofed.experiment.runner import run
from entrofed.privacy.accountant import Accounting
from entrofed.privacy.budget import TAKEN, BudgetError, Metered
from entrofed.privacy.noise import noised
from entrofed.privacy.updates import CLIP, Private, check_layout, clipped
from entrofed.registry import build
from entrofed.suite.words import privacy_words

DIM = 400
UPDATES = {"clip": 0.5, "noise": 2.0}
METHOD = {"name": "fedavg", "cohort": 4, "lr": 0.1}


def model(values: Any) -> Params:
    return Params(np.asarray(values, np.float32), np.zeros(0, np.int64))


def context(seed: int = 0, node: int | None = None, dim: int = DIM) -> Context:
    layout = Layout((), dim, dim, 0)
    return Context(model(np.zeros(dim)), 3, ClientTable(np.ones(4, np.int64)), layout, seed, lambda models: None, node)  # type: ignore[arg-type,return-value]


def update(client: int, values: Any) -> Update:
    return Update(client, model(values), 10, 2, 1.0, 1.0)


def private(**options: Any) -> Private:
    return Private(server=build("server", "average"), **{"clip": 1.0, "noise": 1e-9, "simulate": True, **options})


def test_a_step_is_cut_by_hand() -> None:
    step, whole = clipped(model([3, 4]), model([0, 0]), 1.0)
    np.testing.assert_allclose(step, [0.6, 0.8])
    assert not whole
    step, whole = clipped(model([0.3, 0.4]), model([0, 0]), 1.0)
    np.testing.assert_allclose(step, [0.3, 0.4], rtol=1e-6)
    assert whole
    assert clipped(model([np.inf, 1]), model([0, 0]), 1.0)[0].tolist() == [0, 0]
    assert clipped(model([np.nan, 1]), model([0, 0]), 1.0)[0].tolist() == [0, 0]


def test_the_sum_by_hand() -> None:
    """0.75 (0.6, 0.8) + 0.25 (0.1, 0)."""
    found, _ = private().apply([update(0, [3, 4]), update(1, [0.1, 0])], np.array([0.75, 0.25]), context(dim=2), {})
    np.testing.assert_allclose(found.values, [0.475, 0.6], atol=1e-6)


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 10**6), st.integers(1, 6), st.floats(0.1, 5))
def test_one_client_moves_the_sum_by_the_largest_weight_times_the_clip(seed: int, clients: int, clip: float) -> None:
    rng = np.random.default_rng(seed)
    updates = [update(k, rng.normal(size=DIM) * 10 ** rng.uniform(-3, 3)) for k in range(clients)]
    weights = rng.dirichlet(np.ones(clients))
    rule = private(clip=clip)
    whole = rule.apply(updates, weights, context(), {})[0].values
    for k in range(clients):
        without = [update(k, np.zeros(DIM)) if one.client == k else one for one in updates]
        moved = np.linalg.norm(whole - rule.apply(without, weights, context(), {})[0].values.astype(float))
        assert moved <= weights.max() * clip * (1 + 1e-4) + 1e-6


@pytest.mark.parametrize("weights", [[0.25] * 4, [0.7, 0.1, 0.1, 0.1]])
def test_noise_is_in_proportion_to_the_largest_weight(weights: list[float]) -> None:
    rule, found = private(noise=2.0, clip=0.5), []
    for seed in range(40):
        nothing = [update(k, np.zeros(DIM)) for k in range(4)]
        found.append(rule.apply(nothing, np.array(weights), context(seed), {})[0].values)
    sigma = 2.0 * max(weights) * 0.5
    assert np.std(found) == pytest.approx(sigma, rel=4 / np.sqrt(2 * 40 * DIM))
    capped = build("weigher", {"name": "capped", "share": 0.3, "weigher": "data_size"})
    sized = [Update(k, model(np.zeros(DIM)), 1000 if k == 0 else 10, 1, 1.0, 1.0) for k in range(4)]
    assert capped.weigh(sized, context()).weights.max() == pytest.approx(0.3)


def test_a_poisson_cohort_has_a_fixed_divisor() -> None:
    rule = private(divisor=10)
    found, _ = rule.apply([update(k, [1, 0]) for k in range(4)], np.full(4, 0.25), context(dim=2), {})
    np.testing.assert_allclose(found.values, [0.4, 0], atol=1e-6)


def test_the_clip_follows_its_quantile() -> None:
    """All steps have length 5: the clip rises to it from below, and falls to it from above."""
    rng = np.random.default_rng(0)
    steps = [rng.normal(size=DIM) for _ in range(40)]
    updates = [update(k, 5 * step / np.linalg.norm(step)) for k, step in enumerate(steps)]
    for first in (0.5, 50.0):
        rule = private(clip=first, quantile=0.5, noise=0.5)
        state: Any = rule.init(model(np.zeros(DIM)), ClientTable(np.ones(40, np.int64)), np.arange(40))
        for seed in range(60):
            _, state = rule.apply(updates, np.full(40, 1 / 40), context(seed), state)
        assert float(state[CLIP]) == pytest.approx(5.0, rel=0.15)


def test_real_noise_is_on_a_grid_and_of_the_size_promised() -> None:
    found = noised(np.full(3000, 0.123456789), 0.5, 2.0, None)
    step = 0.5 / (1024 * 3000**0.5)
    np.testing.assert_allclose(found / step, np.rint(found / step), atol=1e-6)
    assert np.std(found) == pytest.approx(1.0, rel=0.06)
    assert np.mean(found) == pytest.approx(0.1235, abs=0.08)
    assert not np.array_equal(found, noised(np.full(3000, 0.123456789), 0.5, 2.0, None))


def experiment(**table: Any) -> Any:
    data = {"name": "iris", "clients": 10}
    return parse({"rounds": 3, "data": data, "model": "iris_mlp", "method": METHOD, **table})


@pytest.mark.parametrize(
    ("table", "reason"),
    [
        ({"method": {**METHOD, "server": "krum"}}, "no function of the sum"),
        ({"method": {**METHOD, "server": "median"}}, "no function of the sum"),
        ({"method": {**METHOD, "weigher": "weight_kl"}}, "depend on updates before they are cut"),
        ({"method": {**METHOD, "name": "scaffold"}}, "nothing noises that"),
        ({"method": {**METHOD, "name": "feddyn"}}, "nothing noises that"),
        ({"method": {**METHOD, "selector": "power_of_choice"}}, "without noise"),
        ({"method": {**METHOD, "name": "fedentopt"}}, "set privacy.epsilon"),
        ({"topology": {"kind": "ring"}, "method": {"name": "fedavg"}}, "no server that could add noise"),
        ({"privacy": {"updates": {**UPDATES, "where": "client", "quantile": 0.5}}}, "not to leave the client"),
        ({"privacy": {"updates": {**UPDATES, "where": "client"}}, "method": {**METHOD, "quorum": 2}}, "weigh alike"),
        ({"privacy": {"updates": {"clip": 1.0}}}, "needs noise"),
        ({"privacy": {"secure": True, "updates": UPDATES}}, "cannot cut what it does not see"),
        ({"privacy": {}}, "protects nothing"),
        ({"privacy": {"updates": {**UPDATES, "unit": "record"}}}, "unit"),
    ],
)
def test_what_cannot_be_private_is_refused_with_the_reason(table: dict[str, Any], reason: str) -> None:
    with pytest.raises(ConfigError, match=reason):
        experiment(**{"privacy": {"updates": UPDATES}, **table})


def test_local_noise_protects_any_server_rule() -> None:
    experiment(method={**METHOD, "server": "krum"}, privacy={"updates": {**UPDATES, "where": "client"}})


def play(path: Path, **table: Any) -> dict[str, Any]:
    return run(experiment(**table), RunFolder(path))


@pytest.mark.parametrize("where", ["server", "client", "peers"])
def test_a_run_says_what_it_cost(tmp_path: Path, where: str) -> None:
    table: dict[str, Any] = {"privacy": {"simulate": True, "updates": {**UPDATES, "where": where}}}
    if where == "peers":
        table = {"privacy": {"simulate": True, "updates": {**UPDATES, "where": "client"}}}
        table |= {"topology": {"kind": "ring"}, "method": {"name": "fedavg", "lr": 0.1}}
    summary = play(tmp_path / "run", **table)
    found = summary["privacy"]["updates"]
    most = (
        3
        if where == "peers"
        else max(np.bincount([c for r in RunFolder(tmp_path / "run").records() for c in r.cohort]))
    )
    assert found["participations"]["most"] == found["steps"] == most
    assert found["unit"] == "client"
    assert "simulated, not private" in privacy_words(summary)


def test_batch_norm_is_refused() -> None:
    with pytest.raises(ConfigError, match="BatchNorm"):
        check_layout(Layout.of(torch.nn.BatchNorm1d(3)))
    check_layout(Layout.of(torch.nn.Linear(3, 2)))


def test_delta_that_means_nothing_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="publish one of 10"):
        play(tmp_path / "run", privacy={"updates": {**UPDATES, "delta": 0.1}})


def test_a_run_ends_before_the_round_that_would_exceed_its_budget(tmp_path: Path) -> None:
    updates = {"clip": 0.5, "noise": 2.0, "epsilon": 3.3}
    table = {"rounds": 20, "method": {**METHOD, "cohort": 5}, "privacy": {"simulate": True, "updates": updates}}
    summary = play(tmp_path / "run", **table)
    found = summary["privacy"]["updates"]
    assert "would take part in" in summary["stopped"]
    assert 0 < summary["rounds"] < 20
    assert found["epsilon"] <= 3.3
    assert Accounting(2.0, 1e-5).epsilon(found["steps"] + 1) > 3.3
    again = run(experiment(**table), RunFolder(tmp_path / "run"), resume=True)
    assert again["rounds"] == summary["rounds"]
    assert again["privacy"] == summary["privacy"]


def test_resume_goes_on_counting(tmp_path: Path) -> None:
    table: dict[str, Any] = {"privacy": {"simulate": True, "updates": UPDATES}}
    whole = play(tmp_path / "whole", rounds=6, **table)
    play(tmp_path / "broken", rounds=3, **table)
    resumed = run(experiment(rounds=6, **table), RunFolder(tmp_path / "broken"), resume=True)
    assert resumed["privacy"] == whole["privacy"]


def test_the_meter_counts_who_is_chosen() -> None:
    table = ClientTable(np.ones(3, np.int64))
    meter = Metered(build("selector", {"name": "scripted", "cohorts": ((0, 1), (0, 2), (0, 1))}), most=2, epsilon=1.0)
    state: Any = meter.init(table, np.arange(3))
    rng = np.random.default_rng(0)
    for _ in range(2):
        state = meter.observe(meter.select(state, table, np.arange(3), 2, rng).state, model([0]), [])
    assert state[TAKEN].tolist() == [2, 1, 1]
    with pytest.raises(BudgetError, match="client 0 would take part in 3 rounds"):
        meter.select(state, table, np.arange(3), 2, rng)


@settings(max_examples=60, deadline=None)
@given(st.integers(2, 12), st.data(), st.integers(1, 12))
def test_the_rest_of_the_buffer_bounds_participation(clients: int, data: st.DataObject, rounds: int) -> None:
    size, buffer = data.draw(st.integers(1, clients)), data.draw(st.integers(0, clients))
    selector = build("selector", {"name": "fedentopt", "buffer": buffer})
    rng = np.random.default_rng(clients)
    table = ClientTable(np.ones(clients, np.int64), 3, facts={"label_counts": rng.integers(1, 9, (clients, 3)) * 1.0})
    gap = selector.gap(table, clients, size)
    state, taken = selector.init(table, np.arange(clients)), np.zeros(clients, int)
    for _ in range(rounds):
        chosen = selector.select(state, table, np.arange(clients), size, rng)
        state = chosen.state
        taken[chosen.clients] += 1
    assert taken.max() <= -(-rounds // gap)


def test_poisson_draws_everybody_by_a_coin_of_its_own() -> None:
    selector, rng = build("selector", "poisson"), np.random.default_rng(0)
    table = ClientTable(np.ones(20, np.int64))
    state = selector.init(table, np.arange(20))
    cohorts = [selector.select(state, table, np.arange(20), 5, rng).clients for _ in range(4000)]
    sizes = np.array([len(cohort) for cohort in cohorts])
    assert sizes.mean() == pytest.approx(5, abs=5 * np.sqrt(20 * 0.25 * 0.75 / 4000))
    assert sizes.var() == pytest.approx(20 * 0.25 * 0.75, rel=0.1)
    there = [selector.select(state, table, np.arange(10), 5, rng).clients for _ in range(4000)]
    assert np.mean([len(cohort) for cohort in there]) == pytest.approx(2.5, abs=0.12)  # the rate stays
