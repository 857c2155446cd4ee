"""Files and folders that are tables, each opened by the reader of its kind."""

from pathlib import Path

from entrofed.data.files.arrow import open_arrow
from entrofed.data.files.csv import open_csv
from entrofed.data.files.hugging_face import is_saved_dataset, open_saved
from entrofed.data.files.parquet import open_parquet
from entrofed.data.files.rows import Rows
from entrofed.data.tabular.choice import ENDINGS
from entrofed.errors import DataError

TABLES = {
    ".csv": open_csv,
    ".tsv": open_csv,
    ".parquet": open_parquet,
    ".arrow": open_arrow,
    ".feather": open_arrow,
}


def is_table(path: Path) -> bool:
    """Whether a file or folder holds rows; all else are arrays and pictures."""
    return path.suffix in TABLES or is_saved_dataset(path)


def open_rows(path: Path) -> tuple[Rows, Rows | None]:
    """The rows of a table and, where a saved dataset has one, of its test part."""
    if there(path).is_dir():
        return open_saved(path)
    if path.suffix not in TABLES:
        raise DataError(f"{path}: known are {', '.join(ENDINGS)}, and folders of pictures or of a saved dataset")
    return TABLES[path.suffix](path), None


def there(path: Path) -> Path:
    """The path of what exists."""
    if not path.exists():
        raise DataError(f"{path}: there is no such file or folder")
    return path
