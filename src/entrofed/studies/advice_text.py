"""Findings and a recommendation as plain text of 80 columns."""

from collections.abc import Iterator, Sequence
from math import log2
from textwrap import fill, wrap

from entrofed.info.skew import Spread
from entrofed.studies.findings import LARGEST_COHORT, NOT_PLAYED, Findings
from entrofed.studies.recommendation import Recommendation, level
from entrofed.suite.statistics import Interval

WIDTH = 80
SCARCEST = 5
"""Classes that are listed."""
SEEN = {
    "sum": "These work, sums are enough",
    "scalars": "These need some numbers of each client besides",
    "models": "These cannot work, the server must see each client's model",
}


def text(findings: Findings, recommendation: Recommendation) -> str:
    """Everything, section by section."""
    parts = [
        _overview(findings),
        _section("How skewed it is: mean (least to most) over clients", _skew(findings)),
        _section("What cohorts get together (random, and greedily the best)", _sizes(findings)),
    ]
    if findings.selectors:
        parts.append(_section("What selectors get together", _selectors(findings)))
    if findings.noise:
        parts.append(_section(f"What noise on the counts costs ({findings.preferred})", _noise(findings)))
    parts.append(_section("Under secure aggregation, where the server sees sums only", _methods(findings)))
    parts.append(_section("What we would do", _paragraphs(recommendation.sentences, "- ")))
    parts.append("\n".join(f"    {line}".rstrip() for line in recommendation.settings.splitlines()))
    parts.append(_section("What cannot be known without training", [fill(recommendation.unknown, WIDTH)]))
    return "\n\n".join(parts) + "\n"


def _section(title: str, lines: Sequence[str] | Iterator[str]) -> str:
    return "\n".join([title, "-" * len(title), *lines])


def _overview(findings: Findings) -> str:
    names = [one.name for one in findings.classes]
    words = [
        f"{findings.clients:,} clients, {len(names):,} classes, {findings.samples:,.0f} samples; cohorts of "
        f"{findings.cohort:,}"
    ]
    if findings.empty_clients:
        words.append(f"clients that hold nothing, and are never chosen: {findings.empty_clients:,}")
    if findings.unheld:
        words.append(f"classes that nobody holds are left out: {_cut(', '.join(findings.unheld), 200)}")
    if not findings.whole:
        words.append("the counts are not whole numbers: they are taken as noised, and are not noised again")
    if findings.cohort == LARGEST_COHORT:
        words.append("larger cohorts are looked at as cohorts of this size")
    if findings.sampled < findings.clients:
        words.append(
            f"selectors were given {findings.sampled:,} of the clients at random, another sample for each seed, and "
            f"{findings.rounds} rounds"
        )
    return fill(". ".join(f"{part[0].upper()}{part[1:]}" for part in words) + ".", WIDTH)


def _skew(findings: Findings) -> Iterator[str]:
    skew, most = findings.skew, log2(len(findings.classes))
    lack = f"{skew.missing:.0%} missing, {level(skew.missing)} skewed"
    sizes = _spread(skew.sizes, ",.0f" if skew.sizes.most < 1e7 else ".3g")
    rows = [
        ("entropy of a client's labels", f"{_spread(skew.entropy, '.2f')} bits"),
        ("  had they been dealt by chance", f"{skew.chance_entropy:.2f} bits: {lack}"),
        ("entropy of all labels together", f"{skew.pool_entropy:.2f} of at most {most:.2f} bits"),
        ("effective classes (2^H)", f"{_spread(skew.effective, '.1f')}; all together {skew.pool_effective:.1f}"),
        ("classes that a client holds", _spread(skew.held, ".1f")),
        ("divergence from the pool (JS)", f"{_spread(skew.divergence, '.2f')}; by chance {skew.chance_divergence:.2f}"),
        ("samples of a client", f"{sizes}; Gini {skew.gini:.2f}"),
    ]
    width = max(len(name) for name, _ in rows)
    yield from (f"{name:<{width}}  {value}" for name, value in rows)
    scarcest = [one for one in findings.classes if one.absent >= 0.005][:SCARCEST]
    if scarcest:
        yield f"Classes that few hold, absent from random cohorts of {findings.cohort}:"
    for one in scarcest:
        who = f" ({', '.join(one.held_by)})" if one.held_by else ""
        yield _cut(
            f"  {one.name}: {one.holders:,} client{'s' * (one.holders != 1)}, absent in {one.absent:.0%}{who}", WIDTH
        )


