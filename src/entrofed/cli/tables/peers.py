"""How peers without a server did: what ``entrofed show --peers`` prints."""

from collections.abc import Iterator, Sequence

import numpy as np
from rich.table import Table

from entrofed.cli.tables.cells import cell
from entrofed.core.records import Metrics, RoundRecord
from entrofed.errors import ConfigError
from entrofed.experiment.stored import StoredRun
from entrofed.info.entropy import entropy_of_counts
from entrofed.papers.results import NEAR, convergence

LINES = 12
"""Rounds of a course that are printed, about."""


def peers_tables(run: StoredRun) -> Iterator[Table]:
    """Each node after the last evaluation, and the course of consensus."""
    records = [(record, record.test) for record in run.records() if record.peers and record.test is not None]
    if not records:
        raise ConfigError(f"{run.path}: there are no evaluated rounds of peers in this run; it needs a [topology]")
    facts = run.federation_facts()
    counts = np.array(facts["label_counts"]) if facts is not None else None
    last, _ = records[-1]
    table = Table(
        "node", "samples", "labels", "hears", "own weight", "largest", "of", "accuracy", "macro F1", "held out"
    )
    table.title = f"peers after round {last.round + 1}"
    for peer in last.peers:
        weights = peer.mixing
        largest = max(weights, key=weights.__getitem__, default=peer.node)
        held = counts[peer.node] if counts is not None else None
        table.add_row(
            str(peer.node),
            "" if held is None else str(held.sum()),
            "" if held is None else f"{float(entropy_of_counts(held, base='bits')):.2f}",
            str(len(weights) - (peer.node in weights)),
            f"{weights.get(peer.node, 0.0):.3f}",
            f"{weights.get(largest, 0.0):.3f}",
            str(largest),
            *(cell(value, ".3f") for value in (peer.accuracy, peer.macro_f1, peer.held_out)),
        )
    table.caption = "labels: entropy in bits; held out: accuracy on the node's own held-out data (data.holdout)"
    yield table
    yield _course(records)


def _course(records: Sequence[tuple[RoundRecord, Metrics]]) -> Table:
    converged = convergence([test.macro_f1 for _, test in records])
    table = Table("round", "macro F1 (mean)", "least", "most", "distance to consensus", "spectral gap", title="course")
    table.caption = (
        f"{NEAR:.0%} of the best mean macro F1 was reached in round {converged}; the gap is that "
        "of the round's weights: 1 is consensus at once, 0 never"
    )
    step = max(1, len(records) // LINES)
    for record, test in {record.round: (record, test) for record, test in [*records[::step], records[-1]]}.values():
        of_nodes = [peer.macro_f1 for peer in record.peers if peer.macro_f1 is not None]
        table.add_row(
            str(record.round + 1),
            f"{test.macro_f1:.4f}",
            cell(min(of_nodes, default=None), ".4f"),
            cell(max(of_nodes, default=None), ".4f"),
            cell(record.consensus, ".4g"),
            cell(record.spectral_gap, ".4f"),
        )
    return table
