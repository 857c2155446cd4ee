"""Orders carried out by the nodes of a Flower grid, and who is who among them."""

import json
import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from flwr.app import ConfigRecord, Message, RecordDict
from flwr.serverapp import Grid

from entrofed.backend import Backend, Order
from entrofed.backends.inline import InlineBackend
from entrofed.client import WorkOrder
from entrofed.evaluate import LossOrder
from entrofed.federation import Federation
from entrofed.flower.wire import ARRAYS, CONFIG, Format, read_update, write_order
from entrofed.params import Layout
from entrofed.types import Failure

log = logging.getLogger("entrofed")

POLL = 0.2
"""Seconds between looks for replies."""
ASK = "query.entrofed"
"""The type of our questions; what is asked stands in ``config``."""
MOST_MODELS, MOST_BYTES = 8, 10_000_000
"""A reply may be as large as so many models and so many bytes."""


@dataclass(frozen=True)
class Exchange:
    """What came of messages that were sent at once, by node."""

    replies: dict[int, Message]
    silent: list[int]
    """Nodes that had not answered when time was up."""


def exchange(grid: Grid, messages: Sequence[Message], timeout: float) -> Exchange:
    """Send messages, and wait for the replies until the deadline; one message a node.

    A reply counts for the node that its message went to: errors that the SuperLink reports name another sender, and
    nobody can answer in another's name.
    """
    keys = list(grid.push_messages(list(messages)))
    node_of = {key: int(m.metadata.dst_node_id) for key, m in zip(keys, messages, strict=True) if key is not None}
    left, replies, end = set(node_of), dict[int, Message](), time.monotonic() + timeout
    while left:
        for reply in grid.pull_messages(list(left)):
            key = reply.metadata.reply_to_message_id
            if key in left:  # a second reply to the same message changes nothing
                left.discard(key)
                replies[node_of[key]] = reply
        if not left or time.monotonic() >= end:
            break
        time.sleep(POLL)
    unsent = [int(m.metadata.dst_node_id) for key, m in zip(keys, messages, strict=True) if key is None]
    return Exchange(replies, [node_of[key] for key in left] + unsent)


def content_of(reply: Message | None, most: int | None = None) -> RecordDict | Failure:
    """What a reply holds, or why it cannot be used; ``most``: the bytes that are taken from one client."""
    if reply is None:
        return Failure("no reply before the deadline")
    if reply.has_error():
        return Failure(f"error {reply.error.code}: {str(reply.error.reason).strip().splitlines()[-1:]}")
    size = sum(len(array.data) for record in reply.content.array_records.values() for array in record.values())
    if most is not None and size > most:
        return Failure(f"a reply of {size:,} bytes; at most {most:,} are taken")
    return reply.content


def ask(grid: Grid, nodes: Sequence[int], what: dict[str, Any], timeout: float) -> dict[int, dict[str, Any] | Failure]:
    """Put a question to nodes; the answers are plain tables."""
    record = RecordDict({CONFIG: ConfigRecord({"ask": json.dumps(what)})})
    found = exchange(grid, [Message(record, dst_node_id=node, message_type=ASK) for node in nodes], timeout)
    answers: dict[int, dict[str, Any] | Failure] = {}
    for node in nodes:
        content = content_of(found.replies.get(node), MOST_BYTES)
        if isinstance(content, RecordDict):
            try:
                answers[node] = dict(json.loads(str(content.config_records[CONFIG]["answer"])))
            except (KeyError, ValueError, TypeError) as error:
                answers[node] = Failure(f"an answer that cannot be read: {error!r}")
        else:
            answers[node] = content
    return answers


