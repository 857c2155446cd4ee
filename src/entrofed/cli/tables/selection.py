"""Why clients were chosen: what ``entrofed show --selection`` prints."""

from collections import Counter
from collections.abc import Iterator

from rich.markup import escape
from rich.table import Table

from entrofed.cli.tables.cells import cell
from entrofed.core.records import RoundRecord
from entrofed.experiment.stored import StoredRun

SHOWN = 3
"""Rounds that are printed client by client, counted from the last."""


def selection_tables(run: StoredRun) -> Iterator[Table]:
    """The picks of the last rounds, and who took part how often."""
    records = run.records()
    for record in records[-SHOWN:]:
        yield _picks(record)
    times = Counter(client for record in records for client in record.cohort)
    table = Table("clients chosen at least once", "most often", "least often", title="participation")
    if times:
        (most, often), *_, (least, seldom) = [*times.most_common(), times.most_common()[-1]]
        table.add_row(
            str(len(times)),
            *(f"client {client}: {n} time{'s' * (n != 1)}" for client, n in ((most, often), (least, seldom))),
        )
    yield table


def _picks(record: RoundRecord) -> Table:
    title = f"round {record.round + 1}: {len(record.cohort)} of {record.available} clients"
    if record.cohort_entropy is not None:
        title += f", pooled entropy {record.cohort_entropy:.4f} bits"
    if not record.reasons:
        table = Table("clients", title=title)
        table.add_row(", ".join(str(client) for client in record.cohort))
        return table
    columns = list(dict.fromkeys(key for reason in record.reasons for key in reason))
    table = Table(*(escape(column.replace("_", " ")) for column in columns), title=title)
    for reason in record.reasons:
        table.add_row(*(cell(reason.get(column)) for column in columns))
    return table
