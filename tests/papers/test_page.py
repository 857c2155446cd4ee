"""What a table comes to as a whole, and the page that tells it."""

from dataclasses import replace

import pytest

from entrofed.papers.claims import _below, judge_claims
from entrofed.papers.page import write_page
from entrofed.papers.pooled import Pool, shown
from entrofed.papers.results import SERIES, Result
from entrofed.papers.tables import find, papers
from entrofed.papers.verdict import verdicts
from entrofed.papers.words import claim_cells, family_words, sentences

IRIS = "inv_entropy/table8"
ROUNDS = {"heart": 20, "iris": 10, "pumpkin": 10, "seeds": 8, "heart-unique": 20}


def made(column: str, seed: int, value: float, cell: str = "iris") -> Result:
    return Result(IRIS, cell, column, seed, "0.1", "", {name: [value] * ROUNDS[cell] for name in SERIES})


def runs_of(values, cells=("iris",)):
    return [
        made(label, seed, value + 0.01 * i, cell)
        for i, cell in enumerate(cells)
        for label, row in values.items()
        for seed, value in enumerate(row)
    ]


VALUES = {
    "FedAvg": (0.80, 0.82, 0.84),
    "Entropy": (0.83, 0.84, 0.88),
    "FedProx": (0.83, 0.85, 0.86),
    "Uniform": (0.90, 0.92, 0.94),
    "Entropy-permuted": (0.83, 0.84, 0.88),
}
CELLS = ("iris", "pumpkin", "seeds")


def test_gains_over_all_cells():
    rows = {row.against: row for row in Pool(IRIS, runs_of(VALUES, CELLS)).gains()}
    assert {row.method for row in rows.values()} == {"Entropy"}
    assert rows["FedAvg"].difference == pytest.approx(3)
    assert (rows["FedAvg"].n, rows["FedAvg"].cells) == (9, 3)
    assert {name: shown(row) for name, row in rows.items()} == {
        "FedAvg": "better",
        "FedProx": "open",
        "Uniform": "worse",
        "Entropy-permuted": "open",
    }


def test_cells_of_ours_do_not_count_beside_the_papers():
    alone = Pool(IRIS, runs_of(VALUES, CELLS)).gains()
    assert Pool(IRIS, runs_of(VALUES, CELLS) + runs_of(VALUES, ("heart-unique",))).gains() == alone
    assert Pool(IRIS, runs_of(VALUES, ("heart-unique",))).gains()[0].cells == 1


def said(runs, path=IRIS):
    pool = Pool(path, runs)
    return list(sentences(pool.table, pool.judged, pool.gains(), "percent"))


def test_a_sentence_for_each_table():
    assert said(runs_of(VALUES, CELLS)) == [
        "Entropy, over 3 cells with 3 seeds: shown better than FedAvg (+3.00); not shown to differ from FedProx "
        "(+0.33); beside its controls shown worse than equal weights (-7.00); not shown to differ from its own weights "
        "shuffled (+0.00)."
    ]
    assert said(runs_of({"FedAvg": (0.8,)})) == ["Not run yet: Entropy."]
    assert said(runs_of({"Entropy": (0.8,)})) == [
        "Entropy: nothing is shown; it had not settled, or the others are missing or had not settled."
    ]
    [sentence] = said([run for run in runs_of(VALUES, CELLS) if run.seed == 0])
    assert "one seed a cell, so that nothing is shown, against FedAvg (+3.00)" in sentence
    assert "beside its controls one seed a cell, so that nothing is shown, against equal weights (-7.00)" in sentence
    assert "better" not in sentence
    more = runs_of({"FedProx": VALUES["FedProx"], "Entropy": VALUES["Entropy"][:1]}, ("heart",))
    assert said([*runs_of(VALUES, CELLS), *more])[0].startswith("Entropy, over 3 to 4 cells with 1 to 3 seeds: ")


def test_readings_and_variants_that_were_not_run_are_named():
    runs = [
        Result("fedep/table2", "mnist-dir1", label, 0, "1", "", {name: [value] * 10 for name in SERIES})
        for label, value in (("FedAvg", 0.5), ("FedEP-authors", 0.6))
    ]
    *_, last = said(runs, "fedep/table2")
    assert last == "Not run yet: FedEP-printed, FedEP-paper, FedEP-smoothed, FedEP-histogram."
    found = [claim for claim in judge_claims("fedep/table2", runs) if "alpha 1" in claim.claim.says]
    assert [(claim.column, bool(claim.rounds)) for claim in found] == [
        ("FedEP-printed", False),
        ("FedEP-paper", False),
        ("FedEP-authors", True),
        ("FedEP-smoothed", False),
        ("FedEP-histogram", False),
    ]
    none = [claim.column for claim in judge_claims("fedep/table2", runs[:1]) if "alpha 1" in claim.claim.says]
    assert none == ["FedEP"]  # one line, if there is no reading to tell apart


