"""Our methods as a Flower strategy: change one line of a ServerApp.

::

    strategy = FedAvg(fraction_train=0.5)                              # before
    strategy = EntroStrategy("fedentopt", cohort=0.5, classes=10)      # after
    result = strategy.start(grid=grid, initial_arrays=arrays, num_rounds=3)
"""

import json
import logging
from collections.abc import Callable, Iterable, Mapping
from contextlib import nullcontext
from dataclasses import replace
from math import isfinite
from pathlib import Path
from typing import Any

from flwr.app import ArrayRecord, ConfigRecord, Message, MetricRecord, RecordDict
from flwr.serverapp import Grid
from flwr.serverapp.strategy import Result, Strategy

from entrofed.core.parts import VALIDATION, Method
from entrofed.core.records import RoundRecord
from entrofed.core.seeds import stream
from entrofed.core.types import State
from entrofed.errors import ConfigError
from entrofed.experiment.problems import checked
from entrofed.experiment.run_folder import RunFolder
from entrofed.experiment.sections.method import MethodSection
from entrofed.experiment.sections.privacy import PrivacySection
from entrofed.flower.evaluation import mean_metrics
from entrofed.flower.folder import metrics_of
from entrofed.flower.grid import exchange, message
from entrofed.flower.play import Play, Predict, Settings
from entrofed.flower.protected import check_privacy
from entrofed.flower.wire import ARRAYS, CONFIG
from entrofed.privacy.budget import BudgetError
from entrofed.registry import describe

log = logging.getLogger("flwr")

EvaluateFn = Callable[[int, ArrayRecord], MetricRecord | None]
THEIRS = {
    "fraction_train": "cohort, a share or a number of the clients",
    "min_train_nodes": "quorum, the least number of updates",
    "min_available_nodes": "nodes",
    "initial_parameters": "initial_arrays of start(...)",
    "proximal_mu": 'objective={"name": "fedprox", "mu": ...}',
}
"""What other strategies of Flower call what is called otherwise here."""


