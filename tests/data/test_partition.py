import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.random import RandomState, default_rng

from entrofed.data import PARTITIONS
from entrofed.data.partition import (
    by_role,
    contiguous,
    dirichlet_balanced,
    dirichlet_mixed,
    dirichlet_plain,
    hold_out,
    iid,
    label_counts,
    label_quantity,
    split_participants,
)
from entrofed.errors import ConfigError, DataError

MNIST = (5923, 6742, 5958, 6131, 5842, 5421, 5918, 6265, 5851, 5949)
OPTIONS = {
    "iid": {},
    "contiguous": {},
    "dirichlet_balanced": {"alpha": 0.5, "min_size": 0},
    "fedklentropy_replay": {"alpha": 0.5},
    "dirichlet_plain": {"alpha": 0.5},
    "dirichlet_mixed": {"alphas": (50.0, 0.5), "min_size": 0},
    "label_quantity": {"labels_per_client": 2},
    "quantity": {"alpha": 0.5, "min_size": 0},
    "label_and_quantity": {"alphas": (0.5, 0.5), "min_size": 0},
    "feature_noise": {"sigma": 0.1},
    "rotation": {},
}
TEN = np.repeat(np.arange(10), 60)


def covers(shards, samples):
    return np.array_equal(np.sort(np.concatenate(shards)), np.arange(samples))


# Oracles: statistics printed by the public scripts at seed 42, an extreme @ the first client that attains it.


@pytest.mark.parametrize(
    ("partition", "sizes", "alpha", "mean", "most", "least", "largest", "smallest"),
    [
        (dirichlet_balanced, MNIST, 0.1, 4.64, (9, 10), (1, 1), (3997, 41), (32, 48)),
        (dirichlet_balanced, (6000,) * 10, 0.3, 7.52, (10, 8), (3, 11), (2223, 31), (99, 5)),
        (dirichlet_plain, MNIST, 0.1, 4.82, (10, 49), (1, 13), (3635, 25), (8, 27)),
        (dirichlet_plain, (6000,) * 10, 0.3, 7.78, (10, 35), (6, 0), (3486, 22), (211, 12)),
    ],
)
def test_public_partitions(partition, sizes, alpha, mean, most, least, largest, smallest):
    labels = np.repeat(np.arange(10), sizes)
    counts = label_counts(labels, partition(labels, 50, RandomState(42), alpha=alpha), 10)
    held, total = (counts > 0).sum(axis=1), counts.sum(axis=1)
    assert held.mean() == pytest.approx(mean, abs=1e-12)
    assert (held.max(), held.argmax()) == most
    assert (held.min(), held.argmin()) == least
    assert (total.max(), total.argmax()) == largest
    assert (total.min(), total.argmin()) == smallest


def plain_twin(labels, clients, rng, alpha, min_size):
    """dirichlet_balanced as the text says it, one sample list per client."""
    while True:
        held = [[] for _ in range(clients)]
        for c in range(labels.max() + 1):
            samples = np.flatnonzero(labels == c)
            rng.shuffle(samples)
            p = rng.dirichlet([alpha] * clients)
            p = np.array([0 if len(h) >= len(labels) / clients else q for h, q in zip(held, p, strict=True)])
            start, total = 0, 0.0
            for k in range(clients):
                total += (p / p.sum())[k]
                stop = len(samples) if k == clients - 1 else int(total * len(samples))
                held[k] += samples[start:stop].tolist()
                start = stop
        if min(map(len, held)) >= min_size:
            return [sorted(h) for h in held]


def test_the_public_balanced_partition_needs_one_try():
    labels = np.repeat(np.arange(10), MNIST)
    assert len(dirichlet_balanced(labels, 50, RandomState(42), alpha=0.1, max_tries=1)) == 50


