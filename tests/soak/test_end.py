"""A campaign ends cleanly."""

import os
import subprocess
import sys
from pathlib import Path

import pytest


@pytest.mark.slow
def test_a_campaign_says_nothing_after_its_counts(tmp_path: Path) -> None:
    """multiprocessing removed its folder after the campaign had removed the one around it, and told of an error."""
    root = Path(__file__).parents[2]
    paths = os.pathsep.join([str(root), *filter(None, sys.path)])
    surroundings = {**os.environ, "SOAK": "0s", "PYTHONPATH": paths, "TMPDIR": str(tmp_path)}
    ended = subprocess.run(
        [sys.executable, "-m", "tests.soak"], env=surroundings, cwd=tmp_path, capture_output=True, text=True
    )
    assert (ended.returncode, ended.stderr) == (0, "")
    assert list(tmp_path.iterdir()) == []
