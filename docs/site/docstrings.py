"""Docstrings for the site: doctests become blocks of code, Sphinx's references become names."""

import re
from typing import Any

import griffe

from references import ROLES

DOCTEST = re.compile(r"^>>> .*(?:\n(?!\n).*)*", re.MULTILINE)
"""A prompt and all that follows without an empty line."""


class Docstrings(griffe.Extension):
    """Rewrites each docstring once, when it is collected."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        """Every module, class, function and attribute."""
        if obj.docstring is not None and not obj.is_alias:
            text = ROLES.sub(r"``\1``", obj.docstring.value)
            obj.docstring.value = DOCTEST.sub(lambda found: f"```pycon\n{found.group()}\n```", text)
