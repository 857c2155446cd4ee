"""What the papers' theorems assume, what is wrong with them, and how to read their terms: data for reports.

InfoDiv is "Federated Generalization via Information-Theoretic Distribution Diversification", anonymous authors; its
proofs are in an appendix that we did not have, so only its statements were checked. FedKLEntropy is Le et al.,
"FedKLEntropy: Enhancing Federated Learning via Model Entropy and Kullback-Leibler Divergence", with its proof.

b, L, the VC dimension, c, sigma, kappa, beta and G are known for none of our models. So no bound can be computed.
"""

from dataclasses import dataclass
from typing import Literal

Theorem = Literal["infodiv 1", "infodiv 2", "fedklentropy 1"]
Basis = Literal["arithmetic", "our reading"]

BOTH: tuple[Theorem, ...] = ("infodiv 1", "infodiv 2")
ONE: tuple[Theorem, ...] = ("infodiv 1",)
TWO: tuple[Theorem, ...] = ("infodiv 2",)
KL: tuple[Theorem, ...] = ("fedklentropy 1",)


@dataclass(frozen=True)
class Word:
    """One term for people to read."""

    value: float
    name: str
    unit: str
    reading: str


@dataclass(frozen=True)
class Assumption:
    """What theorems need, and whether a run can tell that it holds."""

    theorems: tuple[Theorem, ...]
    says: str
    checkable: bool
    how: str
    """How it is checked here, or why it cannot be."""


@dataclass(frozen=True)
class Erratum:
    """What is wrong: by the arithmetic of the printed lines alone, or as we understand the statement."""

    theorems: tuple[Theorem, ...]
    where: str
    basis: Basis
    says: str


ASSUMPTIONS: tuple[Assumption, ...] = (
    Assumption(BOTH, "The loss lies between 0 and b.", False, "Cross entropy has no upper bound; b is not known."),
    Assumption(BOTH, "The loss is L-Lipschitz in the model.", False, "L of a neural network is not known."),
    Assumption(
        BOTH,
        "Participants are independent of absent clients, and each of all other participants (Assumption 2).",
        False,
        "One draw cannot tell; but shards of one dataset, dealt out without replacement, depend on each other.",
    ),
    Assumption(BOTH, "The losses have a finite VC dimension.", False, "It is not known, nor is the constant c."),
    Assumption(BOTH, "Sources are discrete.", True, "Labels are; images are treated as if only labels mattered."),
    Assumption(BOTH, "No two clients have the same distribution.", True, "Compare rows of label frequencies."),
    Assumption(BOTH, "The model minimises the weighted risk.", False, "Training ends long before a minimum."),
    Assumption(TWO, "The K selected clients have weights 1/K.", True, "weight_spread is 0."),
    Assumption(
        TWO,
        "Gradients differ by at most sigma_K, which grows with KL (Assumption 3; for the selectors, not the bound).",
        False,
        "Differences can be measured at the models met, not for every model; sigma_K is not known.",
    ),
    Assumption(KL, "Every local loss is L-smooth (1).", False, "L is not known; ReLU networks are not smooth."),
    Assumption(KL, "Stochastic gradients have variance at most sigma^2 (2).", False, "No bound over all models."),
    Assumption(KL, "Stochastic gradients have mean square at most G^2 (3).", False, "No bound over all models."),
    Assumption(KL, "Gradient dissimilarity is bounded by beta, kappa (4).", False, "No bound over all models."),
    Assumption(KL, "Weights lie between alpha_min > 0 and alpha_max (5).", True, "The records hold all weights."),
    Assumption(KL, "The learning rate is 1 / (L sqrt T).", False, "L is not known; rates are chosen by other means."),
    Assumption(
        KL,
        "E plain gradient steps per round (11).",
        True,
        "The configuration tells; the paper's runs use momentum, weight decay, and E for epochs.",
    ),
)

