"""How much a neighbour may ask, so that one that floods hinders nobody else."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Lock

from entrofed.errors import EntrofedError

RATE = 20.0
"""Messages per second that a neighbour may send, on average."""
BURST = 60.0
"""Messages that it may send at once."""
AT_A_TIME = 4
"""Of its messages that are answered at the same time."""


class TooMuchError(EntrofedError):
    """A neighbour asks more than it may."""


class Limit:
    """One neighbour's share: a bucket of ``burst`` tokens that ``rate`` per second flow into."""

    def __init__(self, rate: float = RATE, burst: float = BURST, clock: Callable[[], float] = time.monotonic) -> None:
        self._rate, self._burst, self._clock = rate, burst, clock
        self._tokens, self._last, self._active = burst, clock(), 0
        self._lock = Lock()

    @contextmanager
    def one(self) -> Iterator[None]:
        """Answer one message; a TooMuchError if it is one too many."""
        with self._lock:
            now = self._clock()
            self._tokens = min(self._burst, self._tokens + (now - self._last) * self._rate)
            self._last = now
            if self._tokens < 1 or self._active >= AT_A_TIME:
                raise TooMuchError("too many messages")
            self._tokens -= 1
            self._active += 1
        try:
            yield
        finally:
            with self._lock:
                self._active -= 1


class Meter:
    """Bytes of messages, sent and received."""

    def __init__(self) -> None:
        self._lock = Lock()
        self.up = self.down = 0

    def count(self, *, up: int = 0, down: int = 0) -> None:
        """More bytes."""
        with self._lock:
            self.up, self.down = self.up + up, self.down + down

    def taken(self) -> tuple[int, int]:
        """Bytes sent and received since this was asked last."""
        with self._lock:
            found = self.up, self.down
            self.up = self.down = 0
        return found
