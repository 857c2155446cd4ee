"""Flower deployed: processes that die, and a server that goes on."""

import json
import os
import shutil
import signal
import sys
from pathlib import Path

import pytest

pytest.importorskip("flwr", reason="needs the extra flower")

from tests.flower_deployment.deployment import Deployment, lines, until

from entrofed.flower.new import new_app

pytestmark = [
    pytest.mark.slow,
    pytest.mark.xdist_group("flower"),  # one federation at a time
    pytest.mark.skipif(not sys.platform.startswith("linux"), reason="finds processes in /proc"),
]
EXAMPLES = Path(__file__).parents[2] / "examples"
NODES = 2


@pytest.fixture(scope="module")
def federation(tmp_path_factory):
    """A SuperLink and its SuperNodes."""
    deployment = Deployment(tmp_path_factory.mktemp("flower"))
    try:
        deployment.link()
        for number in range(NODES):
            deployment.node(f"node-{number}", f"partition-id={number} num-partitions={NODES}")
        yield deployment
    finally:
        deployment.stop()


@pytest.fixture(autouse=True)
def logs(federation):
    """Logs are printed; pytest shows them if a test fails."""
    yield
    federation.show()


@pytest.fixture(scope="module")
def app(tmp_path_factory):
    folder = tmp_path_factory.mktemp("apps") / "my-app"
    new_app(folder)
    return folder


def test_a_node_dies_and_comes_back(federation, app, tmp_path):
    """By the fourth round Flower no longer takes the node for online: one whole round waits for it to the deadline, and
    the next until its heartbeat is missed, at most a minute after its death."""
    folder, rounds = tmp_path / "run", 4
    config = {"method": "fedavg", "num_rounds": rounds, "nodes": NODES, "cohort": 1.0, "deadline": 30.0}
    run_id = federation.submit(app, folder=str(folder), **config)
    until("the first round is over", lambda: lines(folder / "metrics.jsonl"))
    federation.started["node-1"].kill()
    federation.node("node-1-again", f"partition-id=1 num-partitions={NODES}")
    assert federation.finish(run_id, 400.0) == "finished:completed"
    assert sorted(federation.nodes()) == ["offline", "online", "online"]  # it is a new node for Flower

    records = lines(folder / "metrics.jsonl")
    assert [record["round"] for record in records] == list(range(rounds))
    trained = [{client["client"] for client in record["clients"]} for record in records]
    assert trained[0] == {0, 1}
    assert {0} in trained  # without it
    assert trained[-1] == {0, 1}
    assert all(set(record["names"]) <= {"0", "1"} for record in records)
    assert json.loads((folder / "clients.json").read_text())["names"] == ["0", "1"]


def test_the_server_dies_and_goes_on(federation, tmp_path):
    """With the example whose training loop is the user's own."""
    app, folder = tmp_path / "quickstart", tmp_path / "run"
    shutil.copytree(EXAMPLES / "flower-quickstart", app, ignore=shutil.ignore_patterns("__pycache__"))
    config = {"folder": str(folder), "fraction_train": 0.5}
    federation.submit(app, num_rounds=50, **config)
    until("the first round is kept", lambda: list((folder / "checkpoints").glob("round-*.json")))
    until("a client of the second round is at work", lambda: federation.processes("flwr-clientapp"))
    (server,) = federation.processes("flwr-serverapp")
    os.kill(server, signal.SIGKILL)
    until("the ServerApp has ended", lambda: not federation.processes("flwr-serverapp"))
    before = (folder / "metrics.jsonl").read_text()
    done = max(int(path.stem[-6:]) for path in (folder / "checkpoints").glob("round-*.json"))

    run_id = federation.submit(app, num_rounds=done + 1, **config)
    assert federation.finish(run_id) == "finished:completed"
    records = lines(folder / "metrics.jsonl")
    assert [record["round"] for record in records] == list(range(done + 1))
    assert (folder / "metrics.jsonl").read_text().startswith("".join(before.splitlines(True)[:done]))
    kept = sorted(path.name for path in (folder / "checkpoints").glob("round-*.json"))
    assert kept == [f"round-{number:06d}.json" for number in (done, done + 1)]
