"""The leaderboard: what the board lists can be run, how methods stand, and the whole command on a small board."""

import json
import tomllib
from dataclasses import replace

import pytest

from entrofed.cli import leaderboard as command
from entrofed.cli.main import app
from entrofed.errors import ConfigError, DataError
from entrofed.experiment.config import parse
from entrofed.leaderboard import board as boards
from entrofed.leaderboard.board import Board, BoardFederation, BoardMethod, Tuning, board, cell_of, joining
from entrofed.leaderboard.page import write_page
from entrofed.leaderboard.plan import in_tables, left, of_tables, pairings, stored
from entrofed.leaderboard.standing import standing
from entrofed.leaderboard.tuning import Chosen, keep_settings, nested, read_settings
from entrofed.papers.results import SERIES, Result, store
from entrofed.suite.tune import spaces

TINY = BoardFederation(
    "tiny",
    "digits, 6 clients",
    2,
    0.5,
    {
        "rounds": 3,
        "model": "digits_mlp",
        "engine": {"backend": "inline"},
        "data": {"name": "digits", "clients": 6, "validation": 0.1},
        "method": {"cohort": 3, "batch_size": 8},
    },
    Tuning(2, 1, ("method.lr=0.01..0.5 log",), {"rounds": 2}),
)
METHODS = {
    "fedavg": BoardMethod("fedavg", {"name": "fedavg"}, "random"),
    "fedavgm": BoardMethod(
        "fedavgm", {"name": "fedavgm", "server": {"name": "momentum"}}, "", ("method.server.beta=0.1..0.9",), "fedavg"
    ),
}
SMALL = Board("fedavg", "accuracy_last_10", {"tiny": TINY}, METHODS)
MINE = """
from entrofed.methods import METHODS

def my_method():
    return METHODS["fedavg"](weigher="uniform")

class Heavy:
    def weigh(self, updates, context):
        return [update.num_examples ** 2 for update in updates]
"""


@pytest.mark.parametrize("federation", board().federations)
@pytest.mark.parametrize("method", board().methods)
def test_everything_on_the_board_can_be_run(federation, method):
    where, who = board().federation(federation), board().method(method)
    if who.needs_validation and not where.has_validation:
        assert who not in pairings([where], [who])[0].methods
        return
    if where.tuning is None:
        experiment = parse(cell_of(where, who.column({})).experiment(who.column({})))
        assert (experiment.method.lr, experiment.rounds) == (0.01, 500)
        return
    options = (*where.tuning.search, *who.search)
    space = spaces(options)
    assert list(space) == [option.partition("=")[0] for option in options]
    column = who.column(nested({key: found.low for key, found in space.items()}))
    experiment = parse(cell_of(where, column).experiment(column))
    assert experiment.method.lr == space["method.lr"].low
    tuned = parse(boards.merged(cell_of(where, column).experiment(column), where.tuning.setting))
    assert tuned.data.validation > 0


def test_what_is_compared_is_on_the_board():
    entries = board()
    assert entries.against in entries.methods
    assert all(method.control in (None, *entries.methods) for method in entries.methods.values())
    assert list(entries.federations) == [
        "digits", "hospitals", "mnist-writers", "fashion-mnist-dir0.1", "cifar10-dir0.1", "cifar10-c2",
        "cifar10-dir0.1-free",
    ]  # fmt: skip
    with pytest.raises(ConfigError, match="did you mean 'fedentopt'"):
        entries.method("fedentop")
    with pytest.raises(ConfigError, match="did you mean 'digits'"):
        entries.federation("digit")
    assert entries.method("moon").method == {"name": "moon"}


def test_results_and_searches_share_no_seed():
    assert all(federation.seeds <= boards.FIRST_TUNING_SEED for federation in board().federations.values())


def result(federation, method, seed, accuracy):
    course = {"bytes_up": [10**6] * 10, "bytes_down": [10**6] * 10}
    series = {**{name: [0.5] * 10 for name in SERIES}, "accuracy": [accuracy / 2] * 5 + [accuracy] * 5}
    return Result(federation, federation, method, seed, "1", "", series, course=course)