ERRATA: tuple[Erratum, ...] = (
    Erratum(KL, "(10), (23)", "arithmetic", "Statement and last line of the proof disagree: 2L and 4L, L^2 and 2L^2."),
    Erratum(
        KL,
        "(10), (23)",
        "arithmetic",
        "Their sigma and kappa terms differ too: 1/sqrt(T) with an N that the proof never has, against 1/T.",
    ),
    Erratum(
        KL,
        "(22) to (23)",
        "arithmetic",
        "The A_t term has a 1/T too much: (L sqrt(T) / 2)(4L sqrt(T) / T) = 2L^2, so it is 2L^2 sum A_t. With the "
        "rate given, A_t is of order 1/T, the sum of order 1: the bound does not vanish.",
    ),
    Erratum(
        KL,
        "(21) to (22)",
        "arithmetic",
        "Summed over T rounds, the sigma and kappa terms are 3E alpha_max^2 sigma^2 / (2L) and so on; (22) has "
        "1/sqrt(T) too much. In (23) they fall with 1/sqrt(T), not 1/T.",
    ),
    Erratum(
        KL,
        "(19)",
        "our reading",
        "False for equal weights: with K >= 2 equal clients, sigma = kappa = 0 and E = 1, the left side is "
        "eta^2 ||g||^2, the right side 3 eta^2 ||g||^2 / K^2 up to O(eta^3). The beta of Assumption 4 is lost as well.",
    ),
    Erratum(
        KL,
        "A_t",
        "our reading",
        "E equal steps along the gradient give A_t = (E - 1)^2 eta^2 ||g||^2. The corrected term 2L^2 sum A_t is then "
        "2 (E - 1)^2 times the mean ||g||^2 to be bounded: from E = 2 on the bound says nothing.",
    ),
    Erratum(KL, "Step 6", "our reading", "T >= 36 E^4 alpha_max^4 is needed, but is no condition of the theorem."),
    Erratum(
        ONE,
        "(5)",
        "our reading",
        "As 0 <= loss <= b, both risks lie between 0 and b H(Z^I), and so does their difference, without any training. "
        "The right side is at least 3b H(Z^I) - b sum alpha_i H(Z_i) >= 2b H(Z^I): true, but it says nothing.",
    ),
    Erratum(
        TWO,
        "(7)",
        "our reading",
        "The same: unless all clients participate and are selected, the right side is at least b H(Z^I).",
    ),
    Erratum(
        ONE,
        "(5)",
        "our reading",
        "Only one term depends on the weights, so the best choice is all weight on one client. The sampling error of "
        "a weighted mean falls with 1 / sum (alpha_i^2 / n_i), not with sum n_i, unless weights are by data size.",
    ),
    Erratum(ONE, "E_p", "our reading", "The sum over participants has no weights, so each new participant adds to it."),
    Erratum(
        TWO,
        "(7), Remark 2",
        "our reading",
        "j may be any other participant, also an unselected one: the term does not ask whether the cohort speaks for "
        "those left out. A cross entropy is no dissimilarity: H(P, P) = H(P), so varied clients seem unlike twins.",
    ),
    Erratum(
        TWO,
        "(7)",
        "our reading",
        "On labels the term is infinite as soon as no single other participant has all labels of one left out.",
    ),
    Erratum(
        TWO,
        "section 4.2.1",
        "our reading",
        "The minimum over j in I_p must leave out j = i, as (11) does; otherwise it is always H(P_i).",
    ),
    Erratum(
        BOTH,
        "h*, delta",
        "our reading",
        "h* is defined as a supremum, a number, where the model that attains it is meant; delta >= 0 should be > 0.",
    ),
    Erratum(
        BOTH,
        "VC(G)",
        "our reading",
        "Losses are real numbers, so a pseudo-dimension is meant; and the loss times self-information that is averaged "
        "is not bounded by b.",
    ),
)

