"""Orders carried out by actors on a Ray cluster (the extra ``ray``).

The data goes to the object store once. Models travel through the object store: in a central run between the server,
which is the driver, and the actors; among peers (``train_peers``, ``pool``, ``consensus``) from actor to actor, while
the driver holds references only. An actor that is lost is replaced, on whichever node is left, and its order tried
again. Models of peers that were lost with a node raise :class:`~entrofed.errors.LostModelsError`: the run goes back to
its checkpoint.

``RAY_ADDRESS`` names the cluster; without it, one is started on this machine.
"""

import logging
import os
import time
import warnings
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from entrofed.backends.base import Backend, Order, Pooled, PoolOrder, consensus
from entrofed.backends.inline import attempt
from entrofed.client.runtime import Site
from entrofed.client.train import WorkOrder
from entrofed.core.params import Layout, Params
from entrofed.core.types import Failure, Update
from entrofed.data.federation import Federation
from entrofed.errors import ConfigError, LostModelsError

log = logging.getLogger("entrofed")

TRIES = 4
"""A node that dies may take an actor with it that was only just put there."""
PAUSE = 1.0
"""Seconds before a lost order is tried again: a cluster takes time to notice that a node is gone."""
LOST = ("ActorDiedError", "ActorUnavailableError", "NodeDiedError", "WorkerCrashedError")
LOST_OBJECTS = ("ObjectLostError", "OwnerDiedError", "ObjectReconstructionFailedError", "ObjectFreedError")


class RemoteParams(Params):
    """A model in the object store; its values are fetched when somebody looks at them."""

    def __init__(self, ref: Any) -> None:
        object.__setattr__(self, "ref", ref)

    def __getattribute__(self, name: str) -> Any:
        if name in ("values", "counters"):
            return getattr(_fetch(object.__getattribute__(self, "ref")), name)
        return object.__getattribute__(self, name)


def _fetch(ref: Any) -> Params:
    import ray

    try:
        found: Params = ray.get(ref)
    except ray.exceptions.RayError as error:
        raise LostModelsError(f"a model was lost with its node: {type(error).__name__}") from None
    return found


class _Actor:
    """A worker's side: a site, and orders that are carried out on it."""

    def __init__(self) -> None:
        torch.set_num_threads(1)
        warnings.filterwarnings("ignore", message=".*not writable.*")  # what comes from the object store is only read
        self._site: Site | None = None

    def host(self, federation: Federation, build: Callable[[], torch.nn.Module], compiled: bool) -> None:
        self._site = Site(federation, build, compiled=compiled)

    def carry(self, order: Any, params: Params, fault: Callable[[Any, int], str | None] | None) -> tuple[Any, Any]:
        """What came of an order, and apart from it the model, if there is one."""
        if self._site is None:
            raise RuntimeError("an order came before the site")
        outcome = attempt(replace(order, params=params), self._site)
        if fault is not None and (reason := fault(outcome, order.client)) is not None:
            outcome = Failure(reason)
        if isinstance(outcome, Update):
            return replace(outcome, params=None), outcome.params  # type: ignore[arg-type]
        return outcome, None

    def pool(self, order: Any, own: Params, *models: Params) -> tuple[Any, Any]:
        updates = tuple(replace(update, params=model) for update, model in zip(order.updates, models, strict=True))
        pooled = replace(order, params=own, updates=updates).pool()
        return replace(pooled, params=None), pooled.params


@dataclass
class _Task:
    """A call of an actor: which method, with which arguments; made again if the actor is lost."""

    method: str
    arguments: tuple[Any, ...]
    cost: float
    tries: int = 0


