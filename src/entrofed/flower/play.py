"""The rounds of a strategy: the two halves of a round, with a grid in between, and what is kept after each."""

import logging
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from flwr.app import ArrayRecord, ConfigRecord, Message, RecordDict
from flwr.serverapp import Grid
from numpy.typing import NDArray

from entrofed.core.params import Params
from entrofed.core.records import Books
from entrofed.core.round import Opened, close_round, open_round, record_of
from entrofed.core.tasks import Rules
from entrofed.core.types import LOSS, MEAN_PREDICTION, Failure, Method, ServerRule, State
from entrofed.errors import ConfigError, QuorumError
from entrofed.experiment.config import MethodSection
from entrofed.flower.arrays import Format
from entrofed.flower.grid import GridBackend, Roster, content_of, message, most_bytes
from entrofed.flower.kept import Kept
from entrofed.flower.labels import Labels
from entrofed.flower.wire import read_update, write_order
from entrofed.info.entropy import entropy_of_counts
from entrofed.info.prediction import Predictions

log = logging.getLogger("flwr")

Predict = Callable[[list[ArrayRecord]], NDArray[np.float64]]
CLIENT_HOOKS = ("shift", "steps", "report")
"""What a server rule may ask clients to do."""


@dataclass(frozen=True)
class Plan:
    """What is the same in every round."""

    section: MethodSection
    seed: int
    rounds: int
    nodes: int
    wait: float
    timeout: float
    classes: int | None
    predict: Predict | None
    folder: Path | None


