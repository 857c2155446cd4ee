"""``[topology]``: peers instead of a server."""

from typing import Annotated, Any

from pydantic import Field, ValidationInfo, model_validator

from entrofed.experiment.sections.section import Section, fit_options, was_run

TOPOLOGY_KEYS = ("degree", "probability", "rewire", "edges", "path")


class TopologySection(Section):
    """Peers instead of a server: who is connected with whom.

    See :mod:`entrofed.core.topologies` for the kinds.
    """

    kind: str = "full"
    """The graph: full, ring, line, star, grid, regular, erdos_renyi, small_world, scale_free, file."""
    degree: int | None = None
    """Neighbours of each node (``regular``, ``small_world``)."""
    probability: float | None = None
    """That two nodes are connected (``erdos_renyi``)."""
    rewire: float | None = None
    """The share of edges that are rewired at random (``small_world``)."""
    edges: int | None = None
    """Edges that each new node brings (``scale_free``)."""
    path: str | None = None
    """The file of a graph (``file``): two node numbers per line."""
    up: Annotated[float, Field(gt=0, le=1)] = 1.0
    """The probability that an edge works in a round."""
    message_loss: Annotated[float, Field(ge=0, lt=1)] = 0.0
    """The share of sent models that are lost."""
    training: Annotated[float, Field(gt=0, le=1)] = 1.0
    """The share of the nodes that train in a round, drawn anew each time; all average the models they receive."""
    split: tuple[int, int] | None = None
    """Rounds, from the first on and before the second, in which the two halves of the nodes are cut off."""

    @model_validator(mode="after")
    def _fits_kind(self, info: ValidationInfo) -> "TopologySection":
        if was_run(info):
            return self
        from entrofed.core.topologies import TOPOLOGIES

        fit_options(self, "topology.kind", TOPOLOGIES, TOPOLOGY_KEYS)
        return self

    def options(self) -> dict[str, Any]:
        """The keys given for the kind."""
        return {key: value for key in TOPOLOGY_KEYS if (value := getattr(self, key)) is not None}
