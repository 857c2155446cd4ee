"""What the papers' theorems assume, what is wrong with them, and how to read their terms: data for reports.

InfoDiv is "Federated Generalization via Information-Theoretic Distribution Diversification", anonymous authors; its
proofs are in an appendix that we did not have, so only its statements were checked. FedKLEntropy is Le et al.,
"FedKLEntropy: Enhancing Federated Learning via Model Entropy and Kullback-Leibler Divergence", with its proof. FedEP is
Feng et al., "FedEP: Tailoring Attention to Heterogeneous Data Distribution with Entropy Pooling for Decentralized
Federated Learning"; it numbers no theorem, so ``fedep analysis`` is its convergence analysis, equations 15 to 26.

b, L, mu, the VC dimension, c, sigma, kappa, beta and G are known for none of our models. So no bound can be computed.
"""

import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypeVar

Theorem = Literal["infodiv 1", "infodiv 2", "fedklentropy 1", "fedep analysis"]
Basis = Literal["arithmetic", "our reading"]


@dataclass(frozen=True)
class Remark:
    """Something to say about theorems."""

    theorems: tuple[Theorem, ...]
    says: str


@dataclass(frozen=True)
class Assumption(Remark):
    """What theorems need, and whether a run can tell that it holds."""

    checkable: bool
    how: str
    """How it is checked here, or why it cannot be."""


@dataclass(frozen=True)
class Erratum(Remark):
    """What is wrong: by the arithmetic of the printed lines alone, or as we understand the statement."""

    where: str
    basis: Basis


R = TypeVar("R", bound=Remark)


def _remarks(kind: type[R], rows: list[dict[str, Any]]) -> tuple[R, ...]:
    return tuple(kind(**{**row, "theorems": tuple(row["theorems"])}) for row in rows)


_STORED = tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))

ASSUMPTIONS = _remarks(Assumption, _STORED["assumptions"])
ERRATA = _remarks(Erratum, _STORED["errata"])
READINGS: dict[str, tuple[str, str, str]] = {
    field: (row["name"], row["unit"], row["reading"]) for field, row in _STORED["readings"].items()
}
"""For every field of the terms: its name with the formula, its unit, and how to read it; numbers are equations."""
