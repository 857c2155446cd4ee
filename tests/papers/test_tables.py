import json
import tomllib
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

import entrofed.papers.tables
from entrofed.data.catalog import CATALOG
from entrofed.data.replay import replayed_cohorts
from entrofed.errors import ConfigError
from entrofed.experiment.config import parse
from entrofed.papers.reported import METRICS, SPREADS, UNITS, WITHOUT, Cell, Column, Table
from entrofed.papers.reproduce import planned
from entrofed.papers.results import COURSE, SERIES
from entrofed.papers.tables import find, find_cell, papers
from entrofed.registry import PART_KINDS

PAPERS = papers()
TABLES = {f"{paper.name}/{table.id}": table for paper in PAPERS.values() for table in paper.tables.values()}
CELLS = [(path, cell.id) for path, table in TABLES.items() for cell in table.cells.values()]

by_table = pytest.mark.parametrize("path", TABLES)


def test_all_tables_are_there():
    assert set(TABLES) == {
        *(f"fedentopt/{name}" for name in ("table1", "table2", "table3", "table4", "fig1", "fig3", "fig4", "fig5")),
        *("fedep/table2", "fedep/table3", "fedklentropy/table2", "fedklentropy/table3", "fedklentropy/alignment"),
        *("infodiv/table1", "infodiv/table2", "inv_entropy/table8", "record/cifar10"),
    }
    assert [len(table.cells) for table in TABLES.values()] == [13, 6, 8, 6, 1, 24, 20, 9, 15, 9, 2, 2, 1, 9, 4, 5, 2]
    assert all(paper.title and paper.authors for paper in PAPERS.values())


@pytest.mark.parametrize(("path", "cell"), CELLS)
def test_every_experiment_is_one(path, cell):
    table = TABLES[path]
    for label, column in table.cells[cell].columns.items():
        experiment = parse(table.cells[cell].experiment(column, seed=4), where=f"{path} {cell} {label}")
        assert experiment.seed == 4
        assert experiment.data.name in CATALOG
        assert experiment.method.name == column.setting["method"]["name"]
        short = parse(table.cells[cell].experiment(column, rounds=5), where=f"{path} {cell} {label}")
        assert short.rounds == (10 if label == "FedConcat" else 5)


@pytest.mark.parametrize(("path", "cell"), CELLS)
def test_no_two_columns_are_the_same_experiment(path, cell):
    """A wrapper takes what it is not given from the method's recipe: what an ablation leaves out may come back so."""
    cell, seen = find(path)[1].cells[cell], {}
    for label, column in cell.columns.items():
        experiment = parse(cell.experiment(column))
        recipe, rest = experiment.method.recipe, experiment.decisive() | {"name": ""}
        rest["method"] = {key: value for key, value in rest["method"].items() if key not in ("name", *PART_KINDS)}
        parts = repr([getattr(recipe, kind) for kind in PART_KINDS])
        assert seen.setdefault((parts, json.dumps(rest, sort_keys=True)), label) == label


def test_names_of_experiments_differ():
    cells = [cell for table in TABLES.values() for cell in table.cells.values()]
    names = [cell.experiment(column)["name"] for cell in cells for column in cell.columns.values()]
    assert len(set(names)) == len(names)


@by_table
def test_words_are_from_the_vocabularies(path):
    table = TABLES[path]
    assert set(table.metrics) <= set(METRICS)
    assert set(table.metrics.values()) <= set(UNITS)
    assert table.caption
    assert table.notes
    has_spread = any(number.spread is not None for _, _, _, number in numbers(table))
    assert (table.spread in SPREADS) if has_spread else table.spread is None


@by_table
def test_every_metric_of_every_cell_has_values_of_known_columns(path):
    table = TABLES[path]
    for cell in table.cells.values():
        assert tuple(cell.columns) == table.runs
        assert set(table.own) <= set(table.runs)
        assert set(table.readings) <= set(table.columns)
        assert {*table.shuffled} <= {*table.controls}
        assert {*table.shuffled.values()} <= {*table.own}
        assert list(cell.values) in ([], [metric for metric in table.metrics if metric != "convergence"])  # ours
        for values in cell.values.values():
            assert values
            assert set(values) <= set(table.columns)


@by_table
def test_values_are_possible(path):
    table = TABLES[path]
    for cell, metric, label, number in numbers(table):
        where = (path, cell, metric, label)
        most = {"percent": 100, "fraction": 1, "nats": 5}[table.metrics[metric]]
        assert 0 <= number.value <= most, where
        assert number.spread is None or 0 <= number.spread < most / 2, where
        if table.metrics[metric] == "percent":
            assert number.value > 1 or table.gain_over, where  # a fraction by mistake


