"""The rounds of a strategy: planned and finished as everywhere, with a grid in between.

What it leaves in its folder is a run's (:mod:`entrofed.experiment.run_folder`), and, so that it can go on after its
ServerApp was stopped::

    strategy.json        what the run is: method, seed, model; another run is refused
    clients.json         the clients' names in the order of their numbers, and what they told once
"""

import json
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
from pydantic import ValidationError

from entrofed.core.job import Job, Rules
from entrofed.core.params import Params
from entrofed.core.parts import Method
from entrofed.core.records import RoundRecord, Stopwatch
from entrofed.core.round import Evaluated, RoundPlan, finish_round, plan_round, round_record
from entrofed.core.types import LABEL_COUNTS, Failure, State
from entrofed.errors import CheckpointError, ConfigError
from entrofed.experiment.manifest import read_listed, write_listed
from entrofed.experiment.rounds import Runner
from entrofed.experiment.run_folder import RunFolder
from entrofed.experiment.sections.method import MethodSection
from entrofed.experiment.sections.privacy import PrivacySection
from entrofed.flower.arrays import Format
from entrofed.flower.folder import experiment_of, finish
from entrofed.flower.grid import GridBackend, Roster, content_of, message, most_bytes
from entrofed.flower.protected import SecureRound, protected_method
from entrofed.flower.secure_server import Session
from entrofed.flower.told import Told
from entrofed.flower.wire import NOT_OURS, read_update, write_task
from entrofed.info.entropy import entropy_of_counts
from entrofed.info.prediction import Predictions
from entrofed.privacy.secure import unjudged
from entrofed.privacy.updates import check_layout

log = logging.getLogger("flwr")

Predict = Callable[[list[ArrayRecord]], NDArray[np.float64]]


@dataclass(frozen=True)
class Settings:
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
    privacy: PrivacySection | None = None

    @property
    def secure(self) -> bool:
        """Whether updates come under masks."""
        return self.privacy is not None and self.privacy.secure


