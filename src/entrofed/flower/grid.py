"""Tasks done by the nodes of a Flower grid, and who is who among them."""

import json
import logging
import time
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from flwr.app import DEFAULT_TTL, ArrayRecord, ConfigRecord, Message, RecordDict
from flwr.serverapp import Grid
from numpy.typing import NDArray

from entrofed.backends.base import Backend, Workload
from entrofed.backends.inline import InlineBackend
from entrofed.core.params import Layout
from entrofed.core.parts import Fact
from entrofed.core.tasks import FactTask, Task, TrainTask
from entrofed.core.types import Failure
from entrofed.flower.answers import ASK
from entrofed.flower.arrays import Format, size_of
from entrofed.flower.wire import ARRAYS, CONFIG, read_update, write_task
from entrofed.registry import describe

log = logging.getLogger("entrofed")

POLL, POLL_LATER = 0.2, 3.0
"""Seconds between looks for replies: the longer it takes, the seldomer, for each look costs the SuperLink."""
PATIENCE, AGAIN = 60.0, 300.0
"""Seconds for the answer to a question, and until a node that has let one pass is asked again."""
CLOCKS = 300.0
"""Seconds that a client's clock may be ahead; Flower compares it with the server's."""
MOST_MODELS, MOST_BYTES = 8, 1_000_000
"""A reply may be as large as so many models and so many bytes."""
MOST_LETTERS = 200
"""Of a client's name."""
APP_RAISED = 2
"""Flower's code for an error of the ClientApp; all others are of the node, or of the way to it."""


class Silence(Failure):
    """Nothing came of a message: the node is slow, or gone, or cannot run its app."""


def message(content: RecordDict, node: int, kind: str, timeout: float) -> Message:
    """A message that is not delivered long after nobody waits for the reply: a slow node does not fall behind."""
    return Message(content, dst_node_id=node, message_type=kind, ttl=min(timeout + CLOCKS, DEFAULT_TTL))


def exchange(grid: Grid, messages: Sequence[Message], timeout: float) -> dict[int, Message]:
    """Send messages, and wait for the replies until the deadline; one message a node, at most one reply of each.

    A reply counts for the node that its message went to: errors that the SuperLink reports name another sender, and
    nobody can answer in another's name.
    """
    return collect(grid, send(grid, messages), timeout)


def send(grid: Grid, messages: Sequence[Message]) -> dict[str, int]:
    """The node that each message went to, by the message's id."""
    keys = list(grid.push_messages(list(messages)))
    if keys and len(keys) != len(messages):  # some could not be sent, and Flower does not say which
        keys = [sent.metadata.message_id for sent in messages]
    return {key: int(sent.metadata.dst_node_id) for key, sent in zip(keys, messages, strict=False) if key}


def collect(
    grid: Grid, node_of: Mapping[str, int], timeout: float, wanted: Set[int] | None = None
) -> dict[int, Message]:
    """The replies to messages that were sent, by node; ``wanted``: who is waited for, if not all are."""
    left, replies, begun = set(node_of), dict[int, Message](), time.monotonic()
    while left:
        for reply in grid.pull_messages(sorted(left)):
            key = reply.metadata.reply_to_message_id
            if key in left:  # a second reply to the same message changes nothing
                left.discard(key)
                replies[node_of[key]] = reply
        waited = time.monotonic() - begun
        if waited >= timeout or not any(wanted is None or node_of[key] in wanted for key in left):
            break
        time.sleep(min(max(POLL, waited / 10), POLL_LATER, timeout - waited))
    return replies


def content_of(reply: Message | None, most: int) -> RecordDict | Failure:
    """What a reply holds, or why it cannot be used; ``most``: the bytes that are taken from one client."""
    if reply is None:
        return Silence("no reply before the deadline")
    if reply.has_error():
        last = str(reply.error.reason).strip().splitlines()[-1:]
        reason = f"error {reply.error.code}: {' '.join(last)[:500]}"
        return Failure(reason) if reply.error.code == APP_RAISED else Silence(reason)
    size = size_of(reply.content)
    return reply.content if size <= most else Failure(f"a reply of {size:,} bytes; at most {most:,} are taken")