@by_table
def test_no_id_is_given_twice(path):
    paper, table = path.split("/")
    content = tomllib.loads((Path(entrofed.papers.__file__).parent / f"{paper}.toml").read_text(encoding="utf-8"))
    ids = [entry["id"] for entry in content["table"]]
    assert len(set(ids)) == len(ids)
    cells = [cell for entry in content["table"] if entry["id"] == table for cell in entry["cell"]]
    assert len({cell["id"] for cell in cells}) == len(cells)
    for cell in cells:
        assert set(cell) <= {"id", "setting", "columns", "values", "seeds", "also"}
        assert set(cell.get("columns", {})) <= set(TABLES[path].columns)


@pytest.mark.parametrize(
    ("path", "own", "shared"),
    [
        (
            "record/cifar10/dir0.1",
            "FedMaxEnt",
            {"FedAvg", "FedProx", "FedNova", "SCAFFOLD", "FedLC", "FedRS", "KL", "FedEntOpt", "Uniform"},
        ),
        ("fedentopt/fig1/cifar10-c2", "Re-selection", {"FedAvg", "FedEntOpt"}),
    ],
)
def test_columns_that_stand_in_two_cells_are_the_same_experiment(path, own, shared, tmp_path):
    cell, table = find_cell(path), path.rpartition("/")[0]
    other = find_cell(cell.also)
    assert set(cell.columns) & set(other.columns) == shared
    for label in shared:
        one, two = (parse(of.experiment(of.columns[label], seed=2) | {"name": "x"}) for of in (cell, other))
        assert one == two
        assert planned(table, cell, label, None, 2, tmp_path).cell is other
    assert planned(table, cell, own, None, 2, tmp_path).cell is cell


@by_table
def test_claims_are_about_what_is_there(path):
    table = TABLES[path]
    assert table.claims or not table.own or not any(cell.values for cell in table.cells.values())
    for claim in table.claims:
        assert claim.says
        assert claim.column in table.columns
        assert set(claim.over) <= ({WITHOUT} if table.gain_over else set(table.columns))
        assert claim.metric in (None, *table.metrics)
        assert not {*claim.over} & {claim.column, *table.own}
        assert claim.cells
        assert set(claim.cells) <= set(table.cells)


def test_figures_are_of_cells_that_are_there():
    figures = [(paper, figure) for paper in PAPERS.values() for figure in paper.figures]
    assert [f"{paper.name}/{figure.id}" for paper, figure in figures] == [
        *(f"fedentopt/fig{i}" for i in (1, 2, 3, 4, 5, 6)),
        *("fedep/fig1", "fedep/fig2"),
        *(f"fedklentropy/{name}" for name in ("fig1", "fig2", "fig3", "fig4", "alignment")),
        *("infodiv/fig1a", "infodiv/fig1b", "inv_entropy/fig5", "inv_entropy/fig6", "record/curve"),
    ]
    for paper, figure in figures:
        assert figure.caption
        if figure.deal is not None:
            assert not figure.table
            continue
        table = paper.tables[figure.table]
        assert {cell for panel in figure.panels.values() for cell in panel} <= set(table.cells)
        assert set(figure.columns) <= set(table.runs)
        for panel in figure.panels.values():
            assert len(panel) == (len(figure.at) or 1)
        assert bool(figure.series) != bool(figure.together)
        assert len(figure.columns) == 1 or not figure.together
        for series in (*figure.series, *(series for lines in figure.together.values() for series in lines)):
            assert series in (table.metrics if figure.at else (*SERIES, *COURSE, *table.metrics))


def test_figures_5_and_6_are_of_the_larger_network_and_5_percent_of_the_clients():
    """So says the caption of either, and the text speaks of C = 3, too; table 4 has 10 %, and no C = 3."""
    paper = PAPERS["fedentopt"]
    shown = {figure.id: figure for figure in paper.figures}
    for name, series in (("fig5", ("accuracy_last_10",)), ("fig6", ("accuracy",))):
        assert (shown[name].table, shown[name].series) == ("fig5", series)
        cells = [cell for panel in shown[name].panels.values() for cell in panel]
        names = ("cifar10", "cinic10", "cifar100")
        assert sorted(cells) == sorted(f"{name}-{skew}" for name in names for skew in ("dir0.1", "c2", "c3"))
        for cell in (paper.tables["fig5"].cell(cell) for cell in cells):
            experiment = parse(cell.experiment(cell.columns["FedEntOpt"]))
            assert (experiment.model, experiment.method.cohort) == ("vgg8", 0.05)
            assert experiment.data.labels_per_client == (int(cell.id[-1]) if "-c" in cell.id else None)