def test_the_page_says_what_was_not_run(tmp_path):
    runs = runs_of({"FedAvg": (0.80, 0.81, 0.82), "Entropy": (0.90, 0.91, 0.92)})
    text = write_page(runs, tmp_path / "results.md")[0].read_text()
    assert "- Cells of which nothing was run yet: heart, pumpkin, seeds, heart-unique." in text
    assert "- not run yet: FedOpt, FedProx, Uniform, Entropy-permuted" in text
    assert "| 1 of 4 | 3 | 10 |" in text  # a claim about four tables, of which one was run


def test_a_claim_of_a_least_gain():
    """At alpha 1 FedEP is said to be ahead by more than 10 points."""

    def verdict(*gains):
        values = dict.fromkeys(("FedAvg", "SCAFFOLD", "FedProx"), 0.5)
        runs = [
            Result("fedep/table2", cell, column, seed, "1", "", {name: [value] * 10 for name in SERIES})
            for cell in ("mnist-dir1", "fashion-mnist-dir1")
            for seed, gain in enumerate(gains)
            for column, value in (values | {"FedEP-authors": 0.5 + gain}).items()
        ]
        claims = {(claim.claim.by, claim.column): claim for claim in judge_claims("fedep/table2", runs)}
        found = claims[0.1, "FedEP-authors"]
        assert all(shown(row) == "better" for row in found.rows)
        return found.verdict

    assert verdict(0.20, 0.21, 0.22) == "holds"
    assert verdict(0.02, 0.021, 0.022) == "does not hold"  # ahead, by two points
    assert verdict(0.08, 0.09, 0.10) == "undecided"  # by nine, but it may be ten


def test_intervals_of_differences_of_shares_are_possible(tmp_path):
    runs = runs_of({"FedAvg": (0.1, 0.9, 0.1), "Entropy": (0.9, 0.1, 0.9)})
    text = write_page(runs, tmp_path / "results.md")[0].read_text()
    assert "| Entropy | FedAvg | 1 | 3 | +26.67 | -100.00..+100.00 |" in text


def test_one_seed_and_fewer_rounds_are_marked_below_a_figure(tmp_path):
    runs = runs_of({"FedAvg": (0.8,)})
    text = write_page(runs, tmp_path / "results.md")[0].read_text()
    assert "Drawn from the stored runs, one seed. Not run yet: heart; pumpkin; seeds." in text
    cut = [replace(run, series={name: values[:5] for name, values in run.series.items()}) for run in runs]
    text = write_page(cut, tmp_path / "results.md")[0].read_text()
    assert "one seed. Of fewer rounds than the paper's: iris: FedAvg. Not run yet:" in text
    text = write_page(runs_of({"FedAvg": (0.8, 0.9)}), tmp_path / "results.md")[0].read_text()
    assert "Drawn from the stored runs, 2 seeds: means, with the least and the greatest." in text


def test_a_family_says_what_it_holds():
    table = find(IRIS)[1]
    judged = verdicts(IRIS, runs_of(VALUES, CELLS), metrics=("accuracy",))
    assert family_words(table, judged) == (
        "One family of 12 tests, corrected together: Entropy against FedAvg, FedProx, Uniform, Entropy-permuted, in 3 "
        "cells; shuffled weights only against those they shuffle."
    )
    plain = {label: values for label, values in VALUES.items() if label != "Entropy-permuted"}
    assert "shuffled" not in family_words(table, verdicts(IRIS, runs_of(plain), metrics=("accuracy",)))


def test_claims_are_judged():
    values = {**VALUES, "FedOpt": (0.70, 0.71, 0.74)}
    found = {claim.claim.over: claim for claim in judge_claims(IRIS, runs_of(values, CELLS))}
    first = found["FedAvg",]
    assert first.verdict == "holds"
    assert first.reported["FedAvg"] == pytest.approx((6.67 + 0.40 + 2.39) / 3, abs=0.01)
    assert [row.against for row in first.controls] == ["Uniform", "Entropy-permuted"]
    assert found["FedOpt", "FedProx"].verdict == "undecided"  # better than one, open against the other
    alone = judge_claims(IRIS, runs_of({"FedAvg": (0.8,)}))
    assert [(claim.verdict, claim.rounds, claim.rows) for claim in alone] == [("undecided", (), ())] * 2


