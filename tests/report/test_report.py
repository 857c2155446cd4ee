import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from entrofed.errors import CheckpointError, ConfigError
from entrofed.experiment.manifest import write_listed
from entrofed.experiment.run_folder import RunFolder
from entrofed.experiment.summary import summarize
from entrofed.report import live, write_report
from entrofed.report.blocks import Grid, Sheets
from entrofed.report.collect import Weights, read_groups
from entrofed.report.costs import refusals, reveals
from entrofed.report.course import COLUMNS, POINTS, binned, course, courses_sheet, spread_out
from entrofed.report.lines import inside_outside
from entrofed.report.page import page_text
from entrofed.report.results import overview, reference_of
from entrofed.report.setup import setup

from .conftest import CLIENTS, metrics, record

Make = Callable[..., RunFolder]


def data_of(page: str) -> Any:
    """What the page's script reads."""
    (found,) = re.findall(r'<script type="application/json" id="data">(.*?)</script>', page, re.DOTALL)
    return json.loads(found)


def keys_of(page: str) -> list[str]:
    return re.findall(r'<section id="([a-z]+)"', page)


def test_mean_and_range_over_seeds(make: Make) -> None:
    folders = [make("x", 0, [0.2, 0.4, 0.9]), make("x", 1, [0.4, 0.8], finished=False)]
    columns = courses_sheet(read_groups(folders))
    assert columns["experiment"] == ["x"] * 3
    assert columns["round"] == [1, 2, 3]
    assert columns["accuracy"] == pytest.approx([0.3, 0.6, 0.9])
    assert columns["accuracy_low"] == pytest.approx([0.2, 0.4, 0.9])
    assert columns["accuracy_high"] == pytest.approx([0.4, 0.8, 0.9])
    assert columns["up"] == pytest.approx([1, 2, 3])
    assert columns["traffic"] == pytest.approx([3, 6, 9])
    assert "inside" not in columns
    assert "consensus" not in columns


def test_rounds_without_evaluation_stay_empty(make: Make) -> None:
    records = [record(0, 0.1, test=None), record(1, 0.5)]
    columns = courses_sheet(read_groups([make("x", 0, records, evaluate_every=2)]))
    assert np.isnan(columns["accuracy"][0])
    assert columns["accuracy"][1] == 0.5
    assert columns["train_loss"] == pytest.approx([0.9, 0.5])


@pytest.mark.parametrize("found", [["<b>clip</b> never cut"], "no list", 7, [7]])
def test_what_never_acted_is_said(make: Make, found: Any) -> None:
    folder = make("x", 0, [0.2, 0.4])
    summary = {**(folder.summary() or {}), "never_acted": found}
    (folder.path / "summary.json").write_text(json.dumps(summary))
    page = page_text(read_groups([folder]))
    assert ("Never acted. x: " in page) == isinstance(found, list)
    assert "<b>" not in page


def test_diverged_runs_are_shown(make: Make) -> None:
    records = [record(i, 0.1, train_loss=None) for i in range(2)]
    for made in records:
        made["test"]["loss"] = None
    page = page_text(read_groups([make("x", 0, records)]))
    assert "Test accuracy" in page
    assert "Test loss" not in page
    assert "Training loss" not in page


def test_training_that_diverges_is_told_in_words(make: Make) -> None:
    fine, lost = make("fine", 0, [0.1, 0.2]), make("lost", 3, [record(i, 0.1, train_loss=1.8e33) for i in range(2)])
    words = "lost/seed-3: training diverges: a loss of 1.8e+33 in round 2; take a smaller method.lr (it was 0.1)"
    assert words in page_text(read_groups([fine, lost]))
    assert "diverges" not in page_text(read_groups([fine]))


def test_long_courses_are_thinned_and_keep_their_ends(make: Make) -> None:
    columns = courses_sheet(read_groups([make("x", 0, [i / 1000 for i in range(1000)])]))
    assert len(columns["round"]) == POINTS
    assert (columns["round"][0], columns["round"][-1]) == (1, 1000)


@given(st.integers(1, 500), st.integers(2, 100))
def test_spread_out(count: int, most: int) -> None:
    kept = spread_out(np.arange(count), most)
    assert len(kept) == min(count, most)
    assert (kept[0], kept[-1]) == (0, count - 1)
    assert (np.diff(kept) > 0).all()


@given(st.lists(st.lists(st.floats(-5, 5), min_size=1, max_size=6), min_size=1, max_size=4))
def test_course_lies_within_its_range(series: list[list[float]]) -> None:
    found = course([np.array(values) for values in series])
    assert len(found.mean) == max(map(len, series))
    assert (found.low <= found.mean + 1e-9).all()
    assert (found.mean <= found.high + 1e-9).all()


