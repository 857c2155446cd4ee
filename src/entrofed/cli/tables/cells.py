"""Values as cells of a table."""

import math
from collections.abc import Sequence
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.markup import escape

NARROW: dict[str, Any] = {"box": SIMPLE_HEAD, "padding": (0, 1, 0, 0)}
"""Tables of many columns, which fit 80 letters."""
BARS = "▁▂▃▄▅▆▇█"


def cell(value: Any, form: str = ".6f") -> str:
    """A value of any kind; ``form`` is for real numbers, and brackets in texts are no markup.

    >>> cell(None), cell(0.5, ".2f"), cell(3), cell("[red]")
    ('', '0.50', '3', '\\\\[red]')
    """
    return "" if value is None else f"{value:{form}}" if isinstance(value, float) else escape(str(value))


def sparkline(values: Sequence[float], width: int = 60) -> str:
    """Values between 0 and 1 as a line of bars.

    >>> sparkline([0.0, 0.5, 1.0])
    '▁▅█'
    """
    step = max(1, math.ceil(len(values) / width))
    return "".join(BARS[min(int(v * len(BARS)), len(BARS) - 1)] for v in values[::step])
