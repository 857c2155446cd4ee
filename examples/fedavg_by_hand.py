"""A whole run of FedAvg in plain torch, round by round, and the same run by EntroFed: the results are the same.

Of EntroFed the loop below takes only the data, the way it is dealt out, and the names of the random streams.
Run it with ``python examples/fedavg_by_hand.py``.
"""

from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import torch

from entrofed.core.seeds import stream, torch_stream
from entrofed.data.catalog import load
from entrofed.data.partition import dirichlet_balanced
from entrofed.experiment.config import parse
from entrofed.experiment.run_folder import RunFolder
from entrofed.experiment.runner import run

ROUNDS, CLIENTS, COHORT, EPOCHS, BATCH, LR, SEED = 5, 12, 4, 2, 16, 0.1, 0


def network() -> torch.nn.Module:
    """What the experiment file calls ``digits_mlp``."""
    layers = torch.nn
    return layers.Sequential(layers.Flatten(), layers.Linear(64, 64), layers.ReLU(), layers.Linear(64, 10))


def by_hand() -> tuple[list[float], torch.Tensor]:
    """The accuracy after each round, and the parameters after the last."""
    data = load("digits")
    shards = dirichlet_balanced(data.train_y, CLIENTS, stream(SEED, "partition"), alpha=0.3)
    pixels = data.train_x.astype(np.float64) / data.full_scale
    shift, scale = np.float32(pixels.mean()), np.float32(pixels.std())
    inputs = [(x.astype(np.float32) / data.full_scale - shift) / scale for x in (data.train_x, data.test_x)]
    (train_x, test_x), (train_y, test_y) = (
        map(torch.from_numpy, inputs),
        map(torch.from_numpy, (data.train_y, data.test_y)),
    )
    with torch_stream(SEED, "init"):
        model = network()
    server = torch.nn.utils.parameters_to_vector(model.parameters()).detach()
    accuracies = []
    for number in range(ROUNDS):
        cohort = stream(SEED, "select", number).choice(np.arange(CLIENTS), size=COHORT, replace=False)
        trained, sizes = [], []
        for client in cohort.tolist():
            torch.nn.utils.vector_to_parameters(server.clone(), model.parameters())
            optimizer = torch.optim.SGD(model.parameters(), lr=LR)
            rng, rows = stream(SEED, "train", number, client), torch.from_numpy(shards[client])
            for _ in range(EPOCHS):
                for batch in rows[torch.from_numpy(rng.permutation(len(rows)))].split(BATCH):
                    optimizer.zero_grad()
                    torch.nn.functional.cross_entropy(model(train_x[batch]), train_y[batch]).backward()
                    optimizer.step()
            trained.append(torch.nn.utils.parameters_to_vector(model.parameters()).detach())
            sizes.append(len(rows))
        weights = torch.tensor(sizes, dtype=torch.float64) / sum(sizes)
        server = (weights[:, None] * torch.stack(trained).double()).sum(dim=0).float()
        torch.nn.utils.vector_to_parameters(server.clone(), model.parameters())
        accuracies.append(float((model(test_x).argmax(dim=1) == test_y).double().mean()))
    return accuracies, server


def by_entrofed(folder: Path) -> list[float]:
    """The same from an experiment."""
    data = {"name": "digits", "partition": "dirichlet_balanced", "clients": CLIENTS, "alpha": 0.3}
    method = {"name": "fedavg", "cohort": COHORT, "epochs": EPOCHS, "batch_size": BATCH, "lr": LR}
    engine = {"backend": "inline"}
    run(parse({"rounds": ROUNDS, "seed": SEED, "data": data, "method": method, "engine": engine}), RunFolder(folder))
    return [record.test.accuracy for record in RunFolder(folder).records() if record.test is not None]


if __name__ == "__main__":
    with TemporaryDirectory() as place:
        for number, pair in enumerate(zip(by_hand()[0], by_entrofed(Path(place)), strict=True), start=1):
            print("round {}: by hand {:.4f}, by EntroFed {:.4f}".format(number, *pair))
