"""Pictures of who talks to whom."""

import numpy as np
import pytest

from entrofed.charts.topology import layout, topology_chart
from entrofed.core.topologies import TOPOLOGIES, build_graph
from entrofed.errors import DataError

EXAMPLES = {
    "regular": {"degree": 4},
    "erdos_renyi": {"probability": 0.2},
    "small_world": {"degree": 4, "rewire": 0.3},
    "scale_free": {"edges": 2},
}


def rng():
    return np.random.default_rng(0)


@pytest.mark.parametrize("kind", sorted(set(TOPOLOGIES) - {"file"}))
def test_layout_is_the_same_every_time_and_keeps_nodes_apart(kind):
    graph = build_graph(kind, 15, rng(), **EXAMPLES.get(kind, {}))
    places = layout(graph)
    np.testing.assert_array_equal(places, layout(graph))
    apart = np.linalg.norm(places[:, None] - places, axis=2) + np.eye(len(places)) * 10
    assert apart.min() > 0.02 * np.ptp(places, axis=0).max()


def test_layout_of_a_line_is_a_line():
    places = layout(build_graph("line", 9, rng()))
    assert np.ptp(places[:, 1]) < 0.02 * np.ptp(places[:, 0])
    assert (np.diff(places[:, 0]) > 0).all()


@pytest.mark.parametrize(("kind", "nodes", "layers"), [("star", 1, 3), ("ring", 10, 3), ("line", 120, 2)])
def test_picture(kind, nodes, layers):
    counts = np.full((nodes, 4), 5)
    counts[0] = 0
    spec = topology_chart(build_graph(kind, nodes, rng()), counts, "A picture").to_dict()
    assert len(spec["layer"]) == layers
    edges, nodes = (spec["datasets"][layer["data"]["name"]] for layer in spec["layer"][:2])
    assert len(edges) == {"star": 0, "ring": 10, "line": 119}[kind]
    first, *others = nodes
    assert (first["samples"], first["bits"]) == (0, 0)
    assert {node["bits"] for node in others} <= {2.0}
    assert spec["title"]["text"] == "A picture"


def test_picture_refused():
    with pytest.raises(DataError, match="one row for each of 3 nodes"):
        topology_chart(build_graph("ring", 3, rng()), np.ones((2, 4), np.int64), "")
