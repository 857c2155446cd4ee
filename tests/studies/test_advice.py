"""Advice from Python and on the command line: text, JSON, picture, errors."""

import json
from inspect import signature
from pathlib import Path

import numpy as np
import pytest

from entrofed.charts.advice import advice_chart
from entrofed.cli.advise import advise as command
from entrofed.cli.main import main
from entrofed.data.federation import Federation
from entrofed.errors import ConfigError, DataError
from entrofed.studies import Advice, advise
from entrofed.studies.advice_text import WIDTH

QUICK = {"rounds": 5, "seeds": 2, "buffers": (0.0, 0.5), "epsilons": (0.5,)}
HOSPITALS = """hospital,healthy,mild,severe
Cleveland,120,30,13
Hungary,150,35,5
Long Beach,40,50,60
Zurich,5,30,70
"""


def widest(words: str) -> int:
    return max(map(len, words.splitlines()))


@pytest.fixture
def go(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "counts.csv").write_text(HOSPITALS)

    def call(*words: str) -> tuple[int, str, str]:
        with pytest.raises(SystemExit) as stop:
            main(list(words))
        out, err = capsys.readouterr()
        return stop.value.code, out, err

    return call


def test_text_says_everything_in_80_columns():
    rng = np.random.default_rng(0)
    counts = rng.multinomial(60, rng.dirichlet(np.full(12, 0.1), 40))
    counts[:, 11] = 0
    counts[3, 11] = 5
    counts[7] = 0
    names = [f"the hospital of a town with a very long name, number {k}" for k in range(40)]
    classes = [f"a class whose name is far longer than any table can take, number {c}" for c in range(12)]
    words = str(advise(counts, classes, names, **QUICK))
    assert widest(words) <= WIDTH == 80
    for title in (
        "How skewed it is",
        "What cohorts get together",
        "What selectors get together",
        "What noise on the counts costs",
        "Under secure aggregation",
        "What we would do",
        "What cannot be known without training",
    ):
        assert title in words
    assert "Clients that hold nothing, and are never chosen: 1." in " ".join(words.split())


@pytest.mark.parametrize(
    ("counts", "options"),
    [
        ([[3, 1], [1, 3]], {}),  # a cohort of one
        ([[3, 1]], {}),  # a single client
        ([[3, 1], [1, 3], [5, 5]], {"cohort": 3}),
        ([[0.5, 1.25], [1, 3], [5, 5]], {}),
        (np.eye(3, dtype=int) * 4, {"seeds": 1}),
        (np.full((30, 2), 10**12), {"cohort": 5}),
        (np.ones((12, 200), int), {"epsilons": ()}),
    ],
)
def test_whatever_the_federation(counts, options):
    advice = advise(counts, **{**QUICK, **options})
    assert widest(str(advice)) <= WIDTH
    found = json.loads(advice.to_json())
    assert found["recommendation"]["sentences"]
    advice_chart(found["findings"]).to_dict()


def test_same_counts_same_advice():
    counts = np.random.default_rng(3).integers(0, 9, (25, 5))
    assert advise(counts, **QUICK) == advise(counts.tolist(), **QUICK)
    assert isinstance(advise(counts, **QUICK), Advice)


def test_a_federation():
    """Its participants, by their names."""
    x = np.zeros((60, 2))
    clients = {"Basel": (x[:40], [0, 1] * 20), "Chur": (x[:12], [1, 1, 0] * 4), "Lugano": (x[:8], [0] * 8)}
    federation = Federation.from_clients(clients, test=(x[:2], [0, 1]))
    found = advise(federation, **QUICK).findings
    assert (found.clients, found.samples, found.cohort) == (3, 60, 1)
    assert [(one.name, one.held_by) for one in found.classes] == [
        ("1", ("Basel", "Chur")),
        ("0", ("Basel", "Chur", "Lugano")),
    ]


