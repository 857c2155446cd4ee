import json

import numpy as np
import pytest

from entrofed.charts.partition import partition_chart
from entrofed.data.shifts import FeatureShift
from entrofed.errors import DataError

COUNTS = np.array([[3, 0, 1], [0, 5, 0]])
NAMES = ("cat", "dog", "fox")


def test_what_is_drawn():
    spec = partition_chart(COUNTS, NAMES).to_dict()
    sizes, shares = spec["vconcat"]
    rows = spec["datasets"]
    assert rows[sizes["data"]["name"]] == [{"client": 0, "samples": 4}, {"client": 1, "samples": 5}]
    assert rows[shares["data"]["name"]] == [
        {"client": 0, "class": "cat", "samples": 3},
        {"client": 0, "class": "fox", "samples": 1},
        {"client": 1, "class": "dog", "samples": 5},
    ]
    assert shares["encoding"]["y"]["scale"]["domain"] == list(NAMES)
    assert shares["encoding"]["x"]["title"] == "Client"
    assert "2 clients, 9 samples" in spec["title"]["subtitle"]


@pytest.mark.parametrize("clients", [1, 10, 100, 3000])
def test_clients_without_samples_are_shown_and_axis_labels_stay_few(clients):
    counts = np.zeros((clients, 3), dtype=np.int64)
    counts[1:] = 1
    x = partition_chart(counts, NAMES).to_dict()["vconcat"][1]["encoding"]["x"]
    assert x["scale"]["domain"] == list(range(clients))
    assert 1 <= len(x["axis"]["values"]) <= 30


def test_clients_are_called_by_their_names_unless_they_are_many():
    spec = partition_chart(COUNTS, NAMES, ("Basel", "Chur")).to_dict()
    assert spec["vconcat"][1]["encoding"]["x"]["scale"]["domain"] == ["Basel", "Chur"]
    assert spec["datasets"][spec["vconcat"][0]["data"]["name"]][1] == {"client": "Chur", "samples": 5}
    many = partition_chart(np.ones((50, 3), int), NAMES, [f"c{k}" for k in range(50)]).to_dict()
    assert many["vconcat"][1]["encoding"]["x"]["scale"]["domain"] == list(range(50))


def test_shifted_features_are_shown():
    spec = partition_chart(COUNTS, NAMES, shift=FeatureShift("Rotation (degrees)", (0.0, 90.0))).to_dict()
    _, shift, _ = spec["vconcat"]
    assert spec["datasets"][shift["data"]["name"]] == [{"client": 0, "shift": 0.0}, {"client": 1, "shift": 90.0}]
    assert shift["encoding"]["y"]["title"] == ["Rotation", "(degrees)"]


def test_files(tmp_path):
    chart = partition_chart(COUNTS, NAMES)
    chart.save(tmp_path / "p.png")
    chart.save(tmp_path / "p.svg")
    chart.save(tmp_path / "p.json")
    assert (tmp_path / "p.png").read_bytes().startswith(b"\x89PNG\r\n\x1a\n")
    svg = (tmp_path / "p.svg").read_text()
    assert svg.startswith("<svg")
    assert all(f">{word}<" in svg for word in (*NAMES, "Client", "Class"))
    text = (tmp_path / "p.json").read_text()
    assert json.loads(text)["$schema"].startswith("https://vega.github.io/schema/vega-lite/")
    assert "<" not in text


@pytest.mark.parametrize("counts", [np.zeros(3, int), np.zeros((2, 4), int), np.zeros((0, 3), int)])
def test_counts_must_fit_the_classes(counts):
    with pytest.raises(DataError, match="each of 3 classes"):
        partition_chart(counts, NAMES)