@pytest.mark.parametrize("seed", [0, 1, 2, 4])
def test_balanced_equals_its_plain_twin_through_several_tries(seed):
    labels = default_rng(seed).integers(0, 5, size=200)
    expected = plain_twin(labels, 6, RandomState(seed), 0.5, 15)
    with pytest.raises(ConfigError):
        dirichlet_balanced(labels, 6, RandomState(seed), alpha=0.5, min_size=15, max_tries=1)
    shards = dirichlet_balanced(labels, 6, RandomState(seed), alpha=0.5, min_size=15)
    assert [s.tolist() for s in shards] == expected


labels_and_clients = st.integers(1, 8).flatmap(
    lambda clients: st.tuples(
        st.lists(st.integers(0, 4), min_size=max(clients, 2), max_size=60).map(np.array), st.just(clients)
    )
)


@pytest.mark.parametrize("name", sorted(PARTITIONS))
@pytest.mark.parametrize("generator", [default_rng, RandomState])
@settings(max_examples=30, deadline=None)
@given(case=labels_and_clients, seed=st.integers(0, 1000))
def test_shards_are_disjoint_complete_sorted_and_deterministic(name, generator, case, seed):
    labels, clients = case
    options = dict(OPTIONS[name])
    if name == "dirichlet_mixed":
        clients += clients == 1
    if name == "label_quantity":
        clients = max(clients, labels.max() + 1)
        options["labels_per_client"] = min(2, labels.max() + 1)
        labels = np.concatenate([labels, np.full(max(clients - len(labels), 0), labels.max())])
    before = labels.copy()
    shards = PARTITIONS[name](labels, clients, generator(seed), **options)
    assert len(shards) == clients
    assert covers(shards, len(labels))
    assert all(s.dtype == np.int64 and (np.diff(s) > 0).all() for s in shards)
    assert np.array_equal(labels, before)
    again = PARTITIONS[name](labels, clients, generator(seed), **options)
    assert all(map(np.array_equal, shards, again))


@pytest.mark.parametrize("name", sorted(set(PARTITIONS) - {"contiguous", "fedklentropy_replay"}))
def test_another_seed_gives_another_partition(name):
    one, two = (PARTITIONS[name](TEN, 20, default_rng(s), **OPTIONS[name]) for s in (1, 2))
    assert not all(map(np.array_equal, one, two))


@settings(deadline=None)
@given(case=labels_and_clients)
def test_equal_parts(case):
    labels, clients = case
    for partition in (iid, contiguous):
        sizes = [len(s) for s in partition(labels, clients, default_rng(0))]
        assert max(sizes) - min(sizes) <= 1
    joined = np.concatenate(contiguous(labels, clients, default_rng(0)))
    assert np.array_equal(joined, np.arange(len(labels)))


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 10_000), alpha=st.sampled_from([5e-324, 1e-8, 1e-3, 0.1, 1.0, 1e9, 1e308]))
def test_no_alpha_breaks_the_dirichlet_partitions(seed, alpha):
    for generator in (default_rng, RandomState):
        rng = generator(seed)
        assert covers(dirichlet_plain(TEN, 7, rng, alpha=alpha), len(TEN))
        assert covers(dirichlet_balanced(TEN, 7, rng, alpha=alpha, min_size=0), len(TEN))


def test_alpha_rules_the_skew():
    few, many = (
        (label_counts(TEN, dirichlet_plain(TEN, 10, default_rng(0), alpha=a), 10) > 0).sum(axis=1).mean()
        for a in (0.05, 1000.0)
    )
    assert few < 4
    assert many == 10


def test_plain_gives_the_rest_to_the_last_client():
    # 3 samples of a class over 4 nearly equal shares: every floor is 0
    labels = np.repeat(np.arange(5), 3)
    counts = label_counts(labels, dirichlet_plain(labels, 4, default_rng(0), alpha=1e6), 5)
    assert counts.tolist() == [[0] * 5] * 3 + [[3] * 5]


@given(seed=st.integers(0, 1000), min_size=st.integers(0, 40))
@settings(max_examples=25, deadline=None)
def test_balanced_has_its_minimum(seed, min_size):
    shards = dirichlet_balanced(TEN, 10, default_rng(seed), alpha=5.0, min_size=min_size)
    assert min(map(len, shards)) >= min_size


