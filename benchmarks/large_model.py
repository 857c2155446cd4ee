"""Peak memory of a run with a large model, in models: ``python benchmarks/large_model.py [PARAMETERS]``.

Ten clients train in this process, all of them in every round. What can be told beforehand: ten updates, the model
before and after, and the network that trains are 13.
"""

import resource
import sys
import tempfile
from pathlib import Path

import numpy as np
import torch

from entrofed.data.federation import Federation
from entrofed.experiment.build import prepare
from entrofed.experiment.config import parse
from entrofed.experiment.run_folder import RunFolder
from entrofed.experiment.runner import run

CLIENTS = 10


def peak() -> int:
    """Bytes of this process, at most until now."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def main(parameters: int = 100_000_000) -> None:
    """Play three rounds, and print what they took."""
    torch.set_num_threads(1)
    rng = np.random.default_rng(0)
    x, y = rng.random((200, 64), np.float32), rng.integers(0, 10, 200)
    federation = Federation.partition(x, y, "contiguous", clients=CLIENTS, test=(x[:20], y[:20]), normalize="unit")
    width = round((parameters / 2) ** 0.5)

    def network() -> torch.nn.Module:
        layers = [torch.nn.Linear(64, width), torch.nn.ReLU(), torch.nn.Linear(width, 2 * width), torch.nn.ReLU()]
        return torch.nn.Sequential(*layers, torch.nn.Linear(2 * width, 10))

    experiment = parse(
        {
            "rounds": 3,
            "data": {"name": "digits", "clients": CLIENTS},
            "method": {"name": "fedavg", "cohort": CLIENTS, "batch_size": 10, "lr": 0.01},
            "engine": {"backend": "inline"},
        }
    )
    before = peak()
    setup = prepare(experiment, federation=federation, model=network)
    with tempfile.TemporaryDirectory() as folder:
        run(experiment, RunFolder(Path(folder) / "seed-0"), setup=setup)
    models = (peak() - before) / setup.layout.nbytes
    print(f"{setup.layout.trainable:,} parameters, {CLIENTS} clients: {models:.1f} models at most")


if __name__ == "__main__":
    main(*(int(float(word)) for word in sys.argv[1:2]))
