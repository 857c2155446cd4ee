"""What the user says about a file: which columns are what, and what becomes of missing values."""

from collections.abc import Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from entrofed.data.dataset import Kind
from entrofed.errors import ConfigError, unknown

if TYPE_CHECKING:
    from entrofed.data.files.rows import Rows

Missing = Literal["refuse", "impute", "drop_rows"]

TEST_SHARE = 0.2
ENDINGS = (".csv", ".tsv", ".parquet", ".arrow", ".feather", ".npz")


def names_a_file(test: object) -> bool:
    """Whether a test part is given as a file or folder, by its ending or a slash, and not as the name of a column."""
    return isinstance(test, Path) or (isinstance(test, str) and ("/" in test or Path(test).suffix in ENDINGS))


@dataclass(frozen=True)
class Choice:
    """Which parts of a file are what; see :func:`entrofed.data.files.load.load_path`."""

    label: str | None = None
    client: str | None = None
    test: Any = None
    """A share of the rows, the column that says which are for testing, or another file or table. None: the test part of
    the file, else 0.2."""
    features: Sequence[str] | None = None
    drop: Sequence[str] = ()
    missing: Missing = "refuse"
    kind: Kind | None = None
    size: tuple[int, int] | None = None

    def only(self, where: str, what: str, *allowed: str) -> None:
        """Raise a ConfigError if something is said that has no meaning for such a file."""
        for field in fields(self):
            if field.name not in allowed and getattr(self, field.name) != field.default:
                raise ConfigError(f"{where}: {field.name} does not apply to {what}; leave it out")

    def only_of_tables(self, where: str) -> None:
        """Raise a ConfigError if something is said that has no meaning for a table."""
        self.only(where, "a table", "label", "client", "test", "features", "drop", "missing")

    def columns(self, rows: "Rows") -> tuple[list[str], list[str]]:
        """The names of the features, and of the columns that say label, client and test."""
        if self.label is None:
            raise ConfigError(
                f"{rows.where}: which column is the label? Say label = ..., one of {', '.join(rows.types)}"
            )
        roles = [name for name in (self.label, self.client, self.test) if isinstance(name, str)]
        chosen = [*(self.features or ()), *self.drop]
        for name in (*roles, *chosen):
            if name not in rows.types:
                raise ConfigError(f"{rows.where}: {unknown('column', name, rows.types)}")
        for name in (*roles, *chosen):
            if [*roles, *chosen].count(name) > 1:
                raise ConfigError(
                    f"{rows.where}: column {name!r} is named twice among label, client, test, features, drop"
                )
        features = [name for name in self.features or rows.types if name not in (*roles, *self.drop)]
        if not features:
            raise ConfigError(f"{rows.where}: no column is left to be a feature")
        return features, roles