@dataclass
class Roster:
    """Who is who: clients have stable names and numbers, whatever node they are at the moment.

    A client's name is what it says (``name`` or ``partition-id`` of its node configuration), else that of its node. Its
    number is its place in ``names``; who comes later is appended.
    """

    names: list[str] = field(default_factory=list)
    node: dict[str, int] = field(default_factory=dict)
    """The node of each client that is there."""
    known: dict[int, str] = field(default_factory=dict)
    silent: set[int] = field(default_factory=set)
    """Nodes whose app does not answer our questions."""

    def refresh(self, grid: Grid, timeout: float) -> None:
        """See who is there, and ask who they are that were not seen before."""
        there = sorted(grid.get_node_ids())
        new = [node for node in there if node not in self.known]
        answers = ask(grid, new, {"what": "hello"}, timeout) if new else {}
        found: dict[int, str] = {}
        for node, answer in answers.items():
            if isinstance(answer, Failure):
                self.silent.add(node)
                found[node] = f"node-{node}"
            else:
                found[node] = str(answer.get("name", f"node-{node}"))
        online = {self.known[node]: node for node in there if node in self.known}
        for node, name in sorted(found.items(), key=lambda pair: _order(pair[1])):
            if name in online:
                log.warning(
                    "node %d calls itself %r, as node %d does already; it is left out", node, name, online[name]
                )
                continue
            self.known[node], online[name] = name, node
            if name not in self.names:
                self.names.append(name)
        self.node = online

    def present(self) -> list[int]:
        """The numbers of the clients that are there."""
        return [number for number, name in enumerate(self.names) if name in self.node]

    def node_of(self, client: int) -> int | None:
        """The node of a client, if it is there."""
        return self.node.get(self.names[client]) if client < len(self.names) else None


def _order(name: str) -> tuple[int, int, str]:
    """Numbers in their order, before other names."""
    return (0, int(name), "") if name.isdecimal() else (1, 0, name)


class GridBackend(Backend):
    """Training and losses at the nodes of a grid; all else, such as the evaluation on test data, here."""

    def __init__(self, grid: Grid, roster: Roster, timeout: float, *, form: Format | None = None) -> None:
        self._grid, self._roster, self._timeout, self._form = grid, roster, timeout, form
        self._here = InlineBackend()
        self.config = ConfigRecord()

    def host(
        self,
        federation: Federation,
        build: Callable[[], torch.nn.Module],
        layout: Layout,
        *,
        compiled: bool = False,
    ) -> None:
        """Set up what is done here, and how models travel."""
        self._here.host(federation, build, layout, compiled=compiled)
        self._form = Format(layout, tuple(entry.name for entry in layout.entries))

    def run(self, orders: Sequence[Order]) -> list[Any]:
        """Send orders to the clients that they are for; carry out the others here."""
        outcomes: dict[int, Any] = {}
        messages: dict[int, Message] = {}
        if any(isinstance(order, WorkOrder | LossOrder) for order in orders):
            self._roster.refresh(self._grid, self._timeout)
        for i, order in enumerate(orders):
            if isinstance(order, WorkOrder | LossOrder):
                node = self._roster.node_of(order.client)
                if node is None:
                    outcomes[i] = Failure("not connected")
                else:
                    messages[i] = self._message(order, node)
        found = exchange(self._grid, list(messages.values()), self._timeout) if messages else Exchange({}, [])
        for i, message in messages.items():
            outcomes[i] = self._outcome(orders[i], found.replies.get(int(message.metadata.dst_node_id)))
        here = [i for i in range(len(orders)) if i not in outcomes]
        outcomes |= dict(zip(here, self._here.run([orders[i] for i in here]) if here else [], strict=True))
        return [outcomes[i] for i in range(len(orders))]

    def _message(self, order: "WorkOrder | LossOrder", node: int) -> Message:
        form = self._formed()
        if isinstance(order, WorkOrder):
            return Message(write_order(order, form, self.config), dst_node_id=node, message_type="train")
        question = json.dumps({"what": "loss", "client": order.client})
        record = RecordDict({ARRAYS: form.write(order.params), CONFIG: ConfigRecord({"ask": question})})
        return Message(record, dst_node_id=node, message_type=ASK)

    def _outcome(self, order: Order, reply: Message | None) -> Any:
        form = self._formed()
        content = content_of(reply, most_bytes(form.layout))
        if isinstance(content, Failure):
            return content
        if isinstance(order, WorkOrder):
            return read_update(content, order.client, form, ours=True)
        try:
            return float(json.loads(str(content.config_records[CONFIG]["answer"]))["loss"])
        except (KeyError, ValueError, TypeError) as error:
            return Failure(f"an answer that cannot be read: {error!r}")

    def _formed(self) -> Format:
        if self._form is None:
            raise RuntimeError("host() comes before run()")
        return self._form

    def close(self) -> None:
        """The grid belongs to the ServerApp."""


def most_bytes(layout: Layout) -> int:
    """How large a reply may be."""
    return MOST_MODELS * layout.nbytes + MOST_BYTES
