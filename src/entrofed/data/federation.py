"""The clients of an experiment: a dataset dealt out among them."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property, partial
from hashlib import sha256
from html import escape
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from entrofed.core.seeds import stream
from entrofed.data.assignment import assignment
from entrofed.data.dataset import Dataset, Kind, Scaling, scaling
from entrofed.data.files.load import load_path, load_table
from entrofed.data.own import dataset_of, dataset_of_clients
from entrofed.data.partition import by_role, hold_out, label_counts, split_participants
from entrofed.data.shards import Partition, deal_out, name_of
from entrofed.data.shifts import FeatureShift, shifted
from entrofed.data.tabular.choice import Choice, Missing
from entrofed.errors import ConfigError, DataError, check_options
from entrofed.info.entropy import entropy_of_counts

BY_ROLE = "by_role"
"""The partition into natural owners."""
NATURAL = "natural"
"""Another name for it."""
SHOWN = 30
"""Clients that a notebook shows."""
ASSIGNMENT = "assignment"
"""The partition into the owners that the user names."""


@dataclass(frozen=True, eq=False, repr=False)
class Federation:
    """Who holds what.

    ``shards[k]`` and ``holdouts[k]`` are rows of the training part: what client ``k`` trains on and its local
    test set. ``participants`` are the clients that may ever train. Inputs are standardized as
    ``(x - shift) / scale`` after images are brought to 0..1. ``names`` are the clients' names, where they have any.

    A client without samples is never chosen; one with few trains on what it has (networks with batch norm need two
    samples in a batch). At least one client that takes part must have samples.
    """

    data: Dataset
    shift: NDArray[np.float32]
    scale: NDArray[np.float32]
    shards: tuple[NDArray[np.int64], ...]
    holdouts: tuple[NDArray[np.int64], ...]
    participants: NDArray[np.int64]
    label_counts: NDArray[np.int64]
    """``[client, class]`` counts of the training labels."""
    names: tuple[str, ...] = ()
    dealt: str = ""
    """The name of the partition."""
    feature_shift: FeatureShift | None = None

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
        """Clients that have their own data.

        Args:
            clients: By name or in a row, each a pair (x, y) of arrays, a dataset with ``len`` and ``[i]`` that gives
                (x, y), such as torch's, or a Hugging Face dataset. A client may be empty.
            test: The server's test set, as a client, or the share of all samples that is set apart for it: of each
                class its share, and the same rows whatever the seed.
            kind: ``"image"``, ``"table"``, ``"text"`` (token numbers) or ``"tensor"`` (left as they are); None: guessed
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
        return deal(data, partition=BY_ROLE, holdout=holdout, validation=validation, normalize=normalize, seed=seed)

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
        """Samples dealt out among simulated clients.

        Args:
            x: The samples, as arrays of any library; or a dataset object, and ``y`` None.
            y: A label for each sample: text, truth values or whole numbers.
            partition: A name that :data:`entrofed.data.PARTITIONS` knows, or a function of labels (0..C-1), number of
                clients, random generator and ``options`` that returns the sample numbers of each client; samples may be
                left out, but none may have two owners.
            clients: How many.
            test: The server's test set (x, y), or the share of the samples that is set apart for it; the same rows
                whatever the seed.
            seed: Of all draws; the same seed deals the same way as an experiment file with it.
            kind: As for :meth:`from_clients`; so are ``normalize``, ``classes``, ``holdout`` and ``validation``.
            participating: How many clients may ever train; the others are only measured on.
            options: Of the partition, such as ``alpha``.

        >>> x, y = np.eye(40), np.arange(40) % 4
        >>> federation = Federation.partition(x, y, "dirichlet_plain", clients=5, alpha=0.5, test=0.2)
        >>> federation.sizes.tolist()
        [4, 4, 13, 3, 8]
        """
        return deal(
            dataset_of(x, y, test=test, kind=kind, classes=classes),
            partition=partition,
            clients=clients,
            options=options,
            holdout=holdout,
            validation=validation,
            participating=participating,
            normalize=normalize,
            seed=seed,
        )

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
        """A table of numbers and categories.

        Args:
            table: The path of a file (.csv .tsv .parquet .arrow .feather, or a folder that Hugging Face saved), which
                is read in batches; or a table in memory of pyarrow, pandas or polars, or lists by the names of columns.
            label: The column of classes.
            client: The column that says whose row it is: natural clients.
            test: The share of rows for testing (default 0.2; of each class its share, the same rows whatever the seed);
                the column that is true, 1 or "test" for them; a path, or a table in memory.
            partition: How rows are dealt out instead; needs ``clients``, as :meth:`partition` does, and ``options``.
            clients: How many; with ``client`` and no ``partition``, so many of the natural ones, drawn at random.
            features: The columns to use; None: all that are not otherwise named, or in ``drop``.
            drop: Columns to leave out.
            missing: ``"refuse"`` missing values, ``"impute"`` the median or the most frequent category of the training
                rows, or ``"drop_rows"``.
            normalize: As for :meth:`from_clients`; so are ``holdout``, ``validation`` and ``seed``.
            participating: How many clients may ever train.

        Texts, truth values and dictionaries become a feature per category of the training rows.

        >>> visits = {"age": [31, 54, 47, 60] * 5, "ill": ["no", "yes"] * 10, "hospital": ["Basel", "Bern"] * 10}
        >>> Federation.from_table(visits, label="ill", client="hospital")
        Federation(table: 2 clients, 16 training samples, 2 classes)
        """
        return _own(
            table,
            Choice(label, client, test, features, drop, missing),
            partition=partition,
            clients=clients,
            options=options,
            holdout=holdout,
            validation=validation,
            participating=participating,
            normalize=normalize,
            seed=seed,
        )

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
        """Pictures or arrays: a folder ``class/*.png`` or ``client/class/*.png``, an .npz file, a saved dataset.

        Args:
            path: The file or folder; see :mod:`entrofed.data.files.load`.
            label: The array or column of labels, where there are several.
            client: The array or column that says whose sample it is; folders say it themselves.
            test: The share of samples for testing (default: the test part of the file, else 0.2), or another path.
            size: Height and width that pictures are resized to.

        All else is as for :meth:`from_table` and :meth:`from_clients`.
        """
        return _own(
            path,
            Choice(label, client, test, kind=kind, size=size),
            partition=partition,
            clients=clients,
            options=options,
            holdout=holdout,
            validation=validation,
            participating=participating,
            normalize=normalize,
            seed=seed,
        )

    @property
    def sizes(self) -> NDArray[np.int64]:
        """Training samples of each client."""
        sizes: NDArray[np.int64] = self.label_counts.sum(axis=1)
        return sizes

    def __repr__(self) -> str:
        clients, samples, classes = len(self.shards), int(self.sizes.sum()), len(self.data.classes)
        return f"Federation({self.data.name}: {clients:,} clients, {samples:,} training samples, {classes:,} classes)"

    def describe(self) -> str:
        """Clients, samples, classes and how unequal they are, in a few lines."""
        data, sizes = self.data, self.sizes
        held = (self.label_counts > 0).sum(axis=1)
        alone = entropy_of_counts(self.label_counts[sizes > 0], base="bits").mean()
        pooled = float(entropy_of_counts(self.label_counts.sum(axis=0), base="bits"))
        shape = "x".join(str(side) for side in data.train_x.shape[1:])
        tested = [f"{len(data.test_y):,} test samples", f"{data.validation_size:,} for validation"]
        taking_part = f", {len(self.participants):,} of them take part" if len(self.participants) < len(sizes) else ""
        empty = f", {(sizes == 0).sum():,} have none" if (sizes == 0).any() else ""
        return "\n".join(
            [
                f"{data.name}: {data.kind} data of shape {shape}, {len(data.classes):,} classes, "
                + ", ".join(tested if data.validation_size else tested[:1]),
                f"{len(sizes):,} clients{taking_part}",
                f"samples of a client: {sizes.min():,} to {sizes.max():,}, median {np.median(sizes):,.0f}, "
                f"{sizes.sum():,} in all{empty}",
                f"classes of a client: {held.min()} to {held.max()}, mean {held.mean():.1f}",
                f"label entropy: {alone:.2f} bits in a client (mean), {pooled:.2f} over all",
            ]
        )

    def only(self, clients: Sequence[int | str]) -> "Federation":
        """The same data and clients, of which only these take part; by number or name.

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

    def _repr_html_(self) -> str:
        """For notebooks: who holds what, a row per client (the first 30), the darker the more of its samples."""
        head = "".join(f"<th>{escape(name)}</th>" for name in self.data.classes)
        rows = []
        for k, counts in enumerate(self.label_counts[:SHOWN]):
            shares = counts / max(int(counts.sum()), 1)
            cells = "".join(
                f'<td style="background:rgba(31,119,180,{share:.2f})">{count}</td>'
                for count, share in zip(counts, shares, strict=True)
            )
            name = escape(self.names[k]) if self.names else str(k)
            rows.append(f"<tr><th>{name}</th>{cells}</tr>")
        more = f"<p>and {len(self.shards) - SHOWN:,} more clients</p>" if len(self.shards) > SHOWN else ""
        return f"<pre>{escape(self.describe())}</pre><table><tr><th></th>{head}</tr>{''.join(rows)}</table>{more}"

    @cached_property
    def digest(self) -> str:
        """SHA-256 of all that training sees: samples, labels, who holds which, and their scaling; computed once."""
        data = self.data
        found = sha256(json.dumps([data.kind, data.classes, data.full_scale, len(self.shards)]).encode())
        arrays = [(field.name, getattr(data, field.name)) for field in fields(data)]
        arrays += [("shift", self.shift), ("scale", self.scale), ("participants", self.participants)]
        arrays += [(f"shard {k}", shard) for k, shard in enumerate(self.shards)]
        arrays += [(f"holdout {k}", rows) for k, rows in enumerate(self.holdouts)]
        for name, array in arrays:
            if isinstance(array, np.ndarray):
                found.update(f"{name} {array.dtype.str} {array.shape}".encode())
                found.update(np.ascontiguousarray(array).data)
        return found.hexdigest()


def deal(
    data: Dataset,
    *,
    partition: Partition = "iid",
    clients: int | None = None,
    options: Mapping[str, Any] | None = None,
    holdout: float = 0.0,
    validation: float = 0.0,
    participating: int | None = None,
    normalize: str = "standard",
    seed: int = 0,
) -> Federation:
    """Deal a dataset out; the same seed deals the same way, wherever the data comes from.

    The arguments are those of :meth:`Federation.partition`.
    """
    if not isinstance(seed, int | np.integer) or seed < 0:
        raise ConfigError(f"seed must be a whole number from 0 on, not {seed!r}")
    name, options = name_of(partition), dict(options or {})
    if partition == NATURAL:
        partition = BY_ROLE
    if partition == ASSIGNMENT and clients is not None:
        raise ConfigError(f"clients = {clients} does not apply to partition {name!r}; leave it out")
    names: tuple[str, ...] = ()
    if partition == ASSIGNMENT:
        check_options(f"partition {ASSIGNMENT!r}", assignment, options)
        owners, names = assignment(data.train_y, **options)
        data, partition = replace(data, roles=owners, role_names=names), BY_ROLE
    if validation:
        data = data.set_aside(validation, stream(seed, "validation"))
    if partition == BY_ROLE:
        if data.roles is None:
            raise ConfigError(
                f"data.partition = {name!r}: {data.name!r} has no natural owners of samples; name the column of a "
                "table that says them (client), or choose another partition and a number of clients"
            )
        dealt, names = by_role(data.roles, len(data.role_names)), data.role_names
        if clients is not None:
            dealt, names = _some(dealt, names, clients, stream(seed, "partition"))
    else:
        dealt = deal_out(data.train_y, partition, clients, options, stream(seed, "partition"))
    train_x, feature_shift = shifted(data, partition, dealt, options, partial(stream, seed, "shift"))
    data = replace(data, train_x=train_x)
    shards, holdouts = hold_out(dealt, holdout, stream(seed, "holdout"))
    participants = np.arange(len(shards))
    if participating is not None:
        participants, _ = split_participants(len(shards), participating, stream(seed, "participants"))
    if not any(len(shards[k]) for k in participants):
        raise DataError(f"none of the {len(participants)} clients that take part has samples to train on")
    shift, scale = scaling(data, normalize)
    return Federation(
        data=data,
        shift=shift,
        scale=scale,
        shards=tuple(shards),
        holdouts=tuple(holdouts),
        participants=participants,
        label_counts=label_counts(data.train_y, shards, len(data.classes)),
        names=names,
        dealt=name,
        feature_shift=feature_shift,
    )


def _own(source: Any, choice: Choice, *, partition: Partition | None, clients: int | None, **rest: Any) -> Federation:
    """The user's own data dealt out: to natural clients unless a partition or only their number is given."""
    data = load_path(source, choice) if isinstance(source, str | Path) else load_table(source, choice)
    default: Partition = NATURAL if choice.client is not None or clients is None else "iid"
    return deal(data, partition=default if partition is None else partition, clients=clients, **rest)


def _some(
    dealt: list[NDArray[np.int64]], names: tuple[str, ...], clients: int, rng: np.random.Generator
) -> tuple[list[NDArray[np.int64]], tuple[str, ...]]:
    """So many of the natural owners, drawn at random; nobody trains on what the others have."""
    if not isinstance(clients, int | np.integer) or not 1 <= clients <= len(dealt):
        raise ConfigError(
            f"clients = {clients!r}, but of the natural owners a whole number from 1 to {len(dealt)} can be taken"
        )
    kept = np.sort(rng.permutation(len(dealt))[:clients]).tolist()
    return [dealt[k] for k in kept], tuple(names[k] for k in kept) if names else ()
