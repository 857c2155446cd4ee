"""An MLflow store in a folder: ``OUT/mlflow.db`` and ``OUT/artifacts``; no server, no network.

Look at it with ``mlflow ui --backend-store-uri sqlite:///OUT/mlflow.db``. The store knows its artifacts by their full
path: export anew instead of moving the folder.

The tag ``entrofed.digest`` tells a run's state: a run that is there in the same state is left alone; in another state,
the one that is there is deleted and the run exported anew.
"""

import logging
from hashlib import blake2b
from pathlib import Path

from entrofed.experiment.run_folder import RunFolder
from entrofed.experiment.tracked import tracked_run
from entrofed.tracking.mlflow import MLflow, private

log = logging.getLogger("entrofed")

DIGEST = "entrofed.digest"
STATE = ("experiment.toml", "metrics.jsonl", "summary.json")


def to_mlflow(runs: list[RunFolder], output: Path) -> list[Path]:
    """Write the runs into the store of the folder; returns its path."""
    store = MLflow(output)
    with private():
        for run in runs:
            _export(store, run)
    return [store.store]


def _export(store: MLflow, run: RunFolder) -> None:
    which, digest = tracked_run(run), _digest(run)
    if any(old.data.tags.get(DIGEST) == digest for old in store.earlier(which)):
        log.info("%s: is in the store already, in the same state; left alone", which.label)
        return
    store.start(which)
    store.log(run.records())
    for name in ("experiment.toml", "summary.json"):
        if (run.path / name).exists():
            store.client.log_artifact(store.key, str(run.path / name))
    store.finish(run.summary())
    store.client.set_tag(store.key, DIGEST, digest)  # last: a run without it is not whole


def _digest(run: RunFolder) -> str:
    digest = blake2b(digest_size=16)
    for name in STATE:
        path = run.path / name
        digest.update(path.read_bytes() if path.exists() else b"")
    return digest.hexdigest()
