"""The command line, called as a user calls it, but in this process."""

import csv
import io
import json
import re
import shlex
import statistics
import subprocess
import sys
import tomllib
import urllib.error
import urllib.request
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from rich.console import Console
from tests.cli.calls import IRIS, Go

from entrofed import __version__
from entrofed.cli import console as terminal
from entrofed.cli import doctor, quickstart
from entrofed.cli.main import main
from entrofed.cli.tables.cells import sparkline
from entrofed.core.records import RoundRecord
from entrofed.data.catalog import CATALOG
from entrofed.data.sources import files
from entrofed.errors import ConfigError, DataError, QuorumError
from entrofed.experiment.config import Experiment, parse, read
from entrofed.experiment.run_folder import RunFolder
from entrofed.experiment.summary import diverged
from entrofed.methods import METHODS
from entrofed.privacy.secure import runs_secure
from entrofed.registry import PART_KINDS, known
from entrofed.suite import play


def records(folder: str) -> list[dict[str, Any]]:
    """What was recorded, without what a clock said."""
    lines = [json.loads(line) for line in Path(folder, "metrics.jsonl").read_text().splitlines()]
    return [{key: value for key, value in line.items() if key not in ("seconds", "digest")} for line in lines]


def summary(folder: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(Path(folder, "summary.json").read_text())
    return found


def row(text: str, first: str) -> list[str]:
    """The cells of the table row that starts with ``first``."""
    rows = [[cell.strip() for cell in line.split("│")[1:-1]] for line in text.splitlines()]
    return next(cells for cells in rows if cells and cells[0] == first)


def line(text: str, first: str) -> str:
    """The line that starts with ``first``."""
    return next(each for each in text.splitlines() if each.split()[:1] == [first])


# Runs


def test_run(go: Go) -> None:
    code, out, err = go("run", "iris.toml")
    assert (code, err) == (0, "")
    accuracy = summary("runs/iris/seed-0")["accuracy"]
    assert f"iris/seed-0: accuracy {accuracy:.4f} after 2 rounds" in out
    assert "entrofed show runs/iris" in out
    assert len(records("runs/iris/seed-0")) == 2


def test_as_a_module(tmp_path: Path) -> None:
    """``python -m entrofed``, and what it says to do next works where the command is not on the path."""
    (tmp_path / "iris.toml").write_text(IRIS)
    words, env = [sys.executable, "-m", "entrofed", "run", "iris.toml"], {"PATH": "", "COLUMNS": "300"}
    done = subprocess.run(words, cwd=tmp_path, env=env, capture_output=True, text=True, check=True)
    command = shlex.split(done.stdout.split("Next: ")[1].splitlines()[0])
    shown = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)
    assert "iris" in shown.stdout


def test_a_second_run_wants_to_know(go: Go) -> None:
    go("run", "iris.toml")
    before = records("runs/iris/seed-0")
    code, _, err = go("run", "iris.toml")
    assert code == 2
    assert "runs/iris/seed-0" in err
    assert "--resume" in err
    assert "--overwrite" in err
    assert go("run", "iris.toml", "--resume", "--overwrite").code == 2
    assert records("runs/iris/seed-0") == before


def test_overwrite_starts_anew(go: Go) -> None:
    go("run", "iris.toml")
    before = records("runs/iris/seed-0")
    Path("runs/iris/seed-0/leftover").touch()
    assert go("run", "iris.toml", "--overwrite", "--set", "method.lr=0.5").code == 0
    assert not Path("runs/iris/seed-0/leftover").exists()
    assert records("runs/iris/seed-0") != before
    assert go("run", "iris.toml", "--overwrite").code == 0
    assert records("runs/iris/seed-0") == before


def test_resume_goes_on_as_if_unbroken(go: Go) -> None:
    assert go("run", "iris.toml", "--set", "rounds=4", "--set", "name=whole").code == 0
    assert go("run", "iris.toml", "--set", "name=parts").code == 0
    code, out, _ = go("run", "iris.toml", "--set", "name=parts", "--set", "rounds=4", "--resume")
    assert code == 0
    assert "round 2/4" not in out
    assert "round 3/4" in out
    assert records("runs/parts/seed-0") == records("runs/whole/seed-0")
    finished = records("runs/parts/seed-0")
    assert go("resume", "runs/parts").code == 0
    assert records("runs/parts/seed-0") == finished


def test_resume_with_another_setting_is_refused(go: Go) -> None:
    go("run", "iris.toml")
    code, _, err = go("run", "iris.toml", "--resume", "--set", "method.lr=0.5", "--set", "method.epochs=2")
    assert code == 2
    assert "method.lr" in err
    assert "method.epochs" in err


def test_nothing_to_resume(go: Go) -> None:
    Path("empty").mkdir()
    assert "there is no run here" in go("resume", "empty").err
    assert go("resume", "empty").code == go("resume", "nowhere").code == go("show", "empty").code == 2


def test_seeds_count_up(go: Go) -> None:
    assert go("run", "iris.toml", "--seeds", "2", "--set", "seed=5", "--out", "here").code == 0
    assert sorted(path.name for path in Path("here/iris").iterdir()) == ["seed-5", "seed-6"]
    assert records("here/iris/seed-5") != records("here/iris/seed-6")
    assert go("run", "iris.toml", "--seeds", "0").code == 2


# Views