def test_fewer_than_three_seeds_in_a_cell_decide_nothing():
    values = {"FedAvg": (0.80, 0.801), "Entropy": (0.90, 0.902)}
    runs = runs_of(values, CELLS)
    [row] = judge_claims(IRIS, runs)[0].rows
    assert (shown(row), row.seeds) == ("better", (2, 2))
    assert judge_claims(IRIS, runs)[0].verdict == "undecided"
    worse = runs_of({"FedAvg": values["Entropy"], "Entropy": values["FedAvg"]}, CELLS)
    assert shown(judge_claims(IRIS, worse)[0].rows[0]) == "worse"
    assert judge_claims(IRIS, worse)[0].verdict == "undecided"
    third = [
        made(column, 2, value + 0.01 * i, cell)
        for i, cell in enumerate(CELLS)
        for column, value in (("FedAvg", 0.802), ("Entropy", 0.901))
    ]
    assert judge_claims(IRIS, runs + third[:-2])[0].verdict == "undecided"  # the last cell has two
    assert judge_claims(IRIS, runs + third)[0].verdict == "holds"


def test_claims_that_do_not_hold():
    worse = {"FedAvg": (0.90, 0.91, 0.92), "Entropy": (0.80, 0.82, 0.81)}
    assert judge_claims(IRIS, runs_of(worse, CELLS))[0].verdict == "does not hold"
    same = {"FedAvg": (0.900, 0.902, 0.904), "Entropy": (0.901, 0.901, 0.905)}
    [found, other] = judge_claims(IRIS, runs_of(same, CELLS))
    assert shown(found.rows[0]) == "open"
    assert found.rows[0].high < found.reported["FedAvg"] / 2
    assert found.verdict == "does not hold"  # no gain is shown, and one half as large as the paper's is excluded
    assert (other.verdict, other.missing) == ("undecided", ("FedOpt", "FedProx"))
    ahead = replace(found.rows[0], low=0.1)  # by less than the paper says, but ahead, if all other tests are left aside
    assert _below(found.rows[0], found.reported["FedAvg"])
    assert not _below(ahead, found.reported["FedAvg"])
    collapsed = replace(found.rows[0], low=-1.5, high=38.1)  # a rival whose runs differ much, and that did badly there
    assert not _below(collapsed, 38.7)
    assert _below(replace(collapsed, high=19.3, losses=1), 38.7)
    assert not _below(replace(collapsed, high=19.3, wins=3, losses=0), 38.7), "every pair was won"


def test_columns_are_ranked_over_cells_and_seeds():
    values = {"FedAvg": (0.8,) * 3, "Entropy": (0.9,) * 3, "Uniform": (0.7,) * 3}
    runs = runs_of(values, ("iris", "seeds"))
    runs.append(made("FedProx", 0, 0.99))  # lacks a cell
    found = Pool(IRIS, runs).ranks()
    assert [(rank.method, rank.mean_rank, rank.blocks) for rank in found] == [
        ("Entropy", 1, 6),
        ("FedAvg", 2, 6),
        ("Uniform", 3, 6),
    ]
    more = runs_of({"FedAvg": (0.8,) * 3, "Entropy": (0.9,) * 3}, ("pumpkin",))  # a cell that is not run to the end
    assert Pool(IRIS, [*runs, *more]).ranks() == found
    assert Pool(IRIS, runs[:3]).ranks() == []
    ours = [made("Uniform", seed, 1.0, "heart-unique") for seed in range(3)]  # the paper has no such cell
    assert Pool(IRIS, [*runs, *ours]).ranks() == found
    assert Pool(IRIS, [*ours, *(replace(run, column="FedAvg") for run in ours)]).ranks()


def test_the_page_tells_all(tmp_path):
    runs = runs_of({"FedAvg": (0.80, 0.81, 0.82), "Entropy": (0.90, 0.91, 0.92), "Uniform": (0.80, 0.81, 0.82)})
    page, picture, figure = write_page(runs, tmp_path / "results.md")
    text = page.read_text()
    assert "| Entropy | 91.00 ± 1.00 |" in text
    assert "| Uniform* | 81.00 ± 1.00 |" in text
    assert "| Entropy | FedAvg | 3 | +10.00 |" in text
    assert "1 of 1 pairs hold" in text
    assert "Precision, recall and F1 are weighted" in text
    assert "- Entropy, over 1 cell with 3 seeds:" in text
    assert picture.read_text().startswith("<svg")
    assert f"images/{picture.name}" in text
    assert f"images/{figure.name}" in text
    assert figure.name == "inv_entropy-fig5.svg"
    again, *_ = write_page(runs, tmp_path / "results.md")
    assert again.read_text() == text


