"""Orders carried out one after the other, in this process."""

from collections.abc import Callable, Sequence
from typing import Any

import torch

from entrofed.backends.base import Backend, Order
from entrofed.client.runtime import Site, one_thread
from entrofed.core.params import Layout
from entrofed.core.types import Failure
from entrofed.data.federation import Federation


def attempt(order: Order, site: Site) -> Any:
    """What comes of an order; an exception is a :class:`Failure`, so that one client never ends a run."""
    try:
        return order.carry_out(site)
    except Exception as error:
        return Failure(f"{type(error).__name__}: {error}")


class InlineBackend(Backend):
    """The plain backend: what every other has to equal, bit for bit."""

    def __init__(self) -> None:
        self._site: Site | None = None

    def host(
        self,
        federation: Federation,
        build: Callable[[], torch.nn.Module],
        layout: Layout,
        *,
        compiled: bool = False,
    ) -> None:
        """Set up the data and the model of an experiment."""
        self._site = Site(federation, build, compiled=compiled)

    def run(self, orders: Sequence[Order]) -> list[Any]:
        """Carry out each order in turn."""
        if self._site is None:
            raise RuntimeError("host() comes before run()")
        with one_thread():
            return [attempt(order, self._site) for order in orders]

    def close(self) -> None:
        """Nothing to let go of."""