def test_only_figure_4_leaves_out_fedconcat():
    tables = PAPERS["fedentopt"].tables
    without = {name for name, table in tables.items() if name.startswith("fig") and "FedConcat" not in table.columns}
    assert without == {"fig1", "fig4"}  # the first compares selections
    for path in ("table1", "fig3", "fig5"):
        for cell in tables[path].cells.values():
            server = parse(cell.experiment(cell.columns["FedConcat"])).method.recipe.server
            twenty = cell.id.startswith("cifar100")
            assert (server.start, server.most) == (("outputs", 1.2) if twenty else ("random", None))
            assert server.encoder_rounds == 480


def test_readings_stand_in_for_a_column():
    """None of them is the paper's FedEP; each is compared with it, and no two with each other."""
    for path in ("fedep/table2", "fedep/table3"):
        table = TABLES[path]
        readings = ("FedEP-printed", "FedEP-paper", "FedEP-authors", "FedEP-smoothed", "FedEP-histogram")
        assert table.readings == {"FedEP": readings}
        assert table.own == readings
        assert "FedEP" not in table.runs
        assert {table.told_as(label) for label in readings} == {"FedEP"}
        assert table.told_as("Uniform") is None
        assert table.told_as("FedAvg") == "FedAvg"
        assert set(table.rivals("FedEP-authors")) == {
            *("FedAvg", "SCAFFOLD", "FedProx", "Uniform", "FedEP-authors-permuted"),
        }
        cell = next(iter(table.cells.values()))
        weighers = [parse(cell.experiment(cell.columns[label])).method.recipe.weigher for label in readings]
        assert [weigher.mode for weigher in weighers] == ["printed", "paper", "authors", "smoothed", "histogram"]
        assert weighers[0].penalty == "complete_data"


def test_flowers_values_for_flowers_table():
    cell = TABLES["inv_entropy/table8"].cell("iris")
    server = parse(cell.experiment(cell.columns["FedOpt"])).method.recipe.server
    assert (server.lr, server.tau, server.beta1, server.beta2, server.bias_correction) == (0.1, 1e-9, 0.9, 0.99, False)


def test_infodiv_is_judged_out_of_distribution_by_the_mean_of_the_last_ten_rounds():
    for table in PAPERS["infodiv"].tables.values():
        assert table.judged_by == "accuracy_last_10"
        assert {cell.setting["evaluate_last"] for cell in table.cells.values()} == {10}


def test_the_four_tables_are_scaled_as_was_fitted_to_fedavg():
    for cell in TABLES["inv_entropy/table8"].cells.values():
        for column in cell.columns.values():
            experiment = parse(cell.experiment(column))
            assert experiment.data.normalize == "minmax"
            assert (experiment.method.optimizer, experiment.method.lr) == ("adam", 2e-3)


def test_a_variant_is_the_papers_own():
    table = TABLES["fedklentropy/table2"]
    assert table.own == ("FedKLEntropy", *table.variants)
    assert table.told_as("FedKLEntropy-js") is None
    assert "FedKLEntropy-js" not in table.rivals("FedKLEntropy")
    assert table.rivals("FedKLEntropy-js") == ["MOON", "FedAsl", "FedAvg", "Uniform"]  # it shuffles another's weights


def numbers(table: Table):
    for cell in table.cells.values():
        for metric, values in cell.values.items():
            for label, number in values.items():
                yield cell.id, metric, label, number


