"""On Flower's simulation runtime, with its own messages, nodes and processes."""

import os

import pytest

pytest.importorskip("flwr", reason="needs the extra flower")
pytest.importorskip("ray", reason="needs the extra ray")

import numpy as np
from flwr.app import Context
from flwr.serverapp import Grid, ServerApp
from tests.flower.fake import TRAINING, digits, shards_task

from entrofed.backends.inline import InlineBackend
from entrofed.experiment.checkpoint import Checkpoints
from entrofed.experiment.client_state import Pool
from entrofed.experiment.run_folder import RunFolder
from entrofed.experiment.runner import run
from entrofed.flower import EntroStrategy, client_app
from entrofed.flower.arrays import Format
from entrofed.flower.experiment import simulate

pytestmark = [
    pytest.mark.filterwarnings("ignore"),  # Ray's own
    pytest.mark.xdist_group("ray"),  # one cluster at a time
]


@pytest.fixture
def quiet_flower(monkeypatch, tmp_path):
    for name, value in {
        "FLWR_TELEMETRY_ENABLED": "0",
        "FLWR_DISABLE_UPDATE_CHECK": "1",
        "FLWR_HOME": str(tmp_path / "flwr"),
        "RAY_USAGE_STATS_ENABLED": "0",
        "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
    }.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("PYTHONPATH", os.getcwd())  # the clients' processes find the tests


@pytest.fixture
def experiment(tmp_path):
    found = digits("fedentopt").model_copy(update={"rounds": 2})
    run(found, RunFolder(tmp_path / "here"), backend=InlineBackend())
    return found


def test_an_experiment_file(experiment, tmp_path, quiet_flower):
    summary = simulate(experiment, RunFolder(tmp_path / "there"))
    here, there = RunFolder(tmp_path / "here").records(), RunFolder(tmp_path / "there").records()
    assert [{**record, "seconds": 0} for record in here] == [{**record, "seconds": 0} for record in there]
    assert summary["rounds"] == 2


def test_a_server_app_with_our_strategy(experiment, tmp_path, quiet_flower):
    from flwr.simulation import run_simulation

    from entrofed.experiment.build import prepare

    setup = prepare(experiment)
    server, found = ServerApp(), []

    @server.main()
    def main(grid: Grid, context: Context) -> None:
        strategy = EntroStrategy("fedentopt", seed=5, nodes=6, classes=10, cohort=3, **TRAINING)
        arrays = Format.by_layout(setup.layout).write(setup.params)
        found.append((strategy, strategy.start(grid, arrays, num_rounds=2, timeout=120)))

    run_simulation(
        server,
        client_app(shards_task(setup)),
        num_supernodes=6,
        backend_config={
            "init_args": {"num_cpus": 2, "include_dashboard": False, "logging_level": "ERROR"},
            "client_resources": {"num_cpus": 1, "num_gpus": 0.0},
        },
    )
    ((strategy, result),) = found
    here = RunFolder(tmp_path / "here").records()
    assert [record["cohort"] for record in strategy.records] == [record["cohort"] for record in here]
    assert [record["clients"] for record in strategy.records] == [record["clients"] for record in here]
    assert set(result.evaluate_metrics_clientapp) == {1, 2}
    pool = Pool(tmp_path / "here" / "memory", 0)
    state, _ = Checkpoints(tmp_path / "here" / "checkpoints", setup.layout, pool).last()
    for name, tensor in setup.layout.split(state.params).items():
        np.testing.assert_array_equal(tensor, result.arrays[name].numpy())
