"""``entrofed data describe``, and own data on the command line, called as a user calls them."""

import json
import subprocess
import sys
import tomllib
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest
from rich.console import Console
from tests.cli.calls import Go, caller

from entrofed.cli import console as terminal

RNG = np.random.default_rng(0)
ROWS = 60
VISITS = {
    "patient": [f"p{i}" for i in range(ROWS)],
    "age": [None if i % 7 == 0 else int(age) for i, age in enumerate(RNG.integers(18, 90, ROWS))],
    "ward": RNG.choice(["A", "B", "C"], ROWS).tolist(),
    "visit_date": [f"2024-01-{i % 28 + 1:02}" for i in range(ROWS)],
    "hospital": ["Basel"] * 30 + ["Lugano"] * 20 + ["Zug"] * 10,
    "diagnosis": ["flu", "cold"] * 25 + ["flu"] * 10,
}
EXPERIMENT = """
rounds = 1
model = "iris_mlp"
[data]
path = "visits.csv"
label = "diagnosis"
client = "hospital"
drop = ["patient", "visit_date"]
missing = "impute"
[engine]
backend = "inline"
"""


@pytest.fixture
def go(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Go:
    """Runs a command at 80 columns in a folder with visits.csv."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setattr(terminal, "console", Console(width=80))
    pyarrow.csv.write_csv(pa.table(VISITS), "visits.csv")
    Path("own.toml").write_text(EXPERIMENT)
    return caller(capsys)


def test_columns_without_a_label(go: Go) -> None:
    code, out, err = go("data", "describe", "visits.csv")
    assert (code, err) == (0, "")
    assert "visits.csv: table, 60 rows" in out
    assert "entrofed data describe visits.csv --label diagnosis --client hospital" in out
    assert "holds dates" in out
    assert max(map(len, out.splitlines())) <= 80


def test_all_that_was_understood(go: Go) -> None:
    code, out, err = go("data", "describe", "visits.csv", "--label", "diagnosis", "--client", "hospital")
    assert (code, err) == (0, "")
    assert max(map(len, out.splitlines())) <= 80
    for words in ("18 to 8", "3: ", "Lugano", "0.980", "3 clients of 10 to 30 rows, median 20"):
        assert words in out, words
    section = tomllib.loads(out[out.index("[data]") :])["data"]
    assert section == {
        "path": "visits.csv",
        "label": "diagnosis",
        "client": "hospital",
        "test": 0.2,
        "drop": ["patient", "visit_date"],
        "missing": "impute",
    }


def test_the_picture_the_json_and_the_section(go: Go) -> None:
    Path("sub").mkdir()
    words = ("--label", "diagnosis", "--client", "hospital", "--drop", "patient", "--json")
    code, out, err = go("data", "describe", "visits.csv", *words, "--plot", "skew.png", "-o", "sub/data.toml")
    assert code == 0
    assert Path("skew.png").read_bytes().startswith(b"\x89PNG")
    assert json.loads(out)["clients"] == {"Basel": [15, 15], "Lugano": [10, 10], "Zug": [0, 10]}
    section = tomllib.loads(Path("sub/data.toml").read_text())["data"]
    assert (section["path"], section["drop"]) == ("../visits.csv", ["patient", "visit_date"])
    assert "skew.png" in err
    code, _, err = go("data", "describe", "visits.csv", *words, "-o", "sub/data.toml")
    assert (code, "there is such a file" in err) == (2, True)


def test_the_picture_counts_all_rows_and_does_not_call_them_training_samples(go: Go) -> None:
    """It is drawn before a test part is taken from the file."""
    words = ("--label", "diagnosis", "--client", "hospital", "--plot", "skew.svg")
    assert go("data", "describe", "visits.csv", *words).code == 0
    picture = Path("skew.svg").read_text(encoding="utf-8")
    assert "60 samples" in picture
    assert "How the samples are spread over the clients" in picture


def test_the_written_section_runs(go: Go) -> None:
    words = ("--label", "diagnosis", "--client", "hospital")
    assert go("data", "describe", "visits.csv", *words, "-o", "data.toml").code == 0
    Path("made.toml").write_text('rounds = 1\nmodel = "iris_mlp"\n' + Path("data.toml").read_text())
    code, out, _ = go("run", "made.toml", "--set", "engine.backend=inline")
    assert code == 0
    assert "after 1 round," in out
    code, out, _ = go("validate", "made.toml", "--plot", "who.png")
    assert (code, "valid" in out) == (0, True)


def test_a_test_part_of_its_own_goes_into_the_section(go: Go) -> None:
    Path("sub").mkdir()
    Path("held-out.csv").write_bytes(Path("visits.csv").read_bytes())
    words = ("--label", "diagnosis", "--client", "hospital", "--test", "./held-out.csv", "-o", "sub/data.toml")
    assert go("data", "describe", "visits.csv", *words).code == 0
    section = tomllib.loads(Path("sub/data.toml").read_text())["data"]
    assert (section["path"], section["test"]) == ("../visits.csv", "../held-out.csv")
    Path("sub/made.toml").write_text('rounds = 1\nmodel = "iris_mlp"\n' + Path("sub/data.toml").read_text())
    assert go("validate", "sub/made.toml").code == 0


def test_arrays(go: Go) -> None:
    np.savez("own.npz", x=RNG.normal(size=(20, 2, 4)), y=np.arange(20) % 2, who=np.repeat(["u", "v"], 10))
    code, out, _ = go("data", "describe", "own.npz", "--client", "who", "--kind", "tensor", "-o", "data.toml")
    assert (code, "own.npz: tensor 2x4, 20 rows" in out) == (0, True)
    assert tomllib.loads(Path("data.toml").read_text())["data"] == {
        "path": "own.npz",
        "client": "who",
        "kind": "tensor",
    }


def test_describing_a_table_does_not_wait_for_torch(go: Go) -> None:
    code = "import sys, entrofed.data.describe; print({'sklearn', 'torch', 'PIL', 'altair'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "set()\n"


def test_a_run_of_own_data_and_what_is_said_of_it(go: Go) -> None:
    assert go("run", "own.toml").code == 0
    Path("visits.csv").unlink()
    assert "visits" in go("ls", "runs").out
    assert "visits, natural, seed 0" in go("show", "runs/own/seed-0").out
    assert "there is no such file" in "".join(go("resume", "runs/own")[1:])


BAD: dict[str, tuple[tuple[str, ...], int, str]] = {
    "no such file": (("none.csv",), 3, "none.csv: there is no such file or folder"),
    "wrong label": (("visits.csv", "--label", "diagnose"), 2, "unknown column 'diagnose'; did you mean 'diagnosis'?"),
    "wrong client": (("visits.csv", "--label", "diagnosis", "--client", "hospitl"), 2, "did you mean 'hospital'?"),
    "a number": (("numbers.csv", "--label", "a"), 3, "Regression is out of scope"),
    "a picture without label": (("visits.csv", "--plot", "a.png"), 2, "say --label"),
    "a picture without clients": (("visits.csv", "--label", "diagnosis", "--plot", "a.png"), 2, "say --client"),
    "a section without label": (("visits.csv", "-o", "a.toml"), 2, "need the label; say --label"),
    "no folder": (("visits.csv", "--label", "diagnosis", "-o", "none/a.toml"), 2, "there is no folder none"),
    "an ending": (("visits.xls",), 3, "known are .csv, .tsv, .parquet"),
    "an option": (("visits.csv", "--missing", "guess"), 2, ""),
    "size of a table": (
        ("visits.csv", "--label", "diagnosis", "--size", "2", "2"),
        2,
        "size does not apply to a table",
    ),
    "half a file": (("half.parquet",), 3, "half.parquet: not readable"),
    "an empty folder": (("empty",), 3, "empty: no pictures"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_input_gets_words_and_a_code(go: Go, name: str) -> None:
    words, code, expected = BAD[name]
    Path("numbers.csv").write_text("a,b\n" + "".join(f"{i}.5,{i}\n" for i in range(20)))
    Path("visits.xls").touch()
    Path("empty").mkdir()
    pyarrow.parquet.write_table(pa.table(VISITS), "half.parquet")
    Path("half.parquet").write_bytes(Path("half.parquet").read_bytes()[:500])
    found = go("data", "describe", *words)
    assert found.code == code
    assert expected in found.err
    assert "Traceback" not in found.err + found.out


@pytest.mark.parametrize(
    ("override", "code", "words"),
    [
        ("data.label=diagnose", 2, "did you mean 'diagnosis'"),
        ("data.drop=[]", 3, "column 'patient' has 60 different texts in 60 rows; does it name things?"),
        ("data.missing=refuse", 3, "column 'age' has no value in 9 of 60 rows"),
        ("data.path=none.csv", 3, "there is no such file"),
        ("data.test=held_out", 2, "unknown column 'held_out'"),
        ("data.name=digits", 2, "exclude each other"),
    ],
)
def test_a_bad_experiment(go: Go, override: str, code: int, words: str) -> None:
    found = go("validate", "own.toml", "--set", override)
    assert words in found.err
    assert found.code == code
    assert "Traceback" not in found.err
