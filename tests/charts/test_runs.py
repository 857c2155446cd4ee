"""Charts of one run: weights, cohort entropy, mixing."""

import json
from math import log2
from pathlib import Path
from typing import Any

import pytest

from entrofed.charts.cohort_entropy import entropy_chart
from entrofed.charts.mixing import mixing_chart
from entrofed.charts.weights import weights_chart
from entrofed.core.records import ClientRecord, PeerRecord, RoundRecord
from entrofed.errors import CheckpointError, ConfigError
from entrofed.experiment.config import parse
from entrofed.experiment.run_folder import RunFolder, json_line


def client(number: int, weight: float) -> ClientRecord:
    return ClientRecord(number, 10, 2, weight, 0.5, 0.5)


def values_of(spec: dict[str, Any], part: dict[str, Any]) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = spec["datasets"][part["data"]["name"]]
    return found


@pytest.fixture
def folder(tmp_path: Path) -> RunFolder:
    """A run of four clients with two labels each."""
    found = RunFolder(tmp_path / "x" / "seed-0")
    experiment = parse({"data": {"name": "digits", "clients": 4}})
    found.start(experiment, experiment.method.recipe)
    counts = [[4, 4, 0], [4, 4, 0], [0, 4, 4], [0, 4, 4]]
    facts = {"classes": ["a", "b", "c"], "participants": [0, 1, 2, 3], "label_counts": counts}
    (found.path / "federation.json").write_text(json.dumps(facts))
    return found


def keep(folder: RunFolder, *records: RoundRecord) -> None:
    (folder.path / "metrics.jsonl").write_text("".join(map(json_line, records)))


def test_weights_as_multiples_of_an_equal_share(folder: RunFolder) -> None:
    with pytest.raises(CheckpointError, match="nothing to draw"):
        weights_chart(folder)
    keep(folder, RoundRecord(0), RoundRecord(1, clients=[client(0, 0.75), client(3, 0.25)]))
    spec = weights_chart(folder).to_dict()
    heat, course = spec["vconcat"]
    assert [(cell["round"], cell["client"], cell["share"]) for cell in values_of(spec, heat)] == [
        (2, 0, 1.5),
        (2, 3, 0.5),
    ]
    assert values_of(spec, course["layer"][0] if "data" not in course else course) == [
        {"round": 2, "largest": 0.75, "equal": 0.5}
    ]


def test_cohorts_beside_those_drawn_by_chance(folder: RunFolder) -> None:
    with pytest.raises(CheckpointError, match="no round was played"):
        entropy_chart(folder)
    keep(
        folder, RoundRecord(0, cohort=[0], cohort_entropy=1.0), RoundRecord(1, cohort=[0, 1, 2, 3], cohort_entropy=1.5)
    )
    spec = entropy_chart(folder).to_dict()
    (first, last), *_ = spec["datasets"].values()
    assert (first["bits"], first["low"], first["high"]) == (1.0, pytest.approx(1), pytest.approx(1))
    assert last["mean"] == pytest.approx(1.5)  # there is but one cohort of everybody
    assert f"log2 {3 - 1}" in spec["title"]["subtitle"][1]
    assert any(layer["encoding"]["y"].get("datum") == log2(3) for layer in spec["layer"])
    (folder.path / "federation.json").unlink()
    with pytest.raises(CheckpointError, match=r"federation\.json is missing"):
        entropy_chart(folder)


def test_the_mixing_matrix_of_the_last_round(folder: RunFolder) -> None:
    keep(folder, RoundRecord(0))
    with pytest.raises(ConfigError, match=r"needs a \[topology\]"):
        mixing_chart(folder)
    peers = [PeerRecord(0, [0, 1], [0.75, 0.25]), PeerRecord(1, [1], [1.0])]
    keep(folder, RoundRecord(0, peers=peers[:1]), RoundRecord(1, peers=peers))
    spec = mixing_chart(folder).to_dict()
    (cells,) = spec["datasets"].values()
    assert cells == [
        {"node": 0, "model": 0, "weight": 0.75},
        {"node": 0, "model": 1, "weight": 0.25},
        {"node": 1, "model": 1, "weight": 1.0},
    ]
    assert "weights of round 2" in spec["title"]["subtitle"]