NATS = "nats"
READINGS: dict[str, tuple[str, str, str]] = {
    "clients": ("clients N", "clients", "All that hold data."),
    "participants": ("participants M", "clients", "Those that may ever train, I_p."),
    "selected": ("selected K", "clients", "Those whose updates made the new model, I_t."),
    "weighted_entropy": (
        "weighted source entropy, sum alpha_i H(P_i)",
        NATS,
        "Higher means that the weights favour clients with varied labels; (5) subtracts it.",
    ),
    "joint_entropy": (
        "joint entropy of all clients, H(Z^I)",
        NATS,
        "Lower means less to know; b times the true value is never exceeded by the gap, whatever is trained.",
    ),
    "participant_entropy": ("joint entropy of participants, H(Z^Ip)", NATS, "Lower means less varied participants."),
    "participation_gap": (
        "participation gap, 3 H(Z^I) - sum alpha_i H(P_i)",
        NATS,
        "Lower means a smaller term of (5), but the weights move it by at most ln C, in a sum over all clients.",
    ),
    "absent": ("absent clients, 1 - M/N", "share", "Lower means that fewer clients stay unseen for ever."),
    "participation_factor": (
        "factor of H(Z^I), 3 - 2M/N",
        "factor",
        "Lower means that more clients take part; 1 if all do; (7).",
    ),
    "selection_factor": (
        "factor of H(Z^Ip), 2 - 2K/M - 1/K",
        "factor",
        "Lower means a smaller term of (7); negative only if all participants are selected.",
    ),
    "unselected_cross_entropy": (
        "unselected to nearest participant, (1/K) sum_(i in Ip - It) min_(j in Ip, j != i) H(P_i, P_j)",
        NATS,
        "Lower means that those left out are fewer, less varied, or more like any other participant; (7).",
    ),
    "cohort_cross_entropy": (
        "unselected to nearest selected, (1/K) sum_(i in Ip - It) min_(j in It) H(P_i, P_j)",
        NATS,
        "Lower means that the cohort speaks better for those left out; (7) with j among the selected.",
    ),
    "redundancy_gap": (
        "redundancy gap, mean over i in Ip - It of min_(j in It) KL(P_i || P_j)",
        NATS,
        "Lower means that those left out add less; 0 if each has a twin in the cohort, or if nobody is left out.",
    ),
    "selected_cross_entropy": (
        "selected to nearest participant, mean over i in It of min_(j in Ip, j != i) H(P_i, P_j)",
        NATS,
        "Higher means that the selected are more varied or less like any other; section 4.2.1 maximises it.",
    ),
    "selected_spread": (
        "selected to all participants, mean over i in It, j in Ip of H(P_i, P_j)",
        NATS,
        "Higher means that the selected are less like the participants on average; (12) maximises it.",
    ),
    "collision": (
        "collision, sum_(i in It) sum_c P_i(c)^2",
        "probability",
        "Lower means that labels repeat less; E_t of (7) is 2b times the value for sources, which is smaller.",
    ),
    "samples": ("samples of the selected, sum n_i", "samples", "Higher means a smaller sampling error in (7)."),
    "effective_samples": (
        "effective samples, 1 / sum (alpha_i^2 / n_i)",
        "samples",
        "Higher means a smaller sampling error; equal to the samples only if weights are by data size.",
    ),
    "weight_spread": ("largest |alpha_i - 1/K|", "weight", "Lower means nearer to the equal weights that (7) needs."),
    "uncovered": (
        "unselected with labels that no single other participant has",
        "clients",
        "Above 0 means that the term of (7) is infinite on labels without smoothing.",
    ),
    "uncovered_by_cohort": (
        "unselected with labels that no single selected client has",
        "clients",
        "Lower means that more of those left out find all their labels at one selected client.",
    ),
    "error": ("alignment error A_t = ||s + lr g||^2", "squared length", "Lower means closer to one plain step."),
    "cosine": ("cosine of s and -g", "cosine", "Higher means better alignment; 1 is the same direction."),
    "step": ("length of the step s", "length", "Lower means that the model moved less."),
    "gradient": ("length of the gradient g", "length", "Lower means closer to a stationary point."),
    "stretch": ("||s|| / (lr ||g||)", "ratio", "Far above 1 means that A_t is little more than the step's length."),
}
"""For every field of the terms: its name with the formula, its unit, and how to read it; numbers are equations."""
