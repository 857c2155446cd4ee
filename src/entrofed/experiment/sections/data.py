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
    """Which data, and how they are divided among clients. Keys that a partition does not use must not be given."""

    name: str = "digits"
    """A dataset of the catalogue (``entrofed data list``)."""
    path: str | None = None
    """A file or folder of the user's own instead of a dataset of the catalogue; its stem is the name."""
    label: str | None = None
    """The column, or array, that holds the classes."""
    client: str | None = None
    """The column that names the client of each row."""
    test: Annotated[float, Field(gt=0, lt=1)] | str | None = None
    """The test part: a share of the rows, a column that marks them, or another file. 0.2 unless given."""
    features: tuple[str, ...] | None = None
    """The columns to use; all others unless given."""
    drop: tuple[str, ...] | None = None
    """Columns to leave out."""
    missing: Missing | None = None
    """How missing values are treated: ``refuse`` (unless given), ``impute`` or ``drop_rows``."""
    kind: Kind | None = None
    """What arrays hold: ``image``, ``table``, ``text`` (tokens) or ``tensor``; guessed unless given."""
    size: tuple[Annotated[int, Field(ge=1)], Annotated[int, Field(ge=1)]] | None = None
    """``[height, width]`` to which images are resized."""
    partition: str = "iid"
    """How samples are divided among clients; ``natural``: by their owners."""
    clients: int | None = Field(None, ge=1)
    """How many clients there are."""
    alpha: float | None = Field(None, gt=0)
    """Concentration of the Dirichlet draw: the smaller, the more skewed."""
    alphas: tuple[float, float] | None = None
    """Two concentrations, for ``dirichlet_mixed`` (two kinds of clients) and ``label_and_quantity`` (labels, sizes)."""
    labels_per_client: int | None = Field(None, ge=1)
    """How many classes each client holds (``label_quantity``)."""
    sigma: float | None = Field(None, gt=0)
    """Spread of sizes (``quantity``), or the largest variance of noise on features (``feature_noise``)."""
    angles: tuple[float, ...] | None = None
    """Degrees by which images are rotated, for one client after the other (``rotation``)."""
    owners: str | None = None
    """A file that names the client of each training sample."""
    min_size: int | None = Field(None, ge=0)
    """The least number of samples per client; the partition is drawn again until it holds."""
    max_tries: int | None = Field(None, ge=1)
    """How often a partition is drawn before giving up."""
    options: dict[str, Any] | None = None
    """Further options, for a partition from another package."""
    participating: int | None = Field(None, ge=1)
    """How many clients ever train; the others only hold data. All unless given."""
    holdout: float = Field(0.0, ge=0, lt=1)
    """The share of each client's samples that it keeps as a test set of its own."""
    validation: float = Field(0.0, ge=0, lt=1)
    """The share of the training part that the server keeps as a validation set."""
    normalize: Scaling = "standard"
    """How inputs are scaled: ``standard`` (mean 0, standard deviation 1), ``minmax`` (tables, to 0..1), ``half``
    (images, to -1..1), ``unit`` (as they are; images in 0..1)."""
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
