"""Commands called as a user calls them, but in this process."""

from collections.abc import Callable
from typing import Any, NamedTuple

import pytest

from entrofed.cli.main import main

IRIS = """
rounds = 2
model = "iris_mlp"

[data]
name = "iris"
clients = 3

[method]
cohort = 2
batch_size = 5

[engine]
backend = "inline"
"""
"""An experiment file of moments."""


class Outcome(NamedTuple):
    """The exit code, and what was written."""

    code: Any
    out: str
    err: str


Go = Callable[..., Outcome]


def caller(capsys: pytest.CaptureFixture[str]) -> Go:
    """Runs a command."""

    def call(*words: str) -> Outcome:
        capsys.readouterr()
        with pytest.raises(SystemExit) as caught:
            main(list(words))
        return Outcome(caught.value.code, *capsys.readouterr())

    return call
