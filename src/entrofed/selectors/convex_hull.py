"""Choose clients by whether the updates of others surround theirs."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from entrofed.core.types import ClientTable, PartState, Selection
from entrofed.errors import ConfigError
from entrofed.info.hull import Floats, peel, principal_coordinates, vertices
from entrofed.selectors.gradient_table import GradientTable

DECIMALS = 9
"""Distances that agree this far, as shares of the largest, are ties."""


@dataclass(frozen=True)
class ProjectedTable(GradientTable):
    """The table's rows as points along their ``dim`` main directions."""

    dim: int = 2

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.dim < 1:
            raise ConfigError(f"{self.name}: dim = {self.dim}: a hull needs at least 1 direction (2 is usual)")

    def points(self, state: PartState, among: NDArray[np.int64]) -> tuple[list[int], Floats, list[int]]:
        """Clients with a finite row, their points with the centroid at the origin, and the clients without."""
        there, rows, without = self.table(state, among)
        return there.tolist(), principal_coordinates(rows, self.dim), without


@dataclass(frozen=True)
class ConvexHull(ProjectedTable):
    """The clients whose updates are vertices of the convex hull of all updates.

    The points are the rows along their ``dim`` main directions. Layer 0 is the vertices of their convex hull, layer 1
    the vertices of what is left without them, and so on. ``size`` "fixed" takes K by (layer, farthest from the
    centroid, number); "vertices" takes layer 0, however many that is. If all rows are identical, a random cohort. A
    client whose row is missing or not finite comes last, by number, to reach K. A zero row is a point like any other.

    Differs from the paper: a projection, because in more dimensions than clients every point is a vertex and the
    method is full sampling; layers, because the number of vertices is not K ("vertices" is the paper's reading).
    """

    name: ClassVar[str] = "convex_hull"

    size: Literal["fixed", "vertices"] = "fixed"

    def select(
        self, state: PartState, clients: ClientTable, among: NDArray[np.int64], size: int, rng: np.random.Generator
    ) -> Selection:
        """The outermost clients, layer by layer."""
        there, points, without = self.points(state, among)
        distance, rank = _distances(points)
        layers = peel(points, size if self.size == "fixed" else 1) if points.shape[1] else []
        picks: list[tuple[int | None, int]] = [
            (layer, i) for layer, members in enumerate(layers) for i in sorted(members, key=lambda i: -rank[i])
        ]
        if not layers:
            picks = [(None, i) for i in _draw(range(len(there)), size, rng)]
        if self.size == "fixed":
            picks = picks[:size]
        facts = {"vertices": len(layers[0]) if layers else 0, "pool": len(among)}
        reasons = [{"client": there[i], "layer": layer, "distance": float(distance[i]), **facts} for layer, i in picks]
        if self.size == "fixed" or not picks:
            reasons += [
                {"client": client, "layer": None, "distance": None, **facts} for client in without[: size - len(picks)]
            ]
        return _selection(reasons, state)


@dataclass(frozen=True)
class Interior(ProjectedTable):
    """The opposite of :class:`ConvexHull`, as a baseline: K at random of those that are no vertices.

    If there are too few, the vertices nearest to the centroid fill the cohort, and after them, by number, clients
    whose row is missing or not finite. If all rows are identical, a random cohort.
    """

    name: ClassVar[str] = "interior"

    def select(
        self, state: PartState, clients: ClientTable, among: NDArray[np.int64], size: int, rng: np.random.Generator
    ) -> Selection:
        """A random draw from within."""
        there, points, without = self.points(state, among)
        distance, rank = _distances(points)
        corners = vertices(points).tolist() if points.shape[1] else []
        inside = _draw(sorted(set(range(len(there))).difference(corners)), size, rng)
        picks = (inside + sorted(corners, key=lambda i: rank[i]))[:size]
        facts = {"vertices": len(corners), "pool": len(among)}
        reasons: list[dict[str, Any]] = [
            {"client": there[i], "vertex": i in corners, "distance": float(distance[i]), **facts} for i in picks
        ]
        reasons += [
            {"client": client, "vertex": None, "distance": None, **facts} for client in without[: size - len(picks)]
        ]
        return _selection(reasons, state)


def _distances(points: Floats) -> tuple[Floats, Floats]:
    """Distance of each point from the centroid, and the same as a rank without rounding noise."""
    distance = np.linalg.norm(points, axis=1)
    return distance, np.round(distance / (distance.max(initial=0) or 1), DECIMALS)


def _draw(pool: Iterable[int], size: int, rng: np.random.Generator) -> list[int]:
    """``size`` of the pool at random, or all of it in random task."""
    members = [*pool]
    return [members[i] for i in rng.permutation(len(members))[:size]]


def _selection(reasons: list[dict[str, Any]], state: PartState) -> Selection:
    return Selection([reason["client"] for reason in reasons], state, reasons)
