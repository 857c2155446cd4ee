"""Our methods as a Flower strategy: change one line of a ServerApp.

::

    strategy = FedAvg(fraction_train=0.5)                  # before
    strategy = EntroStrategy("fedentopt", cohort=0.5)      # after
    result = strategy.start(grid=grid, initial_arrays=arrays, num_rounds=3)
"""

import json
import logging
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from flwr.app import ArrayRecord, ConfigRecord, Message, MetricRecord, RecordDict
from flwr.serverapp import Grid
from flwr.serverapp.strategy import Result, Strategy
from flwr.serverapp.strategy.strategy_utils import aggregate_metricrecords
from numpy.typing import NDArray

from entrofed.accounts import Books
from entrofed.checkpoint import Checkpoints
from entrofed.config import MethodSection, checked
from entrofed.errors import ConfigError, DataError, QuorumError
from entrofed.files import write_whole
from entrofed.flower.grid import GridBackend, Roster, ask, content_of, most_bytes
from entrofed.flower.wire import ARRAYS, CONFIG, METRICS, Format, read_update, write_order
from entrofed.info.entropy import entropy_of_counts
from entrofed.info.prediction import Predictions
from entrofed.memories import Memories, Pool
from entrofed.orders import Rules
from entrofed.registry import describe
from entrofed.rounds import Opened, close_round, open_round, record_of
from entrofed.seeds import stream
from entrofed.store import json_line
from entrofed.types import (
    LABEL_COUNTS,
    LABEL_SUMMARY,
    MEAN_PREDICTION,
    MOST,
    VALIDATION,
    Failure,
    Ledger,
    ServerRule,
    State,
)

log = logging.getLogger("entrofed")

CLIENT_HOOKS = ("shift", "steps", "report")
"""What a server rule may ask clients to do."""


