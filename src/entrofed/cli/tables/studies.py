"""The small studies: what ``entrofed study`` prints."""

from collections.abc import Iterator
from typing import Any

from rich.table import Table

from entrofed.studies.adversaries import ATTACKS, CAP


def selection_study_tables(rows: list[dict[str, Any]]) -> Iterator[Table]:
    """The study of selectors, a table for each partition."""
    for title in dict.fromkeys(row["partition"] for row in rows):
        table = Table("selector", "bits", "all labels", "certain", "clients", "fairness", title=title)
        for column in table.columns:
            column.no_wrap = column.header != "all labels"
        table.caption = (
            "bits: entropy of the cohorts' labels; all labels: share of cohorts that hold every label; certain: share "
            "with more than log2(C-1) bits, which implies it; clients: chosen at least once; fairness: Jain's index of "
            "participation. maxent chooses for weights of its own, which pooled labels do not show. Estimated counts "
            "are made of updates, so that they are not here, without training: see docs/estimated_counts.md"
        )
        for row in rows:
            if row["partition"] != title:
                continue
            shares = [f"{row[metric]:.2f}" for metric in ("full_coverage", "above")]
            table.add_row(
                row["selector"],
                _spread(row, "entropy", ".3f"),
                *shares,
                f"{row['distinct']:.1f}",
                f"{row['fairness']:.2f}",
            )
        yield table


def attacks_study_tables(rows: list[dict[str, Any]]) -> Iterator[Table]:
    """The study of attacks: a row for each, a column for each defence."""
    defences = list(dict.fromkeys(row["defence"] for row in rows))
    table = Table("attack", *defences, title=f"Accuracy with {rows[0]['hostile']} hostile clients")
    table.caption = (
        "mean and spread over seeds; all but 'nothing' with the default admission; of the backdoor, also the share of "
        "marked samples that are taken for class 0"
    )
    for attack in dict.fromkeys(row["attack"] for row in rows):
        cells = []
        for row in (row for row in rows if row["attack"] == attack):
            door = f" ({row['backdoor']:.2f})" if attack == "backdoor" else ""
            cells.append(_spread(row, "accuracy", ".3f") + door)
        table.add_row(attack, *cells)
    yield table


def topology_study_tables(rows: list[dict[str, Any]]) -> Iterator[Table]:
    """The study of topologies, a table for each alpha."""
    for alpha in dict.fromkeys(row["alpha"] for row in rows):
        table = Table("topology", "weighing", "own", "most", "gap", "bias", "agree")
        table.title = f"Dirichlet {alpha:g}"
        table.caption = (
            "own: weight of a node's own model, mean; most: the largest weight of any model at any node; gap: spectral "
            "gap, 1 is consensus after a round, 0 is none; bias: total variation of the consensus weights from the "
            "shares of the data; agree: share of partitions with a consensus; spreads and ranges: --json"
        )
        for column in table.columns:
            column.no_wrap = True
        before = ""
        for row in (row for row in rows if row["alpha"] == alpha):
            if before not in ("", row["topology"]):
                table.add_section()
            table.add_row(
                row["topology"] if row["topology"] != before else "",
                row["weighing"],
                f"{row['own']:.2f}",
                f"{row['largest']:.2f}",
                f"{row['gap']:.3f}",
                "none" if row["bias"] is None else f"{row['bias']:.3f}",
                f"{row['consensus']:.0%}",
            )
            before = row["topology"]
        yield table


def adversaries_study_tables(rows: list[dict[str, Any]]) -> Iterator[Table]:
    """The study of adversarial peers, a table for each alpha."""
    for alpha in dict.fromkeys(row["alpha"] for row in rows):
        table = Table("way", "weight", "accuracy", "macro F1", "change")
        table.title = f"An adversary among {rows[0]['peers']} peers, Dirichlet {alpha:g}"
        table.caption = (
            f"mean and spread over seeds: {rows[0]['seeds']}; weight: of the adversary's model with the others "
            "(median, trimmed: its vote); accuracy, macro F1: of the others, in %; change: of the accuracy, in points, "
            f"from the same weighing without defence and adversary; cap: no weight above {CAP:g}; "
            "poisons: trains on flipped labels"
        )
        for column in table.columns:
            column.no_wrap = True
        for attack, words in ATTACKS.items():
            table.add_section()
            table.add_row(f"[bold]{words}[/bold]")
            for row in (row for row in rows if (row["alpha"], row["attack"]) == (alpha, attack)):
                table.add_row(
                    row["way"],
                    _spread(row, "weight", ".2f"),
                    *(_spread(row, key, ".1f", 100) for key in ("accuracy", "macro_f1")),
                    _spread(row, "change", "+.1f", 100),
                )
        yield table


def leakage_study_tables(rows: list[dict[str, Any]]) -> Iterator[Table]:
    """What a server learns under each protection."""
    table = Table("protection", "by counts", "by a message", "by the model", "membership", "accuracy", "epsilon")
    table.title = f"What a curious server learns of {rows[0]['clients']} clients, {rows[0]['rounds']} rounds"
    table.caption = (
        f"mean and spread over seeds: {rows[0]['seeds']}; labels: how far the guess of a client's labels is off (total "
        f"variation; knowing nothing: {rows[0]['beforehand']:.2f}), -: the server does not get it; membership: AUC of "
        "telling canaries that were trained on, 0.5: not at all; accuracy of the model in %; epsilon: of all that left "
        "a client, at delta 1e-5"
    )
    for row in rows:
        spreads = (_spread(row, key, ".2f") if row[key] is not None else "-" for key in ("counts", "message", "model"))
        spent = "-" if row["epsilon"] is None else f"{row['epsilon']:.3g}"
        membership, accuracy = _spread(row, "membership", ".2f"), _spread(row, "accuracy", ".1f", 100)
        table.add_row(row["setting"], *spreads, membership, accuracy, spent)
    yield table


def _spread(row: dict[str, Any], key: str, form: str, scale: float = 1) -> str:
    mean, std = row[key], row[f"{key}_std"]
    return f"{scale * mean:{form}}" + ("" if std is None else f"±{scale * std:{form.lstrip('+')}}")
