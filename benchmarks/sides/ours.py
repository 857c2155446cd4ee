"""EntroFed. ``python benchmarks/sides/ours.py CASE [BACKEND] [METHOD] [STACK]``."""

import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from cases import LR, Case, samples, told

from entrofed.data.federation import Federation
from entrofed.experiment.build import prepare
from entrofed.experiment.config import parse
from entrofed.experiment.run_folder import RunFolder
from entrofed.experiment.runner import run

BACKEND = sys.argv[2] if len(sys.argv) > 2 else "auto"
METHOD = sys.argv[3] if len(sys.argv) > 3 else ""
STACK = {"true": True, "false": False}.get(sys.argv[4], "auto") if len(sys.argv) > 4 else "auto"


def network(case: Case) -> Any:
    """A name that we know, or the layers."""
    if not case.widths:
        return case.network
    layers: list[torch.nn.Module] = []
    for inputs, outputs in zip(case.widths, case.widths[1:], strict=False):
        layers += [torch.nn.Linear(inputs, outputs), torch.nn.ReLU()]
    return torch.nn.Sequential(*layers[:-1])


def play(case: Case, ended: Callable[[], None]) -> None:
    """The experiment, in a folder of its own."""
    x, y, test_x, test_y = samples(case)
    federation = Federation.partition(x, y, "contiguous", clients=case.clients, test=(test_x, test_y), normalize="unit")
    method = METHOD or ("fedep" if case.peers else "fedavg")
    table = {
        "rounds": case.rounds,
        "evaluate_every": case.rounds,
        "data": {"name": "digits", "clients": case.clients},
        "method": {"name": method, "epochs": case.epochs, "batch_size": case.batch, "lr": LR},
        "engine": {"backend": BACKEND, "workers": 2, "stack": STACK},
    }
    if case.peers:
        table["topology"] = {"kind": "regular", "degree": case.peers}
    else:
        table["method"]["cohort"] = case.cohort  # type: ignore[index]
    experiment = parse(table)
    setup = prepare(experiment, federation=federation, model=network(case))
    with tempfile.TemporaryDirectory() as folder:
        run(experiment, RunFolder(Path(folder) / "seed-0"), setup=setup, observer=lambda record: ended())


if __name__ == "__main__":
    told(play)
