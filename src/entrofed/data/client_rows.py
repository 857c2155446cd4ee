"""Which rows each client has: all in one array, so that a million clients are two arrays and not a million."""

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any, overload

import numpy as np
from numpy.typing import NDArray

Rows = NDArray[np.int64]


class ClientRows(Sequence[Rows]):
    """Client k has ``rows[starts[k] : starts[k + 1]]``.

    >>> dealt = ClientRows.of([np.array([4, 7]), np.array([], int), np.array([1])])
    >>> len(dealt), dealt[0].tolist(), dealt.sizes.tolist(), dealt.of_clients([2, 0]).tolist()
    (3, [4, 7], [2, 0, 1], [1, 4, 7])
    """

    def __init__(self, rows: Rows, starts: Rows) -> None:
        self.rows, self.starts = rows, starts

    @classmethod
    def of(cls, shards: Sequence[NDArray[Any]]) -> "ClientRows":
        """The rows of each client, as they are given."""
        if isinstance(shards, ClientRows):
            return shards
        sizes = np.array([len(shard) for shard in shards], np.int64)
        return cls(np.concatenate([np.empty(0, np.int64), *shards], dtype=np.int64), _starts(sizes))

    @classmethod
    def of_owners(cls, rows: Rows, owners: Rows, clients: int) -> "ClientRows":
        """Different rows by their owners, sorted.

        >>> [rows.tolist() for rows in ClientRows.of_owners(np.array([5, 2, 0]), np.array([1, 0, 1]), 2)]
        [[2], [0, 5]]
        """
        sizes = np.bincount(owners, minlength=clients)
        width = int(rows.max(initial=0)) + 1
        keys = owners * width
        keys += rows
        keys.sort()
        keys %= width
        return cls(keys, _starts(sizes))

    @classmethod
    def cut(cls, rows: Rows, sizes: Rows) -> "ClientRows":
        """Pieces of so many rows, one after the other; each sorted."""
        if len(sizes) and sizes.min() == sizes.max():
            return cls(np.sort(rows.reshape(len(sizes), -1), axis=1).ravel(), _starts(sizes))
        return cls.of_owners(rows, np.repeat(np.arange(len(sizes)), sizes), len(sizes))

    @property
    def sizes(self) -> Rows:
        """How many rows each client has."""
        return np.diff(self.starts)

    @property
    def owners(self) -> Rows:
        """Whose each of ``rows`` is."""
        return np.repeat(np.arange(len(self)), self.sizes)

    def of_clients(self, clients: Sequence[int] | Rows) -> Rows:
        """The rows of some clients, one client after the other."""
        if np.array_equal(clients, np.arange(len(self))):
            return self.rows
        return np.concatenate([np.empty(0, np.int64), *(self[int(k)] for k in clients)])

    def __len__(self) -> int:
        return len(self.starts) - 1

    @overload
    def __getitem__(self, client: int) -> Rows: ...
    @overload
    def __getitem__(self, client: slice) -> list[Rows]: ...
    def __getitem__(self, client: int | slice) -> Rows | list[Rows]:
        if isinstance(client, slice):
            return [self[k] for k in range(*client.indices(len(self)))]
        if not -len(self) <= client < len(self):
            raise IndexError(f"there is no client {client}; there are {len(self)}")
        client %= len(self)
        return self.rows[self.starts[client] : self.starts[client + 1]]

    def __iter__(self) -> Iterator[Rows]:
        starts = self.starts.tolist()
        return (self.rows[start:end] for start, end in pairwise(starts))


def _starts(sizes: Rows) -> Rows:
    return np.concatenate([np.zeros(1, np.int64), np.cumsum(sizes)])