class RayBackend(Backend):
    """A pool of actors behind the backend interface."""

    def __init__(self, workers: int, *, timeout: float = 3600.0) -> None:
        try:
            import ray
        except ImportError:
            raise ConfigError(
                "engine.backend = 'ray' needs Ray; install it with: pip install 'entrofed[ray]'"
            ) from None
        self._ray, self._timeout = ray, timeout
        self._started = not ray.is_initialized()
        if self._started:
            os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
            here = {} if os.environ.get("RAY_ADDRESS") else {"num_cpus": workers, "include_dashboard": False}
            self._ray.init(log_to_driver=False, logging_level=logging.ERROR, **here)
        self._class = self._ray.remote(_Actor)
        self._setting: tuple[Any, ...] | None = None
        self._actors = [self._new(num_cpus=1) for _ in range(workers)]

    def _new(self, num_cpus: int) -> Any:
        actor = self._class.options(num_cpus=num_cpus, scheduling_strategy="SPREAD").remote()
        if self._setting is not None:
            actor.host.remote(*self._setting)
        return actor

    def host(
        self,
        federation: Federation,
        build: Callable[[], torch.nn.Module],
        layout: Layout,
        *,
        compiled: bool = False,
    ) -> None:
        """Put the data into the object store, and set up every actor."""
        self._setting = (self._ray.put(federation), build, compiled)
        self._ray.get([actor.host.remote(*self._setting) for actor in self._actors])

    def run(self, orders: Sequence[Order]) -> list[Any]:
        """Carry out the orders; models come back to the driver."""
        return [self._whole(small, ref) for small, ref in self._play(self._carry(orders, None))]

    def _whole(self, outcome: Any, ref: Any) -> Any:
        if not isinstance(outcome, Update):
            return outcome
        model = _fetch(ref)
        return replace(outcome, params=Params(model.values.copy(), model.counters.copy()))

    def train_peers(self, orders: Sequence[WorkOrder], fault: Callable[[Any, int], str | None]) -> list[Any]:
        """Train; the models stay in the object store."""
        outcomes = self._play(self._carry(orders, fault))
        return [
            replace(small, params=RemoteParams(ref)) if isinstance(small, Update) else small for small, ref in outcomes
        ]

    def pool(self, orders: Sequence[PoolOrder]) -> list[Pooled]:
        """Pool at the actors; models go there from the object store, and stay there."""
        put = self._refs()
        tasks = []
        for order in orders:
            bare = tuple(replace(update, params=None) for update in order.updates)  # type: ignore[arg-type]
            small = replace(order, params=None, updates=bare)  # type: ignore[type-var]
            models = [put(update.params) for update in order.updates]
            tasks.append(_Task("pool", (small, put(order.params), *models), len(models)))
        found = []
        for small, ref in self._play(tasks):
            if isinstance(small, Failure):
                raise LostModelsError(f"the pooling of a peer failed: {small.reason}")
            found.append(replace(small, params=RemoteParams(ref)))
        return found

    def consensus(self, models: Sequence[Params]) -> tuple[Params, NDArray[np.float64]]:
        """The mean, computed where the scheduler wants it."""
        put = self._refs()
        distant = self._ray.remote(_consensus).options(num_cpus=0, num_returns=2)
        mean, distances = distant.remote(*(put(model) for model in models))
        try:
            return RemoteParams(mean), np.array(self._ray.get(distances))
        except self._ray.exceptions.RayError as error:
            raise LostModelsError(f"a model was lost with its node: {type(error).__name__}") from None

    def _refs(self) -> Callable[[Params], Any]:
        """References to models; one that is here goes to the object store once."""
        known: dict[int, Any] = {}

        def put(params: Params) -> Any:
            if isinstance(params, RemoteParams):
                return object.__getattribute__(params, "ref")
            if id(params) not in known:
                known[id(params)] = self._ray.put(params)
            return known[id(params)]

        return put

    def _carry(self, orders: Sequence[Order], fault: Callable[[Any, int], str | None] | None) -> list[_Task]:
        put = self._refs()
        return [
            _Task("carry", (replace(order, params=None), put(order.params), fault), order.cost)  # type: ignore[type-var]
            for order in orders
        ]

    def _play(self, tasks: list[_Task]) -> list[tuple[Any, Any]]:
        """Carry out the tasks, longest first, on whichever actor is free."""
        ray = self._ray
        outcomes: list[tuple[Any, Any]] = [(None, None)] * len(tasks)
        waiting = deque(sorted(range(len(tasks)), key=lambda i: -tasks[i].cost))
        idle = list(range(len(self._actors)))
        busy: dict[Any, tuple[int, int, Any, float]] = {}
        while waiting or busy:
            while idle and waiting:
                place, index = idle.pop(), waiting.popleft()
                tasks[index].tries += 1
                call = getattr(self._actors[place], tasks[index].method).options(num_returns=2)
                small, model = call.remote(*tasks[index].arguments)
                busy[small] = (place, index, model, time.monotonic() + self._timeout)
            soonest = min(deadline for *_, deadline in busy.values())
            ready, _ = ray.wait(list(busy), timeout=max(0.0, soonest - time.monotonic()))
            now = time.monotonic()
            late = [small for small, (*_, deadline) in busy.items() if small not in ready and now >= deadline]
            for small in [*ready, *late]:
                place, index, model, _ = busy.pop(small)
                if small in late:
                    outcomes[index] = (Failure(f"no answer within {self._timeout:g} s"), None)
                    self._replace(place)
                else:
                    try:
                        outcomes[index] = (ray.get(small), model)
                    except ray.exceptions.RayError as error:
                        name = type(error).__name__
                        if name in LOST_OBJECTS or (isinstance(error, ray.exceptions.RayTaskError) and _lost(error)):
                            raise LostModelsError(f"a model was lost with its node: {name}") from None
                        if name not in LOST:
                            raise
                        self._replace(place)
                        outcomes[index] = (Failure(f"its actor was lost ({name}), {tasks[index].tries} times"), None)
                        if tasks[index].tries < TRIES:
                            time.sleep(PAUSE)
                            waiting.appendleft(index)
                idle.append(place)
        return outcomes

    def _replace(self, place: int) -> None:
        log.warning("an actor was lost; another takes its place")
        self._ray.kill(self._actors[place])
        self._actors[place] = self._new(num_cpus=0)  # wherever there is room, and where there is none

    def close(self) -> None:
        """End the actors; and Ray, if it was started here."""
        for actor in self._actors:
            self._ray.kill(actor)
        self._actors = []
        if self._started:
            self._ray.shutdown()


def _lost(error: Any) -> bool:
    return type(getattr(error, "cause", None)).__name__ in LOST_OBJECTS


def _consensus(*models: Params) -> tuple[Params, NDArray[np.float64]]:
    return consensus(models)
