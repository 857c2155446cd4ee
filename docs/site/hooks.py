"""What the site adds to the pages: references that are written from the code; no links to files outside of docs/."""

import re
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

from references import REFERENCES

OUTSIDE = re.compile(r"\[([^\]]*)\]\(\.\./[^)]*\)")
"""A link to a file of the repository, which the site does not hold: only its text is kept."""


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Put what is generated in place of its mark, and take away links that lead outside."""
    for mark, written in REFERENCES.items():
        if mark in markdown:
            markdown = markdown.replace(mark, written())
    return OUTSIDE.sub(r"\1", markdown)
