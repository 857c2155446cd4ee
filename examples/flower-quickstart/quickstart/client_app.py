"""A ClientApp as Flower's users write it; the last line is new."""

import torch
from flwr.app import ArrayRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from torch import Tensor

from entrofed.flower import answering
from quickstart.task import CLASSES, Net, shard, test, train

app = ClientApp()


def local(context: Context) -> tuple[Tensor, Tensor]:
    """What this client holds."""
    return shard(int(context.node_config["partition-id"]), int(context.node_config["num-partitions"]))


@app.train()
def train_here(message: Message, context: Context) -> Message:
    """Train the global model on local data."""
    net, (x, y) = Net(), local(context)
    net.load_state_dict(message.content["arrays"].to_torch_state_dict())
    torch.manual_seed(int(message.content["config"]["server-round"]))
    loss = train(net, x, y, int(context.run_config["epochs"]), float(context.run_config["lr"]))
    metrics = MetricRecord({"num-examples": len(y), "train_loss": loss})
    return Message(RecordDict({"arrays": ArrayRecord(net.state_dict()), "metrics": metrics}), reply_to=message)


@app.evaluate()
def evaluate_here(message: Message, context: Context) -> Message:
    """Test the global model on local data."""
    net, (x, y) = Net(), local(context)
    net.load_state_dict(message.content["arrays"].to_torch_state_dict())
    loss, accuracy = test(net, x, y)
    metrics = MetricRecord({"num-examples": len(y), "loss": loss, "accuracy": accuracy})
    return Message(RecordDict({"metrics": metrics}), reply_to=message)


app = answering(app, labels=lambda context: local(context)[1], classes=CLASSES)
