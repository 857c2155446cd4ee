"""Every method there is: the same bits on every backend, and after any interruption."""

from dataclasses import replace

import numpy as np
import pytest

from entrofed.backends.inline import InlineBackend
from entrofed.experiment.build import prepare
from entrofed.experiment.checkpoint import Checkpoints
from entrofed.experiment.client_state import ClientStateStore
from entrofed.experiment.config import parse
from entrofed.experiment.run_folder import RunFolder
from entrofed.experiment.runner import run
from entrofed.registry import known

OPTIONS = {"fedconcat": {"server": {"name": "concat", "clusters": 2, "encoder_rounds": 2}}}


def experiment(method, rounds, **more):
    return parse(
        {
            "rounds": rounds,
            "seed": 4,
            "model": "digits_mlp",
            "data": {
                "name": "digits",
                "partition": "dirichlet_balanced",
                "clients": 8,
                "alpha": 0.3,
                "validation": 0.05,
            },
            "method": {"name": method, "cohort": 3, "lr": 0.1, "momentum": 0.5, **OPTIONS.get(method, {}), **more},
            "faults": {"dropout": 0.3},
        }
    )


def outcome(folder, chosen):
    """The last state and the records, but for the seconds."""
    store = ClientStateStore(folder.path / "memory", 0)
    state, problems = Checkpoints(folder.checkpoints, prepare(chosen).layout, store).last()
    assert not problems
    return state, [replace(record, seconds={}) for record in folder.records()]


@pytest.mark.parametrize("method", sorted(known("method")))
def test_interrupted_and_spread_over_processes(tmp_path, two_workers, method):
    def interrupt(record):
        if record.round == 1:
            raise KeyboardInterrupt

    whole, halves, chosen = RunFolder(tmp_path / "whole"), RunFolder(tmp_path / "halves"), experiment(method, 4)
    run(chosen, whole, backend=InlineBackend())
    with pytest.raises(KeyboardInterrupt):
        run(chosen, halves, backend=two_workers, observer=interrupt)
    run(chosen, halves, backend=two_workers, resume=True)
    (one, records), (two, again) = outcome(whole, chosen), outcome(halves, chosen)
    assert records == again
    for kept, kept_too in ((one.selector, two.selector), (one.server, two.server)):
        assert kept.keys() == kept_too.keys()
        for name, array in kept.items():
            np.testing.assert_array_equal(array, kept_too[name])
    np.testing.assert_array_equal(one.params.values, two.params.values)
    assert sorted(one.client_states) == sorted(two.client_states)
    for client in one.client_states:
        for name, array in one.client_states[client].items():
            np.testing.assert_array_equal(array, two.client_states[client][name])


@pytest.mark.parametrize("method", ["fedavg", "moon"])
def test_an_optimizer_that_persists(tmp_path, two_workers, method):
    whole, halves = RunFolder(tmp_path / "whole"), RunFolder(tmp_path / "halves")
    long, short = (experiment(method, rounds, persist_optimizer=True) for rounds in (4, 2))
    run(long, whole, backend=InlineBackend())
    run(short, halves, backend=two_workers)
    run(long, halves, backend=two_workers, resume=True)
    assert outcome(whole, long)[1] == outcome(halves, long)[1]
