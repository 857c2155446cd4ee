"""The clients of an experiment: a dataset dealt out among them."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property
from hashlib import sha256
from html import escape
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from entrofed.data.client_rows import ClientRows
from entrofed.data.dataset import Dataset, Kind, Scaling, scaling
from entrofed.data.dealing import BY_ROLE, NATURAL, Deal, dealt_out
from entrofed.data.overview import html_table, in_words
from entrofed.data.own import dataset_of, dataset_of_clients
from entrofed.data.partition import label_counts
from entrofed.data.shards import Partition, name_of
from entrofed.data.shifts import FeatureShift
from entrofed.data.tabular.choice import Choice, Missing
from entrofed.errors import ConfigError

MANY = 100_000
"""Clients up to which the digest is made of the rows of each, and not of all together."""


@dataclass(frozen=True, eq=False, repr=False)
class Federation:
    """Data divided among clients, with a test set.

    ``shards[k]`` and ``holdouts[k]`` are rows of the training part: what client ``k`` trains on and its local
    test set. ``participants`` are the clients that may ever train. Inputs are standardized as
    ``(x - shift) / scale`` after images are brought to 0..1. ``names`` are the clients' names, where they have any.

    A client without samples is never chosen; one with few samples trains on them (networks with batch norm need two
    samples in a batch). At least one client that takes part must have samples.
    """

    data: Dataset
    shift: NDArray[np.float32]
    scale: NDArray[np.float32]
    shards: ClientRows
    holdouts: ClientRows
    participants: NDArray[np.int64]
    label_counts: NDArray[np.int64]
    """``[client, class]`` counts of the training labels."""
    names: tuple[str, ...] = ()
    dealt: str = ""
    """The name of the partition."""
    feature_shift: FeatureShift | None = None

    def __post_init__(self) -> None:
        for part in ("shards", "holdouts"):
            object.__setattr__(self, part, ClientRows.of(getattr(self, part)))

    @classmethod
    def from_clients(
        cls,
        clients: Mapping[Any, Any] | Sequence[Any],
        *,
        test: Any,
        kind: Kind | None = None,
        normalize: Scaling = "standard",
        classes: Sequence[str] | None = None,
        holdout: float = 0.0,
        validation: float = 0.0,
        seed: int = 0,
    ) -> "Federation":
        """Make a federation of clients that have their own data.

        Args:
            clients: A dictionary by name, or a list; each a pair (x, y) of arrays, a dataset with ``len`` and ``[i]``
                that gives (x, y), such as torch's, or a Hugging Face dataset. A client may be empty.
            test: The server's test set, given like a client; or the share of all samples for it, stratified by class,
                with the same rows whatever the seed.
            kind: ``"image"``, ``"table"``, ``"text"`` (token numbers) or ``"tensor"`` (used unchanged); None: guessed
                from shape and values, see :func:`entrofed.data.own.dataset_of`.
            normalize: ``"standard"``, ``"minmax"`` (tables), ``"half"`` (images) or ``"unit"`` (none); the statistics
                are those of the training part.
            classes: Names of the classes in their order, where the labels are text or count from 0.
            holdout: The share of each client's samples that is its local test set.
            validation: The share of the training samples that the server keeps as a validation set.
            seed: Of the draws for ``holdout`` and ``validation``.

        >>> x, y = np.eye(6), np.array(["ill", "ill", "well"] * 2)
        >>> Federation.from_clients({"Basel": (x, y), "Lugano": (x, y)}, test=(x, y))
        Federation(own: 2 clients, 12 training samples, 2 classes)
        """
        data = dataset_of_clients(clients, test=test, kind=kind, classes=classes)
        how = Deal(BY_ROLE, holdout=holdout, validation=validation, normalize=normalize, seed=seed)
        return deal(data, how)

    @classmethod
    def partition(
        cls,
        x: Any,
        y: Any = None,
        partition: Partition = "iid",
        *,
        clients: int | None = None,
        test: Any,
        seed: int = 0,
        kind: Kind | None = None,
        normalize: Scaling = "standard",
        classes: Sequence[str] | None = None,
        holdout: float = 0.0,
        validation: float = 0.0,
        participating: int | None = None,
        **options: Any,
    ) -> "Federation":
        """Make a federation by dividing samples among simulated clients.

        Args:
            x: The samples, as an array of any library; or a dataset object, with ``y`` None.
            y: A label for each sample: text, booleans or whole numbers.
            partition: A name that :data:`entrofed.data.PARTITIONS` knows, or a function of labels (0..C-1), number of
                clients, random generator and ``options`` that returns the sample numbers of each client; samples may be
                left out, but none may have two owners.
            clients: How many.
            test: The server's test set (x, y), or the share of the samples for it; the same rows whatever the seed.
            seed: Of all draws; an experiment file with the same seed gives the same partition.
            kind: As for :meth:`from_clients`; so are ``normalize``, ``classes``, ``holdout`` and ``validation``.
            participating: How many clients may ever train; the others are only used for evaluation.
            options: Options of the partition, such as ``alpha``.

        >>> x, y = np.eye(40), np.arange(40) % 4
        >>> federation = Federation.partition(x, y, "dirichlet_plain", clients=5, alpha=0.5, test=0.2)
        >>> federation.sizes.tolist()
        [4, 4, 13, 3, 8]
        """
        how = Deal(partition, clients, options, holdout, validation, participating, normalize, seed)
        return deal(dataset_of(x, y, test=test, kind=kind, classes=classes), how)

    @classmethod
    def from_table(
        cls,
        table: Any,
        *,
        label: str,
        client: str | None = None,
        test: Any = None,
        partition: Partition | None = None,
        clients: int | None = None,
        features: Sequence[str] | None = None,
        drop: Sequence[str] = (),
        missing: Missing = "refuse",
        normalize: Scaling = "standard",
        holdout: float = 0.0,
        validation: float = 0.0,
        participating: int | None = None,
        seed: int = 0,
        **options: Any,
    ) -> "Federation":
        """Make a federation of a table of numbers and categories.

        Args:
            table: The path of a file (.csv .tsv .parquet .arrow .feather, or a folder that Hugging Face saved), which
                is read in batches; or a table in memory of pyarrow, pandas or polars, or lists by the names of columns.
            label: The column of classes.
            client: The column that names the client of each row.
            test: The share of rows for testing (default 0.2; stratified by class, the same rows whatever the seed);
                the column that is true, 1 or "test" for test rows; a path, or a table in memory.
            partition: How rows are divided instead; needs ``clients``, as :meth:`partition` does, and ``options``.
            clients: How many; with ``client`` and no ``partition``, so many of its clients, drawn at random.
            features: The columns to use; None: all that are not otherwise named, or in ``drop``.
            drop: Columns to leave out.
            missing: ``"refuse"`` missing values, ``"impute"`` the median or the most frequent category of the training
                rows, or ``"drop_rows"``.
            normalize: As for :meth:`from_clients`; so are ``holdout``, ``validation`` and ``seed``.
            participating: How many clients may ever train.

        Text, booleans and dictionaries are one-hot encoded by the categories of the training rows.

        >>> visits = {"age": [31, 54, 47, 60] * 5, "ill": ["no", "yes"] * 10, "hospital": ["Basel", "Bern"] * 10}
        >>> Federation.from_table(visits, label="ill", client="hospital")
        Federation(table: 2 clients, 16 training samples, 2 classes)
        """
        from entrofed.data.files.load import load_path, load_table

        choice = Choice(label, client, test, features, drop, missing)
        dealt = partition or _usual(client, clients)
        how = Deal(dealt, clients, options, holdout, validation, participating, normalize, seed)
        return deal(load_path(table, choice) if isinstance(table, str | Path) else load_table(table, choice), how)

    @classmethod
    def from_files(
        cls,
        path: str | Path,
        *,
        label: str | None = None,
        client: str | None = None,
        test: Any = None,
        partition: Partition | None = None,
        clients: int | None = None,
        kind: Kind | None = None,
        size: tuple[int, int] | None = None,
        normalize: Scaling = "standard",
        holdout: float = 0.0,
        validation: float = 0.0,
        participating: int | None = None,
        seed: int = 0,
        **options: Any,
    ) -> "Federation":
        """Make a federation of files: a folder ``class/*.png`` or ``client/class/*.png``, an .npz file, saved datasets.

        Args:
            path: The file or folder; see :mod:`entrofed.data.files.load`.
            label: The array or column of labels, if there are several.
            client: The array or column that names the client of each sample; not needed for folders.
            test: The share of samples for testing (default: the test part of the file, else 0.2), or another path.
            size: Height and width that pictures are resized to.

        All else is as for :meth:`from_table` and :meth:`from_clients`.
        """
        from entrofed.data.files.load import load_path

        choice = Choice(label, client, test, kind=kind, size=size)
        dealt = partition or _usual(client, clients)
        how = Deal(dealt, clients, options, holdout, validation, participating, normalize, seed)
        return deal(load_path(path, choice), how)

    @property
    def sizes(self) -> NDArray[np.int64]:
        """Training samples of each client."""
        sizes: NDArray[np.int64] = self.label_counts.sum(axis=1)
        return sizes

    def __repr__(self) -> str:
        clients, samples, classes = len(self.shards), int(self.sizes.sum()), len(self.data.classes)
        return f"Federation({self.data.name}: {clients:,} clients, {samples:,} training samples, {classes:,} classes)"

    def describe(self) -> str:
        """A summary of clients, samples, classes and their skew, in a few lines."""
        return in_words(self.data, self.label_counts, len(self.participants))

    def _repr_html_(self) -> str:
        """For notebooks: who holds what."""
        return f"<pre>{escape(self.describe())}</pre>{html_table(self.data.classes, self.label_counts, self.names)}"

    def only(self, clients: Sequence[int | str]) -> "Federation":
        """The same federation in which only these clients take part, by number or name.

        >>> x, y = np.eye(6), np.array(["ill", "ill", "well"] * 2)
        >>> both = Federation.from_clients({"Basel": (x, y), "Lugano": (x, y)}, test=(x, y))
        >>> both.only(["Lugano"]).participants.tolist()
        [1]
        """
        numbers: dict[int | str, int] = {k: k for k in range(len(self.shards))}
        numbers |= {name: k for k, name in enumerate(self.names)}
        if lacking := [client for client in clients if client not in numbers]:
            known = ", ".join(self.names) or f"0..{len(self.shards) - 1}"
            raise ConfigError(f"there is no client {lacking[0]!r}; there are {known}")
        if not len(clients):
            raise ConfigError("no client is left to take part; name at least one")
        return replace(self, participants=np.unique([numbers[client] for client in clients]))

    @cached_property
    def digest(self) -> str:
        """SHA-256 of all that training sees: samples, labels, who holds which, and their scaling; computed once."""
        data = self.data
        found = sha256(json.dumps([data.kind, data.classes, data.full_scale, len(self.shards)]).encode())
        arrays = [(field.name, getattr(data, field.name)) for field in fields(data)]
        arrays += [("shift", self.shift), ("scale", self.scale), ("participants", self.participants)]
        for name, dealt in (("shard", self.shards), ("holdout", self.holdouts)):
            if len(dealt) <= MANY:
                arrays += [(f"{name} {k}", rows) for k, rows in enumerate(dealt)]
            else:
                arrays += [(f"{name}s", dealt.rows), (f"{name} starts", dealt.starts)]
        for name, array in arrays:
            if isinstance(array, np.ndarray):
                found.update(f"{name} {array.dtype.str} {array.shape}".encode())
                found.update(np.ascontiguousarray(array).data)
        return found.hexdigest()


def deal(data: Dataset, how: Deal) -> Federation:
    """Deal a dataset out, wherever it comes from."""
    dealt = dealt_out(data, how)
    shift, scale = scaling(dealt.data, how.normalize)
    counts = label_counts(dealt.data.train_y, dealt.shards, len(data.classes))
    return Federation(shift=shift, scale=scale, label_counts=counts, dealt=name_of(how.partition), **dealt._asdict())


def _usual(client: str | None, clients: int | None) -> Partition:
    """How the user's own data is dealt out: to natural clients, unless only a number of clients is given."""
    return NATURAL if client is not None or clients is None else "iid"
