"""Folders that are damaged, replaced or prepared by somebody else: nothing is lost, nothing goes unseen."""

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from entrofed.cli import main
from entrofed.errors import CheckpointError, ConfigError
from entrofed.experiment.config import parse
from entrofed.experiment.manifest import read_listed, seal_holds, write_listed
from entrofed.experiment.model_file import model_facts
from entrofed.experiment.run_folder import REPLACED, RunFolder
from entrofed.experiment.runner import run


def experiment(**sections: Any) -> Any:
    data = {"name": "iris", "clients": 4, **sections.pop("data", {})}
    method = {"cohort": 3, "persist_optimizer": True, "momentum": 0.9, **sections.pop("method", {})}
    table = {"rounds": 3, "model": "iris_mlp", "data": data, "method": method, "engine": {"backend": "inline"}}
    return parse({**table, "name": "iris", "checkpoint_seconds": 0, **sections})


@pytest.fixture(scope="module")
def whole(tmp_path_factory: Any) -> Path:
    """A finished run, not to be changed."""
    path = tmp_path_factory.mktemp("whole") / "iris" / "seed-0"
    private = {"privacy": {"epsilon": 0.5, "simulate": True}, "method": {"name": "fedentopt"}}
    run(experiment(**private), RunFolder(path))
    return path


@pytest.fixture
def folder(whole: Path, tmp_path: Path) -> RunFolder:
    """A copy of it."""
    shutil.copytree(whole, tmp_path / "runs" / "iris" / "seed-0")
    return RunFolder(tmp_path / "runs" / "iris" / "seed-0")


def go(*words: str) -> int:
    with pytest.raises(SystemExit) as ended:
        main([str(word) for word in words])
    return int(ended.value.code or 0)


def flip(path: Path, place: int, bit: int = 1) -> None:
    raw = bytearray(path.read_bytes())
    raw[place % len(raw)] ^= bit
    path.write_bytes(raw)


def everything(folder: RunFolder) -> Any:
    """All that is read of a run."""
    released = folder.released()
    return (
        folder.experiment(),
        [record.to_json() for record in folder.records()],
        folder.summary(),
        folder.federation_facts(),
        folder.method(),
        None if released is None else (released.counts.tolist(), released.spent),
        model_facts(folder.path / "model.safetensors"),
    )


FILES = ["experiment.toml", "metrics.jsonl", "summary.json", "federation.json", "method.json", "released.json"]


@pytest.mark.parametrize("name", [*FILES, "model.safetensors", "manifest.json"])
def test_a_damaged_byte_never_goes_unseen(folder: RunFolder, whole: Path, name: str) -> None:
    """Of ``metrics.jsonl``, 54 of 226 damaged bytes gave other numbers without a word; of summaries, 66 of 275."""
    right, raw = everything(folder), (whole / name).read_bytes()
    rng = np.random.default_rng(3)
    seen = 0
    for place in rng.integers(len(raw), size=60).tolist():
        flip(folder.path / name, place, 1 << int(rng.integers(8)))
        try:
            assert everything(folder) == right
        except (CheckpointError, ConfigError):
            seen += 1
        (folder.path / name).write_bytes(raw)
    assert seen > 20 or name == "manifest.json"


def test_a_manifest_holds_whenever_the_process_dies(tmp_path: Path, monkeypatch: Any) -> None:
    path = tmp_path / "file"
    write_listed(path, "one")
    assert read_listed(path) == b"one"
    with monkeypatch.context() as patched:  # the manifest is written, the file is not
        from entrofed.experiment import manifest

        whole = manifest.write_whole
        patched.setattr(manifest, "write_whole", lambda to, raw: whole(to, raw) if to != path else None)
        write_listed(path, "two")
    assert read_listed(path) == b"one"
    write_listed(path, "three")
    assert read_listed(path) == b"three"
    path.write_text("one")
    with pytest.raises(CheckpointError, match="damaged or edited"):
        read_listed(path)


def test_lines_of_earlier_versions_are_read_as_they_are() -> None:
    assert seal_holds('{"round": 0}')