@pytest.mark.parametrize(
    ("path", "cell", "metric", "label", "value", "spread"),
    [
        ("fedentopt/table1", "cifar10-dir0.1", "accuracy_last_10", "FedAvg", 46.61, 0.17),
        ("fedentopt/table1", "cifar10-dir0.1", "accuracy_last_10", "FedEntOpt", 52.80, 0.03),
        ("fedentopt/table1", "cinic10-c3", "accuracy_last_10", "FedEntOpt-DP", 44.77, 0.01),
        ("fedentopt/table1", "cifar100-c2", "accuracy_last_10", "FedRS", 25.83, 0.16),
        ("fedentopt/table2", "cinic10-c2", "accuracy_last_10", "SCAFFOLD", 27.02, None),
        ("fedentopt/table2", "cifar100-dir0.1", "accuracy_last_10", "FedLC", 4.11, None),
        ("fedentopt/table3", "dropout-cifar10-dir0.1", "accuracy_last_10", "FedAvg", 11.47, 0.02),
        ("fedentopt/table3", "straggling-cifar100-c2", "accuracy_last_10", "FedEntOpt", 26.22, 0.08),
        ("fedentopt/table4", "cinic10-c2", "accuracy_last_10", "FedNova", 47.11, 0.08),
        ("fedep/table2", "cifar10-dir20", "macro_f1", "FedProx", 0.460, 0.012),
        ("fedep/table2", "fashion-mnist-dir0.1", "macro_f1", "FedEP", 0.438, 0.0116),
        ("fedep/table3", "mnist-dir50-0.5", "macro_f1", "SCAFFOLD", 0.948, 0.074),
        ("fedklentropy/table2", "mnist", "accuracy_mean", "FedKLEntropy", 91.32, 12.80),
        ("fedklentropy/table2", "mnist", "loss_mean", "FedAsl", 0.3954, 0.4766),
        ("fedklentropy/table3", "fashion-mnist", "train_loss_mean", "MOON", 0.3208, 0.2042),
        ("fedklentropy/table3", "fashion-mnist", "weighted_f1_mean", "FedAsl", 0.8162, 0.0780),
        ("infodiv/table1", "emnist10", "accuracy_last_10", "MiniMaxSim", 82.3, 4.7),
        ("infodiv/table1", "shakespeare", "accuracy_id_last_10", "Power-of-Choice", 56.7, 2.6),
        ("infodiv/table2", "cifar10", "accuracy_last_10", "Data size", 33.2, 0.3),
        ("inv_entropy/table8", "heart", "weighted_precision", "FedProx", 94.23, None),
        ("inv_entropy/table8", "seeds", "weighted_f1", "FedOpt", 83.20, None),
    ],
)
def test_numbers_are_the_papers(path, cell, metric, label, value, spread):
    found = find(path)[1].cell(cell).values[metric][label]
    assert (found.value, found.spread) == (value, spread)


@pytest.mark.parametrize(
    ("path", "cell", "missing"),
    [
        ("fedentopt/table1", "cifar100-c3", {"FedLC", "FedRS", "KL", "FedEntOpt", "FedEntOpt-DP"}),
        ("fedentopt/table4", "cifar100-dir0.1", {"FedLC", "FedRS"}),
        ("fedentopt/table4", "cifar100-c2", {"FedLC", "FedRS", "KL", "FedEntOpt", "FedEntOpt-DP"}),
    ],
)
def test_only_what_cannot_be_read_is_missing(path, cell, missing):
    table = TABLES[path]
    assert set(table.columns) - set(table.cell(cell).values["accuracy_last_10"]) == missing
    assert any("cannot be read" in note for note in table.notes)


def test_nothing_else_is_missing():
    full = {(path, cell.id) for path, table in TABLES.items() for cell in table.cells.values() if complete(table, cell)}
    assert {cell for cell in CELLS if cell not in full} == {
        ("fedentopt/table1", "cifar100-c3"),
        ("fedentopt/table4", "cifar100-dir0.1"),
        ("fedentopt/table4", "cifar100-c2"),
    }


def complete(table: Table, cell: Cell) -> bool:
    return all(set(values) == set(table.columns) for values in cell.values.values())


def test_recall_weighted_by_class_size_is_accuracy():
    for cell in TABLES["inv_entropy/table8"].cells.values():
        if cell.id == "heart-unique":  # a cell of ours
            continue
        assert cell.values["weighted_recall"] == cell.values["accuracy"]


def test_gains_refer_to_cells_and_columns_of_the_other_table():
    gains = [(path, table) for path, table in TABLES.items() if table.gain_over]
    assert [path for path, _ in gains] == ["fedentopt/table2"]
    for path, table in gains:
        other = TABLES[f"{path.split('/')[0]}/{table.gain_over}"]
        assert table.metrics == other.metrics
        for cell, metric, label, number in numbers(table):
            assert number.value + other.cell(cell).values[metric][label].value <= 100
            with_it = table.cell(cell).experiment(table.cell(cell).columns[label])
            without = other.cell(cell).experiment(other.cell(cell).columns[label])
            assert with_it["method"].pop("selector") == "fedentopt"
            assert {**with_it, "name": without["name"]} == without


