"""Where orders are carried out."""

from entrofed.backends.base import Backend
from entrofed.backends.inline import InlineBackend
from entrofed.backends.processes import ProcessBackend
from entrofed.errors import ConfigError
from entrofed.experiment.config import EngineSection


def open_backend(engine: EngineSection) -> Backend:
    """The backend that the experiment file asks for."""
    if engine.backend == "inline":
        return InlineBackend()
    if engine.backend == "ray":
        from entrofed.backends.ray import RayBackend

        return RayBackend(engine.workers, timeout=engine.timeout)
    if engine.backend == "flower":
        raise ConfigError("Flower brings its own grid: play the experiment with entrofed.flower.experiment.simulate")
    return ProcessBackend(engine.workers, timeout=engine.timeout)