class EntroStrategy(Strategy):
    """A strategy that chooses, weighs and aggregates with any of our methods.

    ``method`` is a recipe's name, and ``options`` are the keys of an experiment file's ``[method]``: ``cohort`` (a
    number of clients or a share), ``quorum``, ``max_skipped``, ``selector``, ``weigher``, ``objective``, ``server``, and
    for clients built with :func:`entrofed.flower.client_app` how they train (``epochs``, ``batch_size``, ``lr`` ...).

    ``seed`` fixes every draw. ``folder``: where checkpoints and records lie; a strategy that starts again with the same
    folder goes on after its last whole round. ``nodes`` must be there before the first round, at most ``wait`` seconds
    are spent waiting for them and for answers to questions. ``classes``: how many labels there are; needed where label
    counts are. ``predict`` gives what models say about the server's validation set, as probabilities
    ``[model, sample, class]``, where a method weighs by that. ``fraction_evaluate``: the share of the clients that
    evaluate each round.
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
        predict: Callable[[list[ArrayRecord]], NDArray[np.float64]] | None = None,
        fraction_evaluate: float = 1.0,
        **options: Any,
    ) -> None:
        self.section: MethodSection = checked(MethodSection, {"name": method, **options}, "EntroStrategy")
        self.method = self.section.recipe()
        self.method.server.check(self.method, self.section.training())
        self.seed, self.nodes, self.wait, self.classes = seed, nodes, wait, classes
        self.folder = None if folder is None else Path(folder)
        self.fraction_evaluate = fraction_evaluate
        self._predict = predict
        if VALIDATION in self.method.needs and predict is None:
            raise ConfigError(f"method {method!r} weighs by predictions on a validation set; give predict=...")
        self._ours = needs_our_clients(self.section)
        self.roster = Roster()
        self.counts: dict[str, Any] = {}
        """What each client has released of its labels, by name."""
        self.records: list[dict[str, Any]] = []
        self._opened: Opened | None = None

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
        evaluate_fn: Callable[[int, ArrayRecord], MetricRecord | None] | None = None,
    ) -> Result:
        """Play the rounds that are left; ``timeout`` is the deadline of each exchange of messages."""
        self._begin(initial_arrays, num_rounds, timeout)
        done = self.state.round
        if done:
            log.info("going on after round %d", done)
        if done >= num_rounds:
            result = Result()
            result.arrays = self.form.write(self.state.params)
            return result
        shifted = None if evaluate_fn is None else lambda number, arrays: evaluate_fn(done + number, arrays)
        arrays = self.form.write(self.state.params)
        return super().start(grid, arrays, num_rounds - done, timeout, train_config, evaluate_config, shifted)

    def _begin(self, arrays: ArrayRecord, rounds: int, timeout: float) -> None:
        self.form = Format.of(arrays)
        layout, section = self.form.layout, self.section
        params = self.form.read(arrays)
        self.timeout = timeout
        self.rules = Rules(
            seed=self.seed,
            rounds=rounds,
            cohort=1,
            training=section.training(),
            lr_decay=section.lr_decay,
            quorum=section.quorum,
            nonfinite=section.nonfinite,
        )
        self.state = State(round=0, params=params, selector={}, server={}, memory={})
        self._checkpoints: Checkpoints | None = None
        if self.folder is None:
            return
        self.folder.mkdir(parents=True, exist_ok=True)
        pool = Pool(self.folder / "memory", 256e6)
        self._checkpoints = Checkpoints(self.folder / "checkpoints", layout, pool)
        self.state = replace(self.state, memory=Memories(pool))
        before, problems = self._checkpoints.last()
        for problem in problems:
            log.warning("%s; going back to the checkpoint before", problem)
        if before is not None:
            self.state = before
            kept = json.loads((self.folder / "clients.json").read_text(encoding="utf-8"))
            self.roster.names, self.counts = kept["names"], kept["counts"]
            lines = (self.folder / "metrics.jsonl").read_text(encoding="utf-8").splitlines()
            self.records = [json.loads(line) for line in lines[: before.round]]

    # ----- one round

    def configure_train(
        self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid
    ) -> Iterable[Message]:
        """See who is there, ask what the method needs to know, choose, and write the messages."""
        self._opened, self._books = None, Books(self.form.layout)
        self._gather(grid)
        present = np.array(self.roster.present(), np.int64)
        if not len(present):
            log.warning("round %d: nobody is there", self.state.round)
            return []
        self._learn_labels(grid)
        self.ledger = self._ledger()
        if self.state.round == 0:
            selector = self.method.selector.init(self.ledger, present)
            server = self.method.server.init(self.state.params, self.ledger, present)
            self.state = replace(self.state, selector=selector, server=server)
        self.rules = replace(self.rules, cohort=self.section.cohort_size(len(present)))
        backend = GridBackend(grid, self.roster, self.timeout, form=self.form)
        backend.config = config
        opened = open_round(
            self.state, self.method, self.rules, self.ledger, present, self.form.layout, backend, self._books
        )
        self._books.lap("select")
        self._opened, self._nodes = opened, {}
        messages = []
        for order in opened.work:
            node = self.roster.node_of(order.client)
            if node is not None:
                self._nodes[node] = order.client
                record = write_order(order, self.form, config)
                messages.append(Message(record, dst_node_id=node, message_type="train"))
        return messages

    def aggregate_train(
        self, server_round: int, replies: Iterable[Message]
    ) -> tuple[ArrayRecord | None, MetricRecord | None]:
        """Admit, weigh and aggregate what came back; below the quorum the model stays."""
        if self._opened is None:
            return self._skip()
        self._books.lap("train")
        answers = self._answers(replies)
        layout = self.form.layout
        closed = close_round(
            self.state,
            self._opened,
            [answers.get(order.client, Failure("no reply before the deadline")) for order in self._opened.work],
            self.method,
            self.rules,
            self.ledger,
            layout,
            self._predictions,
            self._books,
        )
        counts, chosen = self.ledger.label_counts, self._opened.selection.clients
        bits = None if counts is None else float(entropy_of_counts(counts[chosen].sum(axis=0), base="bits"))
        nothing = {"test": None, "id": None, "alignment": None}
        record = record_of(self._opened, closed, self._books, bits, nothing)
        record["names"] = [self.roster.names[client] for client in chosen]
        self.state = closed.state
        self._keep(record)
        if not closed.enough:
            return self._too_few()
        metrics: dict[str, Any] = {"clients": len(closed.updates), "refused": len(closed.refused)}
        if record["train_loss"] is not None:
            metrics["train-loss"] = record["train_loss"]
        return self.form.write(self.state.params), MetricRecord(metrics)

    def _answers(self, replies: Iterable[Message]) -> dict[int, Any]:
        """What each client answered, the first answer of each; a reply of somebody who was not asked is dropped."""
        answers: dict[int, Any] = {}
        for reply in replies:
            node = int(reply.metadata.src_node_id)
            client = self._nodes.get(node)
            if client is None:
                reason = reply.error.reason if reply.has_error() else "it was not asked"
                log.warning("round %d: a reply from node %d is not used: %s", self.state.round, node, reason)
            elif client in answers:
                log.warning("round %d: a second reply from node %d is not used", self.state.round, node)
            else:
                content = content_of(reply, most_bytes(self.form.layout))
                answers[client] = (
                    read_update(content, client, self.form, ours=self._ours)
                    if isinstance(content, RecordDict)
                    else content
                )
        return answers

    def _skip(self) -> tuple[None, None]:
        """A round in which nobody could be asked."""
        before = self.state
        self.state = replace(before, round=before.round + 1, skipped=before.skipped + 1)
        nobody = {"cohort": [], "clients": [], "refused": [], "skipped": True, "names": []}
        self._keep({"round": before.round, **nobody})
        return self._too_few()

    def _too_few(self) -> tuple[None, None]:
        if self.state.skipped >= self.section.max_skipped:
            raise QuorumError(
                f"{self.state.skipped} rounds in a row had fewer than {self.rules.quorum} usable updates (quorum); "
                "the reasons are in the log"
            )
        return None, None

    def _keep(self, record: dict[str, Any]) -> None:
        self.records.append(record)
        if self.folder is None or self._checkpoints is None:
            return
        write_whole(self.folder / "metrics.jsonl", "".join(json_line(line) for line in self.records))
        clients = {"names": self.roster.names, "counts": self.counts}
        write_whole(self.folder / "clients.json", json.dumps(clients) + "\n")
        self._checkpoints.save(self.state)

    # ----- who is there, and what they tell

    def _gather(self, grid: Grid) -> None:
        """Wait for clients, but not without end."""
        end = time.monotonic() + self.wait
        while True:
            self.roster.refresh(grid, self.wait)
            enough = len(self.roster.node) >= (self.nodes if self.state.round == 0 else 1)
            if enough or time.monotonic() >= end:
                return
            time.sleep(1.0)

    def _learn_labels(self, grid: Grid) -> None:
        """Ask those for their labels that have not told yet; once told, what they told is kept."""
        needs = self.method.needs
        if not {LABEL_COUNTS, LABEL_SUMMARY} & needs:
            return
        if self.classes is None:
            raise ConfigError(f"method {self.section.name!r} works with label counts; say how many: classes=10")
        question: dict[str, Any] = {"what": "counts"}
        if LABEL_COUNTS not in needs:
            question = {"what": "summary", "weigher": describe(self.method.weigher)}
        new = {node: name for name, node in self.roster.node.items() if name not in self.counts}
        for node, answer in ask(grid, list(new), question, self.wait).items():
            name = new[node]
            if isinstance(answer, Failure):
                log.warning("client %s tells nothing of its labels: %s", name, answer.reason)
                continue
            try:
                self.counts[name] = _told(answer, question["what"], self.classes)
            except (DataError, KeyError, ValueError, TypeError) as error:
                log.warning("what client %s tells of its labels is not used: %s", name, error)
        if not any(name in self.counts for name in self.roster.node):
            raise ConfigError(
                f"method {self.section.name!r} works with label counts, and none of {len(self.roster.node)} clients "
                "tells them; build the ClientApp with entrofed.flower.client_app, or wrap yours in "
                "entrofed.flower.answering(app, labels=..., classes=...)"
            )

    def _ledger(self) -> Ledger:
        """What is known of the clients; who does not tell what the method works with takes no part (size 0)."""
        names, needs = self.roster.names, self.method.needs
        common = {"partition": "", "trainable": self.form.layout.trainable, "classes": self.classes or 0}
        if not {LABEL_COUNTS, LABEL_SUMMARY} & needs:
            return Ledger(sizes=np.ones(len(names), np.int64), **common)  # type: ignore[arg-type]
        told = [np.array(self.counts.get(name, []), np.float64) for name in names]
        if LABEL_COUNTS in needs:
            counts = np.stack([row if len(row) else np.zeros(self.classes or 0) for row in told])
            summaries = tuple(self.method.weigher.summary(row) for row in counts) if LABEL_SUMMARY in needs else None
            sizes = np.ceil(counts.sum(axis=1)).astype(np.int64)
            return Ledger(sizes=sizes, label_counts=counts, summaries=summaries, **common)  # type: ignore[arg-type]
        sizes = np.array([int(len(row) > 0) for row in told], np.int64)
        return Ledger(sizes=sizes, summaries=tuple(told), **common)  # type: ignore[arg-type]

    def _predictions(self, models: Any) -> Predictions:
        if self._predict is None:
            raise ConfigError("there is no validation set: give predict=...")
        return Predictions.of(np.asarray(self._predict([self.form.write(model) for model in models]), np.float64))

    # ----- evaluation at the clients

    def configure_evaluate(
        self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid
    ) -> Iterable[Message]:
        """Ask a share of those who are there, drawn by the seed; nobody is waited for."""
        there = self.roster.present()
        number = round(self.fraction_evaluate * len(there))
        if not number:
            return []
        chosen = stream(self.seed, "evaluate", self.state.round).choice(there, number, replace=False)
        record = RecordDict({ARRAYS: arrays, CONFIG: ConfigRecord({**config, "server-round": self.state.round})})
        nodes = [node for client in sorted(chosen.tolist()) if (node := self.roster.node_of(client)) is not None]
        return [Message(record, dst_node_id=node, message_type="evaluate") for node in nodes]

    def aggregate_evaluate(self, server_round: int, replies: Iterable[Message]) -> MetricRecord | None:
        """The means of the clients' figures, weighted by their numbers of examples."""
        usable = []
        for reply in replies:
            content = content_of(reply)
            if isinstance(content, Failure) or not _sound(content):
                why = content.reason if isinstance(content, Failure) else "its figures cannot be used"
                log.warning("an evaluation of node %d is not used: %s", reply.metadata.src_node_id, why)
            else:
                usable.append(content)
        if not usable:
            return None
        keys = set.intersection(*(set(content.metric_records[METRICS]) for content in usable))
        same = [
            RecordDict({METRICS: MetricRecord({key: content.metric_records[METRICS][key] for key in sorted(keys)})})
            for content in usable
        ]
        return aggregate_metricrecords(same, "num-examples")


