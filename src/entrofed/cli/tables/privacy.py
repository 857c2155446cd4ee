"""What ``entrofed privacy`` prints."""

from collections.abc import Sequence
from math import isfinite

from rich.table import Table

from entrofed.privacy.audit import Audit
from entrofed.privacy.plan import Way


def plan_table(ways: Sequence[Way], title: str) -> Table:
    """One line per way of choosing clients."""
    table = Table("chosen by", "amplified", title=title)
    for column in ("steps", "noise", "on the mean", "rounds", "epsilon"):
        table.add_column(column, justify="right", no_wrap=True)
    table.caption = (
        "steps: releases that a client pays for; noise: multiplier of the sum, the least that fits if none is given; "
        "on the mean: that over the cohort, in clips; rounds: that fit the budget; epsilon: of all rounds planned"
    )
    for way in ways:
        numbers = (str(way.steps), f"{way.noise:.3f}", f"{way.per_client:.5f}", str(way.rounds), f"{way.epsilon:.3g}")
        table.add_row(way.name, way.sampling, *(numbers if isfinite(way.noise) else (str(way.steps), *"––––")))
    return table


def audit_table(audits: Sequence[Audit]) -> Table:
    """What was claimed, and what could be proved from outside."""
    table = Table("mechanism", "delta", "runs", "epsilon claimed", "proved, at least", "claim")
    table.caption = f"proved with {audits[0].confidence:.0%} confidence, in the worst case for the client"
    for one in audits:
        words = "holds" if one.holds else "[red]broken[/red]"
        table.add_row(one.what, f"{one.delta:g}", f"{one.trials:,}", f"{one.claimed:.3f}", f"{one.found:.3f}", words)
    return table
