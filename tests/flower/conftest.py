"""What the tests of the Flower integration share."""

from collections.abc import Iterator

import pytest


@pytest.fixture(autouse=True)
def in_a_run(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Messages can be made as inside a run, and nobody waits longer than needed."""
    identity = pytest.importorskip("flwr.supercore.task_identity", reason="needs the extra flower").TaskIdentity
    for name in ("_run_id", "_task_id", "_node_id"):
        monkeypatch.setattr(identity, name, 1)
    monkeypatch.setattr("entrofed.flower.grid.POLL", 0.001)
    return
