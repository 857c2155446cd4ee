"""The leaderboard as a page of Markdown: what ``entrofed leaderboard`` writes."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from entrofed.charts.ranks import ranks_chart
from entrofed.charts.save import save_chart
from entrofed.files import write_whole
from entrofed.leaderboard.board import Board, BoardFederation
from entrofed.leaderboard.standing import Place, Standing, Target
from entrofed.leaderboard.tuning import Chosen
from entrofed.papers.page import table_lines
from entrofed.papers.reported import METRICS
from entrofed.papers.words import POOLED, number, pooled_cells, rank_rows, signed
from entrofed.suite.blocks import Pooled
from entrofed.suite.words import p_value

PERCENT = "percent"
NOT_REACHED = "–"


def write_page(board: Board, found: Standing, chosen: Mapping[str, Mapping[str, Chosen]], output: Path) -> None:
    """Write the page; ``chosen`` are the settings by federation and method."""
    picture = output.with_suffix("") / "ranks.svg"
    lines = [
        *_head(board, found),
        *_overview(board, found, f"{picture.parent.name}/{picture.name}"),
        *_gains(board, found),
    ]
    for name, places in found.places.items():
        lines += _federation(board, board.federations[name], places, chosen.get(name, {}))
    picture.parent.mkdir(parents=True, exist_ok=True)
    if found.ranks:
        mean_ranks = {rank.method: rank.mean_rank for rank in found.ranks}
        save_chart(ranks_chart(mean_ranks, found.ranks[0].critical_difference or 0.0), picture)
    write_whole(output, "\n".join(lines) + "\n")


def _head(board: Board, found: Standing) -> Iterator[str]:
    missing = [name for name in board.federations if name not in found.places]
    yield from ["# Leaderboard", ""]
    yield (
        "Methods on the same clients, the same seeds and the same first models; written by `entrofed leaderboard` from "
        "the Parquet files beside this page, which hold every round and the configuration of every run. Judged by the "
        f"{METRICS[board.judged_by]}."
    )
    yield from ["", "```sh"]
    yield "entrofed leaderboard --federation digits                                    # plays what is not stored yet"
    yield "entrofed leaderboard --federation digits --method my_parts.py:MyMethod      # yours, beside the stored ones"
    yield "entrofed leaderboard --results elsewhere                                    # everything anew, searches too"
    yield from ["```", ""]
    yield (
        "**Settings.** Every row, controls included, gets the same search in a federation, or none where that follows "
        "a paper's protocol, which then does not count for ranks and gains: the same number of trials, "
        "drawn at random (seeded) from the same range of learning rates and, where a method has a hyperparameter of "
        "its own, from a range of that. Searches are played with other seeds (from 100 on: other partitions, other "
        "first models), and judged on a validation set that the server keeps; the test set is not looked at. What was "
        "chosen is listed below, and lies in `FEDERATION.toml` beside the results. Long federations are searched with "
        "fewer rounds than they are played for, which favours what learns fast."
    )
    yield ""
    yield (
        "**Controls.** `fedavg` draws cohorts at random, `fedavg_uniform` also weighs all alike, `..._permuted` "
        "shuffles a method's own weights among the clients of each round: what does no better than its control has a "
        "choice, or weights, without information."
    )
    if missing:
        yield from ["", f"Not played yet: {', '.join(missing)}."]


def _overview(board: Board, found: Standing, picture: str) -> Iterator[str]:
    places = {name: {place.method: place for place in rows} for name, rows in found.places.items()}
    order = {rank.method: rank.mean_rank for rank in found.ranks}
    methods = list(dict.fromkeys(place.method for rows in found.places.values() for place in rows))
    methods.sort(key=lambda name: order.get(name, float("inf")))
    letters = {cells[0]: cells[2] for cells in rank_rows(found.ranks)[0]} if found.ranks else {}
    rows = [
        [
            f"`{name}`",
            board.methods[name].says if name in board.methods else "joined",
            f"{order[name]:.2f}" if name in order else "",
            letters.get(name, ""),
            *(_accuracy(places[federation].get(name)) for federation in places),
        ]
        for name in methods
    ]
    yield from ["", "## All federations", ""]
    yield from table_lines(["method", "", "mean rank", "group", *places], rows)
    if found.ranks:
        words = rank_rows(found.ranks)[1].replace("a cell", "a federation").replace("columns", "methods")
        yield from [
            "",
            f"{words[0].upper()}{words[1:]}. Ranks, and the gains below, are over {', '.join(found.counted)}.",
        ]
        yield "Accuracies in per cent, mean ± standard deviation over seeds."
        yield from ["", f"![Mean ranks with the critical difference: methods whose bars do not meet differ]({picture})"]
    yield from ["", *(f"- {name}: {board.federations[name].says}." for name in places)]


def _accuracy(place: Place | None) -> str:
    return "" if place is None else number(place.accuracy.mean, place.accuracy.spread, PERCENT)


def _gains(board: Board, found: Standing) -> Iterator[str]:
    yield from ["", f"## What each gains over {board.against}", ""]
    yield (
        "Differences between runs with the same federation and seed, in points; t-test with federations as blocks, "
        "Wilcoxon's signed-rank test beside it; both after Holm's correction over the table. *open*: no difference is "
        "shown."
    )
    yield from ["", *_pooled(found.gains)]
    if found.controls:
        yield from ["", "## What each gains over its control", "", *_pooled(found.controls)]


def _pooled(rows: Sequence[Pooled]) -> Iterator[str]:
    head = ["federations" if word == "cells" else word for word in POOLED]
    return table_lines(head, [pooled_cells(row, PERCENT) for row in sorted(rows, key=lambda row: -row.difference)])


def _federation(
    board: Board, federation: BoardFederation, places: tuple[Place, ...], chosen: Mapping[str, Chosen]
) -> Iterator[str]:
    target = f"{100 * federation.target:g} %"
    yield from ["", f"## {federation.id}", ""]
    yield (
        f"{federation.says[0].upper()}{federation.says[1:]}; {federation.setting['rounds']} rounds. "
        f"{_sought(federation)} p: paired t-test against {board.against} after Holm. To {target}: medians over the "
        "seeds that reach it."
    )
    costs = (f"rounds to {target}", f"MB to {target}")
    head = ["method", "accuracy", "95 % interval", "n", "rank", "gain", "won, lost", "p", *costs]
    rows = [_place(place) for place in places]
    if federation.tuning is not None:
        head += ["settings", "validated"]
        rows = [[*row, *_settings(chosen.get(place.method))] for row, place in zip(rows, places, strict=True)]
    yield from ["", *table_lines(head, rows)]


def _sought(federation: BoardFederation) -> str:
    tuning = federation.tuning
    if tuning is None:
        return "No search: every method has the paper's settings, and runs of the tables of results stand here, too."
    return (
        f"Settings: the best of {tuning.trials} trials with {tuning.seeds} seed{'s' * (tuning.seeds > 1)} each, "
        f"{tuning.setting.get('rounds', federation.setting['rounds'])} rounds; *validated*: their accuracy in the "
        "search, per cent."
    )


def _place(place: Place) -> list[str]:
    low, high, gain = place.accuracy.low, place.accuracy.high, place.gain
    paired = None if gain is None else gain.paired
    return [
        f"`{place.method}`",
        _accuracy(place),
        "" if low is None or high is None else f"{number(low, None, PERCENT)}..{number(high, None, PERCENT)}",
        str(place.accuracy.n),
        "" if place.mean_rank is None else f"{place.mean_rank:.2f}",
        "" if paired is None else signed(paired.difference, PERCENT),
        "" if paired is None else f"{paired.wins}, {paired.losses}",
        p_value(None if gain is None else gain.t_p_holm),
        *_target(place.target),
    ]


def _settings(chosen: Chosen | None) -> tuple[str, str]:
    if chosen is None:
        return "", ""
    words = ", ".join(f"{key.rsplit('.', 1)[-1]} {value:.3g}" for key, value in chosen.chosen.items())
    return words, number(100 * chosen.accuracy, None, PERCENT)


def _target(target: Target) -> tuple[str, str]:
    if target.rounds is None or target.megabytes is None:
        return NOT_REACHED, NOT_REACHED
    some = "" if target.reached == target.seeds else f" ({target.reached} of {target.seeds} seeds)"
    return f"{target.rounds:g}{some}", f"{target.megabytes:.1f}"
