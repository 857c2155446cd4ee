"""Clients that hold unequal amounts of data, with equal or with unequal mixtures of labels."""

from collections.abc import Iterator, Sequence
from itertools import count, islice

import numpy as np
from numpy.typing import NDArray

from entrofed.data.partition import (
    Indices,
    Random,
    at_least,
    deal_classes,
    dirichlet_rows,
    number_of_classes,
    of_each_class,
    require_positive,
)
from entrofed.errors import ConfigError

Shares = NDArray[np.float64]


def quantity(
    labels: Indices,
    clients: int,
    rng: Random,
    *,
    alpha: float | None = None,
    sigma: float | None = None,
    min_size: int = 10,
    max_tries: int = 1000,
) -> Sequence[Indices]:
    """Sizes N q_k, with labels dealt at random: q ~ Dir(alpha), or q_k proportional to exp(sigma z_k), z_k ~ N(0, 1).

    The shuffled samples are cut at floor(N cumsum(q)). Sizes are drawn until every client has ``min_size`` samples.
    Reference: Li et al., Federated learning on non-IID data silos (ICDE 2022), "quantity skew", for ``alpha``.
    """
    number_of_classes(labels, clients)
    if (alpha is None) == (sigma is None):
        raise ConfigError(f"quantity takes either alpha or sigma, found alpha = {alpha} and sigma = {sigma}")
    draw = _dirichlet(rng, alpha, clients) if sigma is None else _log_normal(rng, sigma, clients)
    sizes = _sizes(draw, len(labels), clients, min_size, max_tries)
    return [np.sort(part) for part in np.split(rng.permutation(len(labels)), np.cumsum(sizes)[:-1])]


def label_and_quantity(
    labels: Indices,
    clients: int,
    rng: Random,
    *,
    alphas: tuple[float, float],
    min_size: int = 10,
    max_tries: int = 1000,
) -> Sequence[Indices]:
    """Sizes N q_k with q ~ Dir(alphas[1]), as in `quantity`, and labels of client k by p_k ~ Dir(alphas[0]).

    One client after the other, in random order, draws its labels from p_k until it has its size; a class that is used
    up is left out, and the rest of p_k counts. So sizes are exact and every sample is dealt, and clients whose turn
    comes late take what is left. Reference: Hsu et al., Measuring the effects of non-identical data distribution for
    federated visual classification (2019), who draw so for clients of equal size.
    """
    classes = number_of_classes(labels, clients)
    if len(alphas) != 2:
        raise ConfigError(f"needs 2 alphas, of the labels and of the sizes, not {alphas}")
    require_positive("alpha of the labels", alphas[0])
    sizes = _sizes(_dirichlet(rng, alphas[1], clients), len(labels), clients, min_size, max_tries)
    left = np.bincount(labels, minlength=classes)
    counts = np.zeros((classes, clients), np.int64)
    preferred = dirichlet_rows(rng, alphas[0], classes, clients)
    for client in rng.permutation(clients):
        while wanted := sizes[client] - counts[:, client].sum():
            p = preferred[client] * (left > 0)
            if p.sum() == 0:
                p = left.astype(np.float64)
            got = np.minimum(rng.multinomial(wanted, p / p.sum()), left)
            counts[:, client] += got
            left -= got
    return deal_classes([rng.permutation(members) for members in of_each_class(labels, classes)], counts)


def _dirichlet(rng: Random, alpha: float | None, clients: int) -> Iterator[Shares]:
    require_positive("alpha", alpha or 0.0)
    return (dirichlet_rows(rng, alpha or 0.0, clients, 1)[0] for _ in count())


def _log_normal(rng: Random, sigma: float, clients: int) -> Iterator[Shares]:
    require_positive("sigma", sigma)
    logs = (sigma * rng.normal(size=clients) for _ in count())
    return (np.exp(values - values.max()) for values in logs)


def _sizes(draw: Iterator[Shares], samples: int, clients: int, min_size: int, max_tries: int) -> NDArray[np.int64]:
    """Sizes that sum to the number of samples, drawn until the least is large enough."""
    at_least("min_size", min_size, 0)
    at_least("max_tries", max_tries, 1)
    if min_size * clients > samples:
        raise ConfigError(
            f"{clients} clients cannot have min_size = {min_size} samples each: there are {samples}; "
            "lower min_size or the number of clients"
        )
    for shares in islice(draw, max_tries):
        cuts = (np.cumsum(shares / shares.sum()) * samples).astype(np.int64)
        cuts[-1] = samples
        sizes = np.diff(cuts, prepend=0)
        if sizes.min() >= min_size:
            return sizes
    raise ConfigError(
        f"no sizes of {clients} clients gave each of them min_size = {min_size} samples in max_tries = {max_tries}; "
        "choose more equal sizes, raise max_tries, or lower min_size"
    )