def _sizes(findings: Findings) -> Iterator[str]:
    header = ("clients", "all classes", "classes there", "random: bits", "90% within", "greedy: bits")
    rows = [
        (
            f"{'> ' if one.size == findings.cohort else ''}{one.size:,}",
            f"{one.all_there:.0%}",
            f"{one.classes_there:.0%}",
            f"{one.entropy:.2f}",
            f"{one.low:.2f}..{one.high:.2f}",
            f"{one.greedy:.2f}",
        )
        for one in findings.sizes
    ]
    return columns([header, *rows])


def _selectors(findings: Findings) -> Iterator[str]:
    header = ("selector", "bits", "gain", "all classes", "clients", "most used")
    rows = [
        (
            _cut(("> " if one.title == findings.preferred else "") + one.title, 24),
            _interval(one.entropy),
            f"{one.gain.mean:+.3f}",
            f"{one.all_there:.0%}",
            f"{one.reach:.0%}",
            f"{one.most_used:.0%}",
        )
        for one in findings.selectors
    ]
    yield from columns([header, *rows], left=1)
    yield fill(
        f"{findings.rounds} rounds, {findings.seeds} seed{'s' * (findings.seeds != 1)}; ± is the 95% interval of the "
        "mean; gain: over random. Clients: that took part, of those that could have; most used: in how many rounds the "
        "client took part that did most. kl takes the same clients in every round and lets them train on a part of "
        f"their data. Not played: {'; '.join(f'{name} ({why})' for name, why in NOT_PLAYED.items())}.",
        WIDTH,
    )


def _noise(findings: Findings) -> Iterator[str]:
    header = ("epsilon", "noise (Laplace scale)", "bits", "cost")
    rows = [
        (f"{one.epsilon:g}", f"{one.scale:g}", _interval(one.entropy), f"{one.cost.mean:+.3f}")
        for one in findings.noise
    ]
    yield from columns([header, *rows])
    yield fill("The selector sees noised counts, the entropies are of the true ones. Simulated noise.", WIDTH)


def _methods(findings: Findings) -> Iterator[str]:
    for sees, words in SEEN.items():
        groups = [group for group in findings.methods if group.sees == sees]
        if groups:
            yield f"{words}:"
        for group in groups:
            told = [*group.once, *group.each_round]
            tells = f" (each client also tells: {'; '.join(told)})" if told else ""
            yield from wrap(", ".join(group.names) + tells, WIDTH, initial_indent="  ", subsequent_indent="    ")


def _paragraphs(sentences: Sequence[str], bullet: str) -> Iterator[str]:
    for sentence in sentences:
        yield from wrap(sentence, WIDTH, initial_indent=bullet, subsequent_indent=" " * len(bullet))


def columns(rows: Sequence[Sequence[str]], left: int = 0) -> Iterator[str]:
    """Rows as lines; the first ``left`` columns flush left, the others flush right.

    >>> list(columns([("selector", "bits"), ("kl", "2.5")], left=1))
    ['selector  bits', 'kl         2.5']
    """
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        cells = [
            f"{cell:<{w}}" if i < left else f"{cell:>{w}}" for i, (cell, w) in enumerate(zip(row, widths, strict=True))
        ]
        yield "  ".join(cells).rstrip()


def _spread(found: Spread, form: str) -> str:
    return f"{found.mean:{form}} ({found.least:{form}} to {found.most:{form}})"


def _interval(found: Interval) -> str:
    return f"{found.mean:.3f}" + ("" if found.high is None else f" ±{found.high - found.mean:.3f}")


def _cut(words: str, most: int) -> str:
    return words if len(words) <= most else f"{words[: most - 3]}..."
