"""A ServerApp as Flower's users write it, and the line that makes it choose by entropy."""

import torch
from flwr.app import ArrayRecord, Context, MetricRecord
from flwr.serverapp import Grid, ServerApp
from flwr.serverapp.strategy import FedAvg, Strategy

from entrofed.flower import EntroStrategy
from quickstart.task import CLASSES, TEST, Net, digits, test

app = ServerApp()


@app.main()
def main(grid: Grid, context: Context) -> None:
    """Train for some rounds, and test the model at the server."""
    config = context.run_config
    share, seed = float(config["fraction-train"]), int(config["seed"])
    strategy: Strategy
    if config["strategy"] == "before":
        strategy = FedAvg(fraction_train=share, fraction_evaluate=0.0)
    else:
        strategy = EntroStrategy("fedentopt", cohort=share, classes=CLASSES, fraction_evaluate=0.0, seed=seed)
    torch.manual_seed(seed)
    strategy.start(
        grid=grid,
        initial_arrays=ArrayRecord(Net().state_dict()),
        num_rounds=int(config["num-rounds"]),
        timeout=float(config["deadline"]),
        evaluate_fn=evaluate,
    )


def evaluate(server_round: int, arrays: ArrayRecord) -> MetricRecord:
    """Loss and accuracy on the server's test data."""
    net, (x, y) = Net(), digits()
    net.load_state_dict(arrays.to_torch_state_dict())
    loss, accuracy = test(net, x[:TEST], y[:TEST])
    return MetricRecord({"loss": loss, "accuracy": accuracy})
