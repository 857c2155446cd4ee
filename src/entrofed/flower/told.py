"""What the clients of a grid told once, before the first round, and the table that follows from it."""

import logging
from collections.abc import Mapping
from typing import Any

import numpy as np
from flwr.app import ArrayRecord
from flwr.serverapp import Grid

from entrofed.core.params import Layout
from entrofed.core.parts import LabelFact, Method
from entrofed.core.round import FIRST_UPDATE
from entrofed.core.types import LABEL_COUNTS, ClientTable, FactTable, Failure
from entrofed.core.validation import fact_problem
from entrofed.errors import ConfigError
from entrofed.flower.grid import Question, Roster, Silence, fact_question, told_value

log = logging.getLogger("entrofed")


class Told:
    """The facts that each client told once; by fact, then by the client's name."""

    def __init__(self, method: Method, classes: int | None) -> None:
        self._facts = [fact for fact in method.facts_told("once") if fact.name != FIRST_UPDATE]
        self._classes = classes or 0
        if classes is None and (self._facts or method.facts_told("with_update") or method.pools):
            raise ConfigError("the method works with labels; say how many there are, for example classes=10")
        self.values: dict[str, dict[str, list[float]]] = {fact.name: {} for fact in self._facts}
        self._questions = {fact.name: Question(fact_question(fact)) for fact in self._facts}

    def restore(self, values: Mapping[str, Any]) -> None:
        """What was told before a restart; version 0.1 kept one fact without its name: the counts, where both are."""
        if self._facts and any(isinstance(value, list) for value in values.values()):
            names = [fact.name for fact in self._facts]
            values = {LABEL_COUNTS if LABEL_COUNTS in names else names[0]: values}
        self.values = {fact.name: dict(values.get(fact.name, {})) for fact in self._facts}

    def learn(self, grid: Grid, roster: Roster, wait: float, model: ArrayRecord) -> None:
        """Ask those who have not told yet; once told, what they told is kept. ``model``: the first."""
        for fact in self._facts:
            known = self.values[fact.name]
            new = {node: name for name, node in roster.node.items() if name not in known}
            if not new:
                continue
            sent = None if isinstance(fact, LabelFact) else model
            answers = self._questions[fact.name].ask(grid, list(new), wait, sent, patient=not known)
            for node, name in new.items():
                answer = answers[node]
                value = answer if isinstance(answer, Failure) else told_value(answer)
                reason = value.reason if isinstance(value, Failure) else fact_problem(fact, value, self._classes)
                if reason is None and not isinstance(value, Failure):
                    known[name] = value.tolist()
                else:  # a client that tells nonsense tells nothing, and nobody else is hindered
                    log.warning("what client %s tells of its %s is not used: %s", name, fact.name, str(reason)[:500])
            silent = any(isinstance(answer, Silence) for answer in answers.values())
            if not known and not silent and len(answers) > 1:  # one alone, or none in time: perhaps others come
                raise ConfigError(
                    f"the method works with the clients' {fact.name.replace('_', ' ')}, and none of {len(new)} clients "
                    "tells any that can be used (the reasons are in the log); build the ClientApp with "
                    "entrofed.flower.client_app, or wrap yours in "
                    f"entrofed.flower.answering(app, labels=..., classes={self._classes})"
                )

    def table(self, names: list[str], layout: Layout, rounds: int) -> ClientTable:
        """What is known of the clients; who does not tell what the method works with takes no part (size 0)."""
        sizes = np.ones(len(names), np.int64)
        facts: dict[str, FactTable] = {}
        for fact in self._facts:
            known = self.values[fact.name]
            sizes &= np.array([name in known for name in names], np.int64)
            facts[fact.name] = [np.array(known[name]) if name in known else None for name in names]
        if LABEL_COUNTS in facts:
            rows = [np.zeros(self._classes) if row is None else row for row in facts[LABEL_COUNTS]]
            counts = np.array(rows).reshape(len(names), self._classes)
            facts[LABEL_COUNTS], sizes = counts, np.ceil(counts.sum(axis=1)).astype(np.int64) * sizes
        return ClientTable(
            sizes,
            self._classes,
            trainable=layout.trainable,
            output_bias=layout.output_bias(self._classes),
            rounds=rounds,
            facts=facts,
        )
