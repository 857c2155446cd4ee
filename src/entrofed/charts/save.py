"""Charts as files."""

import io
from pathlib import Path
from typing import Literal

import altair as alt

from entrofed.errors import ConfigError
from entrofed.files import write_whole

FORMATS: dict[str, Literal["png", "svg", "json"]] = {".png": "png", ".svg": "svg", ".json": "json"}


def save_chart(chart: alt.TopLevelMixin, path: Path) -> None:
    """Write a picture whole, in the format of its ending."""
    if path.suffix not in FORMATS:
        raise ConfigError(f"{path}: pictures are written as {', '.join(FORMATS)}")
    if not path.parent.is_dir():
        raise ConfigError(f"{path}: there is no folder {path.parent}; make it first")
    buffer = io.BytesIO() if path.suffix == ".png" else io.StringIO()
    chart.save(buffer, format=FORMATS[path.suffix])
    write_whole(path, buffer.getvalue())
