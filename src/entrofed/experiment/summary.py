"""What a run comes to."""

from collections.abc import Mapping
from statistics import mean
from typing import Any

from entrofed.client.metrics import CLIENT_ACCURACY
from entrofed.core.records import RoundRecord

HUGE = 100.0
"""No network that learns ends with such a loss: to guess among a million classes costs 14."""
NOT_FINITE = "non-finite"
"""In what is said of an update that is refused for it."""


def summarize(records: list[RoundRecord]) -> dict[str, Any]:
    """The metrics people compare: final, mean of the last ten evaluations, best; traffic and time."""
    tests = [record.test for record in records if record.test is not None]
    accuracies = [test.accuracy for test in tests]
    averaged = [record.averaged.accuracy for record in records if record.averaged is not None]
    beside = {"accuracy_averaged": averaged[-1], "accuracy_averaged_last_10": mean(averaged[-10:])} if averaged else {}
    judged = [record.judged for record in records if record.judged is not None]
    clocked = [record.virtual_seconds for record in records if record.virtual_seconds is not None]
    inside = [record.in_distribution.accuracy for record in records if record.in_distribution is not None]
    return {
        "rounds": len(records),
        "accuracy": accuracies[-1],
        "accuracy_last_10": mean(accuracies[-10:]),
        "accuracy_best": max(accuracies),
        "accuracy_id": inside[-1] if inside else None,
        "accuracy_id_last_10": mean(inside[-10:]) if inside else None,
        **({"accuracy_judged_last_10": mean(judged[-10:])} if judged else {}),
        **beside,
        "macro_f1": tests[-1].macro_f1,
        "weighted_f1": tests[-1].weighted_f1,
        "loss": tests[-1].loss,
        "bytes": sum(record.bytes_up + record.bytes_down for record in records),
        "refused": sum(len(record.refused) for record in records),
        "skipped": sum(record.skipped for record in records),
        **({"virtual_seconds": sum(clocked)} if clocked else {}),
        "seconds": sum(record.duration for record in records),
        **asked_of(records),
        **({"diverged": words} if (words := diverged(records[-1])) else {}),
    }


def diverged(record: RoundRecord) -> str | None:
    """What to do about training that has run away, if the record of a round shows that it has."""
    losses = (record.train_loss, None if record.test is None else record.test.loss)
    worst = max((loss for loss in losses if loss is not None), default=0.0)
    refused = record.refused and all(NOT_FINITE in refusal.reason for refusal in record.refused)
    if worst < HUGE and not refused:
        return None
    said = "parameters that are not finite" if refused else f"a loss of {worst:.3g}"
    lr = "" if record.lr is None else f" (it was {record.lr:g})"
    return (
        f"training diverges: {said} in round {record.round + 1}; take a smaller method.lr{lr}, or bound each step by "
        "method.clip_gradients"
    )


def asked_of(records: list[RoundRecord]) -> dict[str, dict[str, float | None]]:
    """The last of each metric that the experiment asks for, by where it is measured."""
    last: dict[str, dict[str, float | None]] = {"test": {}, "id": {}}
    for record in records:
        for where, found in (("test", record.test), ("id", record.in_distribution)):
            last[where] |= {} if found is None else found.extra
    return {f"metrics_{where}": values for where, values in last.items() if values}


def asked_metrics(summary: Mapping[str, Any]) -> dict[str, float | None]:
    """The metrics that an experiment asks for, at the end of a run: on the test set, and fairness on held-out data."""
    test, inside = summary.get("metrics_test") or {}, summary.get("metrics_id") or {}
    fairness = {f"id_{name}": value for name, value in inside.items() if name.startswith(CLIENT_ACCURACY)}
    ended = {"test_accuracy_at_end": found["accuracy"]} if (found := summary.get("at_end")) else {}
    return {f"test_{name}": value for name, value in test.items()} | fairness | ended