@pytest.mark.parametrize(
    ("wrong", "error", "words"),
    [
        ({"cohort": 0}, ConfigError, "cohort = 0: 2 clients hold samples; choose from 1 to 2"),
        ({"cohort": 3}, ConfigError, "choose from 1 to 2"),
        ({"rounds": 0}, ConfigError, "rounds = 0: at least 1"),
        ({"seeds": 0}, ConfigError, "seeds = 0: at least 1"),
        ({"buffers": (1.5,)}, ConfigError, "buffer = 1.5: it is a share of the clients"),
        ({"epsilons": (0.0,)}, ConfigError, "epsilon = 0.0: it must be a finite number above 0"),
        ({"classes": ["a"]}, DataError, "1 names for 2"),
    ],
)
def test_what_cannot_be(wrong, error, words):
    with pytest.raises(error, match=words):
        advise([[3, 1], [1, 3], [0, 0]], **{**QUICK, **wrong})


def test_on_the_command_line(go, tmp_path):
    code, out, err = go("advise", "counts.csv", "--rounds", "5", "--seeds", "2", "--plot", "a.png")
    assert code == 0
    assert out.startswith("4 clients, 3 classes, 608 samples; cohorts of 2.")
    assert widest(out) <= WIDTH
    assert "Picture: a.png" in err
    assert (tmp_path / "a.png").read_bytes().startswith(b"\x89PNG")
    code, out, _ = go("advise", "counts.csv", "--rounds", "5", "--cohort", "3", "--json")
    assert (code, json.loads(out)["findings"]["cohort"]) == (0, 3)
    code, out, _ = go("advise", "counts.csv", "--rounds", "5", "--epsilon", "2", "--buffer", "0.25", "--json")
    found = json.loads(out)["findings"]
    assert [one["epsilon"] for one in found["noise"]] == [2]
    assert {one["title"] for one in found["selectors"]} == {
        *("random", "kl", "class_balanced", "stratified", "fedentopt, buffer 25%")
    }


def test_the_same_defaults_from_python_and_on_the_command_line():
    there, here = (signature(function).parameters for function in (command, advise))
    for name, other in {"rounds": "rounds", "seeds": "seeds", "buffer": "buffers", "epsilon": "epsilons"}.items():
        assert there[name].default == here[other].default


def test_an_experiment_file(go, tmp_path):
    experiment = Path(__file__).parents[2] / "examples" / "digits.toml"
    code, out, _ = go("advise", str(experiment), "--rounds", "5", "--seeds", "2")
    assert code == 0
    assert out.startswith("30 clients, 10 classes,")
    assert "cohorts of 5" in out
    (tmp_path / "peers.toml").write_text(
        'rounds = 1\nmodel = "digits_mlp"\n[data]\nclients = 6\n[topology]\nkind = "ring"\n'
    )
    code, out, _ = go("advise", "peers.toml")
    assert code == 0
    assert "cohorts of 6" in out
    assert "All clients take part in every round" in out


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (("advise",), 2, "FILE is missing"),
        (("advise", "nowhere.csv"), 3, "nowhere.csv: there is no such file"),
        (("advise", "nowhere.toml"), 2, "nowhere.toml"),
        (("advise", "counts.txt"), 2, "are read from .csv, .tsv, .parquet, .json files"),
        (("advise", "counts.csv", "--cohort", "9"), 2, "4 clients hold samples; choose from 1 to 4"),
        (("advise", "counts.csv", "--client", "town"), 2, "unknown column of counts.csv: 'town'"),
        (("advise", "counts.csv", "--rounds", "2", "--plot", "a.gif"), 2, "pictures are written as"),
        (("study", "selection", "--counts", "nowhere.csv"), 3, "there is no such file"),
        (("study", "selection", "--counts", "counts.csv"), 2, "cohort = 10: 4 clients hold samples"),
        (("study", "selection", "--counts", "counts.csv", "--clients", "4"), 2, "--clients is for partitions"),
        (("study", "selection", "--client", "town"), 2, "--client names a column of the file of --counts"),
    ],
)
def test_errors(go, words, code, said):
    found, _, err = go(*words)
    assert found == code
    assert said in err.replace("\n", " ")
    assert "Traceback" not in err
