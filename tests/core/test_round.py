"""One round: facts that clients are asked for, faults, traffic, and what is recorded of them."""

import numpy as np
import pytest
import torch

from entrofed.client.runtime import ClientRuntime
from entrofed.client.train import train
from entrofed.core.seeds import stream
from entrofed.core.tasks import TrainTask
from entrofed.experiment.build import prepare
from entrofed.experiment.config import parse
from entrofed.experiment.run_folder import RunFolder
from entrofed.experiment.runner import run
from entrofed.info.entropy import entropy_of_counts
from entrofed.objectives.cross_entropy import CrossEntropy
from entrofed.registry import PART_KINDS, known

MODEL = 4 * 4810  # bytes of the network for the digits


def play(folder, rounds=3, data=None, **sections):
    """A short run; returns its records."""
    method = {"cohort": 4, "lr": 0.1, **sections.pop("method", {})}
    experiment = parse(
        {
            "rounds": rounds,
            "seed": 1,
            "data": {"name": "digits", "partition": "dirichlet_balanced", "clients": 12, "alpha": 0.3, **(data or {})},
            "method": method,
            "engine": {"backend": "inline"},
            **sections,
        }
    )
    run(experiment, RunFolder(folder))
    return RunFolder(folder).records()


def test_dropped_clients_are_recorded_and_the_rest_reweighed(tmp_path):
    for record in play(tmp_path, method={"cohort": 10}, faults={"dropout": 0.3}):
        assert len(record.cohort) == 10
        assert [entry.reason for entry in record.refused] == ["dropped out"] * 3
        assert {entry.client for entry in record.refused} < set(record.cohort)
        assert sum(client.weight for client in record.clients) == pytest.approx(1)
        assert record.bytes_down == 10 * MODEL
        assert record.bytes_up == 7 * MODEL


@pytest.mark.parametrize(
    ("method", "sections"),
    [({"name": "fedavg"}, {"faults": {"dropout": 0.3}}), ({"name": "reselection"}, {})],
    ids=["dropout", "reselection"],
)
def test_the_entropy_of_a_cohort_is_that_of_those_who_count(tmp_path, method, sections):
    records = play(tmp_path, method={"cohort": 10, **method}, **sections)
    counts = np.array(RunFolder(tmp_path).federation_facts()["label_counts"])
    assert any(len(record.used) < 10 for record in records)
    for record in records:
        kept = [client.client for client in record.clients if client.weight > 0]
        assert record.used == kept
        assert record.cohort_entropy == entropy_of_counts(counts[kept].sum(axis=0), base="bits")
        if len(kept) < 10:
            assert record.cohort_entropy != entropy_of_counts(counts[record.cohort].sum(axis=0), base="bits")


def test_everybody_drops_out(tmp_path):
    records = play(tmp_path, method={"cohort": 1, "max_skipped": 9}, faults={"dropout": 0.9})
    assert all(record.skipped for record in records)
    assert all(record.cohort_entropy is None for record in records)
    assert records[0].test == records[2].test


def test_the_buffer_keeps_dropped_clients(tmp_path):
    records = play(
        tmp_path,
        method={"name": "fedentopt", "cohort": 4, "selector": {"name": "fedentopt", "buffer": 8}},
        faults={"dropout": 0.5},
    )
    assert all(len(record.refused) == 2 for record in records)
    cohorts = [set(record.cohort) for record in records]
    assert len(set.union(*cohorts)) == 12  # a buffer of K - M: everybody once in K / M rounds, dropped or not


def test_stragglers_take_fewer_steps(tmp_path):
    plain = play(tmp_path / "plain", method={"name": "full", "epochs": 5})
    slow = play(tmp_path / "slow", method={"name": "full", "epochs": 5}, faults={"stragglers": 0.5})
    ratios = {}
    for a, b in zip(plain[0].clients, slow[0].clients, strict=True):
        ratios[a.client] = b.steps / a.steps * 5
    assert all(ratio in (1, 2, 3, 4, 5) for ratio in ratios.values())
    assert 1 <= sum(ratio < 5 for ratio in ratios.values()) <= 6
    assert [c.steps for c in slow[0].clients] == [c.steps for c in slow[2].clients]


def test_clients_come_and_go(tmp_path):
    records = play(tmp_path, rounds=8, method={"name": "full"}, faults={"joining": 0.5, "leaving": 0.25})
    sizes = [record.available for record in records]
    assert [len(record.cohort) for record in records] == sizes
    assert len(set(sizes)) > 2
    assert max(sizes) < 12


def test_losses_are_asked_for_and_cost_traffic(tmp_path):
    record = play(tmp_path, rounds=1, method={"name": "power_of_choice"})[0]
    assert record.bytes_down == (12 + 4) * MODEL
    assert record.bytes_up == 4 * MODEL + 12 * 8
    scores = [why["score"] for why in record.reasons]
    assert scores == sorted(scores, reverse=True)
    assert len(scores) == 4


def test_label_counts_are_released_once(tmp_path):
    first, second, _ = play(tmp_path, method={"name": "fedentopt"})
    assert first.bytes_up == 4 * MODEL + 12 * 10 * 8
    assert second.bytes_up == 4 * MODEL


