"""Which client holds which training samples.

Every partitioner takes the labels (``int64``, 0..C-1), the number of clients and a random generator, and
returns the sorted sample indices of each client. Shards never overlap, and together hold every sample,
except where it is said otherwise. A ``RandomState`` draws in the order of the public scripts, so their seeds
give their partitions.

>>> labels = np.repeat(np.arange(3), 4)
>>> [shard.tolist() for shard in contiguous(labels, 2, np.random.default_rng(0))]
[[0, 1, 2, 3, 4, 5], [6, 7, 8, 9, 10, 11]]
"""

from collections.abc import Sequence
from math import isfinite

import numpy as np
from numpy.random import Generator, RandomState
from numpy.typing import NDArray

from entrofed.data.client_rows import ClientRows
from entrofed.errors import ConfigError, DataError

Indices = NDArray[np.int64]
Random = Generator | RandomState


def iid(labels: Indices, clients: int, rng: Random) -> ClientRows:
    """Equal parts (sizes differ by one at most) of the samples in random order."""
    number_of_classes(labels, clients)
    return ClientRows.cut(rng.permutation(len(labels)), _equal(len(labels), clients))


def contiguous(labels: Indices, clients: int, rng: Random) -> ClientRows:
    """Equal consecutive pieces (sizes differ by one at most) in the order of the rows; nothing is drawn."""
    number_of_classes(labels, clients)
    return ClientRows.cut(np.arange(len(labels)), _equal(len(labels), clients))


def _equal(samples: int, clients: int) -> Indices:
    """Sizes that differ by one at most; the first are larger."""
    return samples // clients + (np.arange(clients) < samples % clients).astype(np.int64)


def by_role(roles: Indices, clients: int = 0) -> ClientRows:
    """One client per natural owner: client r holds the samples whose role is r. Of ``clients``, the last may be empty.

    >>> [shard.tolist() for shard in by_role(np.array([1, 0, 1]))]
    [[1], [0, 2]]
    """
    return ClientRows.of_owners(np.arange(len(roles)), roles, max(number_of_classes(roles, 1, "role"), clients))


def dirichlet_balanced(
    labels: Indices, clients: int, rng: Random, *, alpha: float, min_size: int = 10, max_tries: int = 1000
) -> ClientRows:
    """Each class spread by p ~ Dir(alpha), with clients that already hold N/K samples left out.

    Class by class: shuffle its n_c samples, draw p, set p_k = 0 for full clients, renormalise, and cut at
    floor(n_c cumsum(p)). All is drawn anew until every client has ``min_size`` samples.

    Reference: Li et al., Federated learning on non-IID data silos (ICDE 2022), "distribution-based label
    imbalance". Differs from their script: if all of p is on full clients, which divides zero by zero there,
    p is drawn again over the others, because the renormalised p has just that distribution.
    """
    classes = number_of_classes(labels, clients)
    require_positive("alpha", alpha)
    at_least("min_size", min_size, 0)
    at_least("max_tries", max_tries, 1)
    if min_size * clients > len(labels):
        raise ConfigError(
            f"{clients} clients cannot have min_size = {min_size} samples each: there are {len(labels)}; "
            "lower min_size or the number of clients"
        )
    members = of_each_class(labels, classes)
    for _ in range(max_tries):
        sizes = np.zeros(clients, dtype=np.int64)
        shuffled, counts = [], []
        for of_class in members:
            order = of_class.copy()
            rng.shuffle(order)
            is_open = sizes < len(labels) / clients
            p = dirichlet_rows(rng, alpha, clients, 1)[0] * is_open
            if p.sum() == 0:
                p[is_open] = dirichlet_rows(rng, alpha, int(is_open.sum()), 1)[0]
            cuts = (np.cumsum(p / p.sum()) * len(order)).astype(np.int64)
            cuts[-1] = len(order)
            shuffled.append(order)
            counts.append(np.diff(cuts, prepend=0))
            sizes += counts[-1]
        if sizes.min() >= min_size:
            return deal_classes(shuffled, np.array(counts))
    raise ConfigError(
        f"no partition over {clients} clients with alpha = {alpha} gave each of them min_size = {min_size} "
        f"samples in max_tries = {max_tries}; raise alpha or max_tries, or lower min_size"
    )


