"""Pages that are written from the code, so that they cannot be out of date: the experiment file, commands, parts."""

import json
import re
from collections.abc import Callable, Iterable
from dataclasses import fields, is_dataclass
from itertools import groupby
from typing import Any

from entrofed.experiment.keys import TABLES, Key, keys
from entrofed.methods import method_of
from entrofed.privacy.secure import runs_secure
from entrofed.registry import PART_KINDS, known

ROLES = re.compile(r":\w+:`[~.]?(?:[\w.]+\.)?(\w+)`")
BARS = re.compile(r"(`[^`]*`)|\|")
"""Sphinx's references in docstrings; only the last name is shown."""


def experiment_file() -> str:
    """One table of keys for each table of the file."""
    sections = []
    for table, group in groupby(keys(), lambda key: key.path.rpartition(".")[0]):
        title = f"`[{table}]`" if table else "At the top"
        about = "" if not table else _words(_first_line(TABLES[table])) + "\n\n"
        rows = [(f"`{key.path}`", key.type, _default(key), _words(key.meaning)) for key in group]
        sections.append(f"## {title}\n\n{about}{_table(('key', 'type', 'default', 'meaning'), rows)}")
    return "\n\n".join(sections)


def commands() -> str:
    """Every command with its options, by the command line itself."""
    from entrofed.cli.main import app

    text = app.generate_docs(heading_level=1)
    start = text.index("## entrofed ")
    return (
        re.sub(r"(?<!`)``([^`\n]+)``", r"`\1`", text[start:])
        .replace("**Parameters**:\n\n", "")
        .replace(" *[default: False]*", "")
    )


def methods() -> str:
    """Every method and what it is made of."""
    rows = []
    for name in known("method"):
        made = method_of(name)
        parts = [f"`{getattr(made, kind).name}`" for kind in PART_KINDS]
        rows.append((f"`{name}`", *parts, "yes" if runs_secure(made) else "no"))
    return _table(("method", *PART_KINDS, "secure"), rows)


def parts() -> str:
    """Every part, with its defaults and its reference."""
    sections = []
    for kind in PART_KINDS:
        rows = []
        for name, part in known(kind).items():
            options = ", ".join(
                f"`{field.name} = {getattr(field.default, 'name', field.default)!r}`" for field in _options(part)
            )
            rows.append((f"`{name}`", _words(_first_line(part)), options, str(getattr(part, "reference", ""))))
        sections.append(f"### `{kind}`\n\n{_table((kind, 'what it does', 'defaults', 'reference'), rows)}")
    return "\n\n".join(sections)


REFERENCES: dict[str, Callable[[], str]] = {
    "<!-- keys of the experiment file -->": experiment_file,
    "<!-- commands -->": commands,
    "<!-- methods -->": methods,
    "<!-- parts -->": parts,
}
"""What is put in place of which mark."""


def _options(part: Any) -> Iterable[Any]:
    return fields(part) if is_dataclass(part) else ()


def _first_line(thing: Any) -> str:
    return (getattr(thing, "__doc__", "") or "").split("\n")[0]


def _words(text: str) -> str:
    return re.sub(r"``([^`]+)``", r"`\1`", ROLES.sub(r"`\1`", text))


def _default(key: Key) -> str:
    if key.default is None or key.default in ([], {}):
        return "–"
    return f"`{json.dumps(key.default)}`"


def _escaped(found: re.Match[str]) -> str:
    return found[1] or "\\|"  # within code a bar does not end a cell, and a backslash would be shown


def _table(head: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    lines = [list(head)]
    lines += [["---"] * len(lines[0]), *([BARS.sub(_escaped, cell) for cell in row] for row in rows)]
    return "\n".join("| " + " | ".join(cells) + " |" for cells in lines)
