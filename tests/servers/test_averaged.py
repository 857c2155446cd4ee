"""The average over rounds: by hand, beside the model, and after an interruption."""

from dataclasses import replace

import numpy as np
import pytest

from entrofed.backends.inline import InlineBackend
from entrofed.core.params import Params
from entrofed.core.types import ClientTable, Context, Update
from entrofed.errors import ConfigError
from entrofed.experiment.config import parse
from entrofed.experiment.run_folder import RunFolder
from entrofed.experiment.runner import run
from entrofed.registry import build
from entrofed.servers.average import Average
from entrofed.servers.averaged import Averaged
from entrofed.servers.momentum import Momentum
from entrofed.servers.scaffold import Scaffold


def play(part, models):
    """Rounds in which one client sends each of the models; the averages after each, and the last state."""
    start = Params(np.zeros(2, np.float32), np.array([0]))
    context = Context(start, 0, ClientTable(np.ones(1, np.int64), trainable=1), None, 0, None)
    state, found = part.init(start, context.clients, np.arange(1)), []
    for number, values in enumerate(models):
        update = Update(0, Params(np.array(values, np.float32), np.array([number])), 1, 1, 1.0, 1.0)
        params, state = part.apply([update], np.ones(1), replace(context, round=number), state)
        assert params.values.tolist() == list(values)
        found.append(part.beside(state))
    return found, state


def test_by_hand():
    """The first value is a parameter, the second a running statistic; both are averaged, the counter is the last."""
    models = [[4.0, 1.0], [8.0, 3.0], [0.0, 5.0]]
    found, _ = play(Averaged(decay=0.5), models)
    assert [model.values.tolist() for model in found] == [[4, 1], [6, 2], [3, 3.5]]
    assert [model.counters.tolist() for model in found] == [[0], [1], [2]]
    found, _ = play(Averaged("tail"), models)
    assert [model.values.tolist() for model in found] == [[4, 1], [6, 2], [4, 3]]


@pytest.mark.parametrize("kind", ["exponential", "tail"])
def test_until_the_start_it_is_the_model(kind):
    found, _ = play(Averaged(kind, decay=0.5, start=1), [[4.0, 0.0], [8.0, 0.0], [2.0, 0.0]])
    assert [model.values[0] for model in found] == [4, 8, 5]


def test_no_decay_is_the_model_itself():
    models = np.random.default_rng(0).standard_normal((5, 2)).astype(np.float32).tolist()
    found, state = play(Averaged(decay=0.0), models)
    assert [model.values.tolist() for model in found] == models
    assert state["averaged"].dtype == np.float64


EXPERIMENT = {
    "rounds": 4,
    "model": "digits_mlp",
    "data": {"name": "digits", "partition": "dirichlet_balanced", "clients": 6, "alpha": 0.3},
    "method": {"name": "fedavgm", "cohort": 3, "lr": 0.1, "server": {"name": "averaged", "kind": "tail"}},
}


def test_beside_the_model_and_after_an_interruption(tmp_path):
    """The run is that of the other rule, to the last bit; the average is evaluated beside it, and resumed exactly."""
    long, short = parse(EXPERIMENT), parse(EXPERIMENT, ["rounds=2"])
    plain = parse(EXPERIMENT, ["method.server=momentum"])
    folders = [RunFolder(tmp_path / name) for name in ("whole", "halves", "plain")]
    summary = run(long, folders[0], backend=InlineBackend())
    run(short, folders[1], backend=InlineBackend())
    run(long, folders[1], backend=InlineBackend(), resume=True)
    run(plain, folders[2], backend=InlineBackend())
    whole, halves, other = ([replace(record, seconds={}) for record in folder.records()] for folder in folders)
    assert long.method.recipe.server == Averaged("tail", server=Momentum())
    assert whole == halves
    assert [replace(record, averaged=None) for record in whole] == other
    assert whole[0].averaged == whole[0].test
    assert whole[3].averaged not in (None, whole[3].test)
    assert summary["accuracy_averaged"] == whole[3].averaged.accuracy
    assert "accuracy_averaged" not in folders[2].summary()


def test_it_asks_for_what_the_other_rule_asks_for():
    part = Averaged(server=Scaffold())
    assert part.client == Scaffold().client
    assert part.sees == Scaffold().sees
    assert build("server", {"name": "averaged", "server": "scaffold"}) == part
    assert Average().beside({}) is None


def test_peers_have_no_place_for_it():
    with pytest.raises(ConfigError, match="server rule 'averaged' needs a server"):
        parse({**EXPERIMENT, "topology": {"kind": "ring"}})


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"decay": 1.0}, "decay = 1.0 must be at least 0 and below 1"),
        ({"start": -1}, "start = -1 is the number of a round"),
        ({"server": "averaged"}, "an average of averages"),
        ({"kind": "mean"}, "kind"),
    ],
)
def test_bad_options(options, words):
    with pytest.raises(ConfigError, match=words):
        build("server", {"name": "averaged", **options})
