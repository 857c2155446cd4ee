"""Federations of the user's own data, and that every way to one deals the same bits."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from entrofed.data.catalog import load
from entrofed.data.dealing import Deal
from entrofed.data.federation import Federation, deal
from entrofed.data.own import dataset_of
from entrofed.errors import ConfigError, DataError
from entrofed.experiment.build import federate
from entrofed.experiment.sections.data import DataSection

RNG = np.random.default_rng(0)
X, Y = RNG.normal(size=(60, 4)), np.repeat(["a", "b", "c"], 20)
TEST = (X[:10], Y[[0, 20, 40] * 3 + [0]])


def same(one: Federation, other: Federation) -> bool:
    arrays = ("shift", "scale", "participants", "label_counts")
    return all(np.array_equal(getattr(one, name), getattr(other, name)) for name in arrays) and all(
        np.array_equal(a, b)
        for name in ("shards", "holdouts")
        for a, b in zip(getattr(one, name), getattr(other, name), strict=True)
    )


@pytest.mark.parametrize(
    "options",
    [
        {"partition": "dirichlet_balanced", "clients": 6, "alpha": 0.5, "min_size": 1},
        {"partition": "label_quantity", "clients": 7, "labels_per_client": 2, "holdout": 0.2},
        {"partition": "iid", "clients": 9, "participating": 4, "normalize": "minmax"},
        {"partition": "quantity", "clients": 5, "sigma": 0.5, "min_size": 1},
        {"partition": "feature_noise", "clients": 5, "sigma": 0.3},
    ],
)
def test_catalogue_and_arrays_are_dealt_alike(options: dict[str, Any]) -> None:
    iris = load("iris")
    ours = federate(DataSection(name="iris", **options), seed=3)
    arrays = {**options, "test": (iris.test_x, iris.test_y), "seed": 3}
    theirs = Federation.partition(iris.train_x, iris.train_y, arrays.pop("partition"), **arrays)
    assert same(ours, theirs)
    np.testing.assert_array_equal(ours.data.train_x, theirs.data.train_x)
    assert (ours.dealt, ours.feature_shift) == (theirs.dealt, theirs.feature_shift)


def test_clients_with_their_own_data() -> None:
    federation = Federation.from_clients(
        {"Basel": (X[:25], Y[:25]), "Chur": (X[:0], Y[:0]), "Lugano": (X[25:], Y[25:])}, test=TEST, holdout=0.2
    )
    assert federation.names == ("Basel", "Chur", "Lugano")
    assert federation.sizes.tolist() == [20, 0, 28]
    assert [len(rows) for rows in federation.holdouts] == [5, 0, 7]
    assert federation.label_counts.sum(axis=1).tolist() == [20, 0, 28]
    assert (federation.label_counts[0] > 0).tolist() == [True, True, False]
    np.testing.assert_allclose(federation.shift, X.mean(0), rtol=1e-5)
    assert federation.dealt == "by_role"


def test_a_test_share_is_the_same_for_every_seed() -> None:
    one, two = (Federation.partition(X, Y, "iid", clients=4, test=0.25, seed=seed) for seed in (0, 1))
    np.testing.assert_array_equal(one.data.test_x, two.data.test_x)
    assert not same(one, two)


def test_a_validation_set_is_set_aside() -> None:
    federation = Federation.partition(X, Y, "iid", clients=4, test=TEST, validation=0.1)
    assert (federation.data.validation_size, federation.sizes.sum()) == (6, 54)


def test_a_function_as_partition() -> None:
    def halves(labels: np.ndarray, clients: int, rng: np.random.Generator, *, gap: int) -> list[Any]:
        assert labels.tolist() == [0] * 20 + [1] * 20 + [2] * 20
        return [np.arange(30)[::-1], list(range(30 + gap, 60))]

    federation = Federation.partition(X, Y, halves, clients=2, test=TEST, gap=5)
    assert [rows.tolist() for rows in federation.shards] == [list(range(30)), list(range(35, 60))]
    assert federation.dealt == "halves"


@pytest.mark.parametrize(
    ("made", "said"),
    [
        ([[0, 1]], "must give the samples of 2 clients, found those of 1"),
        ([[0, 1], [1, 2]], "clients 0 and 1 both hold sample 1"),
        ([[0, 0], [2]], "clients 0 and 0 both hold sample 0"),
        ([[0], [60]], "client 1 holds sample 60, but samples are 0..59"),
        ([[0], [-1]], "client 1 holds sample -1"),
        ([[0], [0.5]], r"client 1 must get sample numbers, found float64 \(1,\)"),
        ([[0], [[1, 2]]], r"client 1 must get sample numbers, found int64 \(1, 2\)"),
        (None, "failed: TypeError: 'NoneType' object is not iterable"),
        (ZeroDivisionError("oh"), "failed: ZeroDivisionError: oh"),
    ],
)
def test_what_a_function_makes_is_checked(made: Any, said: str) -> None:
    def mine(labels: np.ndarray, clients: int, rng: np.random.Generator) -> Any:
        if isinstance(made, Exception):
            raise made
        return made

    with pytest.raises(ConfigError, match=f"partition 'mine'.* {said}|partition 'mine' {said}"):
        Federation.partition(X, Y, mine, clients=2, test=TEST)


@pytest.mark.parametrize(
    ("options", "error", "said"),
    [
        ({"partition": "dirichlet"}, ConfigError, "unknown partition 'dirichlet'; did you mean 'dirichlet_"),
        ({"clients": None}, ConfigError, "partition 'iid' needs clients, a whole number; found None"),
        ({"clients": 2.5}, ConfigError, "partition 'iid' needs clients, a whole number; found 2.5"),
        ({"clients": 0}, ConfigError, "clients must be at least 1, not 0"),
        ({"clients": 61}, ConfigError, "61 clients are more than the 60 samples"),
        ({"alpha": 0.5}, ConfigError, "unknown option of partition 'iid' 'alpha'"),
        ({"partition": "dirichlet_plain"}, ConfigError, "partition 'dirichlet_plain' needs alpha"),
        ({"partition": "dirichlet_plain", "alpha": "x"}, ConfigError, "partition 'dirichlet_plain' failed: TypeError"),
        ({"partition": "by_role", "clients": None}, ConfigError, "'own' has no natural owners"),
        ({"partition": "by_role"}, ConfigError, "'own' has no natural owners"),
        ({"seed": -1}, ConfigError, "seed must be a whole number from 0 on, not -1"),
        ({"seed": "0"}, ConfigError, "seed must be a whole number from 0 on, not '0'"),
        ({"holdout": 1.0}, ConfigError, "the share that is held out must be at least 0 and below 1, not 1.0"),
        ({"validation": 1.0}, ConfigError, "change the share"),
        ({"participating": 3}, ConfigError, "participating = 3 is more than the 2 clients"),
        ({"normalize": "max"}, ConfigError, "unknown scaling 'max'; did you mean 'minmax'"),
        ({"normalize": "half"}, ConfigError, "'half' is for images"),
    ],
)
def test_bad_options(options: dict[str, Any], error: type[Exception], said: str) -> None:
    with pytest.raises(error, match=said):
        Federation.partition(X, Y, **{"partition": "iid", "clients": 2, "test": TEST, **options})


def test_somebody_who_takes_part_must_have_data() -> None:
    data = dataset_of(X, Y, test=TEST, owners=np.zeros(60, np.int64), owner_names=("all", "none"))
    seed = next(seed for seed in range(9) if deal_participants(data, seed) == [1])
    with pytest.raises(DataError, match="none of the 1 clients that take part has samples"):
        deal(data, Deal("by_role", participating=1, seed=seed))
    assert deal(data, Deal("by_role")).sizes.tolist() == [60, 0]


def test_some_of_the_natural_owners() -> None:
    owners = np.repeat(np.arange(6), 10)
    data = dataset_of(X, Y, test=TEST, owners=owners, owner_names=tuple("abcdef"))
    found = [deal(data, Deal("by_role", clients=3, seed=seed)) for seed in range(4)]
    for federation in found:
        assert len(set(federation.names)) == 3
        for name, shard in zip(federation.names, federation.shards, strict=True):
            assert shard.tolist() == np.flatnonzero(owners == "abcdef".index(name)).tolist()
    assert len({federation.names for federation in found}) > 1
    assert deal(data, Deal("by_role", clients=6)).names == tuple("abcdef")
    for clients in (0, 7, 2.5):
        with pytest.raises(ConfigError, match="a whole number from 1 to 6 can be taken"):
            deal(data, Deal("by_role", clients=clients))  # type: ignore[arg-type]


def deal_participants(data: Any, seed: int) -> list[int]:
    try:
        return deal(data, Deal("by_role", participating=1, seed=seed)).participants.tolist()
    except DataError:
        return [1]


def test_words() -> None:
    federation = Federation.partition(X, Y, "iid", clients=4, test=TEST, participating=3, validation=0.1)
    assert repr(federation) == "Federation(own: 4 clients, 54 training samples, 3 classes)"
    assert federation.describe().splitlines() == [
        "own: table data of shape 4, 3 classes, 10 test samples, 6 for validation",
        "4 clients, 3 of them take part",
        "samples of a client: 13 to 14, median 14, 54 in all",
        f"classes of a client: 3 to 3, mean {3:.1f}",
        federation.describe().splitlines()[-1],
    ]
    assert federation.describe().splitlines()[-1].startswith("label entropy: 1.")
    one = Federation.from_clients([(X[:20], Y[:20]), (X[20:40], Y[20:40]), ([], [])], test=(X[:1], Y[:1]))
    assert one.describe().splitlines()[-1] == "label entropy: 0.00 bits in a client (mean), 1.00 over all"
    assert ", 1 have none" in one.describe()


def test_the_digest_knows_all_that_training_sees() -> None:
    def make(**options: Any) -> Federation:
        return Federation.partition(X, Y, **{"partition": "iid", "clients": 4, "test": TEST, **options})

    federation = make()
    assert len(federation.digest) == 64
    assert federation.digest == make().digest
    less = X.copy()
    less[5, 1] += 1e-3
    others = [
        make(seed=1),
        make(normalize="unit"),
        make(holdout=0.1),
        make(test=(X[1:11], TEST[1])),
        make(participating=3),
        make(classes=("a", "b", "c", "d")),
        Federation.partition(less, Y, clients=4, test=TEST),
        replace(federation, data=replace(federation.data, full_scale=1.5)),
    ]
    assert len({federation.digest, *(other.digest for other in others)}) == 1 + len(others)
    assert replace(federation, names=("a", "b", "c", "d")).digest == federation.digest


def test_a_tensor_reaches_the_model_as_it_is() -> None:
    from functools import partial

    import torch

    from entrofed.client.runtime import ClientRuntime

    x = RNG.normal(size=(20, 2, 3)) * 100
    federation = Federation.partition(x, np.arange(20) % 2, "iid", clients=2, test=0.2)
    assert federation.data.kind == "tensor"
    runtime = ClientRuntime(federation, partial(torch.nn.Flatten), compiled=False)
    data = runtime.client_data(1)
    found = runtime.model.inputs.for_model(runtime.model.inputs.standardize(data.x))
    np.testing.assert_array_equal(found.numpy(), federation.data.train_x[federation.shards[1]])


def test_floating_pixels_reach_the_model_scaled_and_stay_in_place() -> None:
    import torch

    from entrofed.client.runtime import ClientRuntime

    x = RNG.random((20, 1, 4, 4)) * 200
    federation = Federation.partition(x, np.arange(20) % 2, "iid", clients=2, test=0.2)
    before = federation.data.train_x.copy()
    runtime = ClientRuntime(federation, torch.nn.Flatten, compiled=False)
    data = runtime.client_data(0)
    np.testing.assert_allclose(data.x[:, :, :, 0].numpy(), before[federation.shards[0], 0] / 255, rtol=1e-6)
    np.testing.assert_array_equal(federation.data.train_x, before)
