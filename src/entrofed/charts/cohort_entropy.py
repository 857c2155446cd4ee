"""How diverse the cohorts of a run were."""

from collections.abc import Sequence
from math import log2

import altair as alt
import numpy as np
from numpy.typing import NDArray

from entrofed.charts.report import OVER_ROUNDS
from entrofed.core.records import RoundRecord
from entrofed.core.seeds import stream
from entrofed.errors import CheckpointError
from entrofed.experiment.run_folder import RunFolder
from entrofed.info.entropy import entropy_of_counts

DRAWS = 400
"""Random cohorts that a cohort is compared with."""


def entropy_chart(run: RunFolder) -> alt.TopLevelMixin:
    """Entropy of each cohort's pooled labels, beside what random cohorts of the same size would have had."""
    facts = run.federation_facts()
    if facts is None:
        raise CheckpointError(f"{run.path}: federation.json is missing, so there is nothing to compare with")
    counts = np.array(facts["label_counts"], np.int64)
    records, classes = run.records(), counts.shape[1]
    if not records:
        raise CheckpointError(f"{run.path}: no round was played yet, so there is nothing to draw")
    seed = run.experiment().seed
    low, mean, high = _by_chance(counts, np.array(facts["participants"]), records, stream(seed, "chart"))
    values = [
        {"round": r.round + 1, "bits": r.cohort_entropy, "low": low[i], "mean": mean[i], "high": high[i]}
        for i, r in enumerate(records)
    ]
    base = alt.Chart(alt.InlineData(values=values)).encode(x=OVER_ROUNDS)
    scale = alt.Scale(zero=False)
    band = base.mark_area(opacity=0.25, color="#E69F00").encode(
        y=alt.Y("low:Q", title="entropy of the cohort's pooled labels (bits)", scale=scale), y2="high:Q"
    )
    chance = base.mark_line(color="#E69F00", strokeDash=[6, 3]).encode(y="mean:Q")
    line = base.mark_line(color="#0072B2", point=len(values) <= 60).encode(y="bits:Q")
    lines = [
        alt.Chart().mark_rule(color="#555", strokeDash=dash).encode(y=alt.datum(level))
        for level, dash in ((log2(classes - 1), [4, 3]), (log2(classes), [1, 0]))
    ]
    title = alt.TitleParams(
        f"How diverse the cohorts of {run.label} were",
        subtitle=[
            "blue: this run; orange: random cohorts of the same size (mean, and where 90 % of them lie)",
            f"dashed: log2 {classes - 1}, above it all labels are there; solid: log2 {classes}, the most there can be",
        ],
    )
    return alt.layer(band, chance, line, *lines).properties(width=640, height=300, title=title)


def _by_chance(
    counts: NDArray[np.int64],
    participants: NDArray[np.int64],
    records: Sequence[RoundRecord],
    rng: np.random.Generator,
) -> NDArray[np.float64]:
    """5 % quantile, mean and 95 % quantile of the entropy of random cohorts, as large as each round's was."""
    pool = participants[counts[participants].sum(axis=1) > 0]
    known: dict[int, tuple[float, float, float]] = {}
    sizes = [len(record.cohort if record.peers else record.used) or len(record.cohort) for record in records]
    for size in set(sizes):
        drawn = np.stack(
            [counts[rng.choice(pool, min(size, len(pool)), replace=False)].sum(axis=0) for _ in range(DRAWS)]
        )
        bits = entropy_of_counts(drawn, base="bits")
        known[size] = (float(np.quantile(bits, 0.05)), float(bits.mean()), float(np.quantile(bits, 0.95)))
    return np.array([known[size] for size in sizes]).T
