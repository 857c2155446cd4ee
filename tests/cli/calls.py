"""Commands called as a user calls them, but in this process."""

from collections.abc import Callable
from typing import Any, NamedTuple

import pytest

from entrofed.cli.main import main


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