def stand(accuracies, methods=METHODS):
    entries = replace(SMALL, methods=methods)
    return standing(
        entries, [result("tiny", name, s, a) for name, row in accuracies.items() for s, a in enumerate(row)]
    )


def test_how_methods_stand():
    found = stand({"fedavg": [0.4, 0.5, 0.6], "fedavgm": [0.5, 0.6, 0.8], "mine": [0.5, 0.4, 0.5]})
    best, second, last = found.places["tiny"]
    assert [place.method for place in (best, second, last)] == ["fedavgm", "fedavg", "mine"]
    assert best.accuracy.mean == pytest.approx(75 * 1.9 / 3)  # the mean of the last ten: 0.75 of the last five
    assert best.gain.paired.difference == pytest.approx(75 * 0.4 / 3)
    assert best.gain.paired.wins == 3
    assert second.gain is None
    assert (best.mean_rank, second.mean_rank) == (pytest.approx(3.5 / 3), pytest.approx(7 / 3))
    assert [rank.method for rank in found.ranks] == ["fedavgm", "fedavg", "mine"]
    assert found.ranks[0].critical_difference > 1
    assert (best.target.reached, best.target.rounds, best.target.megabytes) == (3, 6, 12.0)
    assert (second.target.reached, second.target.seeds) == (2, 3)
    assert [(row.method, row.against) for row in found.gains] == [("fedavgm", "fedavg"), ("mine", "fedavg")]
    assert [(row.method, row.against) for row in found.controls] == [("fedavgm", "fedavg")]


def test_the_page(tmp_path):
    chosen = Chosen(2, (100,), 0.7, ("method.lr=0.01..0.5 log",), {"method.lr": 0.05})
    found = stand({"fedavg": [0.4, 0.5, 0.6], "fedavgm": [0.5, 0.6, 0.8], "mine": [0.2, 0.1, 0.2]})
    write_page(SMALL, found, {"tiny": {"fedavg": chosen}}, tmp_path / "page.md")
    page = (tmp_path / "page.md").read_text()
    assert "the test set is not looked at" in page
    assert "| `mine` | joined | 3.00 | b |" in page
    assert "](page/ranks.svg)" in page
    assert "Mean rank over 3 pairs of a federation and a seed; methods that share a letter" in page
    assert "mean rank" in (tmp_path / "page" / "ranks.svg").read_text()
    assert "| `fedavg` | 37.50 ± 7.50 |" in page
    assert "lr 0.05 | 70.00 |" in page
    assert "(2 of 3 seeds)" in page
    assert "–" in page.split("`mine`")[-1]  # never reaches the target


def test_settings_come_back(tmp_path):
    one = Chosen(2, (100, 101), 0.7, ("a=1..2",), {"method.lr": 0.05, "method.server.beta": 0.9})
    keep_settings(tmp_path, "tiny", {"b": one})
    keep_settings(tmp_path, "tiny", {"a": one})
    assert read_settings(tmp_path, "tiny") == {"a": one, "b": one}
    assert one.setting == {"method": {"lr": 0.05, "server": {"beta": 0.9}}}
    (tmp_path / "tiny.toml").write_text("a = 3")
    with pytest.raises(DataError, match="not readable as chosen settings"):
        read_settings(tmp_path, "tiny")


def test_who_joins(tmp_path):
    file = tmp_path / "my_parts.py"
    file.write_text(MINE)
    assert joining(f"{file}:my_method").method == {"name": f"{file}:my_method"}
    assert joining(f"{file}:Heavy").method == {"name": "fedavg", "weigher": f"{file}:Heavy"}
    assert joining(f"{file}:Heavy").id == "Heavy"
    with pytest.raises(ConfigError, match="no such file"):
        joining("gone.py:Heavy")


@pytest.fixture
def small(monkeypatch):
    pytest.importorskip("optuna")
    monkeypatch.setattr(boards, "board", lambda: SMALL)


