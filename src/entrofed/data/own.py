"""A dataset of the user's own arrays: what kind of samples they are, which classes there are, what is for testing.

>>> x, y = np.arange(40.0).reshape(20, 2), ["sick", "well"] * 10
>>> data = dataset_of(x, y, test=0.2)
>>> data.kind, data.classes, data.train_x.shape, data.test_y.tolist()
('table', ('sick', 'well'), (16, 2), [1, 0, 0, 1])
"""

from collections.abc import Mapping, Sequence
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import NDArray

from entrofed.core.seeds import stream
from entrofed.data.dataset import Dataset, Kind
from entrofed.data.kinds import TEST, TRAINING, VALIDATION, stored
from entrofed.data.objects import SCOPE, Labelled, array_of, label_values, labelled
from entrofed.errors import ConfigError, DataError

WORDS = {"b": "truth values", "i": "numbers", "U": "text"}
"""What labels are, by the kind of their array."""
MANY = 20
"""More classes than this must have two samples each on average."""


def dataset_of(
    x: Any,
    y: Any = None,
    *,
    test: Any,
    kind: Kind | None = None,
    owners: Any = None,
    owner_names: Sequence[str] = (),
    classes: Sequence[str] | None = None,
    name: str = "own",
    valid: Any = None,
    preprocessing: Mapping[str, Any] | None = None,
) -> Dataset:
    """Samples and labels of any type as a dataset.

    Args:
        x: Samples: an array of numpy or torch, anything with ``__array__``, a list; or (``y`` None) a pair (x, y), a
            dataset with ``len`` and ``[i]`` that gives (x, y), such as torch's, or a Hugging Face dataset.
        y: A label for each sample: text, truth values, or whole numbers with or without gaps. Classes are in sorted
            order and named by their labels.
        test: The test part, as ``x``, or the share of the samples that is for testing: each class gives its share
            (or nearly, where it has few samples), and the rows are the same whatever the seed of a run.
        kind: ``"image"``, ``"table"``, ``"text"`` (token numbers) or ``"tensor"`` (left as they are). None: pixels in
            three or four dimensions, with 1, 3 or 4 channels first or last (or none: gray), are images; two dimensions
            are a table; all else is a tensor. Pixels are bytes, or lie in 0..1 or 0..255.
        owners: Who owns each sample of ``x``, by name or number; with ``owner_names`` by number in these.
        classes: Names of the classes in their order, where the labels are text or count from 0. A class may be without
            samples.
        valid: A validation set for the server, as ``x``.

    A DataError says what cannot be: regression, several labels per sample, a single class, a class that only the test
    or validation part has, values that are missing or infinite, parts that differ in shape or length.
    """
    train = labelled(x, y, TRAINING)
    numbered = None if owners is None else _owner_numbers(owners, owner_names, len(train))
    if isinstance(test, Real):
        rows = stratified_rows(train.y, float(test))
        kept = np.setdiff1d(np.arange(len(train)), rows)
        parts = {TRAINING: train.take(kept), TEST: train.take(rows)}
        numbered = None if numbered is None else (numbered[0][kept], numbered[1])
    else:
        parts = {TRAINING: train, TEST: labelled(test, None, TEST)}
    if valid is not None:
        parts[VALIDATION] = labelled(valid, None, VALIDATION)
    for part, found in parts.items():
        if not len(found):
            raise DataError(f"{part} is empty; give samples and their labels")
    names, labels = _classes({part: found.y for part, found in parts.items()}, classes or train.classes)
    chosen, samples, full_scale = stored({part: found.x for part, found in parts.items()}, kind or train.kind)
    roles, role_names = (None, ()) if numbered is None else numbered
    return Dataset(
        name=name,
        kind=chosen,
        train_x=samples[TRAINING],
        train_y=labels[TRAINING],
        test_x=samples[TEST],
        test_y=labels[TEST],
        classes=names,
        valid_x=samples.get(VALIDATION),
        valid_y=labels.get(VALIDATION),
        roles=roles,
        role_names=role_names,
        full_scale=full_scale,
        preprocessing=dict(preprocessing or {}),
    )


def dataset_of_clients(
    clients: Mapping[Any, Any] | Sequence[Any],
    *,
    test: Any,
    kind: Kind | None = None,
    classes: Sequence[str] | None = None,
    name: str = "own",
) -> Dataset:
    """The samples of clients, by name or in a row, one after the other; each owns its own. Clients may be empty."""
    listed = clients.items() if isinstance(clients, Mapping) else enumerate(clients)
    found = [(str(client), labelled(samples, None, f"client {str(client)!r}")) for client, samples in listed]
    names = [client for client, _ in found]
    if len(set(names)) < len(names):
        raise DataError(f"clients must have names that differ, found {', '.join(map(repr, names))}")
    held = [(f"client {client!r}", samples) for client, samples in found if len(samples)]
    if not held:
        raise DataError(f"none of {len(found)} clients has a sample; give at least one client (x, y)")
    first, like = held[0]
    for client, samples in held:
        for what, here, there in (
            ("samples of shape", samples.x.shape[1:], like.x.shape[1:]),
            ("labels that are", WORDS[samples.y.dtype.kind], WORDS[like.y.dtype.kind]),
            ("samples that are", _bytes(samples.x), _bytes(like.x)),
        ):
            if here != there:
                raise DataError(f"{client} has {what} {here}, {first} {there}; they must be the same")
    known = like.classes if all(samples.classes == like.classes for _, samples in held) else None
    together = Labelled(
        np.concatenate([samples.x for _, samples in held]),
        np.concatenate([samples.y for _, samples in held]),
        known,
        like.kind,
    )
    owners = np.repeat(np.arange(len(found)), [len(samples) for _, samples in found])
    return dataset_of(together, test=test, kind=kind, owners=owners, owner_names=names, classes=classes, name=name)


