"""Real peers, each a process, against the simulation of the same peers.

    python benchmarks/real_peers.py [--peers 10] [--rounds 5] [--topology full]

FedAvg on the digits (8x8, 4,810 parameters), one epoch in batches of 16. The same work with p2pfl: sides/p2pfl_side.py.
"""

import argparse
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from entrofed.experiment.config import parse, to_toml
from entrofed.experiment.run_folder import RunFolder
from entrofed.experiment.runner import run
from entrofed.peer.new import new_trial

COMMAND = "import sys; from entrofed.cli.main import main; main(sys.argv[1:])"


def seconds(folders: list[Path]) -> float:
    """The median round, without the first, in which peers wait for each other's start."""
    records = [record for path in folders for record in RunFolder(path).records()[1:]]
    return float(np.median([sum(lap for phase, lap in one.seconds.items() if phase != "clients") for one in records]))


def measure(peers: int, rounds: int, topology: str, folder: Path) -> None:
    """Play them, and print how long it took."""
    experiment = parse(
        {
            "rounds": rounds,
            "model": "digits_mlp",
            "data": {"name": "digits", "clients": peers},
            "method": {"name": "fedavg", "batch_size": 16, "lr": 0.05},
            "topology": {"kind": topology},
        }
    )
    file = folder / "experiment.toml"
    file.write_text(to_toml(experiment))
    paths = new_trial(folder / "trial", peers=peers, file=file)
    began = time.perf_counter()
    started = [subprocess.Popen([sys.executable, "-c", COMMAND, "peer", "run", path]) for path in paths]
    codes = [process.wait() for process in started]
    if any(codes):
        raise SystemExit("a peer has failed")
    whole = time.perf_counter() - began
    run(experiment, RunFolder(folder / "simulation"))
    real, simulated = seconds([path / "run" for path in paths]), seconds([folder / "simulation"])
    print(f"{peers} peers, {topology}: {real:.2f} s per round, {whole:.1f} s in all; simulated {simulated:.2f} s")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--peers", type=int, default=10)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--topology", default="full")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as place:
        measure(options.peers, options.rounds, options.topology, Path(place))
