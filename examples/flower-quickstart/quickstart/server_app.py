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
    share = float(config["fraction-train"])
    strategy: Strategy
    if config["strategy"] == "before":
        strategy = FedAvg(fraction_train=share, fraction_evaluate=0.0)
    else:
        options = {"seed": int(config["seed"]), "folder": str(config["folder"]) or None}
        strategy = EntroStrategy("fedentopt", cohort=share, fraction_evaluate=0.0, classes=CLASSES, **options)
    torch.manual_seed(int(config["seed"]))
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
