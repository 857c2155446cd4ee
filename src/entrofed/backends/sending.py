"""How a user's own objects get to worker processes.

A worker does not run the user's script, and cannot import what is defined there, in a notebook, in a function, or in a
file that an experiment refers to. Such objects are pickled by value (cloudpickle), once: a worker keeps them, and tasks
refer to them by number, since cloudpickle takes many times as long as pickle and tasks are many and small.
"""

import io
import pickle
from collections.abc import Sequence
from types import FunctionType
from typing import Any

import cloudpickle

from entrofed.errors import ConfigError
from entrofed.registry.checks import name_of
from entrofed.registry.own import Own
from entrofed.registry.references import FILES, importable

REMEDY = "engine.backend = 'inline' works without sending anything"

_sendable: dict[Any, bool] = {}
"""Whether pickle can send a function, or an object of a class, as it is."""


def packed(thing: Any) -> bytes:
    """An object by value, as far as a worker cannot import it."""
    for module in FILES.values():
        cloudpickle.register_pickle_by_value(module)
    try:
        found: bytes = cloudpickle.dumps(thing)
    except Exception as error:
        called = thing.name if hasattr(thing, "name") else name_of(thing)
        raise ConfigError(f"{called!r} cannot be sent to worker processes: {error}; {REMEDY}") from error
    return found


def unpacked(content: bytes) -> Any:
    """What :func:`packed` made; in a worker, of its own parent's bytes."""
    return pickle.loads(content)  # noqa: S301


class Outbox:
    """The objects that were sent by value so far."""

    def __init__(self) -> None:
        self.contents: list[bytes] = []
        self._numbers: dict[bytes, int] = {}
        self._known: dict[int, tuple[Any, int]] = {}  # with the object, whose id is its own as long as it lives

    def begin(self) -> None:
        """Before tasks: objects are looked at again, for they may have changed."""
        self._known.clear()

    def number(self, thing: Any) -> int:
        """The number of an object among those that a worker keeps."""
        if id(thing) not in self._known:
            content = packed(thing)
            if content not in self._numbers:
                self._numbers[content] = len(self.contents)
                self.contents.append(content)
            self._known[id(thing)] = thing, self._numbers[content]
        return self._known[id(thing)][1]

    def dumps(self, message: Any) -> memoryview:
        """A message in which own objects are numbers; what is new among them is in ``contents`` from then on."""
        file = io.BytesIO()
        try:
            _Pickler(file, self).dump(message)
        except (pickle.PicklingError, TypeError, AttributeError) as error:
            raise ConfigError(f"a task cannot be sent to worker processes: {error}; {REMEDY}") from error
        return file.getbuffer()


class _Pickler(pickle.Pickler):
    def __init__(self, file: io.BytesIO, outbox: Outbox) -> None:
        super().__init__(file, pickle.HIGHEST_PROTOCOL)
        self._outbox = outbox

    def reducer_override(self, thing: Any) -> Any:
        """Called for all that is no plain number, text, list ..."""
        key = thing if isinstance(thing, type | FunctionType) else type(thing)
        sendable = _sendable.get(key)
        if sendable is None:
            own = isinstance(key, type) and issubclass(key, Own)
            sendable = _sendable[key] = importable(key) and not own
        return NotImplemented if sendable else (_kept, (self._outbox.number(thing),))


_inbox: list[Any] = []
"""In a worker: the objects that came by value."""


def keep(contents: Sequence[bytes]) -> None:
    """In a worker: hold on to objects for the tasks to come."""
    _inbox.extend(map(unpacked, contents))


def forget() -> None:
    """In a worker: let go of them."""
    _inbox.clear()


def _kept(number: int) -> Any:
    return _inbox[number]