@pytest.fixture
def two_seeds(go: Go) -> list[dict[str, Any]]:
    assert go("run", "iris.toml", "--seeds", "2").code == 0
    return [summary("runs/iris/seed-0"), summary("runs/iris/seed-1")]


def test_ls(go: Go, two_seeds: list[dict[str, Any]]) -> None:
    code, out, _ = go("ls")
    assert code == 0
    for seed, expected in enumerate(two_seeds):
        accuracies = [f"{expected['accuracy']:.4f}", f"{expected['accuracy_best']:.4f}"]
        assert line(out, f"iris/seed-{seed}").split() == [f"iris/seed-{seed}", "iris", "fedavg", "2/2", *accuracies]
    Path("runs/iris/seed-1/summary.json").unlink()
    assert " 2/2 unfinished " in line(go("ls", "runs/iris").out, "iris/seed-1")
    code, _, err = go("ls", "elsewhere")
    assert (code, "elsewhere: there is no such folder of runs" in err) == (2, True)


def test_ls_and_show_at_80_columns(go: Go, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is cut, and of two runs with one name it is said where each is."""
    long = "partition-dirichlet_balanced"
    for out in ("runs", "runs/other"):
        settings = ("--set", f"name={long}", "--set", "method.name=fedavg_uniform")
        assert go("run", "iris.toml", "--out", out, *settings).code == 0
    monkeypatch.setattr(terminal, "console", Console(width=80))
    listed, shown = go("ls").out, go("show", f"runs/{long}/seed-0").out
    for text in (listed, shown):
        assert "…" not in text
        assert max(map(len, text.splitlines())) <= 80
    assert "fedavg_uniform" in listed
    (column,) = re.findall(r"^ run +", listed, re.MULTILINE)
    assert f"other/{long}/seed-0" in "".join(each[: len(column)].strip() for each in listed.splitlines())
    assert all(word in shown for word in ("effective", "entropy", "accuracy", "refused"))


def test_show(go: Go, two_seeds: list[dict[str, Any]]) -> None:
    code, out, _ = go("show", "runs/iris/seed-0")
    assert code == 0
    assert "iris, iid, seed 0" in out
    assert "fedavg: random, data_size, cross_entropy, average" in out
    for record in records("runs/iris/seed-0"):
        cells = line(out, str(record["round"] + 1)).split()
        assert cells[1] == "2"
        assert cells[6] == f"{record['test']['accuracy']:.4f}"
    assert f"accuracy {two_seeds[0]['accuracy']:.4f} (mean of last 10" in out
    assert "iris/seed-1" not in out
    assert "iris/seed-1" in go("show", "runs").out


def test_show_thins_out_long_runs(go: Go) -> None:
    go("run", "iris.toml", "--set", "rounds=30")
    out = go("show", "runs").out
    shown = [int(cells) for cells in re.findall(r"^ +(\d+) ", out, re.MULTILINE)]
    assert shown[0] == 1
    assert shown[-1] == 30
    assert len(shown) <= 12


def test_compare(go: Go, two_seeds: list[dict[str, Any]]) -> None:
    expected = {}
    for key in ("accuracy", "accuracy_last_10", "accuracy_best", "macro_f1"):
        a, b = (found[key] for found in two_seeds)
        expected[f"{key}_mean"] = (a + b) / 2
        expected[f"{key}_std"] = abs(a - b) / 2**0.5
    (found,) = json.loads(go("compare", "runs", "--json").out)["experiments"]
    assert [found.get(key) for key in ("experiment", "seeds", "rounds")] == ["iris", 2, 2]
    assert list(found)[3:] == list(expected)
    assert {key: found[key] for key in expected} == pytest.approx(expected, rel=1e-12)
    (cells,) = csv.DictReader(io.StringIO(go("compare", "runs", "--csv").out))
    assert {key: str(value) for key, value in found.items()} == cells
    head, line, body = go("compare", "runs", "--md").out.splitlines()
    assert [cell.strip() for cell in head.strip("|").split("|")] == [
        *("experiment", "seeds", "rounds"),
        *("accuracy %", "last 10 %", "best %", "macro F1 %"),
    ]
    assert set(line) == set("| -")
    accuracy = f"{100 * found['accuracy_mean']:.2f} ± {100 * found['accuracy_std']:.2f}"
    assert [cell.strip() for cell in body.strip("|").split("|")][:4] == ["iris", "2", "2", accuracy]
    rounded = f"{100 * found['accuracy_mean']:.1f} ± {100 * found['accuracy_std']:.1f}"
    assert row(go("compare", "runs").out, "iris")[3] == rounded


def test_compare_counts_a_run_once(go: Go, two_seeds: list[dict[str, Any]]) -> None:
    (found,) = json.loads(go("compare", "runs", "runs/iris", "--json").out)["experiments"]
    assert found["seeds"] == 2
    spread = statistics.stdev(outcome["accuracy"] for outcome in two_seeds)
    assert found["accuracy_std"] == pytest.approx(spread, rel=1e-12)


def test_compare_several_with_one_seed(go: Go) -> None:
    for name in ("b", "a"):
        go("run", "iris.toml", "--set", f"name={name}")
    rows = json.loads(go("compare", "runs/b", "runs/a", "--json").out)["experiments"]
    assert [found["experiment"] for found in rows] == ["a", "b"]
    assert {found["accuracy_std"] for found in rows} == {None}
    cells = list(csv.DictReader(io.StringIO(go("compare", "runs", "--csv").out)))
    assert [found["accuracy_std"] for found in cells] == ["", ""]
    assert "±" not in go("compare", "runs", "--md").out


def test_compare_wants_finished_runs(go: Go, two_seeds: list[dict[str, Any]]) -> None:
    Path("runs/iris/seed-1/summary.json").unlink()
    code, _, err = go("compare", "runs")
    assert (code, "not finished yet: iris/seed-1" in err) == (2, True)
    Path("empty").mkdir()
    assert go("compare", "empty").code == 2


def test_sparkline() -> None:
    assert sparkline([0, 0.124, 0.126, 0.999, 1]) == "▁▁▂██"
    assert len(sparkline([0.5] * 601)) == 55  # every eleventh


# Checks


def test_validate(go: Go) -> None:
    code, out, _ = go("validate", "iris.toml", "--plot", "who.png", "--set", "method.lr=0.5")
    assert code == 0
    assert Path("who.png").read_bytes().startswith(b"\x89PNG\r\n\x1a\n")
    assert out.splitlines()[-1] == "valid"
    assert row(out, "3") == ["3", "3", "2", "30, 30.0, 30", "3, 3.00, 3"]
    assert not Path("runs").exists()


def test_validate_prints_a_file_that_can_be_used(go: Go, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(terminal, "console", Console(width=30))
    name = "name=" + "a-rather-long-name-" * 5
    out = go("validate", "iris.toml", "--set", name).out
    assert parse(tomllib.loads(out[: out.index("┏")])) == read(Path("iris.toml"), [name])


def test_validate_finds_faults(go: Go) -> None:
    assert go("validate", "iris.toml", "--set", "data.clients=0").code == 2
    assert go("validate", "iris.toml", "--set", "data.clients=91").code == 2
    assert go("validate", "nofile.toml").code == 2
    code, _, err = go("validate", "iris.toml", "--plot", "who.gif")
    assert code == 2
    assert ".png, .svg, .json" in err


def test_doctor(go: Go) -> None:
    code, out, _ = go("doctor")
    assert code == 0
    lines = out.splitlines()
    assert [line.split()[:2] for line in lines] == [["ok", f"{name}:"] for name in doctor.CHECKS]
    assert "digits, iris" in lines[-1]
    assert "mnist" not in lines[-1]
    assert sorted(path.name for path in Path().iterdir()) == ["iris.toml"]


def test_doctor_tells_which_extras_are_there(go: Go, monkeypatch: pytest.MonkeyPatch) -> None:
    lines = ["numpy>=2", "numba>=0.61; extra == 'fast'", "alembic>=1; extra == 'mlflow'", "pytest>=8; extra == 'dev'"]
    found = SimpleNamespace(name="Numba"), SimpleNamespace(name="mlflow_skinny")
    monkeypatch.setattr(doctor, "requires", lambda _: lines)
    monkeypatch.setattr(doctor, "distributions", lambda: found)
    assert "extras: fast installed; pip install 'entrofed[NAME]' gets others: mlflow\n" in go("doctor").out


def test_compiling_needs_a_compiler(go: Go, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CXX", "c++-that-is-not-here")
    code, _, err = go("run", "iris.toml", "--set", "engine.compile=true")
    assert code == 2
    assert "engine.compile needs a C++ compiler, and there is no 'c++-that-is-not-here'; install one" in err
    assert "compiler: no c++-that-is-not-here: engine.compile cannot be used\n" in go("doctor").out


def test_doctor_finds_what_is_wrong(go: Go, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(_: Path) -> str:
        raise OSError("no [/dev/shm] here")

    monkeypatch.setitem(doctor.CHECKS, "workers", broken)
    code, out, err = go("doctor")
    assert code == 1
    assert "failed  workers: no [/dev/shm] here" in out
    assert out.count("ok ") == len(doctor.CHECKS) - 1
    assert err.startswith("error: ")


def test_brackets_in_paths_are_no_markup(go: Go) -> None:
    assert "[/red]/[b]: digits" in go("doctor", "--data-dir", "[/red]/[b]").out
    assert "[/red]/mnist" in go("data", "verify", "--data-dir", "[/red]").out


def test_parts(go: Go, monkeypatch: pytest.MonkeyPatch) -> None:
    """At 80 columns no name is cut: it is what one must type; and no Sphinx markup is shown."""
    monkeypatch.setattr(terminal, "console", Console(width=80))
    code, out, _ = go("parts")
    assert code == 0
    for kind in (*PART_KINDS, "model", "fact"):
        for name in known(kind):
            assert row(out, name)
    assert row(out, "dirichlet_balanced")
    assert row(out, "ring")
    assert "`" not in out
    for name, recipe in METHODS.items():
        assert row(out, name)[1].startswith(f"{recipe().selector.name}, ")
    assert all(len(line) <= 80 for line in out.splitlines())


def test_one_part_or_one_kind(go: Go) -> None:
    assert row(go("parts", "partitions").out, "iid")
    one = go("parts", "fedentopt").out
    assert "fedentopt (method)" in one
    assert "fedentopt (selector)" in one
    assert "buffer" in one
    code, _, err = go("parts", "fedentop")
    assert (code, "did you mean 'fedentopt'" in err) == (2, True)
    found = {(part["kind"], part["name"]): part for part in json.loads(go("parts", "--json").out)["parts"]}
    assert found["method", "fedavg"]["secure"] is runs_secure(METHODS["fedavg"]())
    assert found["partition", "dirichlet_balanced"]["needed"] == ["alpha"]
    assert json.loads(go("parts", "mlp", "--json").out)["parts"][0]["kind"] == "model"


def test_keys_are_explained(go: Go) -> None:
    assert "learning rate" in go("explain", "method.lr").out
    assert "method.lr" in go("explain", "lr").out
    (found,) = json.loads(go("explain", "method.lr", "--json").out)["keys"]
    assert (found["default"], found["type"]) == (0.01, "number > 0")
    assert len(json.loads(go("explain", "data", "--json").out)["keys"]) > 10
    assert go("explain", "method.lrr").code == 2
    schema = json.loads(go("explain", "--schema").out)
    assert "learning rate" in schema["$defs"]["MethodSection"]["properties"]["lr"]["description"]
    assert "given" not in schema["properties"]
    assert "--debug" in go("--help").out


# Data


def test_data_list(go: Go) -> None:
    code, out, _ = go("data", "list")
    assert code == 0
    for name, entry in CATALOG.items():
        assert row(out, name)[2] == str(entry.classes)
    assert [row(out, name)[4] for name in ("digits", "iris", "mnist")] == ["yes", "yes", "no"]


def test_data_verify(go: Go) -> None:
    code, out, _ = go("data", "verify")
    assert code == 0
    assert re.search(r"^iris  .*iris\.csv  ok$", out, re.MULTILINE)
    assert re.search(r"^mnist  .*  missing$", out, re.MULTILINE)
    assert go("data", "verify", "iris").code == 0
    code, _, err = go("data", "verify", "mnist")
    assert (code, "data fetch" in err) == (3, True)
    path = Path("spoiled", files("mnist/")[0].path)
    path.parent.mkdir(parents=True)
    path.write_bytes(b"nonsense")
    code, out, err = go("data", "verify", "--data-dir", "spoiled")
    assert code == 3
    assert f"mnist  {path}  damaged" in out
    assert str(path) in err


def test_data_fetch(go: Go, monkeypatch: pytest.MonkeyPatch) -> None:
    def unreachable(*_: Any, **__: Any) -> None:
        raise urllib.error.URLError("no network")

    monkeypatch.setattr(urllib.request, "urlopen", unreachable)
    code, out, _ = go("data", "fetch", "iris")
    assert (code, "iris is complete" in out) == (0, True)
    code, _, err = go("data", "fetch", "mnist")
    assert code == 3
    assert "no network" in err
    code, _, err = go("data", "fetch", "irs")
    assert (code, "did you mean 'iris'?" in err) == (2, True)


# What goes wrong


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["rnu"], 'Did you mean "run"?'),
        (["run"], "entrofed run: FILE is missing. 'entrofed run --help' shows what it takes"),
        (["report", "-o", "page.html"], "entrofed report: RUNS is missing"),
        (["run", "iris.toml", "other.toml"], "'other.toml' is not expected"),
        (["run", "iris.toml", "--speed", "3"], "--speed"),
        (["run", "iris.toml", "--seeds", "many"], "many"),
        (["data", "lits"], "list"),
    ],
)
def test_usage(go: Go, words: list[str], said: str) -> None:
    code, _, err = go(*words)
    assert code == 2
    assert said in err
    assert "Traceback" not in err


def test_usage_errors_are_not_cut_off(go: Go) -> None:
    assert 'error: Unknown command "rnu". Did you mean "run"? Available commands: ' in go("rnu").err


def test_unknown_keys(go: Go) -> None:
    code, out, err = go("run", "iris.toml", "--set", "method.lrr=1")
    assert (code, out) == (2, "")
    assert err.startswith("error: iris.toml: unknown key 'method.lrr'")
    assert "did you mean 'lr'?" in err
    assert not Path("runs").exists()


MNIST = ("run", "iris.toml", "--set", "data.name=mnist", "--set", "model=mlp")


def test_missing_data(go: Go) -> None:
    code, _, err = go(*MNIST, "--data-dir", "elsewhere")
    assert code == 3
    assert "mnist is not in elsewhere" in err
    assert "from https://" in err


DIVERGE = ("run", "iris.toml", "--set", "method.lr=1e30", "--set", "method.max_skipped=2", "--set", "rounds=5")


def test_too_few_usable_updates(go: Go) -> None:
    code, out, err = go(*DIVERGE)
    assert code == 4
    assert "2 refused" in out
    assert "iris/seed-0: 2 rounds in a row had fewer than 1 usable updates" in err
    found = records("runs/iris/seed-0")
    assert [record["skipped"] for record in found] == [True, True]
    assert found[0]["test"] == found[1]["test"]  # the model stayed as it was
    reasons = {refusal["reason"] for record in found for refusal in record["refused"]}
    assert all(re.fullmatch(r"\d+ non-finite parameters", reason) for reason in reasons)
    assert "non-finite parameters" in Path("runs/iris/seed-0/log.txt").read_text()
    assert go("resume", "runs").code == 4
    assert not Path("runs/iris/seed-0/summary.json").exists()


def test_raise_stops_at_once(go: Go) -> None:
    code, _, err = go(*DIVERGE, "--set", "method.nonfinite=raise")
    assert code == 1
    assert "non-finite parameters" in err


@pytest.mark.parametrize(
    ("words", "kind"),
    [
        (("run", "nofile.toml"), ConfigError),
        ((*MNIST,), DataError),
        ((*DIVERGE,), QuorumError),
    ],
)
@pytest.mark.usefixtures("go")
def test_debug_lets_the_exception_through(words: tuple[str, ...], kind: type[Exception]) -> None:
    with pytest.raises(kind):
        main([*words, "--debug"])


def failing(error: BaseException) -> Callable[..., Any]:
    def fail(*_: Any, **__: Any) -> None:
        raise error

    return fail


def test_interrupted(go: Go, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(play, "run", failing(KeyboardInterrupt()))
    code, _, err = go("run", "iris.toml")
    assert (code, "continue with --resume" in err) == (130, True)


def test_a_bug(go: Go, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(play, "run", failing(ZeroDivisionError("by [zero]")))
    code, _, err = go("run", "iris.toml")
    assert code == 1
    assert "unexpected ZeroDivisionError: by [zero]" in err
    assert "--debug" in err
    with pytest.raises(ZeroDivisionError):
        main(["run", "iris.toml", "--overwrite", "--debug"])


def test_arguments_of_the_process(go: Go, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(sys, "argv", ["entrofed", "--version"])
    with pytest.raises(SystemExit) as caught:
        main()
    assert caught.value.code == 0
    assert capsys.readouterr().out.strip() == __version__


# Colours

COLOUR = re.compile(r"\x1b\[(\d+;)*(3[0-8]|4[0-8]|9[0-7]|10[0-7])[;m]")
COMMANDS = [("validate", "iris.toml"), ("doctor",), ("parts",), ("data", "list"), ("run", "nofile.toml")]


@pytest.mark.parametrize("command", COMMANDS)
def test_no_escape_codes_where_there_is_no_terminal(go: Go, command: tuple[str, ...]) -> None:
    _, out, err = go(*command)
    assert "\x1b" not in out + err


def in_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    """Consoles that take their surroundings for a terminal with colours."""
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setattr(terminal, "console", Console(force_terminal=True))
    monkeypatch.setattr(terminal, "errors", Console(force_terminal=True, stderr=True))


def test_a_terminal_gets_colours_unless_told_otherwise(go: Go, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    in_a_terminal(monkeypatch)
    assert COLOUR.search(go("doctor").out)
    assert COLOUR.search(go("run", "nofile.toml").err)
    monkeypatch.setenv("NO_COLOR", "1")
    in_a_terminal(monkeypatch)
    for command in COMMANDS:
        _, out, err = go(*command)
        assert not COLOUR.search(out + err)


# Quickstart


@pytest.fixture
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    make = quickstart.experiment

    def inline(method: str, seed: int) -> Experiment:
        return parse({**make(method, seed).model_dump(exclude_unset=True), "engine": {"backend": "inline"}})

    monkeypatch.setattr(quickstart, "ROUNDS", 2)
    monkeypatch.setattr(quickstart, "experiment", inline)


@pytest.mark.usefixtures("short")
@pytest.mark.slow
def test_quickstart(go: Go) -> None:
    code, out, _ = go("quickstart", "--seeds", "1", "--all")
    assert code == 0
    assert set(quickstart.SHOWN) < set(METHODS)
    for method in METHODS:
        assert row(out, method)[1:3] == ["1", "2"]
        assert len(records(f"runs/quickstart/{method}/seed-0")) == 2
    assert Path("runs/quickstart/report.html").stat().st_size > 100_000


@pytest.mark.usefixtures("short")
@pytest.mark.slow
def test_quickstart_again(go: Go, monkeypatch: pytest.MonkeyPatch) -> None:
    """What earlier ones left does not count."""
    few = quickstart.SHOWN[:2]
    monkeypatch.setattr(quickstart, "SHOWN", few)
    monkeypatch.setattr("sys.argv", [".venv/bin/entrofed"])
    monkeypatch.setattr(terminal, "console", Console(width=80))
    for seeds, path in (("2", None), ("1", "/usr/bin/entrofed")):
        monkeypatch.setattr("shutil.which", lambda _, path=path: path)
        code, out, _ = go("quickstart", "--seeds", seeds)
        assert code == 0
        command = "entrofed" if path else ".venv/bin/entrofed"  # what can be typed here, in one line
        assert f"Next: {command} show runs/quickstart/{few[0]}, or {command} parts\n" in out
        for method in few:
            assert row(out, method)[1:3] == [seeds, "2"]
        Path(f"runs/quickstart/{few[0]}/seed-0/summary.json").unlink()
    assert go("quickstart", "--seeds", "0").code == 2


def test_the_quickstart_is_an_experiment_that_can_be_run() -> None:
    for method in METHODS:
        made = quickstart.experiment(method, 3)
        assert (made.name, made.method.name, made.seed) == (method, method, 3)
        assert CATALOG[made.data.name].files == ()  # nothing to download


def test_show_weights(go: Go, tmp_path: Path) -> None:
    methods = ("method.name=inv_entropy", "method.weigher={name='capped', share=0.6}")
    assert go("run", "iris.toml", *(word for setting in methods for word in ("--set", setting))).code == 0
    shown = go("show", "runs/iris", "--weights", "--plot", "weights.png")
    assert shown.code == 0
    assert "prediction entropy bits" in shown.out
    assert "uncapped" in shown.out
    assert "x equal share" in shown.out
    assert (tmp_path / "weights.png").read_bytes().startswith(b"\x89PNG")
    assert go("show", "runs/iris", "--weights", "--plot", "weights.json").code == 0
    chart = json.loads((tmp_path / "weights.json").read_text())
    cells = chart["datasets"][chart["vconcat"][0]["data"]["name"]]
    assert len(cells) == 4  # two rounds of two clients
    assert sum(cell["weight"] for cell in cells) == pytest.approx(2)


def test_show_weights_without_origins(go: Go) -> None:
    assert go("run", "iris.toml", "--set", "method.weigher=uniform").code == 0
    shown = go("show", "runs/iris", "--weights")
    assert shown.code == 0
    assert shown.out.count("│ 0.5000 │ 1.000   │") == 4


def test_show_peers(go: Go, tmp_path: Path) -> None:
    assert go("run", "iris.toml", "--set", "topology.kind=line", "--set", "method.name=fedep").code == 0
    shown = go("show", "runs/iris", "--peers", "--plot", "mixing.png")
    assert shown.code == 0
    assert "distance to consensus" in shown.out
    assert "peers after round 2" in shown.out
    assert (tmp_path / "mixing.png").read_bytes().startswith(b"\x89PNG")
    assert go("run", "iris.toml", "--set", "name=central").code == 0
    refused = go("show", "runs/central", "--peers")
    assert (refused.code, refused.out) == (2, "")
    assert "it needs a [topology]" in refused.err


def test_validate_a_topology(go: Go, tmp_path: Path) -> None:
    settings = ("--set", "topology.kind=star")
    shown = go("validate", "iris.toml", *settings, "--plot", "graph.png")
    assert shown.code == 0
    assert "3 peers, 2 edges (1 to 2 a peer), connected" in shown.out
    assert (tmp_path / "graph.png").read_bytes().startswith(b"\x89PNG")


def test_compare_in_pairs(go: Go) -> None:
    for name, weigher in (("plain", "data_size"), ("equal", "uniform")):
        assert (
            go("run", "iris.toml", "--set", f"method.weigher={weigher}", "--set", f"name={name}", "--seeds", "3").code
            == 0
        )
    shown = go("compare", "runs", "--against", "plain")
    assert shown.code == 0
    assert "against plain" in shown.out
    assert "after Holm" in shown.out
    assert "equal" in shown.out.split("against plain")[1]
    wrong = go("compare", "runs", "--against", "plane")
    assert wrong.code == 2
    assert "did you mean 'plain'" in wrong.err


def test_papers_tables_are_listed(go: Go) -> None:
    shown = go("papers")
    assert shown.code == 0
    assert "fedentopt/table1" in shown.out
    one = go("papers", "fedentopt/table1")
    assert one.code == 0
    assert "cifar10-dir0.1" in one.out
    assert "52.80" in one.out
    picture = go("papers", "fedentopt/fig3")  # which has no numbers
    assert picture.code == 0
    assert "cifar100-c2-9" in picture.out
    assert go("papers", "fedentopt/table9").code == 2


def test_sweep_resumes_and_compares(go: Go) -> None:
    words = ("sweep", "iris.toml", "--grid", "method.name=fedavg,fedavg_uniform", "--grid", "method.lr=0.1,0.01")
    code, out, _ = go(*words)
    assert code == 0
    assert "4 runs, 0 of them finished already" in out
    assert "name-fedavg_uniform+lr-0.01" in out
    assert records("runs/iris-sweep/name-fedavg+lr-0.1/seed-0")[0]["lr"] == 0.1
    assert "4 runs, 4 of them finished already" in go(*words).out
    assert go("run", "iris.toml").code == 0
    rows = json.loads(go("compare", "runs/iris", "--json").out)["experiments"]
    assert [entry["experiment"] for entry in rows] == ["iris"]


@pytest.mark.slow
def test_sweep_plays_as_many_at_once_as_pay(go: Go) -> None:
    words = ("sweep", "iris.toml", "--grid", "method.lr=0.1,0.01", "--set", "engine.workers=2")
    backend = ("--set", "engine.backend=auto")
    code, out, _ = go(*words, *backend, "--set", "name=a")
    assert (code, "2 runs, 0 of them finished already; 2 at once (--jobs)" in out) == (0, True)
    assert "at once" not in go(*words, *backend, "--set", "name=b", "--jobs", "1").out
    assert "at once" not in go(*words, "--set", "name=c").out, "inline is one process"
    for rate in ("0.1", "0.01"):
        assert records(f"runs/a-sweep/lr-{rate}/seed-0") == records(f"runs/b-sweep/lr-{rate}/seed-0")


def test_a_setting_can_be_taken_away(go: Go) -> None:
    Path("iris.toml").write_text(IRIS.replace("clients = 3", 'clients = 3\npartition = "dirichlet_plain"\nalpha = 5.0'))
    code, out, err = go("validate", "iris.toml", "--set", "data.partition=iid")
    assert (code, err, "alpha =" in out) == (0, "", False), "what the file says of the former choice is left behind"
    code, _, err = go("validate", "iris.toml", "--set", "data.partition=iid", "--set", "data.alpha=1")
    assert (code, "data.alpha does not apply to partition 'iid'" in err) == (2, True)
    code, out, _ = go("validate", "iris.toml", "--unset", "method.batch_size")
    assert (code, "batch_size = 32" in out) == (0, True)
    assert go("validate", "iris.toml", "--unset", "data.alpha").code == 2
    code, _, err = go("run", "iris.toml", "--unset", "data.sigma")
    assert (code, "unset data.sigma: it is not set" in err) == (2, True)
    assert (
        go("sweep", "iris.toml", "--unset", "method.batch_size", "--grid", "data.partition=iid,dirichlet_plain").code
        == 0
    )


def test_sweep_needs_to_know_what(go: Go) -> None:
    code, _, err = go("sweep", "iris.toml")
    assert code == 2
    assert "--grid" in err
    assert go("sweep", "iris.toml", "--grid", "method.lr=0.1", "--tune", "method.lr=0.1..1").code == 2


def test_tune_says_what_to_run_next(go: Go) -> None:
    pytest.importorskip("optuna")
    code, out, _ = go(
        *("sweep", "iris.toml", "--tune", "method.lr=0.01..1 log", "--trials", "2", "--set", "data.holdout=0.2")
    )
    assert code == 0
    pattern = (
        r"Next: entrofed (run iris.toml --set data.holdout=0.2 --set method.lr=0\.\d+ --set name=iris-tuned --seeds 3)"
    )
    found = re.search(pattern, out)
    assert found is not None
    assert go(*shlex.split(found[1])).code == 0


def test_a_sweep_does_not_show_what_was_played_with_other_settings(go: Go) -> None:
    words = ("sweep", "iris.toml", "--grid", "method.lr=0.1", "--set")
    assert go(*words, "method.epochs=1").code == 0
    code, out, err = go(*words, "method.epochs=2")
    assert code == 2
    assert "accuracy" not in out
    assert "changed: method.epochs" in err
    assert "--overwrite" not in err  # a sweep has no such option
    assert go(*words, "method.epochs=2", "--set", "name=other").code == 0


def test_a_search_does_not_show_what_was_found_with_other_settings(go: Go) -> None:
    pytest.importorskip("optuna")
    words = ("sweep", "iris.toml", "--tune", "method.lr=0.01..1 log", "--trials", "1", "--set", "data.holdout=0.2")
    assert go(*words, "--set", "method.epochs=1").code == 0
    code, out, err = go(*words, "--set", "method.epochs=2")
    assert code == 2
    assert "Next" not in out
    assert "changed: method.epochs" in err


def test_reproduce_plays_collects_and_writes_a_page(go: Go) -> None:
    words = ("inv_entropy/table8", "--cell", "iris", "--column", "FedAvg", "--column", "Entropy", "--rounds", "1")
    code, out, _ = go("reproduce", *words, "--seeds", "2", "--dry-run")
    assert (code, Path("runs").exists()) == (0, False)
    assert "4 runs, 0 of them finished already" in out
    code, out, _ = go("reproduce", *words, "--seeds", "2")
    assert code == 0
    assert "rests on 2 seeds" in out
    assert "90.00" in out  # the paper's
    assert "4 runs, 4 of them finished already" in go("reproduce", *words, "--seeds", "2").out
    assert go("reproduce", "collect").code == 0
    code, out, _ = go("reproduce", "page")
    assert code == 0
    assert "inv_entropy/fig5" not in out.replace("inv_entropy-fig5", "")
    assert "fedentopt/fig6: not drawn, nothing of it is stored; play 'entrofed reproduce fedentopt/fig5', then" in out
    assert "| Entropy |" in Path("docs/results.md").read_text()
    assert "fedentopt/table1" in go("reproduce", "list").out


def test_a_dry_run_names_what_is_stored(go: Go) -> None:
    """It would be played again; a run of another length is another."""
    words = ("inv_entropy/table8", "--cell", "iris", "--column", "FedAvg", "--seeds", "1")
    assert go("reproduce", *words, "--rounds", "2", "--out", "elsewhere").code == 0
    assert go("reproduce", "collect", "--out", "elsewhere", "--results", "kept").code == 0
    dry = ("reproduce", *words, "--dry-run", "--results", "kept")
    out = go(*dry, "--rounds", "2").out
    assert "1 runs, 0 of them finished already" in out
    assert "1 of the 1 left have their results in kept; they would be played again" in out
    assert "seed-0: 2 rounds, stored in kept" in out
    assert "kept" not in go(*dry, "--rounds", "3").out
    assert "kept" not in go(*dry, "--rounds", "2", "--out", "elsewhere").out  # finished here
    assert go("reproduce", *words, "--rounds", "2", "--results", "kept").code == 0
    assert Path("runs/papers/inv_entropy/table8/iris/FedAvg/seed-0/summary.json").exists()


def test_reproduce_skips_what_has_no_data(go: Go) -> None:
    code, out, err = go("reproduce", "fedklentropy/table2")
    assert code == 2
    assert "entrofed data fetch mnist" in out
    assert "the data of all is missing" in err
    assert go("reproduce", "fedep/table9").code == 2


def test_report_and_export(go: Go) -> None:
    assert go("run", "iris.toml", "--seeds", "2").code == 0
    code, out, _ = go("report", "runs", "-o", "page.html")
    assert code == 0
    assert "page.html" in out
    assert Path("page.html").read_text().startswith("<!doctype html>")
    # all are finished: it ends at once
    assert go("report", "runs", "--live", "--title", "Irises", "-o", "live.html").code == 0
    assert '"refresh":null' in Path("live.html").read_text()
    assert "<title>Irises</title>" in Path("live.html").read_text()
    code, out, _ = go("export", "runs", "--to", "csv", "-o", "out")
    assert code == 0
    assert len(Path("out/rounds.csv").read_text().splitlines()) == 1 + 2 * 2
    assert go("export", "runs", "--to", "xlsx").code == 2


DIGITS_THAT_GO_FAR = """
rounds = 5
model = "digits_mlp"
data = { name = "digits", partition = "dirichlet_balanced", clients = 30, alpha = 0.1, min_size = 5 }
method = { name = "fedavg", cohort = 5, epochs = 3, batch_size = 16, lr = 1e9, momentum = 0.9 }
"""


def test_keys_files_and_folders_that_are_not_there_are_told_once(go: Go) -> None:
    Path("iris.toml").write_text(IRIS)
    code, _, err = go("validate", "iris.toml", "--set", "nosuch.key=1")
    assert (code, err.count("nosuch"), "given" in err) == (2, 1, False)
    code, _, err = go("validate", ".")
    assert (code, "is a folder; an experiment is a file" in err) == (2, True)


def test_training_that_diverges_is_told_in_words(go: Go) -> None:
    Path("iris.toml").write_text(IRIS.replace("rounds = 2", "rounds = 8"))
    code, out, _ = go("run", "iris.toml", "--set", "method.lr=1e9", "--set", "name=lost", "--set", "rounds=2")
    words = "training diverges: parameters that are not finite in round 2; take a smaller method.lr (it was 1e+09)"
    assert (code, words in out, words in go("show", "runs/lost").out) == (0, True, True)
    code, _, err = go("run", "iris.toml", "--set", "method.lr=1e9", "--set", "name=given-up")
    assert code == 4
    words = "training diverges: parameters that are not finite in round 5; take a smaller method.lr"
    assert (words in err, words in go("show", "runs/given-up").out) == (True, True)
    Path("digits.toml").write_text(DIGITS_THAT_GO_FAR)
    code, out, err = go("run", "digits.toml")
    assert (code, "rounds in a row came to nothing" in err, "take a smaller method.lr (it was 1e+09)" in err) == (
        4,
        True,
        True,
    )
    assert "0000000000" not in out + err  # a loss of 35 digits
    assert go("run", "iris.toml", "--set", "name=fine", "--set", "rounds=1").code == 0
    assert "diverge" not in go("show", "runs/fine").out
    losing = RoundRecord(round=3, lr=0.5, train_loss=1.8e33)
    assert "a loss of 1.8e+33 in round 4; take a smaller method.lr (it was 0.5)" in (diverged(losing) or "")
    assert "a loss of 200 in round 4" in (diverged(replace(losing, train_loss=200.0)) or "")
    assert diverged(replace(losing, train_loss=12.0)) is None


def test_a_live_report_ends_with_a_run_that_was_given_up(go: Go) -> None:
    """It waited forever for a run that nobody plays."""
    assert go("run", "iris.toml").code == 0
    assert go(*DIVERGE, "--set", "name=lost").code == 4
    given_up = RunFolder(Path("runs/lost/seed-0"))
    code, out, _ = go("report", "runs", "--live", "--every", "0.01")
    assert code == 0
    assert "lost/seed-0 is not finished, and no process plays it" in out
    assert "Watching" not in out
    assert '"refresh":null' in Path("report.html").read_text().replace(" ", "")
    with given_up.claimed():
        assert given_up.is_held()
    assert not given_up.is_held()


def test_a_refused_experiment_leaves_nothing(go: Go) -> None:
    code, _, err = go("run", "iris.toml", "--set", "method.cohort=50")
    assert (code, "cohort" in err) == (2, True)
    assert not Path("runs").exists()


def test_a_budget_for_which_no_noise_is_enough_leaves_nothing(go: Go) -> None:
    """A cohort of two may be empty; 'validate' said that the experiment was valid."""
    private = ("privacy.updates.clip=1.0", "privacy.updates.epsilon=8.0", "method.selector=poisson")
    changes = [word for change in (*private, "method.weigher=uniform") for word in ("--set", change)]
    for command in ("validate", "run"):
        code, _, err = go(command, "iris.toml", *changes)
        assert (code, "Poisson sampling draws an empty cohort" in err) == (2, True), command
    assert not Path("runs").exists()


def test_a_report_wants_a_file(go: Go, two_seeds: list[dict[str, Any]]) -> None:
    code, _, err = go("report", "runs", "-o", "runs")
    assert (code, "that is a folder; name a file, such as runs/report.html" in err) == (2, True)
    code, out, _ = go("report", "runs", "--live")
    assert (code, "Watching" in out, "All runs are finished" in out) == (0, False, True)


def test_how_to_go_on_is_said_in_the_words_of_the_command(go: Go, monkeypatch: pytest.MonkeyPatch) -> None:
    def stop(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("entrofed.cli.progress.play", stop)
    assert "continue with --resume" in go("run", "iris.toml").err
    assert "the same command goes on" in go("sweep", "iris.toml", "--grid", "method.lr=0.1,1").err
