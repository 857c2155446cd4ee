"""ClientApps in Flower's older style (``client_fn``): they know the parts of a message by other names.

Flower's own strategies of today cannot train them. Arrays go to such a client as a list, in the order of the model's.
"""

from collections.abc import Callable, Mapping
from copy import copy

from flwr.app import ArrayRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp

from entrofed.errors import DataError
from entrofed.flower.wire import ARRAYS, CONFIG, METRICS

NAMES = {"train": "fit", "evaluate": "evaluate"}


def is_legacy(app: ClientApp) -> bool:
    """Whether an app was made with ``client_fn``."""
    return getattr(app, "_call", None) is not None


class Legacy(ClientApp):
    """An app of the older style that understands messages of today, and has functions for those it does not know."""

    def __init__(self, app: ClientApp, functions: Mapping[str, Callable[[Message, Context], Message]]) -> None:
        super().__init__()
        self._app, self._functions = app, functions

    def __call__(self, message: Message, context: Context) -> Message:
        """Answer with a function, or pass on."""
        function = self._functions.get(message.metadata.message_type)
        return call_legacy(self._app, message, context) if function is None else function(message, context)


def call_legacy(app: ClientApp, message: Message, context: Context) -> Message:
    """Give a message to an app of the older style, and its reply in the names of today."""
    name = NAMES.get(message.metadata.message_type)
    if name is None:
        return app(message, context)
    arrays, config = message.content.array_records[ARRAYS], message.content.config_records[CONFIG]
    inner = copy(message)
    inner.content = RecordDict({f"{name}ins.parameters": arrays, f"{name}ins.config": config})
    found = app(inner, context).content
    status = found.config_records[f"{name}res.status"]
    if status["code"] != 0:
        raise DataError(f"the client's {name}() says: {status['message']!s}")
    numbers = {
        key: value
        for key, value in found.config_records[f"{name}res.metrics"].items()
        if isinstance(value, int | float) and not isinstance(value, bool)
    }
    metrics = MetricRecord({**numbers, "num-examples": _number(found, name, "num_examples")})
    content = RecordDict({METRICS: metrics})
    if name == "evaluate":
        metrics["loss"] = _number(found, name, "loss")
    else:
        trained = found.array_records["fitres.parameters"].values()
        if len(trained) != len(arrays):
            raise DataError(f"fit() gave {len(trained)} arrays, the model has {len(arrays)}")
        content[ARRAYS] = ArrayRecord(dict(zip(arrays, trained, strict=True)))
    return Message(content, reply_to=message)


def _number(found: RecordDict, name: str, what: str) -> int | float:
    value = found.metric_records[f"{name}res.{what}"][what]
    if isinstance(value, list):
        raise DataError(f"{what} of {name}() is a list")
    return value