def test_weights_as_multiples_of_an_equal_share(make: Make) -> None:
    (group,) = read_groups([make("x", 0, [0.1, 0.2])])
    cells = binned(group.first.weights, np.arange(CLIENTS))
    assert list(zip(cells["round"], cells["client"], cells["share"], strict=True)) == [
        (1, 0, 1.5),
        (1, 1, 0.5),
        (2, 1, 1.5),
        (2, 2, 0.5),
    ]


def test_many_rounds_share_a_column() -> None:
    rounds = np.arange(1, 2 * COLUMNS + 1)
    weights = Weights(rounds, np.zeros(2 * COLUMNS, np.int64), rounds.astype(float))
    cells = binned(weights, np.array([0]))
    assert cells["round"] == list(range(1, 2 * COLUMNS, 2))
    assert cells["share"] == pytest.approx([i + 0.5 for i in range(1, 2 * COLUMNS, 2)])
    odd = binned(Weights(rounds[:-1], np.zeros(2 * COLUMNS - 1, np.int64), rounds[:-1].astype(float)), np.array([0]))
    assert (odd["from"][0], odd["until"][0]) == (0.5, 2.5)
    assert odd["until"][-1] == 2 * COLUMNS - 0.5, "the last column ends with the last round"


def test_the_best_experiment_comes_first(make: Make) -> None:
    """Where the page shows one after the other; what is compared with, and colours, do not depend on who leads."""
    folders = [make(name, 0, [0.1, last]) for name, last in (("a", 0.3), ("b", 0.9), ("c", 0.6))]
    page = page_text(read_groups(folders))
    chosen = re.findall(r"<option[^>]*>(\w)</option>", page)
    assert chosen == [*"bca"] * (len(chosen) // 3) != []
    data = data_of(page)
    assert (data["experiments"], data["chosen"]) == ([*"bca"], [*"abc"])
    words = [view["words"] for picture in data["pictures"] for view in picture]
    assert any(text.startswith("Against a ") for text in words)


def test_table_of_experiments(make: Make) -> None:
    folders = [make("good", seed, [0.5, accuracy]) for seed, accuracy in ((0, 0.8), (1, 0.9))]
    folders += [make("bad", seed, [0.1, 0.2]) for seed in (0, 1)]
    section = overview(read_groups(folders), Sheets())
    (table, *_) = [block for block in section.blocks if isinstance(block, Grid)]
    assert [row[0] for row in table.rows] == ["good", "bad"]
    shown = dict(zip(table.head, table.rows[0], strict=True))
    assert shown["Accuracy %"] == "85.00 ± 7.07"
    assert shown["Last 10 %"] == "67.50 ± 3.54"
    assert shown["Sent (MB)"] == "6.0"
    assert shown["Seconds"] == "2.0"
    assert "seeds 2" in table.caption
    assert any("rests on 2 seeds" in block.text for block in section.blocks if hasattr(block, "text"))


def test_paired_comparison_is_against_fedavg_on_the_same_data(make: Make) -> None:
    folders = [make("better", seed, [0.5 + 0.01 * seed + 0.02 * (seed == 2)]) for seed in range(3)]
    folders += [make("fedavg", seed, [0.4 + 0.01 * seed]) for seed in range(3)]
    other = {"name": "digits", "clients": CLIENTS, "holdout": 0.1}
    folders += [make("elsewhere", seed, [0.9], data=other) for seed in range(3)]
    groups = read_groups(folders)
    assert reference_of(groups).name == "fedavg"
    tables = [block for block in overview(groups, Sheets()).blocks if isinstance(block, Grid)]
    assert [row[:3] for row in tables[1].rows] == [["better", "3", "+10.67"]]
    assert tables[1].rows[0][4] == "3, 0"
    assert not [block for block in overview(groups, Sheets()).blocks if "rests on" in getattr(block, "text", "")]


def test_experiments_of_the_same_name_are_told_apart(make: Make, tmp_path: Path) -> None:
    first, second = make("one/x", 0, [0.1]), make("two/x", 0, [0.2])
    assert [group.name for group in read_groups([first, second, first])] == ["one/x", "two/x"]


@pytest.mark.parametrize(
    "evil", ["</script><script>alert(1)</script>", '"><img src=x onerror=alert(1)>', "<!--<script>"]
)
def test_names_cannot_break_out(make: Make, evil: str) -> None:
    folder = make("x" + evil.replace("/", "∕"), 0, [0.5, 0.6], classes=(evil, "b", "c"))
    page = page_text(read_groups([folder]), title=evil)
    own, bundle = page.split("</script>", 1)  # all up to the end of the data
    assert evil not in own
    assert evil not in bundle
    assert "<script>" not in own
    assert "<img" not in own
    assert data_of(page)["experiments"] == ["x" + evil.replace("/", "∕")]
    assert any(evil in sheet["class"]["names"] for sheet in data_of(page)["sheets"].values() if "class" in sheet)


def test_names_are_no_templates(make: Make) -> None:
    page = page_text(read_groups([make("{{ 7*7 }}", 0, [0.5])]))
    assert "<h1>{{ 7*7 }}</h1>" in page


def test_unfinished_runs_are_shown_and_marked(make: Make, tmp_path: Path) -> None:
    folder = make("x", 0, [0.5, 0.6], finished=False)
    with (folder.path / "metrics.jsonl").open("a") as file:
        file.write('{"round": 2, "half a li')
    write_report([folder], tmp_path / "page.html")
    page = (tmp_path / "page.html").read_text()
    assert "Unfinished, shown as far as they are: x/seed-0 (2 of 3 rounds)" in page
    assert "2 of 3" in page
    assert 0.6 in data_of(page)["sheets"]["courses-0"]["accuracy"]


def test_runs_that_have_hardly_begun(make: Make, tmp_path: Path) -> None:
    empty = make("empty", 0, [], finished=False)
    bare = make("bare", 0, [0.5])
    for name in ("federation.json", "environment.json"):
        (bare.path / name).unlink()
    (empty.path / "metrics.jsonl").unlink()
    write_report([empty, bare], tmp_path / "page.html")
    keys = keys_of((tmp_path / "page.html").read_text())
    assert "courses" in keys
    assert "partition" in keys  # of the one that has it
    write_report([empty], tmp_path / "page.html")
    assert keys_of((tmp_path / "page.html").read_text()) == ["overview", "partition", "reveals", "setup"]


def test_a_seed_that_has_not_begun_does_not_hide_the_others(make: Make) -> None:
    folders = [make(name, seed, [0.5] * seed, finished=bool(seed)) for name in ("x", "y") for seed in (0, 1)]
    page = page_text(read_groups(folders))
    assert {"courses", "classes", "costs"} <= set(keys_of(page))
    assert "x/seed-0 (0 of 2 rounds), y/seed-0 (0 of 2 rounds)" in page


def test_what_cannot_be_reported(make: Make, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no runs"):
        write_report([], tmp_path / "page.html")
    with pytest.raises(CheckpointError, match="not a run"):
        write_report([RunFolder(tmp_path)], tmp_path / "page.html")
    with pytest.raises(ConfigError, match="no folder"):
        write_report([make("x", 0, [0.5])], tmp_path / "nowhere" / "page.html")
    with pytest.raises(ConfigError, match="refresh = 0"):
        write_report([make("y", 0, [0.5])], tmp_path / "page.html", refresh=0)


def test_page_needs_nothing_from_elsewhere(make: Make) -> None:
    page = page_text(read_groups([make("x", 0, [0.5])]))
    own = page.split("</script>", 1)[0]
    assert not re.findall(r"<(?:link|img|iframe|script)[^>]*(?:src|href)=", own)
    assert not re.findall(r"<script[^>]*src", page)
    assert "default-src 'none'" in page
    assert page.count("<h1>") == 1
    assert 'href="#content"' in page


def peer_records() -> list[dict[str, Any]]:
    def peers(accuracy: float) -> list[dict[str, Any]]:
        return [
            {"node": k, "from": [k], "weights": [1.0], "accuracy": accuracy + k / 100, "macro_f1": accuracy}
            for k in range(CLIENTS)
        ]

    return [record(i, 0.5, peers=peers(0.4 + i / 10), consensus=1 / (i + 1), spectral_gap=0.5) for i in range(3)]


def test_runs_without_a_server(make: Make) -> None:
    page = page_text(read_groups([make("peers", 0, peer_records(), topology={"kind": "ring"})]))
    keys = keys_of(page)
    assert "peers" in keys
    assert "weights" not in keys
    assert "diversity" not in keys
    sheets = data_of(page)["sheets"]
    assert sheets["courses-0"]["consensus"] == [1.0, 0.5, 0.33333]
    (nodes,) = [sheet for name, sheet in sheets.items() if name.startswith("nodes")]
    assert nodes["node"] == [k for k in range(CLIENTS) for _ in range(3)]
    assert nodes["accuracy"][:3] == [0.4, 0.5, 0.6]
    assert "6 peers and 6 connections (ring), all reach each other" in page
    assert "lets its neighbours know" in page


def test_a_lost_topology_file_only_costs_the_picture(make: Make, tmp_path: Path) -> None:
    edges = tmp_path / "edges.txt"
    edges.write_text("0 1\n")
    folder = make("peers", 0, peer_records(), topology={"kind": "file", "path": str(edges)})
    assert "Who talks to whom" in page_text(read_groups([folder]))
    edges.unlink()
    page = page_text(read_groups([folder]))
    assert "Who talks to whom" not in page
    assert "Distance to consensus" in page


def test_refusals(make: Make) -> None:
    refused = [{"client": 3, "reason": "dropped out"}]
    groups = read_groups([make("x", 0, [record(0, 0.1, refused=refused), record(1, 0.2)])])
    section = refusals(groups, Sheets())
    assert section is not None
    assert section.blocks[0].text == "4 updates were admitted, 1 refused."  # type: ignore[union-attr]
    assert section.blocks[-1].rows == [["x", "dropped out", "1"]]  # type: ignore[union-attr]


def test_what_leaves_the_clients(make: Make) -> None:
    folders = [make("plain", 0, [0.1]), make("same", 0, [0.1])]
    folders.append(make("counts", 0, [0.1], method={"name": "fedentopt"}, privacy={"epsilon": 0.5}, finished=False))
    spent = {"epsilon": 0.5, "neighbours": "add_remove", "mechanism": "Laplace", "scale": 2.0}
    (folders[-1].path / "released.json").write_text(json.dumps({"spent": spent, "counts": [[1.0]]}))
    table = reveals(read_groups(folders)).blocks[1]
    assert isinstance(table, Grid)
    assert [row[:2] for row in table.rows] == [["plain, same", "nothing"], ["counts", "its label counts"]]
    assert table.rows[0][2] == "the trained model and its number of examples"
    assert "epsilon 0.5 once" in table.rows[1][3]


def test_what_left_the_clients_of_older_runs_is_not_known(make: Make) -> None:
    folder = make("old", 0, [0.1], method={"name": "fedentopt"})
    for content in (None, "[]", '{"reveals": 3}', "not JSON"):
        (folder.path / "method.json").unlink(missing_ok=True)
        if content is not None:
            write_listed(folder.path / "method.json", content)
        table = reveals(read_groups([folder])).blocks[1]
        assert isinstance(table, Grid)
        assert table.rows == [["old", *["not recorded: made before version 0.2"] * 2, "no noise"]]


def test_in_and_out_of_distribution(make: Make) -> None:
    groups = read_groups([make("x", 0, [record(0, 0.5, id=metrics(0.75))])])
    sheets = Sheets()
    shared = str(sheets.add("courses", courses_sheet(groups)).name)
    section = inside_outside(groups, sheets, shared)
    assert section is not None
    assert section.blocks[0].views[0].table.rows == [["x", "75.00%", "50.00%"]]  # type: ignore[union-attr]


def test_differing_settings(make: Make) -> None:
    folders = [make("x", 0, [0.1], method={"lr": 0.1}), make("y", 3, [0.1], method={"lr": 0.2})]
    table = setup(read_groups(folders)).blocks[0]
    assert isinstance(table, Grid)
    assert (list(table.head), table.rows) == (["Experiment", "method.lr"], [["x", "0.1"], ["y", "0.2"]])


@pytest.mark.slow
def test_live_follows_until_all_are_finished(make: Make, tmp_path: Path) -> None:
    folder, output = make("x", 0, [0.5], finished=False), tmp_path / "page.html"
    pages: list[str] = []

    def stop() -> bool:
        if output.exists():
            pages.append(output.read_text())
        if len(pages) == 1:
            with (folder.path / "metrics.jsonl").open("a") as file:
                file.write(json.dumps(record(1, 0.7)) + "\n")
        elif len(pages) == 2:
            (folder.path / "summary.json").write_text(json.dumps(summarize(folder.records())))
        return False

    with folder.claimed():
        live(lambda: [folder, RunFolder(tmp_path / "not there yet")], output, 0.01, stop)
    assert [data_of(page)["refresh"] for page in pages] == [0.01, 0.01]
    assert data_of(pages[1])["sheets"]["courses-0"]["accuracy"] == [0.5, 0.7]
    final = output.read_text()
    assert data_of(final)["refresh"] is None
    assert 'id="pause"' in pages[0]
    assert 'id="pause"' not in final


def test_live_stops_when_told(make: Make, tmp_path: Path) -> None:
    answers = iter([False, True])
    folder = make("x", 0, [0.5], finished=False)
    with folder.claimed():
        live(lambda: [folder], tmp_path / "page.html", 0.01, lambda: next(answers))
    assert next(answers, "asked for all") == "asked for all"
    assert data_of((tmp_path / "page.html").read_text())["refresh"] is None