def dirichlet_plain(labels: Indices, clients: int, rng: Random, *, alpha: float) -> ClientRows:
    """P[c] ~ Dir(alpha) for every class c; client k gets floor(P[c, k] n_c) of it, the last client the rest.

    Clients may stay empty. Used by the public runs of FedKLEntropy.
    """
    classes = number_of_classes(labels, clients)
    require_positive("alpha", alpha)
    p = dirichlet_rows(rng, alpha, clients, classes)
    members = of_each_class(labels, classes)
    return deal_classes([rng.permutation(m) for m in members], dealt_counts(p, np.bincount(labels)))


def dealt_counts(shares: NDArray[np.float64], totals: Indices) -> Indices:
    """floor(shares[c, k] totals[c]) samples of class c for client k, and the rest of each class for the last.

    >>> dealt_counts(np.array([[0.5, 0.25, 0.25]]), np.array([11])).tolist()
    [[5, 2, 4]]
    """
    counts = (shares * totals[:, None]).astype(np.int64)
    counts[:, -1] = totals - counts[:, :-1].sum(axis=1)
    return counts


def dirichlet_mixed(
    labels: Indices,
    clients: int,
    rng: Random,
    *,
    alphas: tuple[float, float],
    min_size: int = 10,
    max_tries: int = 1000,
) -> Sequence[Indices]:
    """Two kinds of clients: `dirichlet_balanced` with alphas[0] for the first half, alphas[1] for the rest.

    The samples are first cut into two halves of the same class composition, one for each kind; the first
    ceil(K/2) clients share the first. Reference: FedEP, table 3, which does not say how the data is divided.
    """
    number_of_classes(labels, clients)
    if clients < 2 or len(alphas) != 2:
        raise ConfigError(f"needs 2 clients or more and 2 alphas, not {clients} clients and alphas {alphas}")
    order = rng.permutation(len(labels))
    order = order[np.argsort(labels[order], kind="stable")]
    first = (clients + 1) // 2
    return [
        np.sort(half[part])
        for half, k, alpha in zip((order[::2], order[1::2]), (first, clients - first), alphas, strict=True)
        for part in dirichlet_balanced(labels[half], k, rng, alpha=alpha, min_size=min_size, max_tries=max_tries)
    ]


def label_quantity(labels: Indices, clients: int, rng: Random, *, labels_per_client: int) -> ClientRows:
    """Client k owns label k mod C and further random ones; owners of a label share its samples equally.

    Reference: Li et al., Federated learning on non-IID data silos (ICDE 2022), "quantity-based label
    imbalance".
    """
    classes = number_of_classes(labels, clients)
    at_least("labels_per_client", labels_per_client, 1)
    if labels_per_client > classes:
        raise ConfigError(f"labels_per_client = {labels_per_client} is more than the {classes} labels")
    if clients < classes:
        raise ConfigError(
            f"{clients} clients for {classes} labels could leave a label without owner; use {classes} or more"
        )
    owned = np.zeros((clients, classes), dtype=bool)
    for k in range(clients):
        others = np.delete(np.arange(classes), k % classes)
        owned[k, k % classes] = True
        owned[k, rng.choice(others, labels_per_client - 1, replace=False)] = True
    members = of_each_class(labels, classes)
    counts = np.zeros((classes, clients), dtype=np.int64)
    for c, of_class in enumerate(members):
        owners = np.flatnonzero(owned[:, c])
        counts[c, owners] = [len(part) for part in np.array_split(of_class, len(owners))]
    return deal_classes([rng.permutation(m) for m in members], counts)