def ask_each(
    grid: Grid, questions: Mapping[int, dict[str, Any]], timeout: float
) -> dict[int, dict[str, Any] | Failure]:
    """Put a question of its own to each node; the answers are plain tables."""
    found = exchange(grid, [_question(node, what, timeout) for node, what in questions.items()], timeout)
    return {node: answer_in(content_of(found.get(node), MOST_BYTES)) for node in questions}


def _question(node: int, what: dict[str, Any], timeout: float, model: ArrayRecord | None = None) -> Message:
    record = RecordDict({CONFIG: ConfigRecord({"ask": json.dumps(what)})})
    if model is not None:
        record[ARRAYS] = model
    return message(record, node, ASK, timeout)


class Question:
    """One question to many nodes. A node is waited for once; later its answer is taken when it comes."""

    def __init__(self, what: dict[str, Any]) -> None:
        self._what = what
        self._asked: set[int] = set()
        self._open: dict[int, tuple[str, float]] = {}
        """The message that each silent node has not answered yet, and when it was sent."""

    def ask(
        self, grid: Grid, nodes: Sequence[int], timeout: float, model: ArrayRecord | None = None, *, patient: bool
    ) -> dict[int, dict[str, Any] | Failure]:
        """Put the question to nodes, with a model if it is about one; ``patient``: wait for all of them again."""
        now = time.monotonic()
        due = [node for node in nodes if node not in self._open or now - self._open[node][1] > AGAIN]
        new = {node for node in due if node not in self._asked}
        self._asked |= new
        sent = send(grid, [_question(node, self._what, timeout, model) for node in due])
        self._open |= {node: (key, now) for key, node in sent.items()}
        keys = {self._open[node][0]: node for node in nodes if node in self._open}
        found = collect(grid, keys, timeout, None if patient else new)
        answers = {node: answer_in(content_of(found.get(node), MOST_BYTES)) for node in nodes}
        for node in found:
            self._open.pop(node, None)
        return answers


def answer_in(content: RecordDict | Failure) -> dict[str, Any] | Failure:
    """The table that a reply holds."""
    if isinstance(content, Failure):
        return content
    try:
        return dict(json.loads(str(content.config_records[CONFIG]["answer"])))
    except (KeyError, ValueError, TypeError, RecursionError) as error:
        return Failure(f"an answer that cannot be read: {type(error).__name__}: {str(error)[:200]}")


@dataclass
class Roster:
    """Who is who: clients have stable names and numbers, whatever node they are at the moment.

    A client's name is what it says (``name`` or ``partition-id`` of its node configuration), else that of its node. Its
    number is its place in ``names``; who comes later is appended. Of several nodes with one name, the one that was
    there first is the client, until it goes.
    """

    names: list[str] = field(default_factory=list)
    node: dict[str, int] = field(default_factory=dict)
    """The node of each client that is there."""
    known: dict[int, str] = field(default_factory=dict)
    _hello: Question = field(default_factory=lambda: Question({"what": "hello"}))
    _silent: set[int] = field(default_factory=set)
    """Nodes that were said not to answer: once is enough."""

    def refresh(self, grid: Grid, timeout: float) -> None:
        """See who is there, and ask who they are that are not known."""
        there = sorted(grid.get_node_ids())
        new = {node for node in there if node not in self.known}
        if new:
            for node, answer in self._hello.ask(grid, sorted(new), timeout, patient=False).items():
                if not isinstance(answer, Silence):
                    self.known[node] = _name(node, answer)
                elif node not in self._silent:
                    self._silent.add(node)
                    log.warning("node %d does not answer, and is left out until it does: %s", node, answer.reason)
        nodes: dict[str, list[int]] = {}
        for node in there:
            if node in self.known:
                nodes.setdefault(self.known[node], []).append(node)
        before, self.node, numbered = self.node, {}, set(self.names)
        for name in sorted(nodes, key=_order):
            first = before.get(name)
            self.node[name] = first if first in nodes[name] else nodes[name][0]
            for node in nodes[name]:
                if node in new and node != self.node[name]:
                    log.warning("node %d calls itself %r, as node %d does; it is left out", node, name, self.node[name])
            if name not in numbered:
                self.names.append(name)

    def sort(self) -> None:
        """Number those who are known by their names, so that it does not matter who was there first."""
        self.names.sort(key=_order)

    def present(self) -> list[int]:
        """The numbers of the clients that are there."""
        return [number for number, name in enumerate(self.names) if name in self.node]

    def node_of(self, client: int) -> int | None:
        """The node of a client, if it is there."""
        return self.node.get(self.names[client]) if client < len(self.names) else None


