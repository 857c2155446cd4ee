from pathlib import Path

import altair as alt
import pytest

from entrofed.charts.save import save_chart
from entrofed.errors import ConfigError

CHART = alt.Chart(alt.InlineData(values=[{"x": 1}])).mark_point().encode(x="x:Q")


@pytest.mark.parametrize(("ending", "start"), [("png", b"\x89PNG"), ("svg", b"<svg"), ("json", b"{")])
def test_the_ending_decides_the_format(tmp_path: Path, ending: str, start: bytes) -> None:
    path = tmp_path / f"picture.{ending}"
    save_chart(CHART, path)
    assert path.read_bytes().startswith(start)
    assert list(tmp_path.iterdir()) == [path]


def test_where_it_cannot_be_written(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"written as \.png, \.svg, \.json"):
        save_chart(CHART, tmp_path / "picture.gif")
    with pytest.raises(ConfigError, match="there is no folder"):
        save_chart(CHART, tmp_path / "nowhere" / "picture.svg")
