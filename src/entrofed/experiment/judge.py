"""Which model of a run is the best, and when a run may end before its last round.

Both are judged by the accuracy on samples that no client trains on: all that the participants hold out (not the
cohort's alone, whose samples change from round to round), or the server's validation set. The test set is for reports;
it judges only where the experiment file says ``stop.on = "test"``.
"""

from dataclasses import dataclass
from math import inf

from entrofed.core.job import Rules
from entrofed.core.records import RoundRecord
from entrofed.core.types import State
from entrofed.data.federation import Federation
from entrofed.errors import ConfigError
from entrofed.experiment.config import Experiment
from entrofed.experiment.evaluation import FederationEvaluation

WORDS = {
    "holdout": "the held-out data of all participating clients",
    "validation": "the server's validation set",
    "test": "the test set",
}


@dataclass(frozen=True)
class Best:
    """The best accuracy so far, and the rounds that were played when it was reached; the first of equals."""

    accuracy: float = -inf
    round: int = 0


def judged_on(experiment: Experiment, federation: Federation) -> str | None:
    """What judges: ``holdout``, ``validation``, ``test``, or None where there is nothing to judge by.

    A ConfigError if ``stop`` asks for data that is not there.
    """
    there = {
        "holdout": bool(federation.holdouts.sizes[federation.participants].any()),
        "validation": federation.data.validation_size > 0 and experiment.topology is None,
    }
    stop = experiment.stop
    if stop is None or stop.on is None:
        found = next((on for on, some in there.items() if some), None)
        if stop is not None and found is None:
            raise ConfigError(
                "stop is judged by data that nobody trains on, and there is none: let clients hold out a share "
                "(data.holdout = 0.1)"
                + (", or the server (data.validation = 0.1)" if experiment.topology is None else "")
                + '; or say stop.on = "test", and the test set is no longer one'
            )
        return found
    if not there.get(stop.on, True):
        remedy = "data.holdout = 0.1" if stop.on == "holdout" else "data.validation = 0.1"
        if stop.on == "validation" and experiment.topology is not None:
            raise ConfigError('stop.on = "validation": with a [topology] there is no server; choose "holdout"')
        raise ConfigError(f'stop.on = "{stop.on}": there is no such data; set for example {remedy}')
    return stop.on


class Judge:
    """Judges the model of each round that is evaluated."""

    def __init__(self, experiment: Experiment, on: str | None, rules: Rules, evaluation: FederationEvaluation) -> None:
        self.on, self._stop, self._rules, self._evaluation = on, experiment.stop, rules, evaluation
        self._peers = experiment.topology is not None

    @property
    def ends_runs(self) -> bool:
        """Whether it may end a run."""
        return self._stop is not None

    def accuracy(self, state: State, record: RoundRecord) -> float | None:
        """Of the model after a round; of peers, each on its own held-out data. None if the round is not evaluated."""
        if self.on is None or record.test is None:
            return None
        if self.on == "test":
            return record.test.accuracy
        if self._peers:
            return None if record.in_distribution is None else record.in_distribution.accuracy
        return self._evaluation.accuracy(state.params, self.on)

    def end(self, played: int, best: Best) -> str | None:
        """Why the run ends after so many rounds, the last of them evaluated; None if it goes on.

        It follows from the best so far alone, so a run that is resumed ends where the unbroken one does. A best of a
        later round (a run that was killed before its checkpoint) is not reached yet.
        """
        if self._stop is None or self.on is None or not 0 < best.round <= played or not self._rules.evaluated(played):
            return None
        target, patience, where = self._stop.target, self._stop.patience, WORDS[self.on]
        after = f"ended after round {played} of {self._rules.rounds}"
        if target is not None and best.accuracy >= target:
            return f"{after}: accuracy {best.accuracy:.4f} on {where} has reached the target, {target:g}"
        if patience is not None and played - best.round >= patience:
            return (
                f"{after}: accuracy on {where} has not risen above {best.accuracy:.4f} (round {best.round}) "
                f"for {played - best.round} rounds; patience is {patience}"
            )
        return None

    def reason(self, best: Best) -> str:
        """Why a model was kept."""
        return f"the best accuracy, {best.accuracy:.6f}, on {WORDS[self.on or 'test']}"
