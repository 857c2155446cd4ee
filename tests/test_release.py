"""What is released: the wheel and the source as somebody installs them, and the files that go with them."""

import os
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import tomllib
import venv
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.version import Version

from entrofed import __version__

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
EXPERIMENT = 'rounds = 1\nmodel = "iris_mlp"\n[data]\nname = "iris"\nclients = 3\n[engine]\nbackend = "inline"\n'

USE = """
import entrofed
from entrofed.cli import main

print(entrofed.__file__, flush=True)
for words in ("--version", "run iris.toml", "report runs -o page.html", "quickstart --seeds 1", "papers"):
    try:
        main(words.split())
    except SystemExit as ended:
        assert not ended.code, words
"""


def test_one_version_everywhere() -> None:
    assert PROJECT["version"] == __version__
    assert f"version: {__version__}\n" in (ROOT / "CITATION.cff").read_text()
    assert f"## [{__version__}]" in (ROOT / "CHANGELOG.md").read_text()


def test_the_lowest_versions_are_those_of_the_project() -> None:
    lines = (ROOT / "constraints-lowest.txt").read_text().splitlines()
    pinned = dict(line.split("==") for line in lines if not line.startswith("#"))
    lowest = {
        need.name: Version(next(each.version for each in need.specifier if each.operator == ">="))
        for need in map(Requirement, PROJECT["dependencies"])
    }
    assert {name: Version(version) for name, version in pinned.items()} == lowest


def test_every_dependency_has_its_licence_listed() -> None:
    page = (ROOT / "docs" / "licences.md").read_text()
    extras = [
        need
        for extra, needs in PROJECT["optional-dependencies"].items()
        if extra not in ("dev", "docs")
        for need in needs
    ]
    for need in [*PROJECT["dependencies"], *extras]:
        assert f"| {Requirement(need).name} |" in page


@pytest.mark.slow
def test_the_wheel_runs_where_there_is_no_source(tmp_path: Path) -> None:
    """Built, installed and used, with the test environment's libraries in place of downloads."""
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-d", tmp_path / "dist"], cwd=ROOT, check=True, capture_output=True
    )
    (wheel,) = (tmp_path / "dist").glob("*.whl")
    (source,) = (tmp_path / "dist").glob("*.tar.gz")
    with tarfile.open(source) as archive:
        packed = {name.split("/", 1)[1] for name in archive.getnames() if "/" in name}
    assert {"pyproject.toml", "LICENSE", "src/entrofed/data/catalog.toml", "README.md"} <= packed
    home = tmp_path / "home"
    venv.create(home, with_pip=False, symlinks=True)
    site = next(home.glob("lib/python3*/site-packages"))
    (site / "libraries.pth").write_text(sysconfig.get_paths()["purelib"] + "\n")  # not its .pth: no editable install
    shutil.unpack_archive(wheel, site, "zip")

    (tmp_path / "iris.toml").write_text(EXPERIMENT)
    (tmp_path / "use.py").write_text(USE)
    elsewhere = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    command = [home / "bin" / "python", "use.py"]
    found = subprocess.run(command, cwd=tmp_path, env=elsewhere, capture_output=True, text=True)
    assert found.returncode == 0, found.stderr
    where, version, *_ = found.stdout.splitlines()
    assert (str(site) in where, version) == (True, __version__)
    assert "fedentopt/table1" in found.stdout
    assert (tmp_path / "page.html").stat().st_size > 100_000
    assert (tmp_path / "runs" / "quickstart" / "report.html").stat().st_size > 100_000
    entry = next(site.glob("entrofed-*.dist-info")) / "entry_points.txt"
    assert "entrofed = entrofed.cli:main" in entry.read_text()
