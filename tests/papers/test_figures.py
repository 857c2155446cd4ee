"""The papers' figures from stored results."""

import pytest

from entrofed.papers.figures import POINTS, dealt, dealt_words, figure, lacking, undrawn
from entrofed.papers.page import with_shared
from entrofed.papers.reported import Figure
from entrofed.papers.results import SERIES, Result
from entrofed.papers.tables import papers

PAPERS = papers()


def made(table, cell, column, seed, values, **more):
    return Result(table, cell, column, seed, "1", "", {name: list(values) for name in SERIES}, **more)


def rows_of(chart):
    (rows,) = chart.to_dict()["datasets"].values()
    return rows


def test_curves_by_round():
    found = Figure("f", "c", "table8", ("accuracy",), {"iris": ("iris",)})
    runs = [made("inv_entropy/table8", "iris", "FedAvg", seed, [0.1, 0.2 + seed / 10]) for seed in range(3)]
    rows = rows_of(figure(PAPERS["inv_entropy"], found, runs))
    assert [(row["x"], round(row["value"], 6), row["low"], round(row["high"], 6)) for row in rows] == [
        (1, 0.1, 0.1, 0.1),
        (2, 0.3, 0.2, 0.4),
    ]
    assert {row["panel"] for row in rows} == {"iris"}


@pytest.mark.parametrize(
    ("paper", "table", "cells", "axis"),
    [
        ("record", "cifar10", ("dir0.1", "iid"), "shared"),
        ("inv_entropy", "table8", ("heart", "iris"), "independent"),
    ],
)
def test_panels_of_one_dataset_share_their_axis(paper, table, cells, axis):
    runs = [made(f"{paper}/{table}", cell, "FedAvg", 0, [0.1, 0.2]) for cell in cells]
    found = Figure("f", "c", table, ("accuracy",), {cell: (cell,) for cell in cells})
    assert figure(PAPERS[paper], found, runs).to_dict()["resolve"]["scale"]["y"] == axis


def test_rounds_that_were_not_evaluated_have_an_entropy():
    course = {"cohort_entropy": [1.0, None, 3.0]}
    run = made("fedentopt/fig1", "cifar10-c2", "FedAvg", 0, [0.5], at=(3,), course=course)
    paper = PAPERS["fedentopt"]
    rows = rows_of(figure(paper, paper.figures[0], [run]))
    assert [(row["x"], row["value"]) for row in rows] == [(1, 1), (3, 3)]


def test_entropies_of_table_1_stand_in_figure_1():
    """The same experiments, which need not be run twice."""
    paper = PAPERS["fedentopt"]
    course = {"cohort_entropy": [2.0, 3.0]}
    run = made("fedentopt/table1", "cifar10-c2", "FedEntOpt", 0, [0.5, 0.6], course=course)
    elsewhere = made("fedentopt/table1", "cifar10-dir0.1", "FedEntOpt", 0, [0.5, 0.6], course=course)
    assert figure(paper, paper.figures[0], with_shared([elsewhere])) is None
    rows = rows_of(figure(paper, paper.figures[0], with_shared([run])))
    assert [(row["column"], row["value"]) for row in rows] == [("FedEntOpt", 2), ("FedEntOpt", 3)]


def test_values_against_what_cells_differ_in():
    found = Figure(
        "f", "c", "fig4", ("accuracy_last_10",), {"p": ("cifar10-150-3", "cifar10-150-4")}, (3, 4), "clients"
    )
    runs = [made("fedentopt/fig4", f"cifar10-150-{m}", "FedAvg", 0, [m / 10] * 500) for m in (3, 4, 5)]
    rows = rows_of(figure(PAPERS["fedentopt"], found, runs))
    assert [(row["x"], row["value"]) for row in rows] == [(3, 0.3), (4, 0.4)]


def test_what_is_drawn_of_a_cell_stands_in_a_row():
    """As the three parts of the paper's figure do."""
    paper = PAPERS["fedklentropy"]
    found = next(found for found in paper.figures if found.id == "fig3")
    runs = [made("fedklentropy/table2", cell, "MOON", 0, [0.5]) for cell in ("mnist-seeded", "mnist")]
    chart = figure(paper, found, runs).to_dict()
    assert chart["columns"] == 3
    assert chart["facet"]["sort"] == [
        *("mnist: training loss", "mnist: test loss", "mnist: accuracy"),
        *("mnist-seeded: training loss", "mnist-seeded: test loss", "mnist-seeded: accuracy"),
    ]


def test_long_curves_are_thinned_out_but_end_where_they_end():
    found = Figure("f", "c", "table8", ("accuracy", "loss"), {"iris": ("iris",)})
    rows = rows_of(figure(PAPERS["inv_entropy"], found, [made("inv_entropy/table8", "iris", "FedAvg", 0, [0.5] * 500)]))
    assert {row["panel"] for row in rows} == {"iris: accuracy", "iris: test loss"}
    assert len(rows) <= 2 * (POINTS + 1)
    assert max(row["x"] for row in rows) == 500