def test_balanced_gives_up():
    with pytest.raises(ConfigError, match="max_tries = 3; raise alpha"):
        dirichlet_balanced(TEN, 10, default_rng(0), alpha=0.01, min_size=50, max_tries=3)
    with pytest.raises(ConfigError, match="min_size = 61"):
        dirichlet_balanced(TEN, 10, default_rng(0), alpha=0.01, min_size=61)


@pytest.mark.parametrize("clients", [10, 11])
def test_mixed_has_two_kinds_of_clients(clients):
    labels = np.repeat(np.arange(10), 600)
    shards = dirichlet_mixed(labels, clients, default_rng(3), alphas=(1e6, 0.1), min_size=10)
    counts = label_counts(labels, shards, 10)
    first = (clients + 1) // 2
    assert (counts[:first].sum(axis=0) == 300).all()
    assert (counts[first:].sum(axis=0) == 300).all()
    assert np.ptp(counts[:first]) <= 2
    assert (counts[first:] == 0).any()


@settings(max_examples=40, deadline=None)
@given(clients=st.integers(5, 30), labels_per_client=st.integers(1, 5), seed=st.integers(0, 1000))
def test_label_quantity(clients, labels_per_client, seed):
    labels = np.tile(np.arange(5), 40)
    shards = label_quantity(labels, clients, default_rng(seed), labels_per_client=labels_per_client)
    counts = label_counts(labels, shards, 5)
    assert ((counts > 0).sum(axis=1) == labels_per_client).all()
    assert (counts[np.arange(clients), np.arange(clients) % 5] > 0).all()
    for column in counts.T:
        assert np.ptp(column[column > 0]) <= 1


def test_label_quantity_draws_the_further_labels_uniformly():
    labels = np.tile(np.arange(5), 2000)
    counts = label_counts(labels, label_quantity(labels, 2000, default_rng(0), labels_per_client=2), 5)
    partners = (counts[::5, 1:] > 0).sum(axis=0)  # clients with label 0: their other label
    assert partners.sum() == 400
    assert (np.abs(partners - 100) < 4 * np.sqrt(400 * 0.25 * 0.75)).all()


def test_by_role():
    roles = np.array([2, 0, 2, 0, 3])
    assert [s.tolist() for s in by_role(roles)] == [[1, 3], [], [0, 2], [4]]
    assert [s.tolist() for s in by_role(roles, 6)] == [[1, 3], [], [0, 2], [4], [], []]
    with pytest.raises(DataError, match="role -1 of sample 1"):
        by_role(np.array([0, -1]))


@given(case=labels_and_clients, seed=st.integers(0, 100))
def test_label_counts_equals_counting(case, seed):
    labels, clients = case
    shards = dirichlet_plain(labels, clients, default_rng(seed), alpha=0.3)
    counts = label_counts(labels, shards, 6)
    assert counts.dtype == np.int64
    assert counts.tolist() == [[int((labels[s] == c).sum()) for c in range(6)] for s in shards]


def test_label_counts_refuses_what_is_not_there():
    assert label_counts(np.array([0]), [], 2).shape == (0, 2)
    with pytest.raises(DataError, match=r"label 3 of sample 1 is not in 0\.\.2"):
        label_counts(np.array([0, 3]), [np.array([0])], 3)
    for sample in (2, -1):
        with pytest.raises(DataError, match=rf"client 1 holds sample {sample}, but samples are 0\.\.1"):
            label_counts(np.array([0, 1]), [np.array([0]), np.array([sample])], 2)


@given(clients=st.integers(1, 100), data=st.data())
def test_split_participants(clients, data):
    participating = data.draw(st.integers(1, clients))
    inside, outside = split_participants(clients, participating, default_rng(0))
    assert len(inside) == participating
    assert (np.diff(inside) > 0).all()
    assert (np.diff(outside) > 0).all()
    assert sorted([*inside, *outside]) == list(range(clients))


