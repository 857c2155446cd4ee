"""The pages of the documentation, and the blocks of code on them."""

import re
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
GENERATED = ("docs/results.md", "docs/leaderboard.md")
"""Pages that a command writes from results; their links are checked, and their blocks are the command's own."""
PAGES = sorted(str(path.relative_to(ROOT)) for path in (*ROOT.glob("*.md"), ROOT / "llms.txt", *ROOT.glob("docs/*.md")))
FENCE = re.compile(r"^( *)```(\w+)?(.*?)\n(.*?)^\1```", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True)
class Block:
    """A block of code: its language, the file that it stands for, its text and its line."""

    language: str
    title: str | None
    text: str
    line: int


def blocks(page: str) -> list[Block]:
    """The blocks of a page from top to bottom."""
    text = (ROOT / page).read_text(encoding="utf-8")
    found = []
    for match in FENCE.finditer(text):
        indent, language, info, body = match.groups()
        title = re.search(r'title="([^"]+)"', info)
        body = re.sub(rf"^{indent}", "", body, flags=re.MULTILINE)
        found.append(Block(language or "", title and title.group(1), body, text.count("\n", 0, match.start()) + 2))
    return found


def prose(page: str) -> str:
    """A page without its blocks of code, and without code in a line."""
    text = FENCE.sub("", (ROOT / page).read_text(encoding="utf-8"))
    return re.sub(r"`[^`\n]*`", "", text)