def test_confusion_matrices():
    """Two seeds together: of class 0 five of eight are right."""
    paper = PAPERS["inv_entropy"]
    found = next(found for found in paper.figures if found.series == ("confusion",))
    runs = [
        made(
            "inv_entropy/table8",
            "heart",
            label,
            seed,
            [0.5, 0.5],
            course={"confusion": [None, [3 - seed, 1 + seed, 0, 4]]},
        )
        for label in ("FedAvg", "Uniform")
        for seed in (0, 1)
    ]
    rows = rows_of(figure(paper, found, runs))
    assert {row["panel"] for row in rows} == {"heart: FedAvg"}  # Uniform is not in the paper's figure
    assert [(row["is"], row["taken"], row["percent"]) for row in rows] == [
        (0, 0, 62.5),
        (0, 1, 37.5),
        (1, 0, 0),
        (1, 1, 100),
    ]


def test_nothing_to_draw():
    for paper in PAPERS.values():
        assert all(figure(paper, found, []) is None for found in paper.figures if found.deal is None)


def test_what_a_figure_lacks():
    """Nothing of a cell; and no figure of what was run for columns that it does not show."""
    paper = PAPERS["inv_entropy"]
    curves = next(found for found in paper.figures if found.id == "fig5")
    iris = made("inv_entropy/table8", "iris", "FedAvg", 0, [0.5, 0.6])
    assert lacking(paper, curves, [iris]) == ["heart", "pumpkin", "seeds"]
    assert undrawn([paper], [iris]) == [(paper, found) for found in paper.figures if found.id == "fig6"]  # no matrices
    other = made("inv_entropy/table8", "iris", "Uniform", 0, [0.5, 0.6])
    assert lacking(paper, curves, [other]) == ["heart", "iris", "pumpkin", "seeds"]
    assert len(undrawn([paper], [other])) == len(paper.figures)
    entropies, fedentopt = PAPERS["fedentopt"].figures[0], PAPERS["fedentopt"]
    known = [made("fedentopt/fig1", "cifar10-c2", label, 0, [0.5]) for label in ("FedAvg", "FedEntOpt")]
    assert lacking(fedentopt, entropies, known) == ["cifar10-c2: Re-selection"]
    dealt_ones = [found for found in PAPERS["fedklentropy"].figures if found.deal is not None]
    assert not {found.id for _, found in undrawn([PAPERS["fedklentropy"]], [])} & {found.id for found in dealt_ones}


@pytest.mark.parametrize(
    ("name", "classes", "most", "largest"), [("fig1", 4.64, (10, 9), (41, 3997)), ("fig2", 7.52, (8, 10), (31, 2223))]
)
def test_the_partition_that_the_paper_shows(name, classes, most, largest):
    """Mean number of classes, the client with most of them, and the one with most samples: as the paper says."""
    paper = PAPERS["fedklentropy"]
    found = next(found for found in paper.figures if found.id == name)
    counts = dealt(found.deal)
    held, sizes = (counts > 0).sum(axis=1), counts.sum(axis=1)
    assert held.mean() == pytest.approx(classes)
    assert (held.argmax(), held.max()) == most
    assert (sizes.argmax(), sizes.max()) == largest
    bars, cells = figure(paper, found, []).to_dict()["datasets"].values()
    assert [row["samples"] for row in bars] == sizes.tolist()
    assert sum(row["samples"] for row in cells) == sizes.sum() == 60_000
    assert dealt_words(counts).startswith(f"On average a client has {classes:.2f} classes")


def test_training_validation_and_test_data_in_one_panel():
    paper = PAPERS["inv_entropy"]
    found = next(found for found in paper.figures if found.id == "fig5")
    run = made("inv_entropy/table8", "iris", "FedAvg", 0, [0.5, 0.6])
    rows = rows_of(figure(paper, found, [run, made("inv_entropy/table8", "iris", "Entropy", 0, [0.9, 0.9])]))
    assert {row["panel"] for row in rows} == {"iris: loss", "iris: accuracy"}
    assert {row["column"] for row in rows} == {"training", "validation", "test"}
    assert {row["value"] for row in rows} == {0.5, 0.6}  # FedAvg's alone


def test_bars_of_a_metric():
    paper = PAPERS["fedentopt"]
    found = next(found for found in paper.figures if found.id == "fig5")
    runs = [made("fedentopt/fig5", "cifar10-c2", "FedAvg", seed, [0.4 + seed / 10] * 500) for seed in range(2)]
    [row] = rows_of(figure(paper, found, runs))
    assert (row["panel"], row["column"], row["low"], row["high"]) == ("cifar10-c2", "FedAvg", 0.4, 0.5)
    assert row["value"] == pytest.approx(0.45)
