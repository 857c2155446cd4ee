"""TLS, and nodes known by their keys: an experiment is the same as here, and who is not registered stays out."""

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("flwr", reason="needs the extra flower")

from tests.flower_deployment.deployment import PATIENCE, Deployment

from entrofed.experiment.build import prepare
from entrofed.experiment.checkpoint import Checkpoints
from entrofed.experiment.client_state import ClientStateStore
from entrofed.experiment.config import read
from entrofed.experiment.run_folder import RunFolder
from entrofed.experiment.runner import run

pytestmark = [
    pytest.mark.slow,
    pytest.mark.xdist_group("flower"),  # one federation at a time
    pytest.mark.skipif(not sys.platform.startswith("linux"), reason="finds processes in /proc"),
]
MAKE_KEYS = Path(__file__).parents[2] / "examples" / "flower-secure" / "make_keys.py"
APP = """
[project]
name = "experiment"
version = "1.0.0"
license = "Apache-2.0"
[tool.flwr.app]
publisher = "me"
[tool.flwr.app.components]
serverapp = "entrofed.flower.app:server"
clientapp = "entrofed.flower.app:client"
[tool.flwr.app.config]
experiment = ""
out = ""
data-dir = ""
"""
EXPERIMENT = """
name = "same"
seed = 3
rounds = 2
model = "digits_mlp"
[data]
name = "digits"
partition = "dirichlet_balanced"
clients = 2
alpha = 0.3
[method]
name = "fedentopt"
cohort = 2
server = "scaffold"
lr = 0.05
"""


def make_keys(folder: Path, nodes: int) -> None:
    subprocess.run([sys.executable, MAKE_KEYS, folder, "--nodes", str(nodes)], check=True)


@pytest.fixture
def federation(tmp_path):
    make_keys(tmp_path / "keys", 3)
    deployment = Deployment(tmp_path / "flower", tmp_path / "keys")
    try:
        deployment.link()
        yield deployment
    finally:
        deployment.show()
        deployment.stop()


def test_an_experiment_is_the_same_as_here_and_only_registered_nodes_take_part(federation, tmp_path):
    keys = tmp_path / "keys"
    for number in range(2):
        federation.flwr("supernode", "register", str(keys / f"node-{number}.pub"), "here")
        federation.node(f"node-{number}", f"partition-id={number} num-partitions=3", key=keys / f"node-{number}")
    make_keys(tmp_path / "others", 0)
    third = "partition-id=2 num-partitions=3"
    refused = {
        "unregistered": (federation.node("unregistered", third, key=keys / "node-2"), "2004"),
        "keyless": (federation.node("keyless", third), "2001"),
        "deceived": (
            federation.node("deceived", third, key=keys / "node-0", authority=tmp_path / "others" / "ca.crt"),
            "CERTIFICATE_VERIFY_FAILED",
        ),
    }
    file, app = tmp_path / "same.toml", tmp_path / "app"
    file.write_text(EXPERIMENT)
    app.mkdir()
    (app / "pyproject.toml").write_text(APP)
    run_id = federation.submit(app, experiment=str(file), out=str(tmp_path / "deployed"))
    here, there = RunFolder(tmp_path / "inline"), RunFolder(tmp_path / "deployed" / "same" / "seed-3")
    experiment = read(file)
    run(experiment, here)
    for name, (process, message) in refused.items():
        assert process.wait(PATIENCE) == 1
        assert message in federation.log(name)
    assert federation.finish(run_id) == "finished:completed"
    assert federation.nodes() == ["online", "online"]

    ours, theirs = ([replace(record, seconds={}) for record in folder.records()] for folder in (here, there))
    assert theirs == ours
    assert [sorted(client.client for client in record.clients) for record in theirs] == [[0, 1]] * 2
    layout = prepare(experiment).layout
    models = []
    for folder in (here, there):
        store = ClientStateStore(folder.path / "memory", 1e6)
        state, problems = Checkpoints(folder.checkpoints, layout, store).last()
        assert state is not None
        assert (state.round, problems) == (2, [])
        models.append(state.params.values)
    np.testing.assert_array_equal(*models)


def test_keys_are_private_and_never_replaced(tmp_path):
    make_keys(tmp_path / "keys", 1)
    before = {path.name: path.read_bytes() for path in (tmp_path / "keys").iterdir()}
    assert set(before) == {"ca.crt", "ca.key", "server.pem", "server.key", "node-0", "node-0.pub"}
    make_keys(tmp_path / "keys", 2)
    after = {path.name: path.read_bytes() for path in (tmp_path / "keys").iterdir()}
    assert set(after) - set(before) == {"node-1", "node-1.pub"}
    assert before.items() <= after.items()
    assert {path.stat().st_mode & 0o077 for path in (tmp_path / "keys").iterdir()} == {0}