def label_counts(labels: Indices, shards: Sequence[Indices], classes: int) -> Indices:
    """How many samples of each class each client holds, [clients, classes].

    >>> label_counts(np.array([0, 1, 1]), [np.array([0, 1]), np.array([2])], classes=2).tolist()
    [[1, 1], [0, 1]]
    """
    found = number_of_classes(labels, 1)
    if found > classes:
        raise DataError(f"label {found - 1} of sample {labels.argmax()} is not in 0..{classes - 1}")
    dealt = ClientRows.of(shards)
    client, sample = dealt.owners, dealt.rows
    wrong = np.flatnonzero((sample < 0) | (sample >= len(labels)))
    if len(wrong):
        where = f"client {client[wrong[0]]} holds sample {sample[wrong[0]]}"
        raise DataError(f"{where}, but samples are 0..{len(labels) - 1}")
    counts = np.bincount(client * classes + labels[sample], minlength=len(shards) * classes)
    return counts.reshape(len(shards), classes)


def split_participants(clients: int, participating: int, rng: Random) -> tuple[Indices, Indices]:
    """Clients that take part and clients that never train, both sorted."""
    at_least("participating", participating, 1)
    if participating > clients:
        raise ConfigError(f"participating = {participating} is more than the {clients} clients there are")
    order = rng.permutation(clients)
    return np.sort(order[:participating]), np.sort(order[participating:])


def hold_out(shards: Sequence[Indices], share: float, rng: Random) -> tuple[ClientRows, ClientRows]:
    """Split every client's samples into training and local test samples, both sorted.

    The test part is the nearest integer to ``share`` of the samples, but at least one sample, and never all:
    a client with a single sample keeps it for training. A share of 0 leaves all test parts empty.
    """
    if not 0 <= share < 1:
        raise ConfigError(f"the share that is held out must be at least 0 and below 1, not {share}")
    if not share:
        dealt = ClientRows.of(shards)
        return dealt, ClientRows(dealt.rows[:0], np.zeros(len(dealt) + 1, np.int64))
    train, test = [], []
    for shard in shards:
        size = min(max(round(share * len(shard)), 1), len(shard) - 1) if len(shard) else 0
        order = rng.permutation(shard)
        test.append(np.sort(order[:size]))
        train.append(np.sort(order[size:]))
    return ClientRows.of(train), ClientRows.of(test)


def number_of_classes(labels: Indices, clients: int, what: str = "label") -> int:
    """The number of classes, max + 1."""
    at_least("clients", clients, 1)
    if labels.ndim != 1 or labels.dtype.kind not in "iu" or not len(labels):
        raise DataError(f"{what}s must be one or more integers in a row, not {labels.dtype} {labels.shape}")
    if labels.min() < 0:
        raise DataError(f"{what} {labels.min()} of sample {labels.argmin()} is negative; they count from 0")
    if clients > len(labels):
        raise ConfigError(f"{clients} clients are more than the {len(labels)} samples to share; use fewer")
    return int(labels.max()) + 1


def at_least(name: str, value: int, least: int) -> None:
    if value < least:
        raise ConfigError(f"{name} must be at least {least}, not {value}")


def require_positive(name: str, value: float) -> None:
    if not (isfinite(value) and value > 0):
        raise ConfigError(f"{name} must be positive and finite, not {value}")


def of_each_class(labels: Indices, classes: int) -> list[Indices]:
    """The indices of each class, in ascending order."""
    order = np.argsort(labels, kind="stable")
    return np.split(order, np.cumsum(np.bincount(labels, minlength=classes))[:-1])


def dirichlet_rows(rng: Random, alpha: float, size: int, rows: int) -> NDArray[np.float64]:
    """Rows of Dir(alpha); where a tiny alpha underflows to 0/0, its limit, all on one random client."""
    p = rng.dirichlet(np.full(size, min(alpha, 1e100)), rows)  # a larger alpha overflows; this is uniform
    for row in np.flatnonzero(~np.isfinite(p).all(axis=1)):
        p[row] = np.eye(size)[rng.choice(size)]
    return p


def deal_classes(members: Sequence[Indices], counts: Indices) -> ClientRows:
    """Give client k the next counts[c, k] of members[c], for every class c."""
    clients = counts.shape[1]
    owners = [np.repeat(np.arange(clients), row) for row in counts]
    return ClientRows.of_owners(np.concatenate(members), np.concatenate(owners), clients)