class Play:
    """One run: begins anew, or goes on after the last whole round in its folder."""

    def __init__(self, settings: Settings, arrays: ArrayRecord) -> None:
        section = settings.section
        self.settings, self.form = settings, Format.of(arrays)
        self.pool: list[float] | None = None
        self.roster = Roster()
        self._set_method(section.recipe)
        if settings.privacy is not None and settings.privacy.updates is not None:
            check_layout(self.form.layout)
        self._rules = Rules(
            rounds=settings.rounds,
            cohort=1,
            training=section.training(),
            lr_decay=section.lr_decay,
            schedule=section.schedule,
            quorum=section.quorum,
            nonfinite=section.nonfinite,
            admission=section.admission,
        )
        if settings.secure or (settings.privacy is not None and settings.privacy.updates is not None):
            self._rules = unjudged(self._rules)
        self._ours = needs_our_clients(self.method) or settings.secure
        self._job: Job | None = None
        self._plan: RoundPlan | None = None
        self._sent: dict[int, Message] = {}
        self._secure: SecureRound | None = None
        self._watch = Stopwatch()
        folder = None if settings.folder is None else RunFolder(settings.folder)
        self.runner = Runner(
            folder,
            self.form.layout,
            max_skipped=section.max_skipped,
            quorum=section.quorum,
            before_save=self._keep_clients,
        )
        if folder is not None:
            self._claim(folder.path)
            how = {"seed": settings.seed, "rounds": settings.rounds, "nodes": settings.nodes}
            folder.start(experiment_of(folder, section, settings.privacy, **how), self.method)
        self._first = arrays

        def first() -> State:
            return State(0, self.form.read(arrays), {}, {}, self.runner.client_states)

        self.runner.begin(first, resume=True, start_over=False)
        self.records: list[RoundRecord] = []
        if folder is not None and self.state.round:
            clients = _read(folder.path / "clients.json")
            self.roster.names = clients["names"]
            if clients.get("pool") is not None:
                self._know_pool(clients["pool"])
            self.told.restore(clients["told"])
            self.records = folder.records()
            log.info("going on after round %d", self.state.round)

    @property
    def state(self) -> State:
        """After the last whole round."""
        return self.runner.state

    def _set_method(self, recipe: Method) -> None:
        """The method as it is played, and what clients tell for it."""
        settings = self.settings
        self.method = protected_method(
            settings.privacy, settings.section, recipe, nodes=settings.nodes, rounds=settings.rounds
        )
        self.told = Told(self.method, settings.classes)

    def _know_pool(self, counts: list[float]) -> None:
        self.pool = counts
        self._set_method(self.settings.section.recipe.pooled(np.array(counts)))

    def _ask_pool(self, grid: Grid) -> bool:
        """Have the clients that are there sum their label counts under masks, once; whether the sum is known."""
        if self.pool is not None or not self.method.pools:
            return True
        session = Session(
            grid, dict(enumerate(self.roster.node.values())), self.settings.classes or 0, self.settings.wait
        )
        if (counts := session.counts()) is None:
            log.warning("the clients' label counts were not summed: %s", sorted(set(session.reasons.values()))[:3])
            return False
        self._know_pool(counts.tolist())
        return True

    def _claim(self, folder: Path) -> None:
        """Raise a ConfigError if another run lies in the folder."""
        model = {entry.name: entry.shape for entry in self.form.layout.entries}
        method = self.settings.section.model_dump(mode="json")
        what = {"method": method, "seed": self.settings.seed, "classes": self.settings.classes, "model": model}
        if self.settings.privacy is not None:
            what["privacy"] = self.settings.privacy.model_dump(mode="json")
        path, now = folder / "strategy.json", json.loads(json.dumps(what))
        if not path.exists():
            write_listed(path, json.dumps(now, indent=2) + "\n")
            return
        before = _read(path)
        before["method"] = _resolved(before.get("method"))
        changed = [key for key in {**before, **now} if before.get(key) != now.get(key)]
        if changed:
            raise ConfigError(f"{folder}: another run lies here; changed: {', '.join(changed)}. Take another folder")

    def finish(self) -> None:
        """Write what is known after the last round."""
        if self.settings.folder is not None:
            finish(RunFolder(self.settings.folder), self.form.layout, self.state, self.roster.names, self.told.values)

    def _keep_clients(self) -> None:
        if self.settings.folder is not None:
            content = {"names": self.roster.names, "told": self.told.values, "pool": self.pool}
            write_listed(self.settings.folder / "clients.json", json.dumps(content) + "\n")

    def open(self, grid: Grid, config: ConfigRecord) -> list[Message]:
        """See who is there, ask what the method needs to know, choose, and write the messages."""
        self._plan, self._sent, self._watch = None, {}, Stopwatch()
        state, layout, settings = self.state, self.form.layout, self.settings
        untouched = not any(record.cohort for record in self.records)  # nobody was ever asked to train
        self._gather(grid)
        if untouched:
            self.roster.sort()
        if not self._ask_pool(grid):
            return []
        self.told.learn(grid, self.roster, settings.wait, self._first)
        present = np.array(self.roster.present(), np.int64)
        clients = self.told.table(self.roster.names, layout, settings.rounds)
        if not clients.sizes[present].any():
            return []
        if untouched:
            selector = self.method.selector.init(clients, present)
            server = self.method.server.init(state.params, clients, present)
            self.runner.state = state = replace(state, selector=selector, server=server)
        rules = replace(self._rules, cohort=settings.section.cohort_size(len(present)))
        self._job = Job(self.method, rules, clients, present, layout, settings.seed, self._predictions)
        backend = GridBackend(grid, self.roster, settings.timeout, form=self.form, config=config, ours=self._ours)
        self._plan = plan_round(self._job, state, backend)
        there = {task.client: self.roster.node_of(task.client) for task in self._plan.tasks}
        nodes = {client: node for client, node in there.items() if node is not None}
        self._secure = SecureRound(self._job, state, nodes, grid, settings.timeout) if settings.secure else None
        for task in self._plan.tasks:
            node = nodes.get(task.client)
            content = write_task(task, self.form, config)
            if node is not None and (self._secure is None or self._secure.orders(task.client, content)):
                self._sent[task.client] = message(content, node, "train", settings.timeout)
        self._watch = Stopwatch()
        return list(self._sent.values())

    def _gather(self, grid: Grid) -> None:
        """Wait for clients, but not without end."""
        wait, wanted = self.settings.wait, self.settings.nodes if self.state.round == 0 else 1
        end = time.monotonic() + wait
        while True:
            self.roster.refresh(grid, wait)
            if len(self.roster.node) >= wanted or time.monotonic() >= end:
                return
            time.sleep(min(1.0, wait / 10))

    def close(self, replies: Iterable[Message]) -> tuple[State, RoundRecord]:
        """Admit, weigh and aggregate what came back; below the quorum the model stays."""
        plan, job, state = self._plan, self._job, self.state
        if plan is None or job is None:
            log.warning("round %d: nobody is there who can be asked", state.round)
            after = replace(state, round=state.round + 1, skipped=state.skipped + 1)
            return self._noted(after, RoundRecord(round=state.round, skipped=True, names=[]))
        self._watch.lap("train")
        outcome = finish_round(job, state, plan, self._answers(plan, replies))
        chosen, bits = plan.selection.clients, None
        if LABEL_COUNTS in job.clients.facts:
            counts = job.clients.told(LABEL_COUNTS, "the record")
            bits = float(entropy_of_counts(counts[chosen].sum(axis=0), base="bits"))
        record = round_record(plan, outcome, Evaluated(bits), self._watch.seconds)
        return self._noted(outcome.state, replace(record, names=[self.roster.names[client] for client in chosen]))

    def _noted(self, state: State, record: RoundRecord) -> tuple[State, RoundRecord]:
        self.records.append(record)
        return state, record

    def _answers(self, plan: RoundPlan, replies: Iterable[Message]) -> list[Any]:
        """What came of each task: the first reply to its message; what replies to none of them is dropped."""
        expected = {sent.metadata.message_id: client for client, sent in self._sent.items()}
        found: dict[int, Message] = {}
        for reply in replies:
            client = expected.get(reply.metadata.reply_to_message_id)
            if client is None or client in found:
                log.warning("a reply of node %d that nobody asked for is not used", reply.metadata.src_node_id)
            else:
                found[client] = reply
        most = most_bytes(self.form.layout)
        if self._secure is not None:
            contents = {client: content_of(found.get(client), most) for client in self._sent}
            return self._secure.answers(plan.tasks, contents)
        answers: list[Any] = []
        for task in plan.tasks:
            content = content_of(found.get(task.client), most)
            if task.client not in self._sent:
                answers.append(Failure("not connected"))
            elif isinstance(content, RecordDict):
                answers.append(read_update(content, task, self.form, ours=self._ours))
            else:
                answers.append(content)
        self._check_clients(answers)
        return answers

    def _check_clients(self, answers: Sequence[Any]) -> None:
        """Raise a ConfigError if nobody can do what the method asks, which no further round will change."""
        unable = [isinstance(answer, Failure) and answer.reason == NOT_OURS for answer in answers]
        if len(unable) > 1 and all(unable) and not any(record.clients for record in self.records):
            raise ConfigError(
                f"method {self.settings.section.name!r} asks more of clients than to train as they do, and none "
                f"of {len(unable)} can do it; build the ClientApp with entrofed.flower.client_app, or change the method"
            )

    def _predictions(self, models: Sequence[Params]) -> Predictions:
        predict = self.settings.predict
        if predict is None:
            raise ConfigError("a part of the method looks at predictions on a validation set; give predict=...")
        found = np.asarray(predict([self.form.write(model) for model in models]), np.float64)
        if found.ndim != 3 or len(found) != len(models):
            raise ConfigError(f"predict gave shape {found.shape}; expected [{len(models)} models, samples, classes]")
        return Predictions.of(found)


def needs_our_clients(method: Method) -> bool:
    """Whether a method asks more of clients than to train on their data as they do anyway, and to tell their labels.

    >>> needs_our_clients(MethodSection(name="fedentopt").recipe)
    False
    >>> needs_our_clients(MethodSection(name="scaffold").recipe)
    True
    """
    asked = method.facts_told("before_round") + method.facts_told("with_update")
    return method.server.client is not None or not method.objective.plain or bool(asked)


def _resolved(method: Any) -> Any:
    """A stored method with the options that have come since."""
    try:
        return MethodSection.model_validate(method, context={"stored": True}).model_dump(mode="json")
    except ValidationError:
        return method


def _read(path: Path) -> dict[str, Any]:
    try:
        return dict(json.loads(read_listed(path)))
    except (OSError, ValueError, TypeError, RecursionError) as error:
        raise CheckpointError(f"{path}: not readable ({error}); take another folder to begin anew") from None
    except CheckpointError as error:
        raise CheckpointError(f"{error}; or take another folder to begin anew") from None