@settings(deadline=None)
@given(sizes=st.lists(st.integers(0, 30), max_size=6), share=st.floats(0, 0.999), seed=st.integers(0, 100))
def test_hold_out(sizes, share, seed):
    shards = np.split(np.arange(sum(sizes)) * 3, np.cumsum(sizes)[:-1]) if sizes else []
    train, test = hold_out(shards, share, default_rng(seed))
    for shard, kept, held in zip(shards, train, test, strict=True):
        assert np.array_equal(np.sort(np.concatenate([kept, held])), shard)
        assert np.array_equal(kept, np.sort(kept))
        assert len(kept) >= min(len(shard), 1)
        if share == 0 or len(shard) < 2:
            assert len(held) == 0
        else:
            assert len(held) >= 1
            assert abs(len(held) - share * len(shard)) <= 1
    again = hold_out(shards, share, default_rng(seed))
    assert all(map(np.array_equal, [*train, *test], [*again[0], *again[1]]))


@pytest.mark.parametrize("name", sorted(PARTITIONS))
def test_bad_labels_and_clients(name):
    def run(labels, clients):
        PARTITIONS[name](np.array(labels), clients, default_rng(0), **OPTIONS[name])

    with pytest.raises(ConfigError, match="clients must be at least 1, not 0"):
        run([0, 1, 2], 0)
    with pytest.raises(ConfigError, match="4 clients are more than the 3 samples"):
        run([0, 1, 2], 4)
    with pytest.raises(DataError, match="label -1 of sample 2"):
        run([0, 1, -1], 2)
    with pytest.raises(DataError, match="integers in a row, not float64"):
        run([0.0, 1.0], 2)
    with pytest.raises(DataError, match=r"\(0,\)"):
        run(np.empty(0, dtype=np.int64), 1)
    with pytest.raises(DataError, match=r"\(1, 2\)"):
        run([[0, 1]], 2)


@pytest.mark.parametrize("alpha", [0.0, -1.0, np.inf, np.nan])
def test_bad_alpha(alpha):
    for partition in (dirichlet_plain, dirichlet_balanced):
        with pytest.raises(ConfigError, match="alpha must be positive and finite"):
            partition(TEN, 5, default_rng(0), alpha=alpha)
    with pytest.raises(ConfigError, match="alpha must be positive and finite"):
        dirichlet_mixed(TEN, 4, default_rng(0), alphas=(1.0, alpha))


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (
            lambda r: dirichlet_balanced(TEN, 5, r, alpha=1, min_size=-1),
            "min_size must be at least 0",
        ),
        (
            lambda r: dirichlet_balanced(TEN, 5, r, alpha=1, max_tries=0),
            "max_tries must be at least 1",
        ),
        (lambda r: dirichlet_mixed(TEN, 1, r, alphas=(1, 1)), "2 clients or more"),
        (lambda r: dirichlet_mixed(TEN, 4, r, alphas=(1,)), "2 alphas"),
        (lambda r: label_quantity(TEN, 9, r, labels_per_client=2), "9 clients for 10 labels"),
        (lambda r: label_quantity(TEN, 10, r, labels_per_client=0), "labels_per_client must be at least 1"),
        (lambda r: label_quantity(TEN, 10, r, labels_per_client=11), "more than the 10 labels"),
        (lambda r: split_participants(10, 0, r), "participating must be at least 1, not 0"),
        (lambda r: split_participants(10, 11, r), "more than the 10 clients"),
        (lambda r: hold_out([], 1.0, r), "below 1, not 1.0"),
        (lambda r: hold_out([], -0.1, r), "not -0.1"),
        (lambda r: hold_out([], np.nan, r), "not nan"),
    ],
)
def test_bad_options(call, says):
    with pytest.raises(ConfigError) as caught:
        call(default_rng(0))
    assert says in str(caught.value)
