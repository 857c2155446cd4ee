"""How much each client counted, and why: what ``entrofed show --weights`` prints."""

from collections.abc import Iterator, Sequence
from itertools import chain

from rich.markup import escape
from rich.table import Table

from entrofed.cli.tables.cells import cell, sparkline
from entrofed.cli.tables.selection import SHOWN
from entrofed.core.records import RoundRecord
from entrofed.experiment.stored import StoredRun

MOST_ROWS = 40
"""Clients that are listed: those that count most and those that count least."""


def weights_tables(run: StoredRun) -> Iterator[Table]:
    """The weights of the last rounds with what they came from, and each client's over all rounds."""
    records = [record for record in run.records() if record.clients]
    for record in records[-SHOWN:]:
        yield _round(record)
    yield _clients(records)


def _round(record: RoundRecord) -> Table:
    clients = record.clients
    columns = list(dict.fromkeys(chain.from_iterable(client.origin for client in clients)))
    title = f"round {record.round + 1}: {len(clients)} updates, worth {record.effective_cohort:.2f} equal ones"
    named = (escape(column.replace("_", " ")) for column in columns)
    table = Table("client", "weight", "x equal", "examples", *named, title=title)
    for client in clients:
        table.add_row(
            str(client.client),
            f"{client.weight:.4f}",
            f"{client.weight * len(clients):.3f}",
            str(client.examples),
            *(cell(client.origin.get(column)) for column in columns),
        )
    return table


def _clients(records: Sequence[RoundRecord]) -> Table:
    """Weights as multiples of an equal share, so that rounds with different numbers of updates compare."""
    shares: dict[int, list[float]] = {}
    for record in records:
        for client in record.clients:
            shares.setdefault(client.client, []).append(client.weight * len(record.clients))
    ranked = sorted(shares.items(), key=lambda item: -sum(item[1]) / len(item[1]))
    highest = max((share for _, values in ranked for share in values), default=1.0) or 1.0
    table = Table("client", "rounds", "mean", "least", "most", "course", title="weight of each client, x equal share")
    if len(ranked) > MOST_ROWS:
        half = MOST_ROWS // 2
        table.caption = f"the {half} that count most and the {half} that count least of {len(ranked)} clients"
        ranked = [*ranked[:half], *ranked[-half:]]
    for number, values in ranked:
        told = (sum(values) / len(values), min(values), max(values))
        course = sparkline([value / highest for value in values], width=30)
        table.add_row(str(number), str(len(values)), *(f"{value:.3f}" for value in told), course)
    return table
