"""``make soak``: a campaign against the promises of docs/reliability.md, for as long as it is given.

``SOAK=10min SEED=0 make soak`` plays hostile updates and facts, mutated files, kills, full disks and schedules of
faults by turns, and writes what came of it, counted, to ``soak.json``. Exit code 1 if anything did not hold.
"""

import json
import logging
import os
import re
import sys
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import torch
from tests.soak import folders, hostile, words

from entrofed.backends.processes import ProcessBackend

SHARES = {"hostile": 0.4, "words": 0.1, "mutations": 0.2, "kills": 0.15, "workers": 0.05, "disks": 0.05, "faults": 0.05}
BAD = ("nonfinite", "poisoned", "raised", "silent", "different", "failed")
"""What must not happen."""


def seconds(budget: str) -> float:
    """A budget such as ``90s``, ``10min`` or ``1h``.

    >>> seconds("10min")
    600.0
    """
    found = re.fullmatch(r"(\d+(?:\.\d+)?)\s*(s|min|h)", budget)
    if found is None:
        raise SystemExit(f"SOAK={budget}: a time such as 90s, 10min or 1h is expected")
    return float(found[1]) * {"s": 1, "min": 60, "h": 3600}[found[2]]


def main() -> None:
    """Play the campaigns by turns, each with its share of the time."""
    torch.set_num_threads(1)
    logging.getLogger("entrofed").setLevel(logging.CRITICAL)
    budget, first = seconds(os.environ.get("SOAK", "10min")), int(os.environ.get("SEED", "0"))
    backend = ProcessBackend(2)
    campaigns: dict[str, Callable[[int], dict[str, int]]] = {
        "hostile": hostile.campaign,
        "words": words.campaign,
        "mutations": folders.mutations,
        "kills": folders.kills,
        "workers": lambda seed: folders.worker_kills(seed, backend),
        "disks": folders.full_disks,
        "faults": folders.schedules,
    }
    counts = {name: Counter[str]() for name in campaigns}
    spent, turns = dict.fromkeys(campaigns, 0.0), dict.fromkeys(campaigns, 0)
    began = time.monotonic()
    try:
        while time.monotonic() - began < budget:
            name = min(campaigns, key=lambda name: spent[name] / SHARES[name])
            start = time.monotonic()
            counts[name].update(campaigns[name](first + turns[name]))
            logging.getLogger("entrofed").setLevel(logging.CRITICAL)
            spent[name] += time.monotonic() - start
            turns[name] += 1
    finally:
        backend.close()
        broken = sum(counts[name][what] for name in counts for what in BAD)
        report = {
            "seconds": round(time.monotonic() - began, 1),
            "seeds": {name: [first, first + turns[name]] for name in turns},
            "counts": {name: dict(found) for name, found in counts.items()},
            "did not hold": broken,
        }
        Path("soak.json").write_text(json.dumps(report, indent=2) + "\n")
        sys.stdout.write(json.dumps(report, indent=2) + "\n")
    sys.exit(1 if broken else 0)


if __name__ == "__main__":
    main()
