"""Clients whose loss is h (y - b)^2 / 2 in a single number y, which starts at 1."""

import numpy as np
import torch

from entrofed.backends.base import Workload
from entrofed.backends.inline import InlineBackend
from entrofed.core.job import Job, Rules
from entrofed.core.params import Layout, Params
from entrofed.core.parts import Method
from entrofed.core.round import Evaluated, run_round
from entrofed.core.types import ClientTable, State
from entrofed.data.dataset import Dataset
from entrofed.data.federation import Federation
from entrofed.experiment.sections.method import MethodSection
from entrofed.objectives.cross_entropy import CrossEntropy
from entrofed.selectors.full import FullSelection
from entrofed.weighers.uniform import Uniform


class Point(torch.nn.Module):
    """A single number that is trained; a sample is (h, b)."""

    def __init__(self):
        super().__init__()
        self.y = torch.nn.Parameter(torch.ones(1))

    def forward(self, x):
        return x[:, 0] * (self.y - x[:, 1]) ** 2 / 2


class Quadratic(CrossEntropy):
    """The mean output of the model."""

    def loss(self, model, x, y, given):
        return model(x).mean()


def points(*samples):
    """A federation with one (h, b) for each client."""
    x, labels = np.array(samples, np.float32), np.zeros(len(samples), np.int64)
    rows = tuple(np.array([k]) for k in range(len(samples)))
    data = Dataset("points", "table", x, labels, x, labels, ("a", "b"))
    zero, one = np.zeros(2, np.float32), np.ones(2, np.float32)
    counts = np.tile([1, 0], (len(samples), 1))
    return Federation(data, zero, one, rows, rows, np.arange(len(samples)), counts)


def params(*values):
    return Params(np.array(values, np.float32), np.zeros(0, np.int64))


class Nothing:
    """Nobody looks at the models."""

    def after_round(self, before, plan, outcome):
        return Evaluated()


def play(rule, curvatures, optima, *, lr, steps, momentum=0.0, rounds=1, selector=None, weigher=None, objective=None):
    """Rounds of clients with one quadratic each, from x = 1; yields the state after each."""
    n = len(optima)
    federation = points(*zip(curvatures, optima, strict=True))
    backend = InlineBackend()
    layout = Layout.of(Point())
    backend.open(Workload(federation, Point, layout))
    method = Method(selector or FullSelection(), weigher or Uniform(), objective or Quadratic(), rule)
    section = MethodSection(batch_size=1, epochs=steps, lr=lr, momentum=momentum)
    rules = Rules(rounds=rounds, cohort=n, training=section.training(), evaluate_every=10**9)
    table = ClientTable(federation.sizes, classes=2, trainable=1)
    start = params(1)
    everybody = np.arange(n)
    state = State(0, start, method.selector.init(table, everybody), rule.init(start, table, everybody))
    job = Job(method, rules, table, everybody, layout, seed=0)
    for _ in range(rounds):
        state, _ = run_round(job, state, backend, Nothing())
        yield state