def play(tmp_path, *options):
    with pytest.raises(SystemExit) as ended:
        app(["leaderboard", "--out", f"{tmp_path}/runs", "--results", f"{tmp_path}/res", *options])
    return ended.value.code


def test_the_whole_command(small, tmp_path, capsys, monkeypatch):
    """Searches, plays, stores, ranks; what is stored is not played again; somebody joins."""
    assert play(tmp_path, "--json") == 0
    found = json.loads(capsys.readouterr().out)
    assert {place["method"] for place in found["places"]["tiny"]} == {"fedavg", "fedavgm"}
    assert len(stored(tmp_path / "res", "tiny")) == 4
    settings = tomllib.loads((tmp_path / "res" / "tiny.toml").read_text())
    assert settings["fedavgm"]["seeds"] == [100]
    assert set(settings["fedavgm"]["chosen"]) == {"method.lr", "method.server.beta"}
    before = (tmp_path / "res.md").read_text()
    assert "| `fedavgm` |" in before

    (tmp_path / "runs").rename(tmp_path / "elsewhere")
    monkeypatch.setattr("entrofed.cli.progress.play", lambda runs, **_: {} if not runs else pytest.fail("played again"))
    assert play(tmp_path) == 0
    assert (tmp_path / "res.md").read_text() == before
    monkeypatch.undo()

    monkeypatch.setattr(boards, "board", lambda: SMALL)
    (tmp_path / "my_parts.py").write_text(MINE)
    assert play(tmp_path, "--method", f"{tmp_path}/my_parts.py:my_method", "--seeds", "1") == 0
    assert "| `my_method` | joined |" in (tmp_path / "res.md").read_text()


def settle(results):
    """As if the settings of all methods had been sought."""
    sought = {m.id: Chosen(2, (100,), 0.5, (*TINY.tuning.search, *m.search), {}) for m in METHODS.values()}
    keep_settings(results, "tiny", sought)


def test_a_dry_run_says_what_is_missing(small, tmp_path, capsys):
    assert play(tmp_path, "--dry-run") == 0
    said = capsys.readouterr().out
    assert "tiny, fedavgm: 2 trials with 1 seeds" in said
    assert play(tmp_path, "--dry-run", "--json") == 0
    plan = json.loads(capsys.readouterr().out)
    assert plan["schema"] == "entrofed.leaderboard.plan/1"
    assert {"federation": "tiny", "method": "fedavgm", "trials": 2, "seeds": 1} in plan["searches"]
    assert plan["runs"] == []  # none has its settings yet
    assert not (tmp_path / "res").exists()
    settle(tmp_path / "res")
    assert play(tmp_path, "--dry-run", "--json") == 0
    plan = json.loads(capsys.readouterr().out)
    assert plan["searches"] == []
    assert {(run["method"], run["seed"]) for run in plan["runs"]} >= {("fedavgm", 0), ("fedavgm", 1)}
    assert all(run["federation"] == "tiny" and run["rounds"] > 0 and run["path"] for run in plan["runs"])


def test_a_budget_ends_it_and_the_command_goes_on(small, tmp_path, capsys):
    settle(tmp_path / "res")
    with pytest.raises(ConfigError, match="there are no results yet"):
        app(
            ["leaderboard", "--out", f"{tmp_path}/runs", "--results", f"{tmp_path}/res", "--budget", "0.001s"],
            exit_on_error=False,
        )
    pairing = pairings([TINY], list(METHODS.values()))[0]
    runs = pairing.plan(read_settings(tmp_path / "res", "tiny"), tmp_path / "runs")
    assert len(left(runs, {})) == 4
    assert len(runs[0].folder.records()) == 1
    assert play(tmp_path) == 0
    assert len(stored(tmp_path / "res", "tiny")) == 4


