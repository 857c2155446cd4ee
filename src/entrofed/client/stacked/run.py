"""The steps of clients that train together."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from weakref import WeakKeyDictionary

import numpy as np
import torch
from numpy.typing import NDArray

from entrofed.client.model import LocalModel
from entrofed.client.stacked.batches import Batches, Drawn, Indexed, Plan, drawn
from entrofed.client.stacked.chain import Chain
from entrofed.client.stacked.forms import form_of
from entrofed.client.stacked.mapped import Mapped
from entrofed.client.stacked.stack import Members, Models, Rows
from entrofed.client.stacked.steps import moments_of, steer, step, uphill
from entrofed.core.params import Params
from entrofed.core.parts import Given, Objective
from entrofed.core.seeds import torch_seed
from entrofed.core.tasks import TrainTask
from entrofed.core.types import ClientData, PartState

_chains: WeakKeyDictionary[LocalModel, dict[Objective, Chain]] = WeakKeyDictionary()
"""What was found out about networks: a chain is the same for all clients."""


@dataclass(frozen=True)
class Client:
    """One of those who train together."""

    task: TrainTask
    data: ClientData
    """What it trains on."""
    plan: Plan
    most: int | None = None
    """The steps that its rule allows, if it says so."""


class Run:
    """One training of clients that all have batches, those with most steps first.

    All losses depend on things of the same names besides model and batch.
    """

    def __init__(self, clients: Sequence[Client], model: LocalModel, fewest: int) -> None:
        """``fewest``: samples below which a batch is left out."""
        self._clients, self._fewest = clients, fewest
        tasks, states = [client.task for client in clients], [client.task.client_state for client in clients]
        first, data = clients[0], [client.data for client in clients]
        self._training, self._objective, rule = first.task.training, first.task.objective, first.task.rule
        self._engine = self._engine_of(first, model)
        self._given = [self._givens(client, model) for client in clients]
        self._models = Models(model.layout, [task.params for task in tasks], self._engine.used, self._engine.needed)
        self._batches: Batches
        if self._training.augment:
            self._batches = Drawn(tasks, data, model, fewest)
        else:
            samples = model.inputs.for_model(model.inputs.standardize(torch.cat([own.x for own in data])))
            self._batches = Indexed(tasks, data, [client.plan for client in clients], samples)
        self._pull = self._objective.pull + (0.0 if rule is None else rule.pull)
        corrections = [None if rule is None else rule.correction(task) for task in tasks]
        some = [correction for correction in corrections if correction is not None]
        self._outside = bool(some) and some[0].outside
        parameters = self._models.parameters
        self._all = Rows(
            parameters,
            self._models.others,
            moments_of(self._training, self._models, states),
            [parameter.clone() for parameter in parameters] if self._pull else [],
            self._models.split([None if one is None else one.values for one in corrections]) if some else [],
        )
        self._before = float(states[0].get("steps", np.zeros(())))
        self._draws = [
            torch.Generator().manual_seed(torch_seed(task.seed, "layers", task.round, task.client))
            for task in (tasks if self._engine.drops else ())
        ]
        self._found: list[tuple[int, Members, torch.Tensor]] = []
        self._rows: tuple[int, Rows, Given] = (0, self._all, {})

    def _engine_of(self, client: Client, model: LocalModel) -> Chain | Mapped:
        known = _chains.setdefault(model, {})
        if self._objective in known:
            return known[self._objective]
        model.load(client.task.params)
        model.module.train()
        x, y = next(drawn(client.task, client.data, model, self._fewest))
        given = self._objective.begin(client.task, client.data, model)(x)
        used = model.gradients(self._objective, x, y, given).used
        if form_of(model.module, self._objective, x.shape[1:])[0] == "chain":
            known[self._objective] = Chain(model, self._objective, used, x.shape[1:])
            return known[self._objective]
        return Mapped(model, self._objective, used, x, y, given)

    def _givens(self, client: Client, model: LocalModel) -> list[Given]:
        """What a client's losses depend on, of every step; before the next client, for models to compare with are one.

        In a chain it is the same for every step.
        """
        given_for = self._objective.begin(client.task, client.data, model)
        if self._engine.padded:
            return [given_for(client.data.x)]
        batches = drawn(client.task, client.data, model, self._fewest)
        return [given_for(x) for (x, _), _ in zip(batches, client.plan.sizes, strict=False)]

    def play(self) -> None:
        """All steps of all clients."""
        active = len(self._clients)
        for number in range(len(self._clients[0].plan.sizes)):
            while len(self._clients[active - 1].plan.sizes) <= number:
                active -= 1
            for members, size in self._groups(number, active):
                self._step(number, members, size)

    def _groups(self, number: int, active: int) -> Iterator[tuple[Members, int]]:
        """Who of the active clients takes a step together, and the size of the batch."""
        sizes = [client.plan.sizes[number] for client in self._clients[:active]]
        if self._engine.padded:
            yield range(active), max(sizes)
            return
        alike: dict[int, list[int]] = {}
        for k, size in enumerate(sizes):
            alike.setdefault(size, []).append(k)
        for size, members in alike.items():
            yield (range(active) if len(members) == active else members), size

    def _step(self, number: int, members: Members, size: int) -> None:
        engine, sharpness = self._engine, self._objective.sharpness
        x, y = self._batches.take(number, members, size)
        rows, given = self._rows_of(number, members)
        losses, slopes = engine(rows.parameters, rows.others, x, y, given, self._masks(number, members, size))
        if sharpness:
            moved, kept = uphill(rows.parameters, slopes, sharpness), {k: t.clone() for k, t in rows.others.items()}
            _, slopes = engine(moved, kept, x, y, given, self._masks(number, members, size))
        steer(slopes, rows, self._pull, self._training.clip_gradients)
        if rows.correction and not self._outside:
            torch._foreach_add_(slopes, rows.correction)
        step(self._training, rows, slopes, self._before + number)
        if self._outside:
            torch._foreach_add_(rows.parameters, rows.correction, alpha=-self._training.lr)
        self._all.put_back(members, rows)
        self._found.append((number, members, losses))

    def _rows_of(self, number: int, members: Members) -> tuple[Rows, Given]:
        """What clients train with and what their losses depend on; of the first so many, the same for many steps."""
        if not self._engine.padded:
            given = [self._given[k][number] for k in members]
            return self._all.of(members), {key: torch.stack([one[key] for one in given]) for key in given[0]}
        if self._rows[0] != len(members):
            given = [self._given[k][0] for k in members]
            stacked = {key: torch.stack([one[key] for one in given]).unsqueeze(-1) for key in given[0]}
            self._rows = len(members), self._all.of(members), stacked
        return self._rows[1:]

    def _masks(self, number: int, members: Members, size: int) -> list[torch.Tensor]:
        """What dropout multiplies by, ``[members, features, size]`` per layer, drawn as each client would by itself."""
        masks = [torch.zeros(len(members), width, size) for _, width in self._engine.drops]
        for i, k in enumerate(members if masks else ()):
            many = self._clients[k].plan.sizes[number]
            for mask, (p, width) in zip(masks, self._engine.drops, strict=True):
                if p < 1:
                    drawn_now = torch.empty(many, width).bernoulli_(1 - p, generator=self._draws[k]).div_(1 - p)
                    mask[i, :, :many] = drawn_now.t()
        return masks

    def losses(self) -> NDArray[np.float64]:
        """Of each step, client and term; zero where a client makes no step."""
        terms = self._found[0][2].reshape(len(self._found[0][1]), -1).shape[1]
        found = torch.zeros(len(self._clients[0].plan.sizes), len(self._clients), terms)
        for number, members, losses in self._found:
            chosen = slice(len(members)) if isinstance(members, range) else torch.tensor(members)
            found[number, chosen] = losses.reshape(len(members), -1)
        return found.double().numpy()

    def params(self) -> list[Params]:
        """The models that were trained."""
        return self._models.params()

    def persisted(self) -> list[PartState]:
        """What each client's optimizer starts from next time, if it persists."""
        if not self._training.persist_optimizer:
            return [{} for _ in self._clients]
        rows = {name: self._models.join(tensors) for name, tensors in self._all.moments.items()}
        states: list[dict[str, NDArray[np.float32]]] = [
            {name: values[k].copy() for name, values in rows.items()} for k in range(len(self._clients))
        ]
        if self._training.optimizer != "sgd":
            for state, client in zip(states, self._clients, strict=True):
                state["steps"] = np.array(self._before + len(client.plan.sizes), np.float32)
        return list(states)
