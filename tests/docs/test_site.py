"""The site is built without a warning, needs no network, and holds what is written from the code."""

import os
import re
import subprocess
import sys
from collections.abc import Callable
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

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


def test_every_argument_and_option_is_explained() -> None:
    page = references()["<!-- commands -->"]()
    options = re.findall(r"^\* `([^`]*--[^`]+)`:?(.*)$", page, re.MULTILINE)
    assert len(options) > 150
    assert [name for name, about in options if not re.sub(r"\*+\[[^]]*\]\*+", "", about).strip()] == []
    assert "--empty-" not in page  # an option without values, which nobody needs


def test_public_names_are_all_in_the_reference() -> None:
    page = (ROOT / "docs/api.md").read_text(encoding="utf-8")
    listed = {line.rpartition(".")[2] for line in page.splitlines() if line.startswith("::: ")}
    assert set(entrofed.__all__) - {"__version__", "methods"} <= listed


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Built strictly: a missing page, picture or heading fails."""
    pytest.importorskip("mkdocs")
    folder = tmp_path_factory.mktemp("docs") / "site"
    words = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(folder)]
    environment = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=False, env=environment)
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


@pytest.mark.slow
@pytest.mark.xdist_group("site")
def test_site(site: Path) -> None:
    pages = list(site.glob("*.html"))
    assert len(pages) > 30
    for page in pages:
        html = page.read_text(encoding="utf-8")
        loaded = re.findall(r"<(?:script|link|img|iframe)[^>]+(?:src|href)=\"?(https?:[^\" >]+)", html)
        assert loaded == [], page.name
        pictures = re.findall(r'<img[^>]+src="([^"]+)"', html)
        assert [name for name in pictures if not name.startswith("data:") and not (page.parent / name).exists()] == []
        assert all(f'<a href="{name}"><img' in html for name in pictures if name.startswith("images/")), page.name
        assert "<!-- keys" not in html
        assert "\\|" not in html, page.name  # a bar of a table, escaped where it need not be
    assert "method.lr" in (site / "experiment_file.html").read_text(encoding="utf-8")


@pytest.mark.slow
@pytest.mark.xdist_group("site")
def test_no_page_is_wider_than_a_phone(site: Path, browser: Any) -> None:
    """Tables and code scroll inside themselves, and a column of text has room for some words."""
    page = browser.new_page(viewport={"width": 390, "height": 800})
    wide = []
    for file in sorted(site.glob("*.html")):
        page.goto(file.as_uri())
        wide += [file.name] if page.evaluate("document.documentElement.scrollWidth > innerWidth") else []
    assert wide == []
    page.goto((site / "experiment_file.html").as_uri())
    assert page.locator("td:last-child").first.bounding_box()["width"] > 150
