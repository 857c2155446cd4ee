"""What commands say with ``--json``: one document, with its schema and version; see ``docs/json.md``."""

import json
import sys
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from math import isfinite
from typing import Annotated, Any

from cyclopts import Parameter

from entrofed import __version__

AsJson = Annotated[bool, Parameter(name="--json", help="Print it as JSON for programs; see docs/json.md.", negative="")]


def emit(schema: str, **content: Any) -> None:
    """Print a document; the number after the schema's name changes when a key goes or gets another meaning."""
    document = {"schema": f"entrofed.{schema}/1", "version": __version__, **plain(content)}
    sys.stdout.write(json.dumps(document, indent=2, allow_nan=False) + "\n")


def plain(value: Any) -> Any:
    """A value as JSON has it: what is no finite number is null, what has no form of its own is text.

    >>> import numpy as np
    >>> from pathlib import Path
    >>> plain({"lr": np.float32(0.5), "loss": float("inf"), "out": Path("runs")})
    {'lr': 0.5, 'loss': None, 'out': 'runs'}
    """
    import numpy as np

    if is_dataclass(value) and not isinstance(value, type):
        return {field.name: plain(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, Mapping):
        return {str(key): plain(inner) for key, inner in value.items()}
    if isinstance(value, np.ndarray | np.generic):
        return plain(value.tolist())
    if isinstance(value, list | tuple | set | frozenset):
        return [plain(inner) for inner in value]
    if isinstance(value, float):
        return value if isfinite(value) else None
    return value if value is None or isinstance(value, bool | int | str) else str(value)
