"""``rounds.parquet`` and ``clients.parquet``; see :mod:`entrofed.export.tables` for the columns.

The schema's metadata tells the version under the key ``entrofed``.
"""

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet

from entrofed import __version__
from entrofed.experiment.run_folder import RunFolder
from entrofed.export.tables import tables
from entrofed.files import write_whole


def to_parquet(runs: list[RunFolder], output: Path) -> list[Path]:
    """Write the tables as Parquet, compressed with Zstandard."""
    paths: list[Path] = []
    for name, table in tables(runs).items():
        sink = pa.BufferOutputStream()
        marked = table.replace_schema_metadata({"entrofed": __version__})
        pa.parquet.write_table(marked, sink, compression="zstd")
        paths.append(output / f"{name}.parquet")
        write_whole(paths[-1], sink.getvalue().to_pybytes())
    return paths
