"""What to do with a federation of which only the label counts are known: rules, in words.

The rules are conventions of ours; each limit stands here once, and ``docs/advise.md`` explains them. What training
would show, they do not know.
"""

from dataclasses import dataclass
from math import log2
from typing import Any

from entrofed.experiment.toml import dumps
from entrofed.studies.findings import OVERUSED, RANDOM, Chosen, Findings, is_even
from entrofed.suite.statistics import Interval

LEVELS = ((0.05, "hardly"), (0.25, "mildly"), (0.6, "strongly"), (1.0, "extremely"))
"""How skewed clients are called that lack no more than this share of the entropy that chance would give them."""
GAIN = 0.05
"""Bits of cohort entropy below which a gain is called none."""
CHEAP = 0.1
"""The share of the gain that noise may cost."""
UNEVEN = 0.5
"""A Gini coefficient of the sizes from which on they differ much."""
BALANCED = 0.9
"""The share of log2 C bits below which the pool itself is called unbalanced."""
SCARCE = 0.5
"""The probability to be lacking in a random cohort from which on a class is called scarce."""

UNKNOWN = (
    "Accuracy, how far local models drift apart, and whether balanced cohorts help this network on this data: label "
    "counts say nothing about inputs, and clients with the same counts may hold quite different data. In our own runs "
    "(docs/results.md) what such methods gain differs by dataset, network and length of training, and often nothing "
    "can be shown. Train with a few seeds, beside random cohorts and equal weights as controls, before you rely on it."
)


@dataclass(frozen=True)
class Recommendation:
    """What to do, why, and the lines of an experiment file that do it."""

    selector: str
    """The title of the selector, as in the findings."""
    sentences: tuple[str, ...]
    settings: str
    unknown: str = UNKNOWN


def recommend(findings: Findings) -> Recommendation:
    """The rules, one after the other; each says something or nothing."""
    best = next((one for one in findings.selectors if one.title == findings.preferred), None)
    worth = best if best is not None and _worth_it(best.gain) else None
    sentences = [
        _skew(findings),
        _selection(findings, best, worth),
        _participation(findings, worth),
        _scarce(findings),
        _pool(findings, worth),
        _sizes(findings),
        _noise(findings, worth),
        _secure(findings, worth),
    ]
    return Recommendation(
        RANDOM if worth is None else worth.title, tuple(filter(None, sentences)), _settings(findings, worth)
    )


def level(missing: float) -> str:
    """How skewed, in a word.

    >>> level(0.04), level(0.63)
    ('hardly', 'extremely')
    """
    return next(word for most, word in LEVELS if missing <= most)


def _worth_it(gain: Interval) -> bool:
    return gain.mean >= GAIN and (gain.low is None or gain.low > 0)


def _skew(findings: Findings) -> str:
    skew = findings.skew
    return (
        f"The clients are {level(skew.missing)} skewed: the labels of a client have {skew.entropy.mean:.2f} bits on "
        f"average, where chance would give clients of these sizes {skew.chance_entropy:.2f}."
    )


def _selection(findings: Findings, best: Chosen | None, worth: Chosen | None) -> str:
    if not findings.selectors:
        return (
            "All clients take part in every round, so there is nothing to choose; weighers and objectives still differ."
        )
    by_chance = next(one for one in findings.selectors if one.title == RANDOM)
    if best is None or worth is None:
        most = "no selector works on counts" if best is None else f"{best.title} gains {best.gain.mean:+.2f} bits"
        return (
            f"Choose at random: its cohorts of {findings.cohort} have {by_chance.entropy.mean:.2f} bits, and {most} "
            f"(we call less than {GAIN:g} none). So clients need not tell their label counts."
        )
    as_good = next((one.size for one in findings.sizes if one.entropy >= worth.entropy.mean), None)
    instead = (
        f"Random cohorts get there with {as_good} clients per round."
        if as_good is not None
        else f"Random cohorts of up to {findings.sizes[-1].size} clients do not get there."
    )
    there, there_by_chance = f"{worth.all_there:.0%}", f"{by_chance.all_there:.0%}"
    beside = ", as those do" if there == there_by_chance else f" instead of {there_by_chance}"
    return (
        f"Choose with {worth.title}: its cohorts of {findings.cohort} have {worth.entropy.mean:.2f} bits instead of "
        f"the {by_chance.entropy.mean:.2f} of random ones, and hold every class in {there} of the rounds{beside}. "
        f"{instead}"
    )


