"""Census income: does a person earn more than 50,000 dollars a year? Every occupation is a natural client.

The rows with a missing value are left out (30,162 of 32,561 remain for training, 15,060 of 16,281 for testing). So are
the columns ``fnlwgt``, which counts the people that a row stands for, and ``education``, which ``education-num`` says,
too. The occupation is no feature.
"""

import gzip
import zlib
from dataclasses import replace
from pathlib import Path
from typing import Any

from entrofed.data.dataset import Dataset
from entrofed.data.readers import TABLE_LIMIT, damaged

_COLUMNS = """
age workclass fnlwgt education education-num marital-status occupation relationship race sex capital-gain capital-loss
hours-per-week native-country income
"""
COLUMNS = tuple(_COLUMNS.split())
FILES = {"adult.data": False, "adult.test": True}
"""The files, and whether they are for testing; each may be gzipped."""


def adult(directory: Path) -> Dataset:
    """The published training and test part; see the module."""
    import pyarrow

    from entrofed.data.files.memory import memory_rows
    from entrofed.data.tabular.choice import Choice
    from entrofed.data.tabular.table import table_dataset

    tables = []
    for name, for_test in FILES.items():
        table = _read(directory / "adult" / name, skip=int(for_test))
        tables.append(table.append_column("test", pyarrow.array(["test" if for_test else "train"] * len(table))))
    rows = replace(memory_rows(pyarrow.concat_tables(tables)), untyped=True)
    drop = ("fnlwgt", "education")
    choice = Choice(label="income", client="occupation", test="test", drop=drop, missing="drop_rows")
    return table_dataset(rows, choice, name="adult")


def _read(path: Path, skip: int) -> Any:
    """A file as a table of texts; the labels of the test part end with a point, which is left out."""
    import pyarrow.compute
    import pyarrow.csv

    packed = path.with_name(path.name + ".gz")
    try:
        with path.open("rb") if path.exists() else gzip.open(packed) as file:
            content = file.read(TABLE_LIMIT + 1)
        if len(content) > TABLE_LIMIT:
            raise damaged(path, f"a table has at most {TABLE_LIMIT:,} bytes", "more")
        table = pyarrow.csv.read_csv(
            pyarrow.BufferReader(content),
            pyarrow.csv.ReadOptions(column_names=COLUMNS, skip_rows=skip),
            convert_options=pyarrow.csv.ConvertOptions(column_types={name: pyarrow.string() for name in COLUMNS}),
        )
    except (OSError, EOFError, zlib.error, pyarrow.ArrowException) as error:
        raise damaged(path, f"a table of {len(COLUMNS)} columns separated by commas", error) from error
    place = COLUMNS.index("income")
    return table.set_column(place, "income", pyarrow.compute.utf8_rtrim(table["income"], characters="."))
