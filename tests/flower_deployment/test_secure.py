"""TLS, and nodes that are known by their keys: who is not registered stays out."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("flwr", reason="needs the extra flower")

from tests.flower_deployment.deployment import PATIENCE, Deployment, lines

from entrofed.flower.new import new_app

pytestmark = [
    pytest.mark.xdist_group("flower"),
    pytest.mark.skipif(not sys.platform.startswith("linux"), reason="finds processes in /proc"),
]
MAKE_KEYS = Path(__file__).parents[2] / "examples" / "flower-secure" / "make_keys.py"


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


def test_only_registered_nodes_take_part(federation, tmp_path):
    keys, folder = tmp_path / "keys", tmp_path / "run"
    new_app(tmp_path / "my-app")
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
    config = {"method": "fedavg", "num_rounds": 1, "nodes": 2, "cohort": 1.0}
    run_id = federation.submit(tmp_path / "my-app", folder=str(folder), **config)
    for name, (process, message) in refused.items():
        assert process.wait(PATIENCE) == 1
        assert message in federation.log(name)
    assert federation.finish(run_id) == "finished:completed"
    assert json.loads((folder / "clients.json").read_text())["names"] == ["0", "1"]
    (record,) = lines(folder / "metrics.jsonl")
    assert sorted(client["client"] for client in record["clients"]) == [0, 1]
    assert federation.nodes() == ["online", "online"]


def test_keys_are_private_and_never_replaced(tmp_path):
    make_keys(tmp_path / "keys", 1)
    before = {path.name: path.read_bytes() for path in (tmp_path / "keys").iterdir()}
    assert set(before) == {"ca.crt", "ca.key", "server.pem", "server.key", "node-0", "node-0.pub"}
    make_keys(tmp_path / "keys", 2)
    after = {path.name: path.read_bytes() for path in (tmp_path / "keys").iterdir()}
    assert set(after) - set(before) == {"node-1", "node-1.pub"}
    assert before.items() <= after.items()
    assert {path.stat().st_mode & 0o077 for path in (tmp_path / "keys").iterdir()} == {0}
