"""Model, data, training and test in plain torch; nothing here knows of EntroFed."""

import numpy as np
import torch
from sklearn.datasets import load_digits
from torch import Tensor, nn

CLASSES = 10
TEST = 360
"""Samples that the server tests with; the clients share the others."""


class Net(nn.Module):
    """A small convolutional network for 8x8 digits."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(1, 16, 3, padding=1)
        self.hidden = nn.Linear(16 * 4 * 4, 64)
        self.out = nn.Linear(64, CLASSES)

    def forward(self, x: Tensor) -> Tensor:
        """Images to logits."""
        x = torch.relu(nn.functional.max_pool2d(self.conv(x), 2)).flatten(1)
        return self.out(torch.relu(self.hidden(x)))


def digits() -> tuple[Tensor, Tensor]:
    """All samples in a random order that is always the same."""
    data = load_digits()
    order = np.random.default_rng(0).permutation(len(data.target))
    x = torch.from_numpy(data.images[order].astype(np.float32) / 16).unsqueeze(1)
    return x, torch.from_numpy(data.target[order]).long()


def shard(partition: int, partitions: int) -> tuple[Tensor, Tensor]:
    """What one client holds: of each class a share that is drawn from a Dirichlet distribution (0.1)."""
    x, y = (part[TEST:] for part in digits())
    rng, owner = np.random.default_rng(1), np.zeros(len(y), int)
    for label in range(CLASSES):
        rows = np.flatnonzero(y.numpy() == label)
        owner[rows] = rng.choice(partitions, len(rows), p=rng.dirichlet([0.1] * partitions))
    owner[: 2 * partitions] = np.arange(2 * partitions) % partitions  # nobody is left with nothing
    mine = torch.from_numpy(np.flatnonzero(owner == partition))
    return x[mine], y[mine]


def train(net: Net, x: Tensor, y: Tensor, epochs: int, lr: float) -> float:
    """Train on what is here; returns the mean loss of the last epoch."""
    optimizer = torch.optim.SGD(net.parameters(), lr=lr, momentum=0.9)
    net.train()
    for _ in range(epochs):
        losses = []
        for rows in torch.randperm(len(y)).split(16):
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(net(x[rows]), y[rows])
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
    return float(np.mean(losses))


def test(net: Net, x: Tensor, y: Tensor) -> tuple[float, float]:
    """Loss and accuracy."""
    net.eval()
    with torch.no_grad():
        logits = net(x)
    return nn.functional.cross_entropy(logits, y).item(), (logits.argmax(1) == y).float().mean().item()
