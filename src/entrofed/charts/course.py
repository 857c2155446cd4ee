"""The course of an experiment for notebooks: accuracy by round."""

from collections.abc import Mapping, Sequence

import altair as alt

from entrofed.charts.report import OVER_ROUNDS
from entrofed.core.records import RoundRecord


def accuracy_chart(courses: Mapping[str, Sequence[tuple[int, Sequence[RoundRecord]]]]) -> alt.TopLevelMixin:
    """Accuracy on the test part by round, a line per experiment and seed; ``courses`` holds (seed, records)."""
    values = [
        {"experiment": name, "seed": str(seed), "round": record.round + 1, "accuracy": record.test.accuracy}
        for name, runs in courses.items()
        for seed, records in runs
        for record in records
        if record.test is not None
    ]
    chart: alt.TopLevelMixin = (
        alt.Chart(alt.InlineData(values=values), width=480, height=260)
        .mark_line(point=len(values) < 30)
        .encode(
            x=OVER_ROUNDS,
            y=alt.Y("accuracy:Q", title="Test accuracy", axis=alt.Axis(format=".0%"), scale=alt.Scale(zero=False)),
            color=alt.Color("seed:N", title="Seed"),
            strokeDash=alt.StrokeDash(
                "experiment:N", title="Experiment", legend=None if len(courses) < 2 else alt.Legend()
            ),
            tooltip=["experiment:N", "seed:N", "round:Q", alt.Tooltip("accuracy:Q", format=".2%")],
        )
    )
    return chart
