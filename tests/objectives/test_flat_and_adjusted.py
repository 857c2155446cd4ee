"""FedSAM and the cohort's prior: by hand, and what they reduce to."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from tests.quadratics import Quadratic, play

from entrofed.backends.inline import InlineBackend
from entrofed.core.tasks import TrainTask
from entrofed.core.types import ClientData, ClientTable
from entrofed.errors import ConfigError
from entrofed.experiment.config import parse
from entrofed.experiment.run_folder import RunFolder
from entrofed.experiment.runner import run
from entrofed.facts.label_counts import LabelCounts
from entrofed.objectives.cohort_prior import LABELS, CohortPrior
from entrofed.objectives.cross_entropy import CrossEntropy
from entrofed.objectives.proximal import Proximal
from entrofed.objectives.sharpness import Sharpness
from entrofed.servers.average import Average


class Model:
    device = torch.device("cpu")


def given(part, counts, **broadcast):
    """What the objective adds for a client with these labels."""
    labels = torch.tensor(np.repeat(np.arange(len(counts)), counts))
    data = ClientData(torch.zeros(len(labels), 1), labels, len(counts))
    task = TrainTask(0, 0, 0, None, part, None, broadcast=broadcast)
    return part.begin(task, data, Model())(None)


def test_the_prior_by_hand():
    """Logits (0, 0), pi = (3/4, 1/4): the loss of class 1 is ln 4."""
    part = CohortPrior()
    table = ClientTable(np.ones(3, np.int64), 2, facts={LabelCounts.name: np.array([[2.0, 0], [1, 1], [9, 9]])})
    sent = part.broadcast(table, [0, 1])
    assert sent[LABELS].tolist() == [3, 1]
    raised = given(part, [2, 0], **sent)
    loss = part.loss(torch.nn.Identity(), torch.zeros(1, 2), torch.tensor([1]), raised)
    assert float(loss) == pytest.approx(np.log(4), rel=1e-6)
    plain = CohortPrior(tau=0.0)
    x, y = torch.randn(5, 2), torch.tensor([0, 1, 1, 0, 1])
    zero = plain.loss(torch.nn.Identity(), x, y, given(plain, [2, 0], **sent))
    assert torch.equal(zero, CrossEntropy().loss(torch.nn.Identity(), x, y, {}))


def test_a_cohort_of_one_has_its_own_prior():
    part = CohortPrior()
    table = ClientTable(np.ones(1, np.int64), 3, facts={LabelCounts.name: np.array([[2.0, 0, 5]])})
    alone = given(part, [2, 0, 5])
    assert torch.equal(given(part, [2, 0, 5], **part.broadcast(table, [0]))["raised"], alone["raised"])
    assert alone["raised"].tolist() == pytest.approx([np.log(2 / 7), np.log(1e-8), np.log(5 / 7)], rel=1e-6)
    assert torch.equal(given(part, [2, 0, 5], **{LABELS: np.zeros(3)})["raised"], alone["raised"])


DIGITS = {
    "rounds": 2,
    "model": "digits_mlp",
    "data": {"name": "digits", "partition": "dirichlet_balanced", "clients": 5, "alpha": 0.3},
    "method": {"name": "cohort_prior", "cohort": 2, "lr": 0.1},
}


def test_the_cohorts_labels_are_sent_and_counted(tmp_path):
    experiments = [parse(DIGITS), parse(DIGITS, ["method.name=fedavg"])]
    for number, experiment in enumerate(experiments):
        run(experiment, RunFolder(tmp_path / str(number)), backend=InlineBackend())
    ours, plain = (RunFolder(tmp_path / str(number)).records() for number in (0, 1))
    assert [a.bytes_down - b.bytes_down for a, b in zip(ours, plain, strict=True)] == [2 * 10 * 8] * 2
    assert ours[-1].test != plain[-1].test


def test_a_step_uphill_by_hand():
    """h = 2, b = 0 from y = 1: the gradient is 2, one step of rho = 0.5 uphill it is 3."""
    (after,) = play(Average(), (2,), (0,), lr=0.1, steps=1, rounds=1, objective=Sharpness(0.5, Quadratic()))
    assert after.params.values[0] == pytest.approx(1 - 0.1 * 3)
    (after,) = play(Average(), (2,), (0,), lr=0.1, steps=2, rounds=1, objective=Sharpness(0.5, Quadratic()))
    assert after.params.values[0] == pytest.approx(0.7 - 0.1 * 2 * (0.7 + 0.5))


def test_no_radius_is_the_other_objective(tmp_path):
    flat = parse({**DIGITS, "method": {"name": "fedsam", "objective": {"name": "sharpness", "rho": 0.0}, "cohort": 2}})
    plain = parse({**DIGITS, "method": {"name": "fedavg", "cohort": 2}})
    for name, experiment in (("flat", flat), ("plain", plain)):
        run(experiment, RunFolder(tmp_path / name), backend=InlineBackend())
    one, two = ([replace(r, seconds={}) for r in RunFolder(tmp_path / name).records()] for name in ("flat", "plain"))
    assert [record.test for record in one] == [record.test for record in two]


def test_wrapped_objectives_keep_what_the_inner_one_has():
    part = Proximal(0.1, Sharpness(0.3, CohortPrior()))
    assert (part.pull, part.sharpness) == (0.1, 0.3)
    assert part.facts == (LabelCounts(),)
    assert Sharpness(0.3, Proximal(0.1)).pull == 0.1


def test_bad_options():
    with pytest.raises(ConfigError, match="rho = -1 must be finite"):
        Sharpness(-1)
    with pytest.raises(ConfigError, match="tau = -1 must be finite"):
        CohortPrior(-1)
