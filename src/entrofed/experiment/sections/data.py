"""``[data]``: which data, and how it is dealt out."""

from dataclasses import fields
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field, ValidationInfo, model_validator

from entrofed.data.assignment import assignment
from entrofed.data.catalog import datasets
from entrofed.data.dataset import Kind, Scaling
from entrofed.data.dealing import ASSIGNMENT, BY_ROLE, NATURAL
from entrofed.data.shards import partitions
from entrofed.data.tabular.choice import Choice, Missing
from entrofed.errors import unknown
from entrofed.experiment.sections.section import Section, fit_options, was_run

OWN_KEYS = tuple(field.name for field in fields(Choice))
PARTITION_KEYS = (
    "clients",
    "alpha",
    "alphas",
    "labels_per_client",
    "sigma",
    "angles",
    "owners",
    "min_size",
    "max_tries",
)


class DataSection(Section):
    """Which data, and how it is dealt out. Keys that a partition does not use must not be given."""

    name: str = "digits"
    path: str | None = None
    """A file or folder of the user's own instead of a dataset of the catalogue; its stem is the name."""
    label: str | None = None
    client: str | None = None
    test: Annotated[float, Field(gt=0, lt=1)] | str | None = None
    features: tuple[str, ...] | None = None
    drop: tuple[str, ...] | None = None
    missing: Missing | None = None
    kind: Kind | None = None
    size: tuple[Annotated[int, Field(ge=1)], Annotated[int, Field(ge=1)]] | None = None
    partition: str = "iid"
    clients: int | None = Field(None, ge=1)
    alpha: float | None = Field(None, gt=0)
    alphas: tuple[float, float] | None = None
    labels_per_client: int | None = Field(None, ge=1)
    sigma: float | None = Field(None, gt=0)
    angles: tuple[float, ...] | None = None
    owners: str | None = None
    """A file that names the client of each training sample."""
    min_size: int | None = Field(None, ge=0)
    max_tries: int | None = Field(None, ge=1)
    options: dict[str, Any] | None = None
    """Further options, of a partition that another package brings."""
    participating: int | None = Field(None, ge=1)
    holdout: float = Field(0.0, ge=0, lt=1)
    validation: float = Field(0.0, ge=0, lt=1)
    """The share of the training part that the server keeps as a validation set."""
    normalize: Scaling = "standard"
    digest: str | None = None
    """SHA-256 of a federation that was handed over from Python; it is dealt out already."""

    @model_validator(mode="before")
    @classmethod
    def _own_data(cls, given: Any, info: ValidationInfo) -> Any:
        """Own data is called by its file, and has natural clients unless a partition or only their number is given."""
        if not isinstance(given, dict) or not isinstance(given.get("path"), str) or was_run(info):
            return given
        natural = "client" in given or "clients" not in given
        return {"name": Path(given["path"]).stem, **({"partition": NATURAL} if natural else {}), **given}

    @model_validator(mode="after")
    def _fits_partition(self, info: ValidationInfo) -> "DataSection":
        if was_run(info) or self.digest is not None:
            return self
        if self.path is None:
            for key in OWN_KEYS:
                if getattr(self, key) is not None:
                    raise ValueError(f"data.{key} is for files of your own (data.path); leave it out with data.name")
            if self.name not in datasets():
                raise ValueError(str(unknown("dataset", self.name, datasets())))
        elif self.name != Path(self.path).stem:
            raise ValueError(
                f"data.name = {self.name!r} and data.path = {self.path!r} exclude each other; leave one out"
            )
        owned = dict.fromkeys((BY_ROLE, NATURAL), lambda clients=None: None)
        fit_options(self, "data.partition", {**partitions(), **owned, ASSIGNMENT: assignment}, PARTITION_KEYS)
        return self

    def choice(self) -> Choice:
        """What is said about a file of the user's own."""
        return Choice(**{key: value for key in OWN_KEYS if (value := getattr(self, key)) is not None})

    def partition_options(self) -> dict[str, Any]:
        """The keys given for the partitioner, besides the number of clients."""
        given = {key: value for key in PARTITION_KEYS[1:] if (value := getattr(self, key)) is not None}
        return {**given, **(self.options or {})}