def test_one_flipped_byte_in_what_a_client_keeps(folder: RunFolder) -> None:
    """``resume`` began at round 0, cut off the records and ended with exit code 0."""
    for path in (folder.path / "memory").glob("*.safetensors"):
        flip(path, 100)
    before = (folder.path / "metrics.jsonl").read_bytes()
    assert go("resume", str(folder.path)) == 3
    assert (folder.path / "metrics.jsonl").read_bytes() == before
    assert go("resume", str(folder.path), "--from-scratch") == 0
    assert (folder.path / "metrics-1.jsonl").read_bytes() == before
    assert len(folder.records()) == 3


# --overwrite


def file_of(tmp_path: Path, **changes: Any) -> Path:
    from entrofed.experiment.config import to_toml

    path = tmp_path / "iris.toml"
    path.write_text(to_toml(experiment(**changes)))
    return path


def test_overwrite_validates_before_it_moves_anything(folder: RunFolder, tmp_path: Path) -> None:
    before = (folder.path / "metrics.jsonl").read_bytes()
    wrong = file_of(tmp_path, data={"clients": 89, "partition": "dirichlet_balanced", "alpha": 0.01, "max_tries": 1})
    assert go("run", str(wrong), "--out", str(tmp_path / "runs"), "--overwrite") != 0
    assert (folder.path / "metrics.jsonl").read_bytes() == before


def test_overwrite_keeps_its_hands_off_a_run_that_goes_on(folder: RunFolder, tmp_path: Path) -> None:
    before = sorted(folder.path.iterdir())
    with folder.claimed():
        assert go("run", str(file_of(tmp_path)), "--out", str(tmp_path / "runs"), "--overwrite") == 2
    assert sorted(folder.path.iterdir()) == before


def test_overwrite_keeps_the_old_run_until_the_first_checkpoint(folder: RunFolder, tmp_path: Path) -> None:
    old = (folder.path / "metrics.jsonl").read_bytes()

    def stop(record: Any) -> None:
        raise KeyboardInterrupt

    other = experiment(rounds=4, checkpoint_seconds=1000)
    with pytest.raises(KeyboardInterrupt):
        run(other, folder, overwrite=True, observer=stop)
    assert not (folder.path / REPLACED).exists()  # a run that ends in an error saves what it has
    run(experiment(rounds=5), folder, overwrite=True)
    assert len(folder.records()) == 5
    folder.move_aside()
    assert (folder.path / REPLACED / "experiment.toml").exists()
    assert not folder.exists()
    (folder.path / "experiment.toml").write_text("half a run that came to nothing")
    folder.move_aside()
    assert len(RunFolder(folder.path / REPLACED).records()) == 5
    assert old != (folder.path / REPLACED / "metrics.jsonl").read_bytes()


# folders that somebody else prepared


@pytest.mark.parametrize("name", ["lock", "log.txt"])
def test_links_are_not_followed(folder: RunFolder, tmp_path: Path, name: str) -> None:
    """``resume`` truncated what the link led to."""
    precious = tmp_path / "precious"
    precious.write_text("do not touch")
    (folder.path / name).unlink(missing_ok=True)
    (folder.path / name).symlink_to(precious)
    assert go("resume", str(folder.path)) == 2
    assert precious.read_text() == "do not touch"


def unlisted(folder: RunFolder) -> None:
    (folder.path / "manifest.json").unlink(missing_ok=True)


def test_escape_sequences_do_not_reach_the_terminal(folder: RunFolder, capsys: Any) -> None:
    unlisted(folder)
    path = folder.path / "summary.json"
    words = json.loads(path.read_text()) | {"stopped": "\x1b]0;gotcha\x07\x1b[2J"}
    path.write_text(json.dumps(words))
    path = folder.path / "method.json"
    found = json.loads(path.read_text())
    found["parts"]["weigher"]["name"] = "\x1b[31mred"
    path.write_text(json.dumps(found))
    assert go("show", str(folder.path)) == 0
    assert "\x1b]0" not in (out := capsys.readouterr().out)
    assert "\x1b[31mred" not in out