def _participation(findings: Findings, worth: Chosen | None) -> str:
    if worth is None:
        return ""
    by_chance = next(one for one in findings.selectors if one.title == RANDOM)
    used = (
        f"In {findings.rounds} rounds it uses {worth.reach:.0%} of the clients that it could (random cohorts "
        f"{by_chance.reach:.0%}), and the most used in {worth.most_used:.0%} of the rounds ({by_chance.most_used:.0%})."
    )
    if not is_even(worth, by_chance):
        return f"{used} No selector on counts is more even here; the data of few clients will count more."
    uneven = [one for one in findings.selectors if one.entropy.mean > worth.entropy.mean and one.tells_counts]
    uneven = [one for one in uneven if not is_even(one, by_chance)]
    if not uneven:
        return used
    return (
        f"{used} {uneven[0].title} reaches {uneven[0].entropy.mean:.2f} bits, but unevenly: one client takes part in "
        f"{uneven[0].most_used:.0%} of the rounds (even is up to {OVERUSED:g} times as often as in random cohorts)."
    )


def _scarce(findings: Findings) -> str:
    scarce = [one for one in findings.classes if one.absent >= SCARCE]
    if not scarce or not findings.selectors:
        return ""
    single = [f"{one.name} ({one.held_by[0]})" for one in scarce if one.holders == 1]
    alone = f" One client alone holds {_some(single)}: in rounds without it, nobody has the class." if single else ""
    return (
        f"Most random cohorts lack {_some([one.name for one in scarce])}, held by {scarce[0].holders} to "
        f"{scarce[-1].holders} clients.{alone}"
    )


def _pool(findings: Findings, worth: Chosen | None) -> str:
    skew, most = findings.skew, log2(len(findings.classes))
    if skew.pool_entropy >= BALANCED * most or worth is None:
        return ""
    return (
        f"The pool itself is unbalanced ({skew.pool_effective:.1f} effective of {len(findings.classes)} classes). "
        "Cohorts of large entropy are more balanced than the pool: good for rare classes, and perhaps not for the "
        "accuracy on data that is as unbalanced."
    )


def _sizes(findings: Findings) -> str:
    skew = findings.skew
    if skew.gini < UNEVEN:
        return ""
    return (
        f"Sizes differ much (Gini {skew.gini:.2f}; the largest client holds {skew.largest:.0%} of all samples), and "
        'weights by size follow the large ones: try weigher = "uniform" beside it, or "capped".'
    )


def _noise(findings: Findings, worth: Chosen | None) -> str:
    if worth is None or not findings.noise:
        return ""
    bearable = _bearable(findings, worth)
    if bearable is None:
        least = max(findings.noise, key=lambda one: one.epsilon)
        return (
            f"Noise on the counts costs more than {CHEAP:.0%} of the gain even at epsilon {least.epsilon:g} "
            f"({least.cost.mean:.2f} bits): the counts are too small for it."
        )
    cost = next(one.cost.mean for one in findings.noise if one.epsilon == bearable)
    return (
        f"Let clients noise their counts: epsilon {bearable:g} costs {max(cost, 0.0):.2f} bits, no more than "
        f"{CHEAP:.0%} of the gain. This protects the counts only: who sees a client's update can estimate its labels "
        "from that."
    )


def _bearable(findings: Findings, worth: Chosen) -> float | None:
    """The smallest epsilon at which noise costs little, and at every larger one as well."""
    found = None
    for one in sorted(findings.noise, key=lambda one: -one.epsilon):
        if one.cost.mean > CHEAP * worth.gain.mean:
            break
        found = one.epsilon
    return found


def _secure(findings: Findings, worth: Chosen | None) -> str:
    if worth is None:
        who = "Random cohorts" if findings.selectors else "All clients"
        return f"{who} with weights by size, or equal ones, work under secure aggregation."
    return (
        "It works under secure aggregation: cohort and weights are known before the updates, so their sum is enough. "
        "The server then still knows each client's label counts, noised or not."
    )


def _settings(findings: Findings, worth: Chosen | None) -> str:
    method: dict[str, Any] = {"cohort": findings.cohort}
    if findings.selectors:
        method["selector"] = {"name": RANDOM} if worth is None else worth.selector
    table = {"method": method}
    epsilon = None if worth is None else _bearable(findings, worth)
    if epsilon is not None:
        table["privacy"] = {"epsilon": epsilon}
    return dumps(table).strip() + "\n"


def _some(words: list[str], most: int = 5) -> str:
    """A list in words, cut after a few.

    >>> _some(["a", "b", "c"], 2)
    'a, b and 1 more'
    """
    if len(words) > most:
        return f"{', '.join(words[:most])} and {len(words) - most} more"
    return ", ".join(words)