def needs_our_clients(section: MethodSection) -> bool:
    """Whether a method asks more of clients than to train on their data as they do anyway.

    >>> needs_our_clients(MethodSection(name="fedentopt")), needs_our_clients(MethodSection(name="scaffold"))
    (False, True)
    """
    method = section.recipe()
    hooks = any(getattr(type(method.server), hook) is not getattr(ServerRule, hook) for hook in CLIENT_HOOKS)
    return hooks or method.objective.name != "cross_entropy" or MEAN_PREDICTION in method.needs


def _told(answer: Mapping[str, Any], what: str, classes: int) -> list[float]:
    """Label counts or their summary as a client told them, checked."""
    row = np.array(answer[what], np.float64)
    if row.ndim != 1 or not np.isfinite(row).all():
        raise DataError(f"{what}: a list of finite numbers is expected")
    if what == "counts" and not (len(row) == classes and (row >= 0).all() and 0 < row.sum() <= MOST):
        raise DataError(f"counts: {classes} numbers from 0 on are expected that sum to at most {MOST}, found {row}")
    found: list[float] = row.tolist()
    return found


def _sound(content: RecordDict) -> bool:
    """Whether the figures of an evaluation can be averaged."""
    metrics = content.metric_records.get(METRICS)
    if metrics is None:
        return False
    examples = metrics.get("num-examples")
    if not isinstance(examples, int | float) or not 0 < examples <= 1e9:
        return False
    return all(isinstance(value, int | float) and np.isfinite(value) for value in metrics.values())
