"""Schedules of the learning rate, held to torch's, and where rounds get their rate from."""

from typing import Any

import pytest
import torch
from torch.optim.lr_scheduler import CosineAnnealingLR, LinearLR, LRScheduler, SequentialLR, StepLR

from entrofed.core.job import Rules
from entrofed.core.schedule import Schedule
from entrofed.errors import ConfigError
from entrofed.experiment.sections.method import MethodSection

ROUNDS = 12


def by_torch(make: Any, warmup: int) -> list[float]:
    """The rates of all rounds, from 1, with one step of torch's scheduler per round."""
    optimizer = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=1.0)
    scheduler: LRScheduler = make(optimizer)
    if warmup:
        first = LinearLR(optimizer, start_factor=0.1, total_iters=warmup)
        scheduler = SequentialLR(optimizer, [first, make(optimizer)], milestones=[warmup])
    rates = []
    for _ in range(ROUNDS):
        rates.append(optimizer.param_groups[0]["lr"])
        optimizer.step()
        scheduler.step()
    return rates


@pytest.mark.filterwarnings("ignore:The epoch parameter")  # earlier versions of torch, of their own use of it
@pytest.mark.parametrize("warmup", [0, 1, 4])
@pytest.mark.parametrize("kind", ["step", "cosine"])
def test_rates_are_those_of_torch(kind: str, warmup: int) -> None:
    if kind == "step":
        schedule = Schedule("step", every=3, factor=0.5, warmup=warmup)
        expected = by_torch(lambda optimizer: StepLR(optimizer, 3, 0.5), warmup)
    else:
        schedule = Schedule("cosine", final=0.05, warmup=warmup)
        expected = by_torch(lambda optimizer: CosineAnnealingLR(optimizer, ROUNDS - warmup, 0.05), warmup)
    assert [schedule.share(t, ROUNDS) for t in range(ROUNDS)] == pytest.approx(expected, rel=1e-9)


def test_rates_by_hand() -> None:
    warm = Schedule(warmup=3)
    assert [warm.share(t, 9) for t in range(5)] == pytest.approx([0.1, 0.4, 0.7, 1.0, 1.0])
    cosine = Schedule("cosine")
    assert [cosine.share(t, 4) for t in range(6)] == pytest.approx([1, 0.8535533906, 0.5, 0.1464466094, 0, 0], abs=1e-9)
    assert [Schedule("step", every=2).share(t, 5) for t in range(5)] == pytest.approx([1, 1, 0.1, 0.1, 0.01])


def rules(**options: Any) -> Rules:
    return Rules(rounds=10, cohort=2, training=MethodSection(lr=0.5).training(), **options)


def test_a_round_trains_with_the_rate_of_the_schedule() -> None:
    scheduled = rules(schedule=Schedule("step", every=4, factor=0.1))
    assert [scheduled.training_in(t).lr for t in (0, 3, 4, 8)] == pytest.approx([0.5, 0.5, 0.05, 0.005])
    cosine = rules(schedule=Schedule("cosine"))
    assert cosine.training_in(5).lr == pytest.approx(0.25)
    assert cosine.training_in(5, rounds=5 + 5).lr == cosine.training_in(5).lr
    assert cosine.training_in(2, rounds=4).lr == pytest.approx(0.25)


def test_decay_is_as_it_was_to_the_bit() -> None:
    assert [rules(lr_decay=0.98).training_in(t).lr for t in (0, 1, 480)] == [0.5, 0.5 * 0.98, 0.5 * 0.98**480]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"kind": "step"}, "kind 'step' needs every"),
        ({"kind": "cosine", "every": 3}, "method.schedule.every belongs to kind 'step' and does not apply to 'cosine'"),
        ({"kind": "cosine", "factor": 0.3}, "method.schedule.factor belongs to kind 'step'"),
        ({"kind": "step", "every": 3, "final": 0.1}, "method.schedule.final belongs to kind 'cosine'"),
        ({}, "kind 'constant' without warmup changes nothing"),
    ],
)
def test_keys_that_do_not_apply(options: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        Schedule(**options)
