"""The study of an adversarial peer: what it gains, what a cap leaves it, whom it cannot touch, the same bits again."""

import json
from dataclasses import replace

import numpy as np
import pytest
from rich.console import Console

from entrofed.backends import InlineBackend
from entrofed.charts.studies import adversaries_chart
from entrofed.cli.main import main
from entrofed.cli.tables.studies import adversaries_study_tables
from entrofed.core.faults import Faults
from entrofed.core.records import PeerRecord, RoundRecord
from entrofed.errors import ConfigError
from entrofed.experiment.build import prepare
from entrofed.experiment.run_folder import RunFolder
from entrofed.experiment.runner import run
from entrofed.studies.adversaries import ATTACKS, CAP, Poisoned, experiment, honest_metrics, play, study, ways

SMALL = {"seeds": 1, "rounds": 3, "alphas": (20.0,), "modes": ("histogram",)}
WAYS = ways(["smoothed", "histogram"])
METRICS = ("weight", "accuracy", "macro_f1", "change", "change_f1")
BARE = {"alpha": 1.0, "attack": "none", "way": "FedEP histogram, trimmed", "peers": 4, "seeds": 2}


@pytest.fixture(scope="module")
def rows():
    return study(**SMALL)


@pytest.fixture(scope="module")
def found(rows):
    return {(row["way"], row["attack"]): row for row in rows}


def last(title, *, adversary=True, poisoned=frozenset(), seed=0):
    chosen = experiment(WAYS[title], peers=10, adversary=adversary, alpha=20.0, rounds=1, seed=seed)
    return play(chosen, poisoned=set(poisoned))


def without_seconds(record):
    return replace(record, seconds={})


def test_one_row_an_attack_and_way(rows):
    assert [(row["attack"], row["way"]) for row in rows] == [(a, way) for a in ATTACKS for way in ways(["histogram"])]
    for row in rows:
        assert (row["alpha"], row["peers"], row["seeds"]) == (20.0, 10, 1)
        assert all(row[f"{key}_std"] is None for key in METRICS)


def test_an_uncapped_adversary_takes_over_and_a_capped_one_does_not(found):
    assert found["FedEP histogram", "none"]["weight"] < 0.25
    for attack in ("claims", "poisons"):
        assert found["FedEP histogram", attack]["weight"] > 0.5
        assert found["FedEP histogram, cap", attack]["weight"] <= CAP + 1e-12
        for rule in ("median", "trimmed"):
            assert found[f"FedEP histogram, {rule}", attack]["weight"] == pytest.approx(0.1)


def test_who_does_not_look_at_labels_is_not_touched_by_a_claim(found):
    for way in ("FedAvg", "uniform"):
        honest, attacked = found[way, "none"], found[way, "claims"]
        assert {key: attacked[key] for key in METRICS} == {key: honest[key] for key in METRICS}
    assert found["uniform", "poisons"]["weight"] == pytest.approx(0.1)


def test_poison_does_harm_and_defences_limit_it(found):
    free = found["FedEP histogram", "poisons"]
    assert free["change"] < -0.2
    for way in ("FedEP histogram, cap", "FedEP histogram, median", "FedEP histogram, trimmed"):
        assert found[way, "poisons"]["accuracy"] > free["accuracy"] + 0.2
        assert found[way, "poisons"]["macro_f1"] > free["macro_f1"] + 0.2


def test_changes_are_from_the_undefended_way_without_an_adversary(found):
    for (title, _), row in found.items():
        before = found[ways(["histogram"])[title].base, "none"]
        assert row["change"] == row["accuracy"] - before["accuracy"]
        assert row["change_f1"] == row["macro_f1"] - before["macro_f1"]


@pytest.mark.parametrize("title", WAYS)
def test_weights_of_every_way(title):
    record = last(title)
    (adversary,) = Faults(liars=0.1).adversarial(0, 10)
    assert len(record.peers) == 10
    for entry in record.peers:
        assert entry.senders == list(range(10))
        assert sum(entry.weights) == pytest.approx(1, abs=1e-12)
        assert min(entry.weights) >= 0
        assert max(entry.weights) <= (CAP + 1e-12 if "cap" in title else 1)
        if title in ("FedEP smoothed", "FedEP histogram"):
            assert entry.weights[adversary] > 0.5


def test_the_median_counts_an_adversary_as_one_of_ten_though_it_is_given_more():
    (adversary,) = Faults(liars=0.1).adversarial(0, 10)
    record = last("FedEP histogram, median")
    assert record.peers[0].weights[adversary] > 0.5
    honest = last("FedEP histogram, median", adversary=False)
    assert [entry.accuracy for entry in record.peers] == [entry.accuracy for entry in honest.peers]


