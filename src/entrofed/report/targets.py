"""What it took to reach an accuracy: the reader's, and that which the reference ends with."""

from collections.abc import Iterator, Sequence
from statistics import mean, stdev

from entrofed.report.blocks import Grid
from entrofed.report.collect import Group
from entrofed.report.results import LAST_10, by_accuracy, data_words, percent, reference_of
from entrofed.suite.target import NOT_REACHED, Reached

HEAD = ["Experiment", "Accuracy", "Seeds that reach it", "Rounds", "MB", "Seconds"]


def targets(groups: Sequence[Group], target: float | None) -> Grid | None:
    """A row for each experiment and target; None if there is no target."""
    rows: list[list[str]] = []
    said: list[str] = []
    left = list(groups)
    while left:
        family = [group for group in left if group.data == left[0].data]
        left = [group for group in left if group not in family]
        for level, words in _levels(family, target):
            said += [words] if words and words not in said else []
            rows += [_row(group, level) for group in by_accuracy(family)]
    if not rows:
        return None
    clocked = any(run.virtual is not None for group in groups for run in group.runs)
    head = [*HEAD, *(["Virtual seconds"] if clocked else [])]
    caption = (
        "Until the test accuracy is first reached: rounds, megabytes sent both ways, seconds on the server's clock; "
        "mean ± sample standard deviation over the seeds that reach it. "
    )
    return Grid(head, [row[: len(head)] for row in rows], caption + " ".join(said), sortable=True)


def _levels(family: Sequence[Group], target: float | None) -> Iterator[tuple[float, str]]:
    """Accuracies to be reached, with what is to be said of them."""
    if target is not None:
        yield target, ""
    reference = reference_of(family)
    final = reference.mean(LAST_10)
    if len(family) > 1 and final > 0:
        yield (
            final,
            f"{percent(final)} % is the mean of {reference.name}'s last ten evaluations ({data_words(reference)}).",
        )


def _row(group: Group, level: float) -> list[str]:
    found = [reached for run in group.runs if (reached := run.to_target(level)) is not None]
    names = ("rounds", "megabytes", "seconds", "virtual_seconds")
    cells = [_spread(found, name) if found else NOT_REACHED for name in names]
    return [group.name, f"{percent(level)} %", f"{len(found)} of {len(group.runs)}", *cells]


def _spread(found: Sequence[Reached], name: str) -> str:
    values = [float(value) for one in found if (value := getattr(one, name)) is not None]
    if not values:
        return ""
    return f"{mean(values):,.1f}" + (f" ± {stdev(values):,.1f}" if len(values) > 1 else "")
