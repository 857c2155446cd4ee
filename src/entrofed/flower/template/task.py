"""What is learned, and from what: replace this file's functions with your own."""

import numpy as np
import torch
from flwr.app import ArrayRecord, Context, MetricRecord
from numpy.typing import NDArray

from entrofed.data.catalog import load
from entrofed.experiment.build import federate
from entrofed.experiment.sections.data import DataSection
from entrofed.flower import LocalData
from entrofed.models.networks import build

# Digits that come with scikit-learn. For MNIST: "mnist" (`entrofed data fetch mnist`), "lenet5", (1, 28, 28).
DATA, MODEL, SHAPE, CLASSES = "digits", "digits_mlp", (1, 8, 8), 10


def model() -> torch.nn.Module:
    """The model that is trained: any torch module whose output are logits."""
    return build(MODEL, SHAPE, CLASSES)


def local_data(context: Context) -> LocalData:
    """What one client holds: here one of ``num-partitions`` skewed shards.

    With data of your own, read it here, where the client runs; nothing but models and label counts leaves it.
    """
    clients, client = int(context.node_config["num-partitions"]), int(context.node_config["partition-id"])
    section = DataSection(name=DATA, partition="dirichlet_balanced", clients=clients, alpha=0.3, holdout=0.2)
    dealt = federate(section, seed=0)
    x, y = inputs(dealt.data.train_x, dealt.data.full_scale), dealt.data.train_y
    train, test = dealt.shards[client], dealt.holdouts[client]
    return LocalData(x[train], y[train], x[test], y[test], CLASSES)


def inputs(pixels: NDArray[np.generic], full_scale: float) -> NDArray[np.float32]:
    """Pixels as the model takes them, 0..1."""
    return pixels.astype(np.float32) / np.float32(full_scale)


def evaluate(server_round: int, arrays: ArrayRecord) -> MetricRecord:
    """How good a model is, on the server's test data."""
    data, network = load(DATA), model().eval()
    network.load_state_dict(arrays.to_torch_state_dict())
    with torch.no_grad():
        logits, y = network(torch.from_numpy(inputs(data.test_x, data.full_scale))), torch.from_numpy(data.test_y)
        loss, accuracy = torch.nn.functional.cross_entropy(logits, y), (logits.argmax(1) == y).float().mean()
    return MetricRecord({"loss": loss.item(), "accuracy": accuracy.item()})
