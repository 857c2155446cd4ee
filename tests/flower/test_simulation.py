"""On Flower's simulation runtime, with its own messages, nodes and processes.

Ray and its workers take most of the time, so one simulation plays both: an experiment file, and then a strategy.
"""

import os
from dataclasses import replace

import pytest

pytest.importorskip("flwr", reason="needs the extra flower")
pytest.importorskip("ray", reason="needs the extra ray")

import numpy as np
from flwr.clientapp import ClientApp
from tests.flower.fake import TRAINING, digits, shards_task

from entrofed.backends.inline import InlineBackend
from entrofed.experiment.build import prepare
from entrofed.experiment.checkpoint import Checkpoints
from entrofed.experiment.client_state import ClientStateStore
from entrofed.experiment.run_folder import RunFolder
from entrofed.experiment.runner import run
from entrofed.flower import EntroStrategy, client_app
from entrofed.flower import experiment as on_flower
from entrofed.flower.arrays import Format

pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore"),  # Ray's own
    pytest.mark.xdist_group("ray"),  # one cluster at a time
]
EXPERIMENT = digits("fedentopt").model_copy(update={"rounds": 2})


class Marked:
    """A grid whose messages say that they are the strategy's."""

    def __init__(self, grid):
        self._grid = grid

    def __getattr__(self, name):
        return getattr(self._grid, name)

    def push_messages(self, messages):
        messages = list(messages)
        for message in messages:
            message.content["config"]["by"] = "strategy"
        return self._grid.push_messages(messages)


class Either(ClientApp):
    """The experiment's app, and for the messages of the strategy the one that a user writes."""

    def __init__(self, experiments, users):
        super().__init__()
        self._experiments, self._users = experiments, users

    def __call__(self, message, context):
        app = self._users if "by" in message.content["config"] else self._experiments
        return app(message, context)


@pytest.fixture(scope="module")
def here(tmp_path_factory):
    """The experiment as it is played in this process."""
    folder = RunFolder(tmp_path_factory.mktemp("here"))
    run(EXPERIMENT, folder, backend=InlineBackend())
    return folder


@pytest.fixture(scope="module")
def there(tmp_path_factory):
    """What came of one simulation: the summary and folder of the experiment, the strategy and its result."""
    setup, folder = prepare(EXPERIMENT), tmp_path_factory.mktemp("there")
    strategy = EntroStrategy("fedentopt", seed=5, nodes=6, classes=10, cohort=3, **TRAINING)
    play_on, experiment_client, results = on_flower.play_on, on_flower.experiment_client, []

    def play_both(grid, *args, **options):
        summary = play_on(grid, *args, **options)
        arrays = Format.by_layout(setup.layout).write(setup.params)
        results.append(strategy.start(Marked(grid), arrays, num_rounds=2, timeout=120))
        return summary

    with pytest.MonkeyPatch.context() as patch:
        for name, value in {
            "FLWR_TELEMETRY_ENABLED": "0",
            "FLWR_DISABLE_UPDATE_CHECK": "1",
            "FLWR_HOME": str(folder / "flwr"),
            "RAY_USAGE_STATS_ENABLED": "0",
            "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
            "PYTHONPATH": os.getcwd(),  # the clients' processes find the tests
        }.items():
            patch.setenv(name, value)
        patch.setattr(on_flower, "play_on", play_both)
        users = client_app(shards_task(setup))
        patch.setattr(on_flower, "experiment_client", lambda source: Either(experiment_client(source), users))
        summary = on_flower.simulate(EXPERIMENT, RunFolder(folder / "run"))
    (result,) = results
    return summary, RunFolder(folder / "run"), strategy, result


def test_an_experiment_file(here, there):
    summary, folder, _, _ = there
    ours, theirs = ([replace(record, seconds={}) for record in run.records()] for run in (here, folder))
    assert theirs == ours
    assert summary["rounds"] == len(ours) == 2


def test_a_server_app_with_our_strategy(here, there):
    _, _, strategy, result = there
    records = [record.to_json() for record in here.records()]
    assert [record["cohort"] for record in strategy.records] == [record["cohort"] for record in records]
    assert [record["clients"] for record in strategy.records] == [record["clients"] for record in records]
    assert set(result.evaluate_metrics_clientapp) == {1, 2}
    layout, store = prepare(EXPERIMENT).layout, ClientStateStore(here.path / "memory", 0)
    state, _ = Checkpoints(here.checkpoints, layout, store).last()
    for name, tensor in layout.split(state.params).items():
        np.testing.assert_array_equal(tensor, result.arrays[name].numpy())