def test_everybody_sends_an_update_before_the_first_round(tmp_path):
    first, second, _ = play(tmp_path, method={"name": "minimax_sim"})
    assert first.bytes_up == (12 + 4) * MODEL
    assert second.bytes_up == 4 * MODEL


def test_only_participants_take_part_and_local_test_sets_are_judged(tmp_path):
    records = play(tmp_path, data={"participating": 5, "holdout": 0.2}, method={"name": "full"})
    for record in records:
        assert record.available == len(record.cohort) == 5
        assert 0 <= record.in_distribution.accuracy <= 1
        assert record.in_distribution != record.test
    assert play(tmp_path / "without")[0].in_distribution is None


def test_sizes_from_noised_counts(tmp_path):
    method = {"name": "fedentopt"}
    privacy = {"epsilon": 0.2, "simulate": True, "sizes": True}
    noised = play(tmp_path / "noised", rounds=1, method=method, privacy=privacy)[0]
    folder = RunFolder(tmp_path / "noised")
    released = np.maximum(np.rint(folder.released().counts.sum(axis=1)), 1)
    assert [c.examples for c in noised.clients] == [released[c.client] for c in noised.clients]
    assert folder.summary()["privacy"]["epsilon"] == 0.2


def test_limits_keep_a_seeded_part_of_each_class(digits, bench, training):
    runtime = ClientRuntime(digits, bench.build, compiled=False)
    data, limits = runtime.client_data(2), np.minimum(digits.label_counts[2], 5)
    kept = data.at_most(limits, stream(9, "limit", 2))
    assert np.array_equal(kept.label_counts, limits)
    whole = {x.numpy().tobytes() for x in data.x}
    assert {x.numpy().tobytes() for x in kept.x} < whole
    assert torch.equal(kept.x, data.at_most(limits, stream(9, "limit", 2)).x)
    assert not torch.equal(kept.x, data.at_most(limits, stream(8, "limit", 2)).x)
    task = TrainTask(2, 0, 9, bench.params, CrossEntropy(), training, 1, limits=limits)
    assert train(task, data, runtime.model).num_examples == limits.sum()


def test_the_kl_baseline_trains_on_clipped_data(tmp_path):
    first, second, _ = play(tmp_path, method={"name": "kl"})
    assert first.cohort == second.cohort
    setup = prepare(RunFolder(tmp_path).experiment())
    sizes = setup.federation.sizes
    examples = {c.client: c.examples for c in first.clients}
    assert all(n <= sizes[client] for client, n in examples.items())
    assert any(n < sizes[client] for client, n in examples.items())


def rows_that_cover_all_pairs(choices):
    """Choices of one value from each list, such that any two values of two lists meet in some row."""
    columns = range(len(choices))
    missing = {((a, x), (b, y)) for a in columns for b in columns if a < b for x in choices[a] for y in choices[b]}
    rows = []
    while missing:
        row = dict(min(missing))
        for column in columns:
            if column not in row:
                met = {
                    value: sum(
                        tuple(sorted([(column, value), (other, chosen)])) in missing for other, chosen in row.items()
                    )
                    for value in choices[column]
                }
                row[column] = max(choices[column], key=met.__getitem__)
        rows.append(tuple(row[column] for column in columns))
        missing -= {((a, row[a]), (b, row[b])) for a in columns for b in columns if a < b}
    return rows


ALONE = {"branch", "concat"}  # FedConcat's objective and rule go with each other only
CHOICES = [sorted(set(known(kind)) - ALONE) for kind in PART_KINDS]
GIVEN = {
    ("selector", "scripted"): {"name": "scripted", "cohorts": [[0, 3], [5, 4]]},
    ("selector", "estimated_counts"): {"name": "estimated_counts", "selector": "kl"},
    ("weigher", "estimated_counts"): {"name": "estimated_counts", "weigher": "maxent"},
    ("server", "ccvr"): {"name": "ccvr", "samples": 10, "steps": 5},
}
"""Parts that go around others which work with counts, one that takes a list, and one that can take long."""


@pytest.mark.parametrize(("selector", "weigher", "objective", "server"), rows_that_cover_all_pairs(CHOICES))
def test_every_pair_of_parts(tmp_path, selector, weigher, objective, server):
    named = {"selector": selector, "weigher": weigher, "objective": objective, "server": server}
    method = {kind: GIVEN.get((kind, name), name) for kind, name in named.items()}
    for record in play(tmp_path, rounds=2, method=method, data={"clients": 6, "validation": 0.05}):
        assert record.clients
        assert not record.refused
        assert sum(client.weight for client in record.clients) == pytest.approx(1)


@pytest.mark.parametrize("kind", ["selector", "weigher"])
def test_fedconcat_goes_with_every_selector_and_weigher(tmp_path, kind):
    for name in sorted(set(known(kind)) - {"scripted"}):
        method = {"name": "fedconcat", "server": {"name": "concat", "clusters": 2, "encoder_rounds": 1}}
        method[kind] = GIVEN.get((kind, name), name)
        records = play(tmp_path / name, rounds=2, method=method, data={"clients": 6, "validation": 0.05})
        assert [len(record.refused) for record in records] == [0, 0]
