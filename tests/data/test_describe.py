"""What is understood of a file."""

import json
from pathlib import Path

import numpy as np
import pytest

from entrofed.data.describe import describe_path
from entrofed.data.tabular.choice import Choice
from entrofed.errors import ConfigError, DataError

VISITS = """id,age,ward,seen,hospital,ill
p1,30,A,2024-01-01,Zug,yes
p2,50,B,2024-01-02,Basel,no
p3,,A,2024-01-03,Zug,yes
p4,70,A,2024-01-04,Basel,yes
"""


@pytest.fixture
def visits(tmp_path: Path) -> Path:
    path = tmp_path / "visits.csv"
    path.write_text(VISITS)
    return path


def test_columns_and_a_suggestion(visits: Path) -> None:
    found = describe_path(visits, Choice())
    assert (found.kind, found.rows, found.section, found.skew) == ("table", 4, {}, None)
    assert [(c.name, c.kind, c.missing) for c in found.columns] == [
        ("id", "category", 0),
        ("age", "number", 1),
        ("ward", "category", 0),
        ("seen", "date", 0),
        ("hospital", "category", 0),
        ("ill", "category", 0),
    ]
    assert (found.columns[1].low, found.columns[1].high) == (30, 70)
    assert found.suggested == ("ill", "hospital")


def test_classes_clients_and_skew(visits: Path) -> None:
    found = describe_path(visits, Choice(label="ill", client="hospital"))
    assert found.classes == {"no": 1, "yes": 3}
    assert (found.clients, found.counts.tolist()) == (("Basel", "Zug"), [[1, 1], [0, 2]])
    skew = found.skew
    assert skew is not None
    assert skew["entropy_bits"] == {"min": 0.0, "mean": 0.5, "max": 1.0}
    assert skew["effective_classes"] == {"min": 1.0, "mean": 1.5, "max": 2.0}
    assert skew["entropy_bits_pooled"] == pytest.approx(0.8112781)
    assert [c.role for c in found.columns if c.role] == ["client", "label"]


def test_the_section_names_what_to_do(visits: Path) -> None:
    found = describe_path(visits, Choice(label="ill", client="hospital"))
    assert found.section == {
        "path": str(visits),
        "label": "ill",
        "client": "hospital",
        "test": 0.2,
        "drop": ["seen"],
        "missing": "impute",
    }
    chosen = describe_path(visits, Choice(label="ill", features=("age", "seen"), missing="drop_rows", test=0.3))
    assert chosen.section == {
        "path": str(visits),
        "label": "ill",
        "test": 0.3,
        "features": ["age"],
        "missing": "drop_rows",
    }


def test_all_of_it_is_json(visits: Path) -> None:
    found = json.loads(json.dumps(describe_path(visits, Choice(label="ill", client="hospital")).to_json()))
    assert found["clients"] == {"Basel": [1, 1], "Zug": [0, 2]}
    assert found["columns"][1] == {
        "name": "age",
        "kind": "number",
        "role": "",
        "missing": 1,
        "low": 30.0,
        "high": 70.0,
        "values": ["30", "50", "70"],
        "problem": None,
    }
    json.dumps(describe_path(visits, Choice()).to_json(), allow_nan=False)


def test_rows_without_label_or_client_are_not_counted(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("a,who,y\n1,u,0\n2,,1\n3,v,\n4,u,1\n")
    found = describe_path(path, Choice(label="y", client="who"))
    assert (found.classes, found.clients, found.counts.tolist()) == ({"0": 1, "1": 2}, ("u", "v"), [[1, 1], [0, 0]])


def test_clients_that_are_numbers_are_sorted_as_numbers(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("a,who,y\n1,10,0\n2,9,1\ninf,100,0\n4,9,1\n")
    found = describe_path(path, Choice(label="y", client="who"))
    assert (found.clients, found.counts.tolist()) == (("9", "10", "100"), [[0, 2], [1, 0], [1, 0]])
    assert (found.columns[0].high, found.section["drop"]) == (None, ["a"])
    json.dumps(found.to_json(), allow_nan=False)


def test_arrays(tmp_path: Path) -> None:
    np.savez(tmp_path / "own.npz", x=np.zeros((20, 2, 4)), y=np.arange(20) % 2, who=np.repeat(["u", "v"], 10))
    found = describe_path(tmp_path / "own.npz", Choice(client="who", kind="tensor"))
    assert (found.kind, found.rows, found.classes) == ("tensor 2x4", 20, {"0": 10, "1": 10})
    assert (found.clients, found.counts.sum()) == (("u", "v"), 16), "clients have the training part"
    assert found.section == {"path": str(tmp_path / "own.npz"), "client": "who", "kind": "tensor"}


def test_what_cannot_be(visits: Path) -> None:
    with pytest.raises(ConfigError, match="did you mean 'ill'"):
        describe_path(visits, Choice(label="il"))
    with pytest.raises(DataError, match="no such file"):
        describe_path(visits.with_name("none.csv"), Choice())
