"""Choosing clients whose updates differ, for data nobody trained on; and the two opposites as baselines.

Reference: "Federated Generalization via Information-Theoretic Distribution Diversification", anonymous authors, under
double-blind review; section 4.2, Algorithms 1 and 2. All weights are 1/|R_t|, the setting of Theorem 2.
"""

from entrofed.core.parts import Method, Selector
from entrofed.methods.recipe import recipe
from entrofed.objectives.cross_entropy import CrossEntropy
from entrofed.selectors.convex_hull import ConvexHull, Interior
from entrofed.selectors.minimax_sim import MaxSim, MiniMaxSim
from entrofed.servers.average import Average
from entrofed.weighers.uniform import Uniform


@recipe
def minimax_sim() -> Method:
    """The K clients whose updates are least like any other's, equal weights.

    Reference: "Federated Generalization via Information-Theoretic Distribution Diversification", anonymous authors,
    equation 11 and Algorithm 1.
    """
    return _equal(MiniMaxSim())


@recipe
def convex_hull() -> Method:
    """The clients whose updates are on the convex hull of all, equal weights.

    Reference: "Federated Generalization via Information-Theoretic Distribution Diversification", anonymous authors,
    section 4.2.2. Differs from the paper: two main directions and hull layers; see the selector.
    """
    return _equal(ConvexHull())


@recipe
def max_sim() -> Method:
    """Baseline to ``minimax_sim``: the K clients whose updates are most like another's, equal weights.

    Reference: "Federated Generalization via Information-Theoretic Distribution Diversification", anonymous authors,
    section 5, baseline b.
    """
    return _equal(MaxSim())


@recipe
def interior() -> Method:
    """Baseline to ``convex_hull``: K clients at random from inside the hull, equal weights.

    Reference: "Federated Generalization via Information-Theoretic Distribution Diversification", anonymous authors,
    section 5, baseline c.
    """
    return _equal(Interior())


def _equal(selector: Selector) -> Method:
    return Method(selector, Uniform(), CrossEntropy(), Average())