def test_the_same_bits_again(rows):
    assert study(**SMALL | {"modes": ()}) == [row for row in rows if row["way"] in ways([])]
    poisoned = [without_seconds(last("FedEP histogram, cap", poisoned={3}, seed=5)) for _ in range(2)]
    assert poisoned[0] == poisoned[1]
    assert without_seconds(last("FedEP histogram, cap", poisoned={3}, seed=6)) != poisoned[0]


def test_nobody_poisoned_is_the_plain_backend(tmp_path):
    chosen = experiment(WAYS["FedAvg"], peers=4, adversary=False, alpha=20.0, rounds=1, seed=0)
    place = RunFolder(tmp_path)
    run(chosen, place, backend=InlineBackend())
    assert without_seconds(play(chosen, poisoned=set())) == without_seconds(place.records()[-1])


def test_only_the_labels_of_the_poisoned_are_flipped(monkeypatch):
    opened = []
    monkeypatch.setattr(InlineBackend, "open", lambda self, workload: opened.append(workload.federation))
    setup = prepare(experiment(WAYS["FedAvg"], peers=4, adversary=False, alpha=20.0, rounds=1, seed=0))
    before = setup.federation.data.train_y.copy()
    Poisoned({2}).open(setup.workload)
    for client, shard in enumerate(setup.federation.shards):
        expected = 9 - before[shard] if client == 2 else before[shard]
        np.testing.assert_array_equal(opened[0].data.train_y[shard], expected)
    np.testing.assert_array_equal(setup.federation.data.train_y, before)


def test_metrics_by_hand():
    def peer(node, heard, weights, accuracy):
        return PeerRecord(node, heard, weights, accuracy=accuracy, macro_f1=accuracy / 2)

    peers = [peer(0, [0, 1], [0.5, 0.5], 0.1), peer(1, [0, 1], [0.25, 0.75], 0.6), peer(2, [2], [1], 1)]
    record = RoundRecord(0, peers=peers)
    assert honest_metrics(record, 0, votes=False) == pytest.approx({"weight": 0.125, "accuracy": 0.8, "macro_f1": 0.4})
    assert honest_metrics(record, 0, votes=True)["weight"] == 0.25
    peers[1] = peer(1, [0, 1], [0.0, 1.0], 0.6)  # not counted
    assert honest_metrics(record, 0, votes=True)["weight"] == 0


def test_the_adversary_is_who_claims_something_else():
    counts = np.arange(40).reshape(10, 4) + 1
    for seed in range(5):
        faults = Faults(liars=0.2)
        changed = (faults.claimed(seed, counts) != counts).any(axis=1)
        assert faults.adversarial(seed, 10) == set(np.flatnonzero(changed).tolist())
        assert len(faults.adversarial(seed, 10)) == 2


def test_tables_fit_a_terminal(rows, capsys):
    wide = {**BARE, "weight": 0.1, "accuracy": 0.555, "macro_f1": 0.555, "change": -0.555}
    wide |= {f"{key}_std": 0.222 for key in METRICS}
    for shown, words in (
        (rows, "An adversary among 10 peers, Dirichlet 20"),
        ([wide], "An adversary among 4 peers, Dirichlet 1"),
    ):
        (table,) = adversaries_study_tables(shown)
        assert table.title == words
        assert table.row_count == len(shown) + len(ATTACKS)
        Console(width=80).print(table)
        text = capsys.readouterr().out
        assert "…" not in text
        assert max(map(len, text.splitlines())) <= 80
    assert "-55.5±22.2" in text


def test_picture(rows):
    spec = adversaries_chart(rows, ATTACKS).to_dict()
    values = spec["datasets"][spec["data"]["name"]] if "name" in spec["data"] else spec["data"]["values"]
    assert len(values) == 2 * len(rows)
    assert all(0 <= value["low"] <= value["value"] <= value["high"] <= 1 for value in values)
    assert {value["equal"] for value in values} == {0.1, None}
    assert all("data" not in layer for layer in spec["spec"]["layer"])  # else every panel would show everything


def test_what_it_cannot_study():
    with pytest.raises(ConfigError, match="peers = 1: at least 2"):
        study(seeds=1, peers=1)
    with pytest.raises(ConfigError, match="did you mean 'histogram'"):
        study(seeds=1, modes=("histograms",))


def test_on_the_command_line(capsys):
    with pytest.raises(SystemExit) as stop:
        main(["study", "adversaries", "--peers", "3", "--rounds", "1", "--seeds", "1", "--json"])
    assert stop.value.code == 0
    assert {row["attack"] for row in json.loads(capsys.readouterr().out)["rows"]} == set(ATTACKS)


def test_its_former_name_is_still_understood(capsys):
    with pytest.raises(SystemExit) as stop:
        main(["study", "liars", "--peers", "0"])
    assert stop.value.code == 2
    assert "--peers 0: at least 1 is needed" in capsys.readouterr().err
