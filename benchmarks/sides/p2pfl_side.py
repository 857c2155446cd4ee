"""p2pfl, all nodes in one process, with gRPC between them: the work of benchmarks/real_peers.py.

    python benchmarks/sides/p2pfl_side.py [--nodes 10] [--rounds 5] [--topology full]

In an environment of its own, with ``p2pfl[torch]`` (0.4.4 was tried); without rich, whose progress bars do not work in
threads.
"""

import argparse
import time
from typing import Any

from datasets import Dataset, DatasetDict
from p2pfl.settings import Settings
from sklearn.datasets import load_digits

TRAIN, TEST, LIMIT = 1437, 360, 1800
"""Samples, and seconds to wait."""


def dataset() -> Any:
    """The digits."""
    from p2pfl.learning.dataset.p2pfl_dataset import P2PFLDataset

    images, labels = load_digits(return_X_y=True)
    rows = [{"image": (x / 16).reshape(8, 8).tolist(), "label": int(y)} for x, y in zip(images, labels, strict=True)]
    parts = {"train": Dataset.from_list(rows[:TRAIN]), "test": Dataset.from_list(rows[TRAIN : TRAIN + TEST])}
    return P2PFLDataset(DatasetDict(parts), batch_size=16)


def measure(many: int, rounds: int, topology: str) -> None:
    """Play them, and print how long it took."""
    Settings.general.DISABLE_RAY = True  # before the rest is imported, which would start it
    from p2pfl.communication.protocols.protobuff.grpc import GrpcCommunicationProtocol
    from p2pfl.examples.mnist.model.mlp_pytorch import model_build_fn
    from p2pfl.learning.dataset.partition_strategies import RandomIIDPartitionStrategy
    from p2pfl.node import Node
    from p2pfl.utils.topologies import TopologyFactory, TopologyType
    from p2pfl.utils.utils import set_standalone_settings, wait_convergence, wait_to_finish

    set_standalone_settings()
    nodes = []
    for part in dataset().generate_partitions(many, RandomIIDPartitionStrategy):
        model = model_build_fn(input_size=64, hidden_sizes=[64])
        nodes.append(Node(model, part, protocol=GrpcCommunicationProtocol(), addr="127.0.0.1"))
        nodes[-1].start()
    TopologyFactory.connect_nodes(TopologyFactory.generate_matrix(TopologyType(topology), many), nodes)
    wait_convergence(nodes, many - 1, only_direct=False, wait=120)
    began = time.perf_counter()
    nodes[0].set_start_learning(rounds=rounds, epochs=1, trainset_size=many)  # all of them train, as ours do
    wait_to_finish(nodes, timeout=LIMIT)
    print(f"{many} nodes, {topology}: {(time.perf_counter() - began) / rounds:.2f} s per round")
    for node in nodes:
        node.stop()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nodes", type=int, default=10)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--topology", default="full")
    options = parser.parse_args()
    measure(options.nodes, options.rounds, options.topology)
