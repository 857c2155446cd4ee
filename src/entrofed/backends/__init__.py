"""Where tasks are done."""

from collections.abc import Callable

from entrofed.backends.auto import AutoBackend
from entrofed.backends.base import Backend, Workload
from entrofed.backends.inline import InlineBackend
from entrofed.core.plugins import announced
from entrofed.errors import ConfigError, unknown

__all__ = ["BACKENDS", "FLOWER", "HERE", "Backend", "InlineBackend", "Workload", "backend_of", "backends"]


def _processes(workers: int, timeout: float) -> Backend:
    from entrofed.backends.processes import ProcessBackend

    return ProcessBackend(workers, timeout=timeout)


def _ray(workers: int, timeout: float) -> Backend:
    from entrofed.backends.ray import RayBackend

    return RayBackend(workers, timeout=timeout)


BACKENDS: dict[str, Callable[[int, float], Backend]] = {
    "auto": lambda workers, timeout: AutoBackend(workers, timeout=timeout),
    "inline": lambda workers, timeout: InlineBackend(),
    "processes": _processes,
    "ray": _ray,
}
"""By the name in ``engine.backend``; a number of workers, and the seconds that a task may take."""

HERE = ("auto", "inline", "processes")
"""Those of this machine alone."""

FLOWER = "flower"
"""Clients are the nodes of a Flower grid, which comes with the ServerApp."""


def backends() -> dict[str, Callable[[int, float], Backend]]:
    """All backends by name: ours, and those of other packages (entry points ``entrofed.backends``)."""
    return {**announced("backend"), **BACKENDS}


def backend_of(name: str, workers: int, timeout: float) -> Backend:
    """The backend of that name."""
    if name == FLOWER:
        raise ConfigError("Flower brings its own grid: play the experiment with entrofed.flower.experiment.simulate")
    found = backends()
    if name not in found:
        raise unknown("engine.backend", name, [*found, FLOWER])
    return found[name](workers, timeout)
