"""What the site adds to the pages: references generated from the code, pictures that open in full size when they are
clicked; no links to files outside of docs/."""

import re
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

from references import REFERENCES

OUTSIDE = re.compile(r"\[([^\]]*)\]\(\.\./[^)]*\)")
"""A link to a file of the repository, which the site does not hold: only its text is kept."""
PICTURE = re.compile(r'<img [^>]*src="(images/[^"]+)"[^>]*>')


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Put what is generated in place of its mark, and take away links that lead outside."""
    for mark, written in REFERENCES.items():
        if mark in markdown:
            markdown = markdown.replace(mark, written())
    return OUTSIDE.sub(r"\1", markdown)


def on_page_content(html: str, **_: Any) -> str:
    """Link each picture to itself: on a phone a wide one is too small to be read."""
    return PICTURE.sub(r'<a href="\1">\g<0></a>', html)
