"""The site is built without a warning, needs no network, and holds what is written from the code."""

import os
import re
import subprocess
import sys
from collections.abc import Callable
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

import pytest
from tests.docs.pages import ROOT

import entrofed
from entrofed.experiment.keys import keys
from entrofed.registry import PART_KINDS, known


def references() -> dict[str, Callable[[], str]]:
    spec = spec_from_file_location("references", ROOT / "docs/site/references.py")
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    found: dict[str, Callable[[], str]] = module.REFERENCES
    return found


def test_references_are_complete() -> None:
    written = {mark: write() for mark, write in references().items()}
    assert all(f"`{key.path}`" in written["<!-- keys of the experiment file -->"] for key in keys())
    assert all(f"| `{name}` |" in written["<!-- methods -->"] for name in known("method"))
    assert all(f"| `{name}` |" in written["<!-- parts -->"] for kind in PART_KINDS for name in known(kind))
    for command in ("run", "compare", "data describe", "peer join", "reproduce collect"):
        assert f"## entrofed {command}\n" in written["<!-- commands -->"]
    for text in written.values():
        assert ":class:" not in text
        assert all(line.count("`") % 2 == 0 for line in text.splitlines() if not line.startswith("```")), text
    pages = "".join(page.read_text(encoding="utf-8") for page in (ROOT / "docs").glob("*.md"))
    assert all(pages.count(mark) == 1 for mark in written)


def test_every_option_is_explained() -> None:
    page = references()["<!-- commands -->"]()
    options = re.findall(r"^\* `(--[^`]+)`:?(.*)$", page, re.MULTILINE)
    assert len(options) > 100
    assert [name for name, about in options if not re.sub(r"\*\[[^]]*\]\*", "", about).strip()] == []
    assert "--empty-" not in page  # an option without values, which nobody needs


def test_public_names_are_all_in_the_reference() -> None:
    page = (ROOT / "docs/api.md").read_text(encoding="utf-8")
    listed = {line.rpartition(".")[2] for line in page.splitlines() if line.startswith("::: ")}
    assert set(entrofed.__all__) - {"__version__", "methods"} <= listed


@pytest.mark.slow
def test_site(tmp_path: Path) -> None:
    """Builds strictly: a missing page, picture or heading fails."""
    pytest.importorskip("mkdocs")
    words = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(tmp_path / "site")]
    environment = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=False, env=environment)
    assert done.returncode == 0, done.stdout + done.stderr
    pages = list((tmp_path / "site").glob("*.html"))
    assert len(pages) > 30
    for page in pages:
        html = page.read_text(encoding="utf-8")
        loaded = re.findall(r"<(?:script|link|img|iframe)[^>]+(?:src|href)=\"?(https?:[^\" >]+)", html)
        assert loaded == [], page.name
        pictures = re.findall(r'<img[^>]+src="([^"]+)"', html)
        assert [name for name in pictures if not name.startswith("data:") and not (page.parent / name).exists()] == []
        assert "<!-- keys" not in html
    assert "method.lr" in (tmp_path / "site/experiment_file.html").read_text(encoding="utf-8")
