"""A decentralized round of many peers: time against the number of edges.

    python benchmarks/peers.py [--peers 1000] [--degrees 2 4 8 16] [--rounds 3]

A tiny network (8x8 digits, 4,810 parameters), one epoch on few samples, regular graphs; two workers. Best of the
rounds; training and pooling apart, since training does not depend on the edges.
"""

import argparse
import tempfile
from pathlib import Path

import numpy as np

from entrofed.backends.processes import ProcessBackend
from entrofed.experiment.config import parse
from entrofed.experiment.run_folder import RunFolder
from entrofed.experiment.runner import run


def measure(peers: int, degree: int, rounds: int, backend: ProcessBackend) -> None:
    """Play some rounds and print their best times."""
    experiment = parse(
        {
            "rounds": rounds,
            "evaluate_every": rounds,
            "data": {"name": "digits", "clients": peers},
            "method": {"name": "fedep", "lr": 0.1},
            "topology": {"kind": "regular", "degree": degree},
        }
    )
    with tempfile.TemporaryDirectory() as folder:
        run(experiment, RunFolder(Path(folder)), backend=backend)
        seconds = [record.seconds for record in RunFolder(Path(folder)).records()]
    train = min(lap["train"] for lap in seconds)
    pool = min(lap["aggregate"] for lap in seconds)
    edges = peers * degree // 2
    per_edge = 1e6 * pool / (2 * edges + peers)
    print(f"{peers:6} peers {edges:7} edges: training {train:6.2f} s, pooling {pool:6.2f} s ({per_edge:5.1f} us each)")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--peers", type=int, default=1000)
    parser.add_argument("--degrees", type=int, nargs="+", default=[2, 4, 8, 16])
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    workers = ProcessBackend(2)
    try:
        for number in np.unique(options.degrees):
            measure(options.peers, int(number), options.rounds, workers)
    finally:
        workers.close()
