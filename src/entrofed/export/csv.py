"""``rounds.csv`` and ``clients.csv``; see :mod:`entrofed.export.tables` for the columns.

Numbers have all their digits, so that reading them gives the same bits; what is missing is empty.
"""

import csv
import io
from pathlib import Path

from entrofed.experiment.run_folder import RunFolder
from entrofed.export.tables import tables
from entrofed.files import write_whole


def to_csv(runs: list[RunFolder], output: Path) -> list[Path]:
    """Write the tables as CSV with a line of names, UTF-8."""
    paths: list[Path] = []
    for name, table in tables(runs).items():
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow(table.column_names)
        for batch in table.to_batches(max_chunksize=10_000):
            writer.writerows(zip(*(column.to_pylist() for column in batch.columns), strict=True))
        paths.append(output / f"{name}.csv")
        write_whole(paths[-1], text.getvalue())
    return paths