def _bytes(x: NDArray[Any]) -> str:
    return "bytes" if x.dtype == np.uint8 else "no bytes"


def stratified_rows(y: NDArray[Any], share: float) -> NDArray[np.int64]:
    """Sorted rows of a test part: of each class the share, rounded, and never all of its samples.

    Samples that are lost by rounding down are taken from the classes that lost most. Drawn from a stream that no seed
    changes, so that all runs on the same data have the same test part.

    >>> stratified_rows(np.repeat([0, 1], [8, 4]), 0.25).tolist()
    [2, 5, 11]
    """
    if not len(y):
        raise DataError(f"{TRAINING} is empty; give samples and their labels")
    if not 0 < share < 1:
        raise ConfigError(f"test = {share}: the share of samples for testing lies between 0 and 1, for example 0.2")
    rng = stream(0, "test")
    _, numbers, counts = np.unique(y, return_inverse=True, return_counts=True)
    quota = share * counts
    sizes = np.floor(quota).astype(np.int64)
    order = rng.permutation(len(counts))
    for c in order[np.argsort(sizes[order] - quota[order], kind="stable")][: round(share * len(y)) - sizes.sum()]:
        sizes[c] += 1
    sizes = np.minimum(sizes, counts - 1)
    if not sizes.sum():
        raise DataError(
            f"test = {share} of {len(y)} samples leaves none for testing; raise the share, or give a test part"
        )
    of_class = np.split(np.argsort(numbers, kind="stable"), np.cumsum(counts)[:-1])
    return np.sort(np.concatenate([rng.permutation(of)[:size] for of, size in zip(of_class, sizes, strict=True)]))


def _owner_numbers(owners: Any, names: Sequence[str], samples: int) -> tuple[NDArray[np.int64], tuple[str, ...]]:
    """The number of each sample's owner, and the owners' names; without names these are the values, in sorted order."""
    found = array_of(owners, "owners")
    if found.shape != (samples,):
        raise DataError(f"owners: expected one for each of {samples:,} samples, found an array of shape {found.shape}")
    if not names:
        values, numbered = np.unique(label_values(found, "owners"), return_inverse=True)
        return numbered.astype(np.int64), tuple(str(value) for value in values)
    if samples and (found.dtype.kind not in "iu" or found.min() < 0 or found.max() >= len(names)):
        raise DataError(f"owners: where names are given, owners are whole numbers in 0..{len(names) - 1}")
    return found.astype(np.int64), tuple(names)


def _classes(
    parts: Mapping[str, NDArray[Any]], given: Sequence[object] | None
) -> tuple[tuple[str, ...], dict[str, NDArray[np.int64]]]:
    """The names of the classes, and the number of each label's class."""
    train = parts[TRAINING]
    for part, y in parts.items():
        if len(y) and y.dtype.kind != train.dtype.kind:
            raise DataError(
                f"labels of {TRAINING} are {WORDS[train.dtype.kind]}, those of {part} {WORDS[y.dtype.kind]}; "
                "give the same"
            )
    values = np.unique(train)
    if len(values) > MANY and len(values) > len(train) / 2:
        raise DataError(
            f"{SCOPE}; y holds {len(values):,} different labels for {len(train):,} samples ({str(values[0])!r}, ...). "
            "Is it a number to predict (regression is out of scope), or an identifier?"
        )
    names, there = tuple(str(value) for value in (values if given is None else given)), values
    if given is not None:
        if len(set(names)) < len(names):
            raise ConfigError(f"classes: names must differ, found {', '.join(map(repr, names))}")
        strange = [str(value) for value in values if str(value) not in names]
        if not strange:
            parts, values = {part: y.astype(np.str_) for part, y in parts.items()}, np.array(names)
            there = there.astype(np.str_)
        elif train.dtype.kind == "i" and values[0] >= 0 and values[-1] < len(names):
            values = np.arange(len(names))
        else:
            raise DataError(
                f"label {strange[0]!r} is not one of classes = {', '.join(map(repr, names))}; name every class, or "
                "leave classes out"
            )
    order = np.argsort(values, kind="stable")
    labels, held = {}, np.isin(values, there)
    counted = held.all() and values.dtype.kind == "i" and np.array_equal(values, np.arange(len(values)))
    if held.sum() < 2:
        raise DataError(f"{SCOPE}; all {len(train):,} labels of {TRAINING} are {str(train[0])!r}")
    for part, y in parts.items():
        if counted and len(y) and y.min() >= 0 and y.max() < len(values):
            labels[part] = y.astype(np.int64)  # they are the numbers of their classes
            continue
        place = order[np.minimum(np.searchsorted(values, y, sorter=order), len(values) - 1)]
        missing = np.flatnonzero((values[place] != y) | ~held[place])
        if len(missing):
            raise DataError(
                f"class {str(y[missing[0]])!r} is in {part} (sample {missing[0]}) and not in {TRAINING}, so that no "
                "model can learn it; give samples to train on, or leave out the class"
            )
        labels[part] = place.astype(np.int64)
    return names, labels
