"""What every backend does: carry out orders, wherever that is."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray

from entrofed.core.params import Layout, Params
from entrofed.core.sums import weighted_sum
from entrofed.core.types import Failure, PartState, Update, Weighing

if TYPE_CHECKING:
    from entrofed.client.runtime import Site
    from entrofed.client.train import WorkOrder
    from entrofed.data.federation import Federation


class Order(Protocol):
    """A piece of work that a backend carries out somewhere; a pure function of itself and the site's data."""

    @property
    def params(self) -> Params:
        """The model it starts from."""
        ...

    @property
    def cost(self) -> int:
        """Samples to pass over: the backend starts with the longest."""
        ...

    def carry_out(self, site: "Site") -> Any:
        """Do the work with the data and the model of a site."""
        ...


class PoolOrder(Protocol):
    """The pooling of one peer: from its own model and those it has got to its next."""

    @property
    def params(self) -> Params:
        """The peer's own model."""
        ...

    @property
    def updates(self) -> tuple[Update, ...]:
        """What it has got."""
        ...

    def pool(self) -> "Pooled":
        """The next model and how it came about."""
        ...


@dataclass(frozen=True)
class Pooled:
    """What came of the pooling of one peer."""

    params: Params
    state: PartState
    """What the server rule remembers at this peer."""
    weighing: Weighing
    digest: str
    """Equal models have equal digests."""


class Backend(Protocol):
    """Carries out orders somewhere: here, in other processes, on other machines. Knows no algorithm."""

    def host(
        self,
        federation: "Federation",
        build: Callable[[], torch.nn.Module],
        layout: Layout,
        *,
        compiled: bool = False,
    ) -> None:
        """Set up the data and the model of an experiment; replaces what was there before."""
        ...

    def run(self, orders: Sequence[Order]) -> list[Any]:
        """What came of each order, in the order given; a :class:`Failure` where nothing did."""
        ...

    def close(self) -> None:
        """Let go of workers and memory."""
        ...

    def train_peers(self, orders: Sequence["WorkOrder"], fault: Callable[[Any, int], str | None]) -> list[Any]:
        """As :meth:`run`, but what ``fault`` finds fault with becomes a failure, and models may stay where they are:
        their values are fetched when somebody looks at them."""
        answers = self.run(orders)
        faults = [fault(answer, order.client) for answer, order in zip(answers, orders, strict=True)]
        return [answer if reason is None else Failure(reason) for answer, reason in zip(answers, faults, strict=True)]

    def pool(self, orders: Sequence[PoolOrder]) -> list[Pooled]:
        """Carry out the pooling of peers; models may stay where they are."""
        return [order.pool() for order in orders]

    def consensus(self, models: Sequence[Params]) -> tuple[Params, NDArray[np.float64]]:
        """The mean of models, and the distance of each from it; the mean may stay where it is."""
        return consensus(models)


def consensus(models: Sequence[Params]) -> tuple[Params, NDArray[np.float64]]:
    """The mean of models, and the Euclidean distance of each from it."""
    mean = weighted_sum([model.values for model in models], np.full(len(models), 1 / len(models)))
    distances = np.array([np.sqrt(((model.values - mean) ** 2).sum()) for model in models])
    return Params(mean.astype(np.float32), np.max([model.counters for model in models], axis=0)), distances
