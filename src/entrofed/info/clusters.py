"""Groups of clients, by Ward's method or by size, and urns from which one client each is drawn.

With ``m`` urns of ``n = sum_k n_k`` slots, client k gets ``m n_k`` slots: drawing a slot from each urn draws client k
``m n_k / n`` times in expectation, however the slots are dealt out.

Reference: Fraboni, Vidal, Kameni and Lorenzi, "Clustered Sampling: Low-Variance and Improved Representativity for
Clients Selection in Federated Learning", ICML 2021, Algorithms 1 and 2.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import scipy
from numpy.typing import NDArray

from entrofed.info.similarity import Floats, cosines

Ints = NDArray[np.int64]


def angles(rows: Sequence[NDArray[Any]] | NDArray[Any]) -> Floats:
    """arccos(cos(g_i, g_j)) of every pair of rows; 0 where a row is zero, which has no direction.

    >>> angles(np.array([[1.0, 0.0], [0.0, 2.0], [0.0, 0.0]])).round(3).tolist()
    [[0.0, 1.571, 0.0], [1.571, 0.0, 0.0], [0.0, 0.0, 0.0]]
    """
    found = np.arccos(np.nan_to_num(cosines(list(rows)), nan=1.0))
    np.fill_diagonal(found, 0.0)
    return np.asarray(found)


def ward_clusters(distances: Floats, most: int) -> Ints:
    """At most so many clusters, numbered from 0, by Ward's method on the rows of a matrix of distances.

    >>> ward_clusters(np.array([[0.0, 1.0, 9.0], [1.0, 0.0, 9.0], [9.0, 9.0, 0.0]]), 2).tolist()
    [0, 0, 1]
    """
    if len(distances) < 2:
        return np.zeros(len(distances), np.int64)
    found = scipy.cluster.hierarchy.fcluster(_tree(distances), most, criterion="maxclust")
    return np.unique(found, return_inverse=True)[1].astype(np.int64)


def urns_by_size(sizes: Ints, number: int) -> Ints:
    """Slots ``[urn, client]``: clients by falling size fill one urn after the other (Algorithm 1).

    >>> urns_by_size(np.array([1, 3, 2]), 2).tolist()
    [[0, 6, 0], [2, 0, 4]]
    """
    urns = np.zeros((number, len(sizes)), np.int64)
    _pour(urns, sizes * number, np.argsort(-sizes, kind="stable"), int(sizes.sum()))
    return urns


def urns_by_similarity(sizes: Ints, number: int, distances: Floats) -> Ints:
    """Slots ``[urn, client]``: like clients share an urn (Algorithm 2).

    The tree of Ward's method on the rows of ``distances`` is cut so that no group has more than an urn's slots. The
    largest groups get an urn each; the clients of the others, the largest first, fill what room there is. A client with
    more slots than an urn has fills urns alone before.
    """
    room, slots = int(sizes.sum()), sizes * number
    urns = np.zeros((number, len(sizes)), np.int64)
    full = np.repeat(np.arange(len(sizes)), slots // room)
    urns[np.arange(len(full)), full] = room
    slots = slots % room
    groups = _limited_groups(distances, slots, room)
    order = np.argsort(-np.bincount(groups, weights=slots), kind="stable")
    free = number - len(full)
    for urn, group in enumerate(order[:free], start=len(full)):
        urns[urn] = np.where(groups == group, slots, 0)
    rank = np.argsort(order)[groups]
    later = np.lexsort((np.arange(len(sizes)), -sizes, rank))
    _pour(urns, slots, later[rank[later] >= free], room)
    return urns


def _limited_groups(distances: Floats, slots: Ints, room: int) -> Ints:
    """The largest subtrees of Ward's tree with no more slots than there is room for, numbered from 0."""
    if len(slots) < 2:
        return np.zeros(len(slots), np.int64)
    tree = _tree(distances)
    totals = [*slots.tolist()]
    for merge in tree:
        totals.append(totals[int(merge[0])] + totals[int(merge[1])])
        merge[2] = totals[-1]
    return np.asarray(scipy.cluster.hierarchy.fcluster(tree, room, criterion="distance"), np.int64) - 1


def _tree(distances: Floats) -> Floats:
    return np.asarray(scipy.cluster.hierarchy.linkage(scipy.spatial.distance.pdist(distances), "ward"))


def _pour(urns: Ints, slots: Ints, order: Ints, room: int) -> None:
    """Deal the slots of clients, in this order, into urns with room, in the order of the urns."""
    free, urn = (room - urns.sum(axis=1)).tolist(), 0
    for client in order.tolist():
        left = int(slots[client])
        while left:
            given = min(left, free[urn])
            urns[urn, client] += given
            free[urn] -= given
            left -= given
            urn += left > 0