def test_a_client_of_a_thousand_million_is_damage(folder: RunFolder) -> None:
    """A report took 6 GB."""
    unlisted(folder)
    path = folder.path / "metrics.jsonl"
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    for line in lines:
        line.pop("digest")
        line["clients"][0]["client"] = 10**9
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    with pytest.raises(CheckpointError, match="line 1 is damaged"):
        folder.records()


DAMAGE = {
    "no UTF-8": ("metrics.jsonl", b'{"round": "\xff"}\n'),
    "deep": ("metrics.jsonl", b"[" * 100_000 + b"\n"),
    "no table": ("metrics.jsonl", b"[1]\n"),
    "text for a number": ("metrics.jsonl", b'{"round": "zero", "cohort": 7}\n'),
    "a list for a summary": ("summary.json", b"[]\n"),
    "no JSON": ("summary.json", b"{"),
    "no TOML": ("experiment.toml", b"rounds = \xff"),
}


@pytest.mark.parametrize("case", DAMAGE)
def test_one_damaged_run_is_listed_and_the_others_are_shown(
    folder: RunFolder, capsys: Any, caplog: Any, case: str
) -> None:
    """``ls``, ``compare`` and ``report`` showed nothing at all, or an unexpected error."""
    name, content = DAMAGE[case]
    good = folder.path.with_name("seed-1")
    shutil.copytree(folder.path, good)
    unlisted(folder)
    (folder.path / name).write_bytes(content)
    runs = str(folder.path.parent.parent)
    assert go("ls", runs) == 0
    out = capsys.readouterr().out
    assert "damaged" in out
    assert "3/3" in out
    page = folder.path.parent / "page.html"
    for words in (("compare", runs), ("report", runs, "-o", str(page))):
        caplog.clear()
        assert go(*words) == 0
        assert "unexpected" not in capsys.readouterr().err
        assert "iris/seed-0 is left out" in caplog.text
    assert go("show", str(folder.path)) in (2, 3)
    assert "unexpected" not in capsys.readouterr().err


def test_records_that_are_gone_are_damage(folder: RunFolder) -> None:
    """They were no rounds of a finished run."""
    (folder.path / "metrics.jsonl").unlink()
    for read in (folder.records, folder.outcome):
        with pytest.raises(CheckpointError, match="is missing, though the run was finished"):
            read()


def test_a_comparison_reads_no_records_of_a_finished_run(folder: RunFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    """That they are whole, the manifest says; one flipped bit, and the run is left out."""
    monkeypatch.setattr(RunFolder, "records", None)
    assert go("compare", str(folder.path)) == 0
    path = folder.path / "metrics.jsonl"
    path.write_bytes(path.read_bytes().replace(b"1", b"3", 1))
    assert go("compare", str(folder.path)) == 3


@pytest.mark.parametrize("name", ["environment.json", "federation.json", "metrics.parquet", "model.safetensors"])
def test_a_run_is_shown_with_what_is_damaged_of_it(folder: RunFolder, capsys: Any, name: str) -> None:
    """``show`` does not need these files, and said nothing of them."""
    path = folder.path / name
    assert go("show", str(folder.path)) == 0
    assert "damaged" not in capsys.readouterr().out
    raw = path.read_bytes()
    path.write_bytes(raw[:-1] + bytes([raw[-1] ^ 1]))
    assert go("show", str(folder.path)) == 0
    assert f"{path}: damaged or edited" in capsys.readouterr().out.replace("\n", "")
    path.unlink()
    assert go("show", str(folder.path), "--json") == 0
    assert json.loads(capsys.readouterr().out)["runs"][0]["damaged"] == [f"{path}: is missing"]


def test_a_damaged_environment_is_no_unexpected_error(folder: RunFolder, capsys: Any) -> None:
    unlisted(folder)
    (folder.path / "environment.json").write_bytes(b"\xff[")
    assert go("report", str(folder.path), "-o", str(folder.path / "page.html")) == 0
