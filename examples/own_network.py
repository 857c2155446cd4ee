"""A network of one's own on data of one's own: arrays in, a trained module out.

python examples/own_network.py
"""

import torch
from sklearn.datasets import load_digits

import entrofed as ef


class SmallNet(torch.nn.Module):
    """Two convolutions and a linear layer for gray images of 8x8 pixels."""

    def __init__(self) -> None:
        super().__init__()
        self.features = torch.nn.Sequential(
            torch.nn.Conv2d(1, 8, 3, padding=1),
            torch.nn.ReLU(),
            torch.nn.Conv2d(8, 16, 3, stride=2, padding=1),
            torch.nn.ReLU(),
            torch.nn.Flatten(),
        )
        self.output = torch.nn.Linear(256, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Images [n, 1, 8, 8] to logits [n, 10]."""
        return self.output(self.features(x))


def main(rounds: int = 20) -> ef.Result:
    """Ten clients with few classes each, FedEntOpt."""
    x, y = load_digits(return_X_y=True)
    images = x.reshape(-1, 8, 8).astype("float32") / 16
    federation = ef.Federation.partition(images, y, "label_quantity", clients=10, labels_per_client=2, test=0.2)
    return ef.run(
        federation, model=SmallNet, method="fedentopt", rounds=rounds, cohort=4, epochs=2, lr=0.05, momentum=0.9
    )


if __name__ == "__main__":
    result = main()
    print(result)
    print(result.model)
