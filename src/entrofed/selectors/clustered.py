"""Draw one client from each of as many groups as the cohort has places, so that everybody counts as its data does."""

from collections import Counter
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from entrofed.core.parts import Fact, Sees, Selector
from entrofed.core.types import ClientTable, PartState, Selection
from entrofed.info.clusters import Ints, angles, urns_by_similarity, urns_by_size
from entrofed.selectors.gradient_table import GradientTable

REFERENCE = "Fraboni et al., Clustered Sampling, ICML 2021"


@dataclass(frozen=True)
class ClusteredBySize(Selector):
    """One client from each of m groups of equal size, filled with clients in order of decreasing size.

    A client is drawn ``m n_k / n`` times in expectation: with weigher ``draws``, the aggregate is unbiased. Who is
    drawn twice trains once and counts twice, so that the cohort may have fewer than m clients.
    """

    name: ClassVar[str] = "clustered_size"
    reference: ClassVar[str] = f"{REFERENCE}, Algorithm 1"
    sees: ClassVar[Sees] = "sum"

    def select(
        self, state: PartState, clients: ClientTable, among: NDArray[np.int64], size: int, rng: np.random.Generator
    ) -> Selection:
        """A client from each group."""
        urns = urns_by_size(clients.sizes[among], min(size, len(among)))
        return drawn(urns, among, state, rng)


@dataclass(frozen=True)
class ClusteredBySimilarity(GradientTable):
    """One client from each of m groups of equal size, made of clients whose updates point the same way.

    Ward's method on the rows of the matrix of angles between the clients' latest updates; a client that never took part
    has no direction, and the angle 0 to all. ``sketch_dim``: as with all selectors that keep updates. See
    :func:`entrofed.info.clusters.urns_by_similarity`, and :class:`ClusteredBySize` for what the draws come to.

    Differs from the paper: clients of groups that get no urn fill up the others in a fixed order, not in a random one.
    """

    name: ClassVar[str] = "clustered_similarity"
    reference: ClassVar[str] = f"{REFERENCE}, Algorithm 2"
    facts: ClassVar[tuple[Fact, ...]] = ()

    def select(
        self, state: PartState, clients: ClientTable, among: NDArray[np.int64], size: int, rng: np.random.Generator
    ) -> Selection:
        """A client from each group."""
        there, rows, _ = self.table(state, among)
        distances = np.zeros((len(among), len(among)))
        places = np.flatnonzero(np.isin(among, there))
        distances[np.ix_(places, places)] = angles(rows)
        urns = urns_by_similarity(clients.sizes[among], min(size, len(among)), distances)
        return drawn(urns, among, state, rng)


def drawn(urns: Ints, among: NDArray[np.int64], state: PartState, rng: np.random.Generator) -> Selection:
    """A client from each urn, by slots; those drawn more than once are in the cohort once."""
    draws = Counter[int]()
    for urn in urns:
        slot = rng.integers(int(urn.sum()))
        draws[int(among[np.searchsorted(np.cumsum(urn), slot, side="right")])] += 1
    expected = dict(zip(among.tolist(), (urns.sum(axis=0) / urns.sum(axis=1).max(initial=1)).tolist(), strict=True))
    reasons = [{"client": k, "draws": times, "expected": expected[k], "pool": len(among)} for k, times in draws.items()]
    return Selection(list(draws), state, reasons, draws=dict(draws))
