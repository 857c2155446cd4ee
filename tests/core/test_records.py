"""Records of rounds: to JSON and back, and those of older runs."""

import json
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from entrofed.core.records import ClientRecord, Metrics, PeerRecord, Refusal, RoundRecord, scalars
from entrofed.errors import DataError
from entrofed.info.bounds import Alignment

numbers = st.floats(allow_nan=False, allow_infinity=False)
tables = st.dictionaries(st.text(max_size=5), st.none() | st.booleans() | st.integers() | numbers | st.text(max_size=5))
filled = tables.filter(bool)
metrics = st.builds(Metrics, *[numbers] * 6, st.lists(numbers, max_size=3))
clients = st.builds(ClientRecord, st.integers(0, 99), st.integers(1), st.integers(1), *[numbers] * 3, tables, tables)
peers = st.builds(
    PeerRecord,
    st.integers(0, 9),
    st.lists(st.integers(0, 9), max_size=3),
    st.lists(numbers, max_size=3),
    st.lists(filled, max_size=2),
    *[st.none() | numbers] * 3,
)
rounds = st.builds(
    RoundRecord,
    round=st.integers(0, 999),
    lr=numbers,
    cohort=st.lists(st.integers(0, 99), max_size=4),
    reasons=st.lists(tables, max_size=2),
    clients=st.lists(clients, max_size=2),
    refused=st.lists(st.builds(Refusal, st.integers(0, 9), st.text(max_size=9)), max_size=2),
    skipped=st.booleans(),
    test=st.none() | metrics,
    in_distribution=st.none() | metrics,
    names=st.none() | st.lists(st.text(max_size=3), max_size=2),
    seconds=st.dictionaries(st.sampled_from(["select", "train", "clients"]), numbers),
)
without = st.builds(lambda record, found: replace(record, peers=found), rounds, st.lists(peers, min_size=1, max_size=3))


@given(rounds | without)
def test_what_is_written_is_read_back(record: RoundRecord) -> None:
    assert RoundRecord.from_json(json.loads(json.dumps(record.to_json()))) == record


@given(rounds, st.sampled_from([0.5, np.nan, np.inf, -np.inf]))
def test_text_is_that_of_the_table(record: RoundRecord, loss: float) -> None:
    record = replace(record, train_loss=loss)
    assert record.dumps() == json.dumps(record.to_json())


def test_alignment_is_read_back() -> None:
    record = RoundRecord(0, alignment=Alignment(1.0, 0.5, 2.0, 3.0, 4.0))
    assert RoundRecord.from_json(json.loads(json.dumps(record.to_json()))) == record


def test_what_is_not_finite_becomes_null() -> None:
    bad = RoundRecord(0, train_loss=float("nan"), clients=[ClientRecord(1, 2, 3, 0.5, float("inf"), float("-inf"))])
    found = json.loads(json.dumps(bad.to_json(), allow_nan=False))
    assert found["train_loss"] is None
    assert found["clients"][0]["train_loss"] is None


OLD_CENTRAL: dict[str, Any] = {
    "round": 3,
    "lr": 0.1,
    "available": 12,
    "cohort": [4, 7],
    "reasons": [],
    "cohort_entropy": 2.5,
    "clients": [
        {"client": 4, "examples": 10, "steps": 2, "weight": 0.5, "train_loss": 1.0, "train_loss_last_epoch": 0.9},
        {
            "client": 7,
            "examples": 10,
            "steps": 2,
            "weight": 0.5,
            "train_loss": None,
            "train_loss_last_epoch": None,
            "loss_terms": {"a": 1.0},
            "origin": {"kl_nats": 0.2},
        },
    ],
    "refused": [{"client": 9, "reason": "dropped out"}],
    "skipped": False,
    "effective_cohort": 2.0,
    "train_loss": 1.0,
    "bytes_down": 8,
    "bytes_up": 9,
    "test": {
        "loss": 1.0,
        "accuracy": 0.5,
        "macro_f1": 0.4,
        "weighted_f1": 0.4,
        "weighted_precision": 0.4,
        "weighted_recall": 0.5,
        "class_accuracy": [1.0, 0.0],
    },
    "id": None,
    "alignment": None,
    "seconds": {"train": 1.0, "clients": 2.0},
}


def test_records_of_version_0_1_stay_as_they_are() -> None:
    record = RoundRecord.from_json(OLD_CENTRAL)
    assert record.clients[1].origin == {"kl_nats": 0.2}
    assert record.duration == 1.0
    assert record.to_json() == OLD_CENTRAL
    peers = [{"node": 0, "from": [0, 1], "weights": [0.5, 0.5], "accuracy": 0.5, "macro_f1": 0.4}]
    old = {key: value for key, value in OLD_CENTRAL.items() if key != "alignment"}
    old |= {"peers": peers, "consensus": 0.1, "spectral_gap": None}
    assert RoundRecord.from_json(old).peers[0].mixing == {0: 0.5, 1: 0.5}
    assert RoundRecord.from_json(old).to_json() == old


@pytest.mark.parametrize("wrong", [{}, {"round": 1, "clients": [3]}, {"round": 1, "test": {"loss": 1}}, []])
def test_what_is_no_record(wrong: Any) -> None:
    with pytest.raises(DataError, match="not the record of a round"):
        RoundRecord.from_json(wrong)


@pytest.mark.parametrize("wrong", [[3], {"a": 1}, [{"a": [1]}], [{"a": np.zeros(2)}], "text"])
def test_what_cannot_be_stored(wrong: Any) -> None:
    with pytest.raises(DataError, match="weigher 'mine': origins"):
        scalars(wrong, "weigher 'mine': origins")
