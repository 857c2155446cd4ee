"""A server to weigh with."""

import numpy as np
import pytest

from entrofed.core.params import Layout, Params, TensorEntry
from entrofed.core.types import ClientTable, Context, Update


def one_layer(values):
    """A layout of a single layer with that many values."""
    return Layout((TensorEntry("layer.weight", "trainable", (values,), 0, values),), values, values, 0)


@pytest.fixture
def cohort():
    """Updates from models or losses, and a context; the other options go to the latter."""

    def make(
        models=None, losses=None, start=None, table=None, layout=None, predict=None, clients=None, own_labels=None
    ):
        count = len(models if models is not None else losses if losses is not None else clients)
        models = models if models is not None else [np.zeros(1, np.float32)] * count
        losses = losses if losses is not None else [1.0] * count
        clients = clients if clients is not None else range(count)
        empty = np.zeros(0, np.int64)
        updates = [
            Update(client, Params(np.asarray(model), empty), 10, 1, loss, loss)
            for client, model, loss in zip(clients, models, losses, strict=True)
        ]
        table = table or ClientTable(sizes=np.full(max(clients) + 1, 10), classes=3)
        context = Context(
            Params(np.asarray(start if start is not None else models[0]), empty),
            0,
            table,
            layout or one_layer(len(models[0])),
            seed=3,
            predict=predict,
            own_labels=own_labels,
        )
        return updates, context

    return make
