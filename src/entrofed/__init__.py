"""EntroFed: federated learning that chooses and weighs clients by the information they hold.

::

    import entrofed as ef

    federation = ef.Federation.from_clients({"Basel": (x0, y0), "Lugano": (x1, y1)}, test=(xt, yt))
    result = ef.run(federation, model=MyNet, method=ef.methods.fedentopt(), rounds=50, cohort=10, lr=0.05)

The names below are the public ones; each is imported when it is first used.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.2.0"

_PLACES = {
    "entrofed.data.federation": ("Federation",),
    "entrofed.api.run": ("run",),
    "entrofed.api.result": ("Result", "open_run"),
    "entrofed.api.compare": ("Comparison", "compare"),
    "entrofed.studies.advice": ("Advice", "advise"),
    "entrofed.core.parts": ("Method", "Selector", "Weigher", "Objective", "ServerRule", "ClientRule", "Fact"),
    "entrofed.core.types": ("ClientData", "ClientTable", "Context", "Selection", "Update", "Weighing"),
    "entrofed.core.records": ("Metrics", "RoundRecord"),
    "entrofed.errors": ("ConfigError", "DataError", "EntrofedError"),
}
_PLACE = {name: module for module, names in _PLACES.items() for name in names}

__all__ = ["__version__", "methods", *sorted(_PLACE)]

if TYPE_CHECKING:
    from entrofed import methods as methods
    from entrofed.api.compare import Comparison as Comparison
    from entrofed.api.compare import compare as compare
    from entrofed.api.result import Result as Result
    from entrofed.api.result import open_run as open_run
    from entrofed.api.run import run as run
    from entrofed.core.parts import ClientRule as ClientRule
    from entrofed.core.parts import Fact as Fact
    from entrofed.core.parts import Method as Method
    from entrofed.core.parts import Objective as Objective
    from entrofed.core.parts import Selector as Selector
    from entrofed.core.parts import ServerRule as ServerRule
    from entrofed.core.parts import Weigher as Weigher
    from entrofed.core.records import Metrics as Metrics
    from entrofed.core.records import RoundRecord as RoundRecord
    from entrofed.core.types import ClientData as ClientData
    from entrofed.core.types import ClientTable as ClientTable
    from entrofed.core.types import Context as Context
    from entrofed.core.types import Selection as Selection
    from entrofed.core.types import Update as Update
    from entrofed.core.types import Weighing as Weighing
    from entrofed.data.federation import Federation as Federation
    from entrofed.errors import ConfigError as ConfigError
    from entrofed.errors import DataError as DataError
    from entrofed.errors import EntrofedError as EntrofedError
    from entrofed.studies.advice import Advice as Advice
    from entrofed.studies.advice import advise as advise


def __getattr__(name: str) -> Any:
    """Import a public name on first use."""
    if name == "methods":
        return import_module("entrofed.methods")
    if name not in _PLACE:
        raise AttributeError(f"module 'entrofed' has no attribute {name!r}; public are {', '.join(__all__)}")
    return getattr(import_module(_PLACE[name]), name)


def __dir__() -> list[str]:
    """The public names."""
    return list(__all__)
