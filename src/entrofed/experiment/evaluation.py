"""What is measured after each round of an experiment, on the data that its file names."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import reduce
from operator import add
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from entrofed.client.alignment import measure_alignment
from entrofed.client.evaluate import ConfusionSums, evaluate, metrics, predictions
from entrofed.client.metrics import Metric, client_accuracy
from entrofed.core.job import Rules
from entrofed.core.params import Params
from entrofed.core.records import Metrics
from entrofed.core.round import Evaluated, Evaluation, PeersEvaluated, RoundOutcome, RoundPlan
from entrofed.core.tasks import Backend
from entrofed.core.types import State
from entrofed.data.federation import Federation
from entrofed.info.entropy import entropy_of_counts
from entrofed.info.prediction import Predictions

Part = Literal["training", "validation"]
"""What may be evaluated besides the test set: what clients train on, and the server's validation set."""
FEW_CLASSES = 32
"""Up to so many classes, records have the confusion matrix of the test set; more would swell them."""


class FederationEvaluation(Evaluation):
    """Evaluates on the test part of a dataset, and on what its clients hold out.

    ``chosen`` are more metrics, by name; ``by_client`` asks for the accuracy of each client on its own held-out data;
    ``parts`` are evaluated along with the test set.
    """

    def __init__(
        self,
        federation: Federation,
        rules: Rules,
        backend: Backend,
        chosen: Mapping[str, Metric] | None = None,
        *,
        by_client: bool = False,
        parts: Sequence[Part] = (),
    ) -> None:
        self._parts = {
            part: federation.shards.of_clients(federation.participants)
            if part == "training"
            else np.arange(federation.data.validation_size)
            for part in parts
        }
        self._federation, self._rules, self._backend = federation, rules, backend
        self._chosen, self._by_client = chosen or {}, by_client
        self._test = np.arange(len(federation.data.test_y))
        some = federation.participants[federation.holdouts.sizes[federation.participants] > 0]
        self._held_out = [federation.holdouts[client] for client in some.tolist()]

    def predict(self, models: Sequence[Params]) -> Predictions:
        """What models say about the validation set."""
        return predictions(self._backend, self._federation.data.validation_size, models)

    def cohort_entropy(self, clients: Sequence[int]) -> float | None:
        """Of the pooled labels of clients, bits; None of nobody."""
        if not clients:
            return None
        return float(entropy_of_counts(self._federation.label_counts[list(clients)].sum(axis=0), base="bits"))

    def after_round(self, before: State, plan: RoundPlan, outcome: RoundOutcome) -> Evaluated:
        """Of a round with a server."""
        after, chosen, rules, federation = outcome.state, plan.selection.clients, self._rules, self._federation
        alignment = None
        if outcome.enough and rules.alignment_every and after.round % rules.alignment_every == 0:
            rows = federation.shards.of_clients(federation.participants)
            weights = outcome.weighing.weights
            alignment = measure_alignment(self._backend, before.params, outcome.updates, weights, plan.lr, rows)
        test, inside, averaged, parts = None, None, None, dict[str, Metrics]()
        if rules.evaluated(after.round):
            test = self._metrics(after.params, "test", self._test)
            if outcome.beside is not None:
                averaged = self._metrics(outcome.beside, "test", self._test)
            for part, rows in self._parts.items():
                parts[part] = self._metrics(after.params, {"training": "train", "validation": "valid"}[part], rows)
            held_out = [federation.holdouts[client] for client in chosen]
            if any(len(rows) for rows in held_out):
                inside = self._metrics(after.params, "train", np.concatenate(held_out))
                if self._by_client:
                    fairness = client_accuracy(self._client_accuracies(after.params))
                    inside = replace(inside, extra=inside.extra | fairness)
        return Evaluated(self.cohort_entropy(outcome.used), test, inside, alignment, averaged, parts)

    def of_test(self, params: Params) -> Metrics:
        """Of a model on the test data."""
        return self._metrics(params, "test", self._test)

    def accuracy(self, params: Params, part: str) -> float:
        """Of a model on the ``validation`` set, or on all that participants hold out (``holdout``)."""
        rows = np.arange(self._federation.data.validation_size)
        where, rows = ("valid", rows) if part == "validation" else ("train", np.concatenate(self._held_out))
        (sums,) = evaluate(self._backend, [(params, rows)], where)
        return metrics(sums).accuracy

    def _metrics(self, params: Params, part: str, rows: NDArray[np.int64]) -> Metrics:
        (sums,) = evaluate(self._backend, [(params, rows)], part, logits=bool(self._chosen))
        found = metrics(sums, self._chosen)
        few = part == "test" and len(sums.confusion) <= FEW_CLASSES
        return replace(found, confusion=sums.confusion.tolist()) if few else found

    def _client_accuracies(self, params: Params) -> list[float]:
        """Of each participant that holds something out, in one pass over all of it."""
        (sums,) = evaluate(self._backend, [(params, np.concatenate(self._held_out))], "train", logits=True)
        logits, labels = sums.samples
        ends = np.cumsum([len(rows) for rows in self._held_out])[:-1]
        return [float(right.mean()) for right in np.split(logits.argmax(axis=1) == labels, ends)]

    def of_peers(self, models: Sequence[Params], digests: Sequence[str]) -> PeersEvaluated:
        """Of a round without one; equal models are evaluated once."""
        wanted = bool(self._chosen)
        different = dict(zip(digests, models, strict=True))
        sums = evaluate(self._backend, [(model, self._test) for model in different.values()], logits=wanted)
        known = {digest: metrics(found, self._chosen) for digest, found in zip(different, sums, strict=True)}
        own: dict[int, ConfusionSums] = {}
        holdouts = self._federation.holdouts
        holders = [node for node in range(len(models)) if len(holdouts[node])]
        if holders:
            found = evaluate(
                self._backend, [(models[node], holdouts[node]) for node in holders], "train", logits=wanted
            )
            own = dict(zip(holders, found, strict=True))
        held_out = {node: metrics(sums) for node, sums in own.items()}
        inside = metrics(reduce(add, own.values()), self._chosen) if own else None
        if inside is not None and self._by_client:
            fairness = client_accuracy([found.accuracy for found in held_out.values()])
            inside = replace(inside, extra=inside.extra | fairness)
        return PeersEvaluated(
            [known[digest] for digest in digests], [held_out.get(node) for node in range(len(models))], inside
        )
