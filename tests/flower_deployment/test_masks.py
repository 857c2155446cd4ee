"""Secure aggregation among real processes: one is killed between sharing its keys and unmasking."""

import os
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
NODES = 3
WAITS = '''
import time
from pathlib import Path


def slow(context):
    """The last client says that it is at work, and stays there."""
    import sys

    frame, training = sys._getframe(), False
    while frame is not None:
        training, frame = training or frame.f_code.co_name == "train", frame.f_back
    if training and context.node_config["partition-id"] == 2:
        Path("MARKER").touch()
        time.sleep(600)
    return local_data(context)


app = client_app(Task(build=model, load=slow))
'''


@pytest.fixture
def federation(tmp_path: Path):
    deployment = Deployment(tmp_path / "flower")
    try:
        deployment.link()
        for number in range(NODES):
            deployment.node(f"node-{number}", f"partition-id={number} num-partitions={NODES}")
        yield deployment
        deployment.show()
    finally:
        deployment.stop()


def test_a_node_killed_before_unmasking_is_left_out_of_the_sum(federation, tmp_path):
    app, folder, marker = tmp_path / "masked-app", tmp_path / "run", tmp_path / "at-work"
    new_app(app, method="fedavg")
    server, client = app / "masked_app" / "server_app.py", app / "masked_app" / "client_app.py"
    words = server.read_text()
    assert "classes=CLASSES," in words
    server.write_text(
        words.replace("classes=CLASSES,", "classes=CLASSES, privacy={'secure': True}, weigher='uniform',")
    )
    client.write_text(client.read_text() + WAITS.replace("MARKER", str(marker)))
    config = {"method": "fedavg", "num_rounds": 1, "nodes": NODES, "cohort": 1.0, "deadline": 120.0}
    run_id = federation.submit(app, folder=str(folder), **config)
    until("the last client is at work", marker.exists, 600.0)
    last = federation.started["node-2"]
    os.killpg(last.pid, signal.SIGKILL)
    assert federation.finish(run_id, 600.0) == "finished:completed"
    (record,) = lines(folder / "metrics.jsonl")
    assert not record["skipped"]
    assert sorted(client["client"] for client in record["clients"]) == [0, 1]
    assert [one["client"] for one in record["refused"]] == [2]
    assert record["train_loss"] is None
