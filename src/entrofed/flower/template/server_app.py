"""The server: which method chooses and weighs the clients, and for how long."""

from flwr.app import ArrayRecord, Context
from flwr.serverapp import Grid, ServerApp

from entrofed.core.seeds import torch_stream
from entrofed.flower import EntroStrategy
from entrofed.flower.template.task import CLASSES, evaluate, model

app = ServerApp()


@app.main()
def main(grid: Grid, context: Context) -> None:
    """Play the rounds; after a crash, run again with the same folder to go on."""
    config = context.run_config
    strategy = EntroStrategy(
        str(config["method"]),
        seed=int(config["seed"]),
        folder=str(config["folder"]) or None,
        nodes=int(config["nodes"]),
        wait=float(config["deadline"]),
        classes=CLASSES,
        fraction_evaluate=float(config["fraction-evaluate"]),
        cohort=config["cohort"],
        epochs=int(config["epochs"]),
        batch_size=16,
        lr=0.05,
        momentum=0.9,
    )
    with torch_stream(strategy.seed, "init"):
        first = ArrayRecord(model().state_dict())
    strategy.start(
        grid,
        initial_arrays=first,
        num_rounds=int(config["num-rounds"]),
        timeout=float(config["deadline"]),
        evaluate_fn=evaluate,
    )
