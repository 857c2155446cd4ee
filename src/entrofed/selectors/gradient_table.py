"""The table of the clients' latest updates, from which four selectors choose.

Every participant trains once before the first round, which fills the table; afterwards only the rows of those who
answered change. Rows of others go stale, a client that failed keeps its old row, and one that never answered has none.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from entrofed.core.params import Params
from entrofed.core.parts import Fact, Sees, Selector
from entrofed.core.seeds import stream
from entrofed.core.types import ClientTable, PartState, Update
from entrofed.errors import ConfigError, DataError
from entrofed.facts.first_update import FirstUpdate

Row = NDArray[np.float32]


@dataclass(frozen=True)
class GradientTable(Selector):
    """Keeps a row ``g_k = w_t - w_k`` per client, trainable parameters only.

    ``sketch_dim``: None keeps rows whole; a number keeps a count sketch of that length, so that a thousand clients of
    a model of ten million parameters fit into 16 MB at 4096. A sketched cosine is off by about ``1/sqrt(sketch_dim)``;
    main directions, hence hulls, move more, the closer their eigenvalues are.
    Each row is an entry of the state of its own, so that a round replaces its cohort's rows and copies no other.
    """

    reference: ClassVar[str] = (
        "Federated Generalization via Information-Theoretic Distribution Diversification (anonymous), Algorithm 2"
    )
    facts: ClassVar[tuple[Fact, ...]] = (FirstUpdate(),)
    sees: ClassVar[Sees] = "models"

    sketch_dim: int | None = None

    def __post_init__(self) -> None:
        if self.sketch_dim is not None and self.sketch_dim < 1:
            raise ConfigError(
                f"{self.name}: sketch_dim = {self.sketch_dim}: it must be at least 1, or absent to keep whole rows"
            )

    def init(self, clients: ClientTable, participants: NDArray[np.int64]) -> PartState:
        """An empty table that knows where the trainable parameters end."""
        return {"trainable": np.array([clients.trainable])}

    def observe(self, state: PartState, params: Params, updates: Sequence[Update]) -> PartState:
        """The table with the rows of those who answered replaced."""
        trainable = int(state["trainable"][0])
        if updates and not 0 < trainable <= len(params.values):
            raise DataError(
                f"{self.name}: the client table says that {trainable} of {len(params.values)} values are trainable; "
                "set ClientTable.trainable to Layout.trainable"
            )
        rows = {}
        for update in updates:
            with np.errstate(invalid="ignore", over="ignore"):  # a diverged model; its row will not be used
                row = params.values[:trainable] - update.params.values[:trainable]
            rows[_key(update.client)] = row if self.sketch_dim is None else sketch(row, self.sketch_dim)
        return {**state, **rows}

    def table(self, state: PartState, among: NDArray[np.int64]) -> tuple[NDArray[np.int64], list[Row], list[int]]:
        """Clients whose row is there and finite, their rows, and the clients without; by client number."""
        there, rows, without = list[int](), list[Row](), list[int]()
        for client in np.sort(among).tolist():
            row = state.get(_key(client))
            if row is None or not np.isfinite(row).all():
                without.append(client)
            else:
                there.append(client)
                rows.append(row)
        return np.array(there, np.int64), rows, without


def _key(client: int) -> str:
    return f"row/{client}"


def sketch(row: Row, dim: int) -> Row:
    """Count sketch ``y[h(i)] += s(i) x(i)`` with random buckets h and signs s; linear, and keeps inner products.

    E[<y, y'>] = <x, x'>, with variance at most 2 |x|^2 |x'|^2 / dim. The hash depends on the lengths alone: it is the
    same in every process, and after a run is resumed.

    Reference: Charikar, Chen and Farach-Colton, "Finding Frequent Items in Data Streams", ICALP 2002.

    >>> x = np.arange(1000, dtype=np.float32)
    >>> bool(np.array_equal(sketch(2 * x, 64), 2 * sketch(x, 64)))
    True
    """
    places = _places(len(row), dim)
    sums = np.bincount(places, weights=row, minlength=2 * dim)
    return (sums[:dim] - sums[dim:]).astype(np.float32)


@lru_cache(maxsize=1)
def _places(width: int, dim: int) -> NDArray[np.intp]:
    """The bucket of each coordinate; those with a negative sign are ``dim`` further on."""
    places = stream(0, "sketch", width, dim).integers(0, 2 * dim, size=width, dtype=np.intp)
    places.flags.writeable = False
    return places