class EntroStrategy(Strategy):
    """A Flower strategy that chooses, weighs and aggregates with any method of EntroFed.

    ``method`` is a recipe's name, and ``options`` are the keys of an experiment file's ``[method]``: ``cohort`` (a
    number of clients or a share), ``quorum``, ``max_skipped``, ``selector``, ``weigher``, ``objective``, ``server``,
    and for clients built with :func:`entrofed.flower.client_app` how they train (``epochs``, ``lr`` ...).

    ``seed`` fixes every draw. ``folder``: for checkpoints and records; a strategy that starts again with it
    continues after its last complete round. ``nodes``: how many must be connected before the first round; at most
    ``wait`` seconds are spent waiting for them and for answers to questions. ``classes``: the number of classes, if the
    method needs label counts. ``predict``: a function that returns the models' predictions on the server's validation
    set, as probabilities ``[model, sample, class]``, if the method weighs by them. ``fraction_evaluate``:
    the share of the clients that evaluate each round. ``privacy``: a table like ``[privacy]`` of an experiment file.
    ``secure = true``: updates are masked, and the server learns only their sum; ``updates``: clipping and noise, with
    ``noise`` given, and accounted by who took part. Clients are then built with :func:`entrofed.flower.client_app`.
    """

    def __init__(
        self,
        method: str = "fedentopt",
        *,
        seed: int = 0,
        folder: Path | str | None = None,
        nodes: int = 2,
        wait: float = 60.0,
        classes: int | None = None,
        predict: Predict | None = None,
        fraction_evaluate: float = 1.0,
        privacy: Mapping[str, Any] | None = None,
        **options: Any,
    ) -> None:
        for name, ours in THEIRS.items():
            if name in options:
                raise ConfigError(f"EntroStrategy: {name} is called otherwise here: give {ours}")
        if classes is not None and (type(classes) is not int or classes < 1):
            raise ConfigError(f"EntroStrategy: classes = {classes!r} must be a whole number of labels, such as 10")
        self.section: MethodSection = checked(MethodSection, {"name": method, **options}, "EntroStrategy")
        self.method = self.section.recipe
        _check(self.section, self.method, predict is not None)
        self.privacy: PrivacySection | None = None
        if privacy is not None:
            self.privacy = checked(PrivacySection, dict(privacy), "EntroStrategy: privacy")
            check_privacy(self.privacy, self.section, self.method, nodes)
        for what, value, least, most in (
            ("nodes", nodes, 1, float("inf")),
            ("wait", wait, 0, float("inf")),
            ("fraction_evaluate", fraction_evaluate, 0, 1),
        ):
            if not least <= value <= most:
                raise ConfigError(f"EntroStrategy: {what} = {value} must be between {least} and {most}")
        self.seed, self.nodes, self.wait, self.classes = seed, nodes, wait, classes
        self.folder = None if folder is None else Path(folder)
        self.fraction_evaluate = fraction_evaluate
        self._predict = predict
        self._play: Play | None = None

    @property
    def play(self) -> Play:
        """The run; there once the strategy has started."""
        if self._play is None:
            raise ConfigError("EntroStrategy: start(...) comes first; it cannot be wrapped in another strategy")
        return self._play

    @property
    def records(self) -> list[dict[str, Any]]:
        """What was written down of each round, those before a restart included."""
        return [record.to_json() for record in self.play.records]

    def summary(self) -> None:
        """Log what the strategy is made of."""
        for kind in ("selector", "weigher", "objective", "server"):
            log.info("\t├──> %s: %s", kind, json.dumps(describe(getattr(self.method, kind)), default=str))

    def start(
        self,
        grid: Grid,
        initial_arrays: ArrayRecord,
        num_rounds: int = 3,
        timeout: float = 3600,
        train_config: ConfigRecord | None = None,
        evaluate_config: ConfigRecord | None = None,
        evaluate_fn: EvaluateFn | None = None,
    ) -> Result:
        """Play the rounds that are left; ``timeout`` is the deadline of each exchange of messages.

        What ``evaluate_fn`` and the clients find, ``accuracy`` and ``loss`` above all, is recorded with each round.
        """
        if timeout is None or not timeout > 0:
            raise ConfigError(f"timeout = {timeout}: seconds above 0 are expected; nobody is waited for without end")
        log.info("Starting %s strategy %r:", type(self).__name__, self.section.name)
        self.summary()
        settings = Settings(
            section=self.section,
            seed=self.seed,
            rounds=num_rounds,
            nodes=self.nodes,
            wait=self.wait,
            timeout=timeout,
            classes=self.classes,
            predict=self._predict,
            folder=self.folder,
            privacy=self.privacy,
        )
        with nullcontext() if self.folder is None else RunFolder(self.folder).claimed():
            self._play = play = Play(settings, initial_arrays)
            result = Result()
            result.arrays = play.form.write(play.state.params)
            self._at_server(play.state.round, result, evaluate_fn)
            broken: list[BaseException] = []

            def train(state: State) -> tuple[State, RoundRecord]:
                number = state.round + 1
                log.info("[ROUND %d/%d]", number, num_rounds)
                tasks = list(self.configure_train(number, result.arrays, train_config or ConfigRecord(), grid))
                arrays, trained = self.aggregate_train(number, exchange(grid, tasks, timeout).values())
                result.arrays = result.arrays if arrays is None else arrays
                if trained is not None:
                    result.train_metrics_clientapp[number] = trained
                    log.info("\t└──> trained: %s", trained)
                after, record = self._closed
                found: list[MetricRecord | None] = [None, None]
                try:
                    found[0] = self._at_clients(number, result, evaluate_config or ConfigRecord(), grid, timeout)
                    found[1] = self._at_server(number, result, evaluate_fn)
                except BaseException as error:  # the round was played, and what it cost is spent: it is kept
                    broken.append(error)
                held_out, test = (metrics_of(one) for one in found)
                play.records[-1] = record = replace(record, test=test, in_distribution=held_out)
                return after, record

            def kept(record: RoundRecord) -> None:
                if broken:
                    raise broken.pop()

            try:
                play.runner.play(train, num_rounds, kept)
            except BudgetError as spent:
                log.warning("the run ends after round %d: %s", play.state.round, spent)
            play.finish()
        return result

    def _at_clients(
        self, number: int, result: Result, config: ConfigRecord, grid: Grid, timeout: float
    ) -> MetricRecord | None:
        asked = list(self.configure_evaluate(number, result.arrays, config, grid))
        found = self.aggregate_evaluate(number, exchange(grid, asked, timeout).values())
        if found is not None:
            result.evaluate_metrics_clientapp[number] = found
            log.info("\t└──> evaluated at the clients: %s", found)
        return found

    def _at_server(self, number: int, result: Result, evaluate_fn: EvaluateFn | None) -> MetricRecord | None:
        found = None if evaluate_fn is None else evaluate_fn(number, result.arrays)
        if found is not None:
            result.evaluate_metrics_serverapp[number] = found
            log.info("\t└──> evaluated at the server: %s", found)
        return found

    def configure_train(
        self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid
    ) -> Iterable[Message]:
        """See who is there, ask what the method needs to know, choose, and write the messages."""
        return self.play.open(grid, config)

    def aggregate_train(
        self, server_round: int, replies: Iterable[Message]
    ) -> tuple[ArrayRecord | None, MetricRecord | None]:
        """Admit, weigh and aggregate what came back; below the quorum the model stays."""
        self._closed = state, record = self.play.close(replies)
        if record.skipped:
            return None, None
        metrics: dict[str, Any] = {"clients": len(record.clients), "refused": len(record.refused)}
        if record.train_loss is not None and isfinite(record.train_loss):
            metrics["train-loss"] = record.train_loss
        return self.play.form.write(state.params), MetricRecord(metrics)

    def configure_evaluate(
        self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid
    ) -> Iterable[Message]:
        """Ask a share of those who are there, drawn by the seed; nobody is waited for."""
        roster = self.play.roster
        there = roster.present()
        if not there or not self.fraction_evaluate:
            return []
        number = max(round(self.fraction_evaluate * len(there)), 1)
        chosen = stream(self.seed, "evaluate", server_round).choice(there, number, replace=False)
        record = RecordDict({ARRAYS: arrays, CONFIG: ConfigRecord({**config, "server-round": server_round})})
        nodes = [roster.node_of(client) for client in sorted(chosen.tolist())]
        return [message(record, node, "evaluate", self.play.settings.timeout) for node in nodes if node is not None]

    def aggregate_evaluate(self, server_round: int, replies: Iterable[Message]) -> MetricRecord | None:
        """The means of the clients' metrics, weighted by their numbers of examples."""
        return mean_metrics(replies)


def _check(section: MethodSection, method: Method, predict: bool) -> None:
    """Raise a ConfigError for what a strategy cannot play."""
    method.server.check(method, section.training())
    if VALIDATION in method.needs and not predict:
        raise ConfigError(f"method {section.name!r} weighs by predictions on a validation set; give predict=...")
    if method.server.replaces_network:
        raise ConfigError(
            f"server rule {method.server.name!r} trains another network than the one given; "
            "play it from an experiment file: entrofed run FILE --backend flower"
        )
    if asked := method.facts_told("at_end"):
        raise ConfigError(
            f"method {section.name!r} asks clients for {asked[0].name!r} at the end, after a strategy's last round; "
            "play it from an experiment file: entrofed run FILE --backend flower"
        )
    if section.augment:
        raise ConfigError("EntroStrategy: augment does not apply; change the images where the client loads them")
