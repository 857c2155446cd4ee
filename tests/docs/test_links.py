"""Every link of README and docs leads somewhere: files that are there, headings that are there, no picture missing."""

import re
from functools import cache
from pathlib import Path

import pytest
from tests.docs.pages import PAGES, ROOT, prose

LINK = re.compile(r"\]\(([^)\s]+)\)")


@cache
def anchors(path: Path) -> frozenset[str]:
    """The headings of a page as GitHub and the site name them; numbered where they repeat."""
    text = re.sub(r"^ *```.*?^ *```", "", path.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
    found: set[str] = set()
    for heading in re.findall(r"^#+ (.*)$", text, re.MULTILINE):
        slug = re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", "-")
        found |= {slug, re.sub(r"-+", "-", slug)}
    return frozenset(found)


@pytest.mark.parametrize("page", PAGES)
def test_links_lead_somewhere(page: str) -> None:
    bad = []
    for target in LINK.findall(prose(page)):
        if re.match(r"https?://|mailto:", target):
            continue
        name, _, anchor = target.partition("#")
        path = ((ROOT / page).parent / name).resolve() if name else ROOT / page
        if not path.exists() or (anchor and path.suffix == ".md" and anchor not in anchors(path)):
            bad.append(target)
    assert bad == []


def test_every_page_is_in_the_navigation_and_every_picture_on_a_page() -> None:
    navigation = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    pages = [page for page in PAGES if page.startswith("docs/")]
    assert [page for page in pages if page.removeprefix("docs/") not in navigation] == [], "name it in mkdocs.yml"
    texts = "".join((ROOT / page).read_text(encoding="utf-8") for page in PAGES)
    pictures = [path.name for path in (ROOT / "docs/images").iterdir()]
    assert [name for name in sorted(pictures) if f"images/{name}" not in texts] == []


def test_words_of_the_workplace_are_nowhere() -> None:
    for page in PAGES:
        text = (ROOT / page).read_text(encoding="utf-8")
        assert not re.search(r"/(root|work)/", text), page
