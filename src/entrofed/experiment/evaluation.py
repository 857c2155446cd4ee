"""What is measured after each round of an experiment, on the data that its file names."""

from collections.abc import Sequence
from functools import reduce
from operator import add

import numpy as np
from numpy.typing import NDArray

from entrofed.client.alignment import measure_alignment
from entrofed.client.evaluate import ConfusionSums, evaluate, metrics, predictions
from entrofed.core.job import Rules
from entrofed.core.params import Params
from entrofed.core.records import Metrics
from entrofed.core.round import Evaluated, Evaluation, PeersEvaluated, RoundOutcome, RoundPlan
from entrofed.core.tasks import Backend
from entrofed.core.types import State
from entrofed.data.federation import Federation
from entrofed.info.entropy import entropy_of_counts
from entrofed.info.prediction import Predictions


class FederationEvaluation(Evaluation):
    """Evaluates on the test part of a dataset, and on what its clients hold out."""

    def __init__(self, federation: Federation, rules: Rules, backend: Backend) -> None:
        self._federation, self._rules, self._backend = federation, rules, backend
        self._test = np.arange(len(federation.data.test_y))

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
            rows = np.concatenate([federation.shards[client] for client in federation.participants])
            weights = outcome.weighing.weights
            alignment = measure_alignment(self._backend, before.params, outcome.updates, weights, plan.lr, rows)
        test, inside, averaged = None, None, None
        if rules.evaluated(after.round):
            test = self._metrics(after.params, "test", self._test)
            if outcome.beside is not None:
                averaged = self._metrics(outcome.beside, "test", self._test)
            held_out = [federation.holdouts[client] for client in chosen]
            if any(len(rows) for rows in held_out):
                inside = self._metrics(after.params, "train", np.concatenate(held_out))
        return Evaluated(self.cohort_entropy(outcome.used), test, inside, alignment, averaged)

    def _metrics(self, params: Params, part: str, rows: NDArray[np.int64]) -> Metrics:
        (sums,) = evaluate(self._backend, [(params, rows)], part)
        return metrics(sums)

    def of_peers(self, models: Sequence[Params], digests: Sequence[str]) -> PeersEvaluated:
        """Of a round without one; equal models are evaluated once."""
        different = dict(zip(digests, models, strict=True))
        sums = evaluate(self._backend, [(model, self._test) for model in different.values()])
        known = dict(zip(different, map(metrics, sums), strict=True))
        own: dict[int, ConfusionSums] = {}
        holdouts = self._federation.holdouts
        holders = [node for node in range(len(models)) if len(holdouts[node])]
        if holders:
            found = evaluate(self._backend, [(models[node], holdouts[node]) for node in holders], "train")
            own = dict(zip(holders, found, strict=True))
        return PeersEvaluated(
            [known[digest] for digest in digests],
            [metrics(own[node]) if node in own else None for node in range(len(models))],
            metrics(reduce(add, own.values())) if own else None,
        )