def test_the_page_names_the_figures_that_lack_runs(tmp_path):
    runs = runs_of({"FedAvg": (0.80, 0.81, 0.82), "Entropy": (0.90, 0.91, 0.92)})
    page, *_ = write_page(runs, tmp_path / "results.md")
    text = page.read_text()
    drawn, absent = text.split("## Figures that are not drawn yet")
    assert "Not run yet: heart; pumpkin; seeds." in drawn
    assert "inv_entropy/fig5" not in absent
    for name in ("fedentopt/fig4", "fedentopt/fig6", "fedep/fig2", "inv_entropy/fig6"):  # no matrices were kept
        assert f"| {name} |" in absent
    assert "`entrofed reproduce fedentopt/fig5` |" in absent  # what figure 6 is drawn from


def test_the_page_begins_with_what_each_table_comes_to(tmp_path):
    values = {"FedAvg": (0.80, 0.81, 0.83), "Entropy": (0.90, 0.91, 0.92), "Uniform": (0.92, 0.92, 0.92)}
    page, *_ = write_page(runs_of(values), tmp_path / "results.md")
    line, *_ = [line for line in page.read_text().splitlines() if line.startswith(f"| [{IRIS}]")]
    own, *_, told, here, controls = line.strip("| ").split(" | ")[1:]
    assert own == "Entropy"
    assert told == "in 2 of 3"  # on Iris Entropy and FedProx have the same accuracy
    assert here == "in 1 of 1; shown over all cells: 1 better, 0 worse"
    assert controls == "in 0 of 1; shown over all cells: 0 better, 0 worse"


def test_the_page_tells_who_took_part(tmp_path):
    runs = [
        replace(
            run,
            course={
                "bytes_up": [10] * 10,
                "bytes_down": [10] * 10,
                "cohort_entropy": [1.5] * 10,
                "cohort": [[0, 1]] * 5 + [[1, 2]] * 5,
                "weights": [[0.5, 0.5]] * 5 + [[0.9, 0.1]] * 5,
                "alignment_cosine": [None, 0.5] * 5,
            },
        )
        for run in runs_of({"FedAvg": (0.8, 0.8), "Entropy": (0.9, 0.91)})
    ]
    page, *_ = write_page(runs, tmp_path / "results.md")
    assert "| Entropy | 3 | 1.500 | 1.400 | 0.0 | 0.500 |" in page.read_text()


def test_cut_runs_are_marked(tmp_path):
    runs = [
        replace(run, series={name: values[:5] for name, values in run.series.items()})
        for run in runs_of({"FedAvg": (0.8, 0.8, 0.8), "Entropy": (0.9, 0.9, 0.91)})
    ]
    page, *_ = write_page(runs, tmp_path / "results.md")
    text = page.read_text()
    assert "| 5, cut, unsettled |" in text
    assert "1 unsettled" in text
    assert "| **undecided** | not run to the end: FedAvg |" in text
    assert "Entropy: nothing is shown; it had not settled, or the others" in text


def test_where_less_is_better():
    """FedEP-authors needs two rounds fewer than FedAvg, in every cell and with every seed but one."""

    def curve(best: int) -> list[float]:
        return [0.5] * (best - 1) + [0.9] * (11 - best)

    runs = [
        Result("fedep/table2", cell, label, seed, "1", "", {name: curve(best + (seed == 2)) for name in SERIES})
        for cell in ("mnist-dir1", "mnist-dir0.1")
        for label, best in (("FedAvg", 5), ("FedEP-authors", 3), ("SCAFFOLD", 3), ("FedProx", 6))
        for seed in range(3)
    ]
    found = [claim for claim in judge_claims("fedep/table2", runs) if claim.claim.metric and claim.rounds]
    assert [claim.column for claim in found] == ["FedEP-authors"]
    [avg, scaffold, prox] = found[0].rows
    assert (avg.difference, scaffold.difference, prox.difference) == (2, 0, 3)
    assert (avg.wins, avg.losses) == (6, 0)
    assert found[0].verdict == "undecided"  # SCAFFOLD is as fast
    why = claim_cells(found[0], find("fedep/table2")[1])[2]
    assert why.startswith("the first evaluated round with 95 % of the run's best macro F1, rounds (less is better); ")
    assert "; FedAvg -2.0 (-2.0..-2.0); SCAFFOLD +0.0 (+0.0..+0.0) open; " in why  # two rounds fewer


