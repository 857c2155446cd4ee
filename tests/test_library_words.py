"""The library speaks of its arguments; options belong to the command line, which puts them in."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import entrofed

ROOT = Path(entrofed.__file__).parent


def raised() -> Iterator[tuple[str, str]]:
    """Where an error is raised outside ``cli``, and the texts in it."""
    for path in sorted(ROOT.rglob("*.py")):
        if "cli" in path.relative_to(ROOT).parts:
            continue
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Raise):
                texts = (part.value for part in ast.walk(node) if isinstance(part, ast.Constant))
                yield f"{path.relative_to(ROOT)}:{node.lineno}", " ".join(t for t in texts if isinstance(t, str))


def test_errors_of_the_library_name_no_options() -> None:
    """But for whole commands, as in: entrofed run FILE --backend flower."""
    found = list(raised())
    assert len(found) > 500
    options = re.compile(r"(?<!entrofed run FILE )--[a-z]")
    assert [where for where, words in found if options.search(words)] == []