def _name(node: int, answer: dict[str, Any] | Failure) -> str:
    said = None if isinstance(answer, Failure) else answer.get("name")
    return said if isinstance(said, str) and 0 < len(said) <= MOST_LETTERS else f"node-{node}"


def _order(name: str) -> tuple[int, int, str]:
    """Numbers in their order, before other names."""
    return (0, int(name), name) if name.isdecimal() else (1, 0, name)


class GridBackend(Backend):
    """Training and facts at the nodes of a grid; all else, such as the evaluation on test data, here."""

    def __init__(
        self,
        grid: Grid,
        roster: Roster,
        timeout: float,
        *,
        form: Format | None = None,
        config: ConfigRecord | None = None,
        ours: bool = True,
    ) -> None:
        self._grid, self._roster, self._timeout, self._form = grid, roster, timeout, form
        self._config, self._ours = config or ConfigRecord(), ours
        self._here = InlineBackend()

    def open(self, workload: Workload) -> None:
        """Set up what is done here, and how models travel."""
        self._here.open(workload)
        self._form = Format.by_layout(workload.layout)

    def run(self, tasks: Sequence[Task]) -> list[Any]:
        """Send tasks to the clients that they are for; do the others here."""
        outcomes: dict[int, Any] = {}
        messages: dict[int, Message] = {}
        if any(isinstance(task, TrainTask | FactTask) for task in tasks):
            self._roster.refresh(self._grid, min(self._timeout, PATIENCE))
        for i, task in enumerate(tasks):
            if isinstance(task, TrainTask | FactTask):
                node = self._roster.node_of(task.client)
                if node is None:
                    outcomes[i] = Failure("not connected")
                else:
                    messages[i] = self._message(task, node)
        found = exchange(self._grid, list(messages.values()), self._timeout)
        for i, sent in messages.items():
            outcomes[i] = self._outcome(tasks[i], found.get(int(sent.metadata.dst_node_id)))
        here = [i for i in range(len(tasks)) if i not in outcomes]
        outcomes |= dict(zip(here, self._here.run([tasks[i] for i in here]) if here else [], strict=True))
        return [outcomes[i] for i in range(len(tasks))]

    def _message(self, task: TrainTask | FactTask, node: int) -> Message:
        form = self._formed()
        if isinstance(task, TrainTask):
            return message(write_task(task, form, self._config), node, "train", self._timeout)
        question = json.dumps({**fact_question(task.fact), "client": task.client})
        record = RecordDict({ARRAYS: form.write(task.params), CONFIG: ConfigRecord({"ask": question})})
        return message(record, node, ASK, self._timeout)

    def _outcome(self, task: Task, reply: Message | None) -> Any:
        form = self._formed()
        content = content_of(reply, most_bytes(form.layout))
        if isinstance(content, Failure):
            return content
        if isinstance(task, TrainTask):
            return read_update(content, task, form, ours=self._ours)
        answer = answer_in(content)
        return answer if isinstance(answer, Failure) else told_value(answer)

    def _formed(self) -> Format:
        if self._form is None:
            raise RuntimeError("open() comes before run()")
        return self._form

    def close(self) -> None:
        """The grid belongs to the ServerApp."""


def fact_question(fact: Fact) -> dict[str, Any]:
    """How a client is asked for a fact."""
    return {"what": "fact", "fact": describe(fact)}


def told_value(answer: dict[str, Any]) -> NDArray[np.float64] | Failure:
    """The numbers that an answer holds; text, true and false are none."""
    try:
        value = np.array(answer["value"])
    except (KeyError, TypeError, ValueError, OverflowError, RecursionError) as error:
        return Failure(f"an answer without numbers: {type(error).__name__}: {str(error)[:200]}")
    if value.dtype.kind not in "iuf":
        return Failure(f"an answer without numbers: {str(answer['value'])[:200]}")
    return value.astype(np.float64)


def most_bytes(layout: Layout) -> int:
    """How large a reply may be."""
    return MOST_MODELS * layout.nbytes + MOST_BYTES