def test_gains_of_a_table_of_gains_are_over_the_other_table():
    def runs(table: str, value: float) -> list[Result]:
        series = {name: [value] * 500 for name in SERIES}
        return [Result(table, "cifar10-c2", "FedRS", seed, "1", "", series) for seed in range(3)]

    both = runs("fedentopt/table1", 0.4) + runs("fedentopt/table2", 0.5)
    found = {claim.column: claim for claim in judge_claims("fedentopt/table2", both)}
    [row] = found["FedRS"].rows
    assert row.difference == pytest.approx(10)
    assert row.against == "without it"
    assert found["FedRS"].reported == {"without it": 0.18}
    assert found["SCAFFOLD"].rows == ()
    assert Pool("fedentopt/table2", both).gains() == [row]
    alone = {claim.column: claim for claim in judge_claims("fedentopt/table2", both[3:])}
    assert (alone["FedRS"].verdict, alone["FedRS"].missing) == ("undecided", ("without it",))


def test_every_claim_of_every_paper_has_a_line(tmp_path):
    page, *_ = write_page(runs_of(VALUES, CELLS), tmp_path / "results.md")
    text = page.read_text()
    for paper in papers().values():
        for table in paper.tables.values():
            for claim in table.claims:
                assert f"| {claim.says} | **" in text
    assert "| **undecided** | not run |" in text


def test_the_entropy_of_cohorts_as_a_metric():
    series = {name: [0.5] * 2 for name in SERIES}
    run = Result("fedentopt/fig1", "cifar10-c2", "FedAvg", 0, "1", "", series, course={"cohort_entropy": [1.0, 2.0]})
    assert run.value("cohort_entropy_mean") == 1.5
    assert replace(run, course={}).value("cohort_entropy_mean") is None


def test_figure_1_can_be_judged_by_the_entropy_of_cohorts(tmp_path):
    series = {name: [0.5] * 500 for name in SERIES}
    runs = [
        Result("fedentopt/fig1", "cifar10-c2", column, seed, "1", "", series, course=course(bits + seed / 100))
        for column, bits in (("FedAvg", 3.0), ("Re-selection", 2.9), ("FedEntOpt", 3.3))
        for seed in range(3)
    ]
    verdict, *_ = verdicts("fedentopt/fig1", runs)
    assert verdict.metric == "cohort_entropy_mean"
    assert {(row.against, row.method): verdict.outcome(row) for row in verdict.gains} == {
        ("FedEntOpt", "FedAvg"): "",  # the same difference with every seed
        ("FedEntOpt", "Re-selection"): "",
    }
    cut = [replace(run, series={name: values[:50] for name, values in run.series.items()}) for run in runs]
    assert verdicts("fedentopt/fig1", cut)[0].unsettled == {"FedAvg", "Re-selection", "FedEntOpt"}
    assert verdict.lines[-1].ours.mean == pytest.approx(3.31)
    assert verdict.lines[-1].over_rounds == pytest.approx(0.1, rel=0.01)  # as for other means over rounds
    [claim] = judge_claims("fedentopt/fig1", runs)
    assert [row.against for row in claim.rows] == ["FedAvg", "Re-selection"]
    page, *_ = write_page(runs, tmp_path / "results.md")
    assert "### fedentopt/fig1: Entropy of the cohort's labels by round" in page.read_text()


def course(bits: float) -> dict[str, list[object]]:
    nothing: list[object] = [0] * 500
    entropies: list[object] = [bits + (0.1 if number % 2 else -0.1) for number in range(500)]
    return {"cohort_entropy": entropies, "cohort": [[0]] * 500, "weights": [[1.0]] * 500} | dict.fromkeys(
        ("bytes_up", "bytes_down"), nothing
    )


def test_a_claim_rests_on_its_own_cells_and_columns():
    """What was run in another cell, or without controls, does not stand in for it."""

    def runs(table: str, cell: str, columns: tuple[str, ...], rounds: int) -> list[Result]:
        series = {name: [0.5] * rounds for name in SERIES}
        return [Result(table, cell, column, 42, "1", "", series) for column in columns]

    replay = runs("fedklentropy/table2", "mnist", ("FedKLEntropy", "MOON", "FedAsl", "Uniform"), 50)
    for claim in judge_claims("fedklentropy/table2", replay):
        assert claim.claim.cells == ("mnist-seeded",)
        assert (claim.rows, claim.controls, claim.rounds) == ((), (), ())
    selections = runs("infodiv/table1", "cifar10", ("MiniMaxSim", "Full", "Random"), 100)
    for claim in judge_claims("infodiv/table1", selections):
        assert claim.controls == ()
