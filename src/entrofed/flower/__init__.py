"""Our methods on Flower (the extra ``flower``): a strategy, client apps, and experiments on a grid."""

from entrofed.errors import ConfigError

try:
    from entrofed.flower.client import LocalData, Task, answering, client_app
    from entrofed.flower.strategy import EntroStrategy
except ImportError as error:
    if error.name is None or not error.name.startswith("flwr"):
        raise
    raise ConfigError("this needs Flower: pip install 'entrofed[flower]'") from None

__all__ = ["EntroStrategy", "LocalData", "Task", "answering", "client_app"]