def test_the_leader_is_what_the_paper_says():
    def leader(cell: Cell, metric: str) -> str:
        return max(cell.values[metric], key=lambda label: cell.values[metric][label].value)

    table = TABLES["fedentopt/table1"]
    first = [cell for cell in table.cells.values() if cell.values and complete(table, cell)]
    assert {leader(cell, "accuracy_last_10") for cell in first} == {"FedEntOpt", "FedEntOpt-DP"}
    assert leader(TABLES["infodiv/table1"].cell("emnist10"), "accuracy_last_10") == "MiniMaxSim"
    order = ["MiniMaxSim", "Convex hull", "Full", "Power-of-Choice", "Interior", "Random", "MaxSim"]
    outside = TABLES["infodiv/table1"].cell("emnist10").values["accuracy_last_10"]
    assert all(outside[a].value > outside[b].value for a, b in pairwise(order))


def test_settings_of_table_cell_and_column_come_together():
    cell = TABLES["fedentopt/table1"].cell("cifar100-c3")
    table = cell.experiment(cell.columns["FedEntOpt-DP"], seed=2)
    assert table["name"] == "fedentopt-table1-cifar100-c3-FedEntOpt-DP"
    assert (table["seed"], table["rounds"], table["model"]) == (2, 500, "lenet5")
    assert table["data"]["labels_per_client"] == 3
    assert (table["method"]["cohort"], table["method"]["lr_decay"]) == (0.08, 0.98)
    assert table["privacy"]["epsilon"] == 0.5
    assert "privacy" not in cell.experiment(cell.columns["FedEntOpt"])


def test_changing_an_experiment_leaves_the_cell_alone():
    cell = TABLES["fedentopt/table1"].cell("cifar10-c2")
    cell.experiment(cell.columns["FedAvg"])["data"]["clients"] = 1
    assert cell.experiment(cell.columns["FedAvg"])["data"]["clients"] == 100


def test_a_cell_can_ask_more_of_a_method():
    table = TABLES["fedentopt/table1"]
    servers = [
        table.cell(cell).experiment(table.cell(cell).columns["FedConcat"])["method"]["server"]
        for cell in ("cifar10-c2", "cifar100-c2")
    ]
    assert servers[1] == {**servers[0], "start": "outputs", "most": 1.2}


def test_whatever_is_counted_in_rounds_is_scaled():
    cell = TABLES["fedentopt/table1"].cell("cifar10-c2")
    concat = cell.experiment(cell.columns["FedConcat"], rounds=150)
    assert (concat["rounds"], concat["method"]["server"]["encoder_rounds"]) == (294, 144)
    assert cell.experiment(cell.columns["FedAvg"], rounds=150)["rounds"] == 150
    assert cell.experiment(cell.columns["FedConcat"])["rounds"] == 980


def test_other_methods_can_be_put_into_a_cell():
    cell = TABLES["fedklentropy/table2"].cell("mnist")
    control = Column("uniform weights", {"method": {"name": "fedavg_uniform", "selector": "random"}})
    experiment = parse(cell.experiment(control))
    assert (experiment.name, experiment.method.selector) == ("fedklentropy-table2-mnist-uniform-weights", "random")


@pytest.mark.parametrize(
    ("path", "sizes"),
    [
        ("fedklentropy/table2", (5923, 6742, 5958, 6131, 5842, 5421, 5918, 6265, 5851, 5949)),
        ("fedklentropy/table3", (6000,) * 10),
    ],
)
def test_replayed_cohorts_are_those_of_the_public_runs(path, sizes):
    """The draws depend on the labels only through the class sizes, which are those of the training parts."""
    cell, seeded = TABLES[path].cells.values()
    assert (cell.seeds, seeded.seeds, seeded.values) == ((42,), None, cell.values)
    data, rounds = cell.setting["data"], cell.setting["rounds"]
    labels = np.repeat(np.arange(10), sizes)
    cohorts = replayed_cohorts(labels, data["clients"], alpha=data["alpha"], tests=10_000, rounds=rounds, size=5)
    assert data["partition"] == "fedklentropy_replay"
    assert [tuple(cohort) for cohort in cell.setting["method"]["selector"]["cohorts"]] == cohorts


@pytest.mark.parametrize("path", ["fedentop/table1", "fedentopt/tabel1", "fedentopt-table1"])
def test_an_unknown_table_is_told_with_the_nearest(path):
    with pytest.raises(ConfigError, match=r"unknown table .*did you mean 'fedentopt/table1'"):
        find(path)


def test_an_unknown_cell_is_told_with_the_nearest():
    with pytest.raises(ConfigError, match=r"unknown cell of table1 'cifar10-dir0.01'; did you mean 'cifar10-dir0.1'"):
        find("fedentopt/table1")[1].cell("cifar10-dir0.01")
