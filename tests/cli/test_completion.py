"""What a shell offers: the callback that its script makes, with the words that were typed so far."""

from inspect import signature

import pytest
from cyclopts import Parameter
from tests.cli.calls import caller

from entrofed.backends import BACKENDS
from entrofed.cli.main import app
from entrofed.methods import METHODS

pytestmark = pytest.mark.skipif("completer" not in signature(Parameter).parameters, reason="cyclopts is below 5")


@pytest.mark.parametrize(
    ("words", "offered"),
    [
        (["run", "x.toml", "--backend", ""], {*BACKENDS, "flower"}),
        (["flower", "new", "app", "--method", ""], {*METHODS}),
        (["parts", ""], {*METHODS, "dirichlet_balanced", "small_world", "iris"}),
        (["reproduce", ""], {"fedentopt/table1", "inv_entropy/table8"}),
        (["reproduce", "fedentopt/table1", "--cell", ""], {"cifar10-dir0.1", "iris"}),
        (["reproduce", "fedentopt/table1", "--column", ""], {"FedAvg", "FedEntOpt"}),
        (["run", "x.toml", "--set", ""], {"method.lr=", "data.alpha="}),
        (["run", "x.toml", "--unset", ""], {"method.lr", "data.alpha"}),
        (["papers", ""], {"fedentopt/table1", "inv_entropy/table8"}),
        (["explain", ""], {"method.lr", "data.alpha"}),
        (["data", "fetch", ""], {"mnist", "cifar-10"}),
        (["peer", "new", "folder", "--topology", ""], {"ring", "small_world"}),
        (["leaderboard", "--federation", ""], {"digits"}),
        (["leaderboard", "--method", ""], {"fedavg", "maxent"}),
    ],
)
def test_names_are_offered(capsys: pytest.CaptureFixture[str], words: list[str], offered: set[str]) -> None:
    code, out, _ = caller(capsys)("__complete", *words)
    found = {line.split("\t")[0] for line in out.splitlines()}
    assert code == 0
    assert offered <= found


def test_the_script_of_a_shell_calls_back() -> None:
    script = app.generate_completion(shell="bash")  # noqa: S604 (the name of one)
    assert "__complete" in script
    assert "--backend" in script
