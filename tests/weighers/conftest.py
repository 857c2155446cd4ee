"""A server to weigh with."""

import numpy as np
import pytest

from entrofed.core.params import Entry, Layout, Params
from entrofed.core.types import Context, Ledger, Update


def one_layer(values):
    """A layout of a single layer with that many values."""
    return Layout((Entry("layer.weight", "trainable", (values,), 0, values),), values, values, 0)


@pytest.fixture
def cohort():
    """Updates from models or losses, and a context; ``ledger`` and ``layout`` go to the context."""

    def make(models=None, losses=None, start=None, ledger=None, layout=None, predict=None, clients=None):
        count = len(models if models is not None else losses if losses is not None else clients)
        models = models if models is not None else [np.zeros(1, np.float32)] * count
        losses = losses if losses is not None else [1.0] * count
        clients = clients if clients is not None else range(count)
        empty = np.zeros(0, np.int64)
        updates = [
            Update(client, Params(np.asarray(model), empty), 10, 1, loss, loss)
            for client, model, loss in zip(clients, models, losses, strict=True)
        ]
        ledger = ledger or Ledger(sizes=np.full(max(clients) + 1, 10), classes=3)
        context = Context(
            Params(np.asarray(start if start is not None else models[0]), empty),
            0,
            ledger,
            layout or one_layer(len(models[0])),
            seed=3,
            predict=predict,
        )
        return updates, context

    return make
