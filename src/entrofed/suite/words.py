"""How runs are named and spoken of, wherever they are."""

import re
from collections.abc import Mapping
from typing import Any


def file_name(label: str) -> str:
    """A label as part of a path.

    >>> file_name("Convex hull")
    'Convex-hull'
    """
    return re.sub(r"[^A-Za-z0-9._+-]+", "-", label)


def rounds_words(number: int) -> str:
    """A number of rounds.

    >>> rounds_words(1), rounds_words(2)
    ('1 round', '2 rounds')
    """
    return f"{number} round{'s' * (number != 1)}"


def p_value(p: float | None) -> str:
    """A p-value in three digits.

    >>> p_value(0.0002), p_value(0.25)
    ('< 0.001', '0.250')
    """
    return "" if p is None else "< 0.001" if p < 0.001 else f"{p:.3f}"


def privacy_words(summary: Mapping[str, Any]) -> str:
    """What the clients paid for their label counts and updates; empty if nothing was noised.

    >>> spent = {"epsilon": 0.5, "neighbours": "add_remove", "mechanism": "Laplace (OpenDP)", "scale": 2.0}
    >>> privacy_words({"privacy": spent})
    'privacy: each client spent epsilon 0.5 once on its label counts (add_remove neighbours, Laplace (OpenDP), scale 2)'
    """
    spent = summary.get("privacy") or {}
    found = []
    if "neighbours" in spent:
        how = f"{spent['neighbours']} neighbours, {spent['mechanism']}, scale {spent['scale']:g}"
        found.append(f"each client spent epsilon {spent['epsilon']:g} once on its label counts ({how})")
        if before := spent.get("epsilon_before"):
            found.append(f"epsilon {before:g} was spent on this data before, {spent['epsilon_in_all']:g} is in all")
    if updates := spent.get("updates"):
        most = rounds_words(updates["participations"]["most"])
        found.append(
            f"all that left a client cost epsilon {updates['epsilon']:.3g} at delta {updates['delta']:g} "
            f"(each {updates['unit']} is hidden; noise {updates['noise']:.3g}, clip {updates['clip']:g} at the "
            f"{updates['where']}; accounted by {updates['by']}; a client took part in {most} at most; "
            f"{updates['mechanism']})"
        )
    return f"privacy: {'; '.join(found)}" if found else ""


def idle_words(summary: Mapping[str, Any]) -> list[str]:
    """What was configured and never acted, of a summary that anybody may have written."""
    found = summary.get("never_acted")
    return [str(words) for words in found] if isinstance(found, list) else []


def summary_words(summary: Mapping[str, Any]) -> list[str]:
    """What a summary says besides its numbers: why it ended early, what was spent, what ran away, what never acted.

    >>> summary_words({"never_acted": ["clock.deadline = 9: nobody came too late"]})
    ['never acted: clock.deadline = 9: nobody came too late']
    """
    idle = [f"never acted: {words}" for words in idle_words(summary)]
    found = (summary.get("stopped"), privacy_words(summary), summary.get("diverged"), *idle)
    return [str(words) for words in found if words]