def test_other_settings_are_played_anew(tmp_path):
    """A stored run counts only if it is the one that would be played now."""
    chosen = {"fedavg": Chosen(2, (100,), 0.5, TINY.tuning.search, {"method.lr": 0.1})}
    runs = pairings([TINY], [METHODS["fedavg"]])[0].plan(chosen, tmp_path)
    from entrofed.experiment.config import to_toml

    kept = {
        ("fedavg", run.experiment.seed): replace(result("tiny", "fedavg", 0, 0.5), experiment=to_toml(run.experiment))
        for run in runs
    }
    assert left(runs, kept) == []
    other = {"fedavg": replace(chosen["fedavg"], chosen={"method.lr": 0.2})}
    assert len(left(pairings([TINY], [METHODS["fedavg"]])[0].plan(other, tmp_path), kept)) == 2


def test_runs_of_the_tables_of_results_are_not_played_again(tmp_path):
    """Where no settings are sought, a table of a paper has runs of the same experiment under another name."""
    from entrofed.experiment.config import to_toml

    fixed = replace(TINY, tuning=None)
    [pairing] = pairings([fixed], list(METHODS.values()))
    assert pairing.untuned({}) == []
    runs = pairing.plan({}, tmp_path)
    assert [(run.column.label, run.experiment.seed) for run in runs] == [
        ("fedavg", 0), ("fedavgm", 0), ("fedavg", 1), ("fedavgm", 1),
    ]  # fmt: skip
    told = runs[2].experiment.model_copy(update={"name": "paper-table1"})
    table = [replace(result("paper/table1", "FedAvg", 1, 0.5), experiment=to_toml(told))]
    [found] = of_tables(runs, table)
    assert (found.table, found.cell, found.column, found.seed) == ("tiny", "tiny", "fedavg", 1)
    assert len(left(runs, {("fedavg", 1): found})) == 3
    store(table, tmp_path / "results")
    assert len(in_tables(pairing, runs, tmp_path / "leaderboard")) == 1
    [tuned] = pairings([TINY], list(METHODS.values()))
    assert in_tables(tuned, runs, tmp_path / "leaderboard") == []
    longer = [replace(table[0], experiment=to_toml(told.model_copy(update={"rounds": 4})))]
    assert list(of_tables(runs, longer)) == []


def test_federations_without_a_search_do_not_count_for_ranks(tmp_path):
    entries = replace(SMALL, federations={"tiny": TINY, "fixed": replace(TINY, id="fixed", tuning=None)})
    runs = [result("tiny", name, seed, 0.5) for name in METHODS for seed in range(3)]
    more = [result("fixed", "fedavg", seed, 0.1) for seed in range(3)]
    found = standing(entries, [*runs, *more])
    assert (found.ranks, found.gains, found.controls) == (lambda one: (one.ranks, one.gains, one.controls))(
        standing(entries, runs)
    )
    assert [place.method for place in found.places["fixed"]] == ["fedavg"]
    write_page(entries, found, {}, tmp_path / "page.md")
    assert "No search: every method has the paper's settings" in (tmp_path / "page.md").read_text()


def test_a_federation_that_is_still_being_played_does_not_count_beside_whole_ones():
    entries = replace(SMALL, federations={"tiny": TINY, "begun": replace(TINY, id="begun")})
    whole = [result("tiny", name, seed, 0.5) for name in METHODS for seed in range(3)]
    begun = [result("begun", "fedavg", seed, 0.1) for seed in range(3)]
    found = standing(entries, [*whole, *begun])
    assert [rank.method for rank in found.ranks] == [rank.method for rank in standing(entries, whole).ranks]
    assert len(found.ranks) == 2
    assert set(found.places) == {"tiny", "begun"}
    assert [rank.method for rank in standing(entries, begun).ranks] == ["fedavg"]  # all there is


def test_bad_options(small, tmp_path):
    for options, match in (
        (("--seeds", "0"), "at least 1"),
        (("--budget", "soon"), "must be a time"),
        (("--federation", "mars"), "federation of the leaderboard"),
        (("--method", "nobody"), "method"),
    ):
        with pytest.raises(ConfigError, match=match):
            app(["leaderboard", "--results", f"{tmp_path}/res", *options], exit_on_error=False)
    assert command.leaderboard.__doc__
