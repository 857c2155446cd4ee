"""What all peers of a run have in common, as digests that two of them compare before anything else."""

import json
from collections.abc import Mapping
from hashlib import sha256
from typing import Any

from entrofed.data.tabular.encode import feature_names
from entrofed.experiment.build import Setup

LOCAL = ("name", "data", "engine", "evaluate_every", "evaluate_last", "metrics", "given")
"""What each peer decides for itself."""
WORDS = {
    "experiment": "the experiment (rounds, seed, method, topology, faults, privacy)",
    "model": "the network's tensors",
    "classes": "the classes, or their order",
    "features": "the features: names, categories, shape",
    "data": "the data that is dealt out",
}


def agreed_on(setup: Setup, *, own_data: bool) -> dict[str, str]:
    """A digest for each thing that peers must agree on; ``data`` only where all take their share of the same."""
    settings = setup.experiment.decisive()
    data = setup.federation.data
    columns = data.preprocessing.get("columns", ())
    common = {key: value for key, value in settings.items() if key not in LOCAL}
    if common.get("topology"):
        common["topology"] = {**common["topology"], "path": None}
    found: dict[str, Any] = {
        "experiment": common,
        "model": [(entry.name, entry.kind, entry.shape) for entry in setup.layout.entries],
        "classes": data.classes,
        "features": [data.kind, data.train_x.shape[1:], feature_names(columns)],
    }
    if not own_data:
        found["data"] = settings["data"]
    return {name: sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()[:16] for name, value in found.items()}


def difference(ours: Mapping[str, str], theirs: Mapping[str, str]) -> str | None:
    """What two peers do not agree on, or None.

    >>> difference({"model": "a", "data": "b"}, {"model": "a"})
    >>> difference({"model": "a"}, {"model": "c"})
    "the two peers do not agree on the network's tensors"
    """
    optional = {"data"}
    keys = [key for key in WORDS if key in ours and key in theirs] + sorted((set(ours) ^ set(theirs)) - optional)
    differing = [WORDS.get(key, key) for key in keys if ours.get(key) != theirs.get(key)]
    return f"the two peers do not agree on {'; '.join(differing)[:500]}" if differing else None