class Play:
    """One run: begins anew, or goes on after the last whole round in its folder."""

    def __init__(self, plan: Plan, arrays: ArrayRecord) -> None:
        self.plan, self.method, self.form = plan, plan.section.recipe(), Format.of(arrays)
        self.roster, self.labels = Roster(), Labels(self.method, plan.classes)
        self.records: list[dict[str, Any]] = []
        self.rules = Rules(
            seed=plan.seed,
            rounds=plan.rounds,
            cohort=1,
            training=plan.section.training(),
            lr_decay=plan.section.lr_decay,
            quorum=plan.section.quorum,
            nonfinite=plan.section.nonfinite,
        )
        self.state = State(round=0, params=self.form.read(arrays), selector={}, server={}, memory={})
        self._ours = needs_our_clients(self.method)
        self._opened: Opened | None = None
        self._sent: dict[int, Message] = {}
        self._kept = None if plan.folder is None else Kept(plan.folder, self.form.layout)
        if self._kept is not None:
            self._go_on(self._kept)

    def _go_on(self, kept: Kept) -> None:
        model = {entry.name: entry.shape for entry in self.form.layout.entries}
        method = self.plan.section.model_dump(mode="json")
        kept.claim({"method": method, "seed": self.plan.seed, "classes": self.plan.classes, "model": model})
        self.state = replace(self.state, memory=kept.memories())
        before = kept.last()
        if before is not None:
            self.state, clients, self.records = before
            self.roster.names, self.labels.told = clients["names"], clients["told"]
            log.info("going on after round %d", self.state.round)

    def open(self, grid: Grid, config: ConfigRecord) -> list[Message]:
        """See who is there, ask what the method needs to know, choose, and write the messages."""
        self._opened, self._sent, self._books = None, {}, Books(self.form.layout)
        state, layout, plan = self.state, self.form.layout, self.plan
        untouched = not any(record["cohort"] for record in self.records)  # nobody was ever asked to train
        self._gather(grid)
        if untouched:
            self.roster.sort()
        self.labels.learn(grid, self.roster, plan.wait, state.params, layout)
        present = np.array(self.roster.present(), np.int64)
        self.ledger = self.labels.ledger(self.roster.names, layout.trainable)
        if not self.ledger.sizes[present].any():
            return []
        if untouched:
            selector = self.method.selector.init(self.ledger, present)
            server = self.method.server.init(state.params, self.ledger, present)
            self.state = state = replace(state, selector=selector, server=server)
        self.rules = replace(self.rules, cohort=plan.section.cohort_size(len(present)))
        backend = GridBackend(
            grid, self.roster, plan.timeout, form=self.form, config=config, ours=self._ours, classes=plan.classes
        )
        self._opened = open_round(state, self.method, self.rules, self.ledger, present, layout, backend, self._books)
        self._books.lap("select")
        for order in self._opened.work:
            node = self.roster.node_of(order.client)
            if node is not None:
                content = write_order(order, self.form, config)
                self._sent[order.client] = message(content, node, "train", plan.timeout)
        return list(self._sent.values())

    def _gather(self, grid: Grid) -> None:
        """Wait for clients, but not without end."""
        end, wanted = time.monotonic() + self.plan.wait, self.plan.nodes if self.state.round == 0 else 1
        while True:
            self.roster.refresh(grid, self.plan.wait)
            if len(self.roster.node) >= wanted or time.monotonic() >= end:
                return
            time.sleep(min(1.0, self.plan.wait / 10))

    def close(self, replies: Iterable[Message]) -> dict[str, Any]:
        """Admit, weigh and aggregate what came back; below the quorum the model stays. Returns the round's record."""
        opened = self._opened
        if opened is None:
            log.warning("round %d: nobody is there who can be asked", self.state.round)
            nobody = {"cohort": [], "clients": [], "refused": [], "skipped": True, "names": []}
            after = replace(self.state, round=self.state.round + 1, skipped=self.state.skipped + 1)
            return self._keep(after, {"round": self.state.round, **nobody})
        self._books.lap("train")
        closed = close_round(
            self.state,
            opened,
            self._answers(opened, replies),
            self.method,
            self.rules,
            self.ledger,
            self.form.layout,
            self._predictions,
            self._books,
        )
        counts, chosen = self.ledger.label_counts, opened.selection.clients
        bits = None if counts is None else float(entropy_of_counts(counts[chosen].sum(axis=0), base="bits"))
        record = record_of(opened, closed, self._books, bits, {"test": None, "id": None, "alignment": None})
        return self._keep(closed.state, {**record, "names": [self.roster.names[client] for client in chosen]})

    def _answers(self, opened: Opened, replies: Iterable[Message]) -> list[Any]:
        """What came of each order: the first reply to its message; what replies to none of them is dropped."""
        expected = {sent.metadata.message_id: client for client, sent in self._sent.items()}
        found: dict[int, Message] = {}
        for reply in replies:
            client = expected.get(reply.metadata.reply_to_message_id)
            if client is None or client in found:
                log.warning("a reply of node %d that nobody asked for is not used", reply.metadata.src_node_id)
            else:
                found[client] = reply
        answers: list[Any] = []
        for order in opened.work:
            content = content_of(found.get(order.client), most_bytes(self.form.layout))
            if order.client not in self._sent:
                answers.append(Failure("not connected"))
            elif isinstance(content, RecordDict):
                answers.append(read_update(content, order, self.form, ours=self._ours, classes=self.plan.classes))
            else:
                answers.append(content)
        return answers

    def _keep(self, state: State, record: dict[str, Any]) -> dict[str, Any]:
        """Go over to the state after a round, and write it down."""
        self.state = state
        self.records.append(record)
        if self._kept is not None:
            self._kept.keep(state, {"names": self.roster.names, "told": self.labels.told}, record)
        if state.skipped >= self.plan.section.max_skipped:
            raise QuorumError(
                f"{state.skipped} rounds in a row had fewer than {self.rules.quorum} usable updates (quorum); "
                "the reasons are in the log"
            )
        return record

    def _predictions(self, models: Sequence[Params]) -> Predictions:
        if self.plan.predict is None:
            raise ConfigError("a part of the method looks at predictions on a validation set; give predict=...")
        found = np.asarray(self.plan.predict([self.form.write(model) for model in models]), np.float64)
        if found.ndim != 3 or len(found) != len(models):
            raise ConfigError(f"predict gave shape {found.shape}; expected [{len(models)} models, samples, classes]")
        return Predictions.of(found)


def needs_our_clients(method: Method) -> bool:
    """Whether a method asks more of clients than to train on their data as they do anyway, and to tell their labels.

    >>> needs_our_clients(MethodSection(name="fedentopt").recipe())
    False
    >>> needs_our_clients(MethodSection(name="scaffold").recipe())
    True
    """
    hooks = any(getattr(type(method.server), hook) is not getattr(ServerRule, hook) for hook in CLIENT_HOOKS)
    return hooks or method.objective.name != "cross_entropy" or bool({MEAN_PREDICTION, LOSS} & method.needs)
