"""``make soak``: a campaign against the promises of docs/reliability.md, for as long as it is given.

``SOAK=10min SEED=0 make soak`` plays hostile updates and facts, mutated files, kills, full disks and schedules of
faults by turns, and writes what came of it, counted, to ``soak.json`` as it goes. Exit code 1 if anything did not hold.
A campaign that raises is told with its traceback and its seed, and left out from then on; the others go on.
"""

import json
import logging
import os
import re
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Callable
from multiprocessing.util import get_temp_dir
from pathlib import Path
from typing import Any

import torch
from tests.soak import folders, hostile, kills, words

from entrofed.backends.processes import ProcessBackend
from entrofed.files import write_whole

GOALS = {
    "hostile": ("inputs", 1_000_000),
    "words": ("facts", 100_000),
    "mutations": ("mutations", 90_000),
    "datasets": ("mutations", 10_000),
    "kills": ("kills", 1_000),
    "workers": ("worker kills", 100),
    "actors": ("clusters", 3),
    "disks": ("full disks", 100),
    "faults": ("fault rounds", 500),
}
"""What is counted of each campaign, and how much of it an hour should see: the one furthest behind has its turn."""
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
    """Play the campaigns by turns."""
    torch.set_num_threads(1)
    logging.getLogger("entrofed").setLevel(logging.CRITICAL)
    budget, first = seconds(os.environ.get("SOAK", "10min")), int(os.environ.get("SEED", "0"))
    processes = ProcessBackend(2)
    campaigns: dict[str, Callable[[int], dict[str, int]]] = {
        "hostile": hostile.campaign,
        "words": words.campaign,
        "mutations": folders.mutations,
        "datasets": folders.datasets,
        "kills": kills.runs,
        "workers": lambda seed: kills.workers(seed, processes),
        "actors": kills.actors,
        "disks": folders.full_disks,
        "faults": folders.schedules,
    }
    counts = {name: Counter[str]() for name in campaigns}
    turns, took = dict.fromkeys(campaigns, 0), dict.fromkeys(campaigns, 0.0)
    began = time.monotonic()

    def report() -> dict[str, Any]:
        return {
            "seconds": round(time.monotonic() - began, 1),
            "seconds of each": {name: round(spent, 1) for name, spent in took.items()},
            "seeds": {name: [first, first + turns[name]] for name in turns},
            "counts": {name: dict(found) for name, found in counts.items()},
            "did not hold": sum(counts[name][what] for name in counts for what in BAD),
        }

    try:
        while campaigns and time.monotonic() - began < budget:
            name = min(campaigns, key=lambda name: counts[name][GOALS[name][0]] / GOALS[name][1])
            turn = time.monotonic()
            try:
                counts[name].update(campaigns[name](first + turns[name]))
            except Exception:
                sys.stderr.write(f"{name}, seed {first + turns[name]}:\n{traceback.format_exc()}")
                counts[name]["raised"] += 1
                del campaigns[name]
            logging.getLogger("entrofed").setLevel(logging.CRITICAL)
            turns[name] += 1
            took[name] += time.monotonic() - turn
            write_whole(Path("soak.json"), json.dumps(report(), indent=2) + "\n")
    finally:
        processes.close()
    sys.stdout.write(json.dumps(report(), indent=2) + "\n")
    sys.exit(1 if report()["did not hold"] else 0)


if __name__ == "__main__":
    get_temp_dir()  # multiprocessing removes its folder at exit: let it be none below the one that is removed before
    with tempfile.TemporaryDirectory(prefix="soak-") as place:
        tempfile.tempdir = os.environ["TMPDIR"] = place  # also of processes that are killed, or started anew
        main()
