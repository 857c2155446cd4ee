"""A round's models from the neighbours: ask all of them at once, wait for those who are there until the deadline.

Questions are short, so that one that is lost, or whose answer is, is soon asked again. Peers keep in step by what their
neighbours ask them: once most of them have gone on to a later round, what is left is cut to half of the deadline. That
of a round, also in the first, which waits longer for peers that are still being started.

A neighbour that missed its deadline is waited for again only if it can be reached; one that can, and misses three in a
row without catching up, ever more rarely: after 8, 16, 32 rounds. So one that is gone costs a deadline once, and one
that never answers a few.
"""

import logging
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import suppress
from dataclasses import dataclass
from math import inf
from threading import Event

from entrofed.core.types import Update
from entrofed.errors import DataError
from entrofed.peer.link import Link, RefusedError, UnreachableError
from entrofed.peer.service import HELLO, MODEL, Service
from entrofed.peer.told import Told
from entrofed.peer.wire import Answer, Arrays, Ask, Hello, frame, read_update, unframe

log = logging.getLogger("entrofed")

PAUSE = 0.1
"""Seconds between two questions to the same neighbour, at least."""
BEATS, SHORTEST, LONGEST = 12, 0.25, 2.0
"""An answer may wait for a model for this part of the deadline, in these bounds of seconds, and take as long again;
twice as long after each that did not come, and never longer than the deadline."""
MARGIN = 5.0
"""Seconds that questions have to end once nobody waits for them."""
PROBE = 3.0
"""Seconds for a first look at who is there."""
TRIES = 3
"""Deadlines in a row that a neighbour may miss if it can be reached, before it is waited for more rarely."""
CLOSER = 0.75
"""A neighbour that is behind is waited for as long as its distance shrinks to this share from deadline to deadline: it
takes long to waste many that way."""
RAREST = 5
"""A neighbour that does not answer is waited for every 2^5-th round, at least."""


@dataclass(frozen=True)
class Heard:
    """What a neighbour answered: a model, nothing for this round, or what cannot be used, for a reason."""

    round: int
    update: Update | None = None
    refused: str | None = None


@dataclass
class Presence:
    """How a neighbour has been lately."""

    misses: int = 0
    """Deadlines in a row that it missed."""
    again: int = 0
    """The round from which on it is waited for again."""
    reached: bool = False
    """Whether the last call got through."""
    failed_at: float = 0.0
    words: str = ""
    """Why it cannot be reached."""
    behind: float = inf
    """How many rounds it was behind when it missed a deadline last."""
    last: int = -1
    """The round of the last model that was got from it."""


class Exchange:
    """Asks the neighbours. ``deadline``: seconds that a round waits for them; ``hello``: how to introduce oneself;
    ``service``: what neighbours ask this peer."""

    def __init__(
        self,
        links: Sequence[Link],
        told: Told,
        run: str,
        rounds: int,
        deadline: float,
        hello: Callable[[], bytes],
        service: Service,
    ) -> None:
        self._links = {link.neighbour.number: link for link in links}
        self._told, self._run, self._rounds, self._deadline = told, run, rounds, deadline
        self._hello, self._service = hello, service
        self.presence = {number: Presence() for number in self._links}
        self._pool = ThreadPoolExecutor(max(len(links), 1), "questions")

    def close(self) -> None:
        """No more questions."""
        self._pool.shutdown(wait=False, cancel_futures=True)
        for link in self._links.values():
            link.close()

    def collect(self, number: int, *, staleness: int, seconds: float, bare: bool = False) -> dict[int, Heard]:
        """What came of asking everybody for the model of a round; whoever did not answer is not in it."""
        end = time.monotonic() + seconds
        spare = min(2.0, seconds / 3) if staleness else 0.0  # for those who are late
        heard = self._gather(self._links, number, number, end - spare, bare=bare, waits=True)
        if staleness and not bare and (late := [n for n in self._links if n not in heard and self._reachable(n)]):
            oldest = max(number - staleness, 0)
            heard |= self._gather(late, number, oldest, end, bare=False, waits=False)
        for other, presence in self.presence.items():
            if other in heard:
                presence.misses, presence.behind = 0, inf
                presence.last = max(presence.last, heard[other].round if heard[other].update is not None else -1)
            elif self._waited_for(other, number):
                behind = number - self._service.asked.get(other, -1)
                closer, presence.behind = behind <= CLOSER * presence.behind, behind
                presence.misses += 1
                patient = (closer or presence.misses < TRIES) and self._reachable(other)
                presence.again = number + (1 if patient else 2 ** min(presence.misses, RAREST))
                name, why = self._links[other].neighbour.name, presence.words or "no model"
                log.warning("round %d: %s did not answer in time: %s", number + 1, name, why)
        return heard

    def _gather(
        self, numbers: Iterable[int], number: int, oldest: int, end: float, *, bare: bool, waits: bool
    ) -> dict[int, Heard]:
        stop, half = Event(), min(end - time.monotonic(), self._deadline) / 2
        asked: dict[int, Future[Heard | None]] = {
            n: self._pool.submit(self._ask, self._links[n], number, oldest, end, stop, bare, waits) for n in numbers
        }
        while (left := end - time.monotonic()) > 0:
            pending = [f for n, f in asked.items() if not f.done() and (not waits or self._waited_for(n, number))]
            if waits and not pending and not any(f.done() and f.result() for f in asked.values()):
                # nobody was heard: whoever is alone must not run away from the others
                pending = [f for n, f in asked.items() if not f.done() and not self._is_through(n)]
            if not pending:
                break
            if waits and half and self.mostly(n for n in self._links if self._service.asked.get(n, -1) > number):
                end, half = min(end, time.monotonic() + half), 0.0
            wait(pending, timeout=min(left, PAUSE), return_when=FIRST_COMPLETED)
        stop.set()
        for n in asked:
            self._links[n].cancel()
        wait(asked.values(), timeout=MARGIN)
        return {n: found for n, f in asked.items() if f.done() and (found := f.result()) is not None}

    def _waited_for(self, n: int, number: int) -> bool:
        presence = self.presence[n]
        return presence.misses == 0 or (number >= presence.again and self._reachable(n))

    def mostly(self, numbers: Iterable[int]) -> bool:
        """Whether these are more than half of the neighbours that are there; so one of two cannot decide."""
        there = {n for n in self._links if self._reachable(n)}
        return 2 * len(there & set(numbers)) > len(there)

    def _reachable(self, n: int) -> bool:
        presence = self.presence[n]
        return presence.reached or self._service.contact.get(n, 0.0) > presence.failed_at

    def _ask(
        self, link: Link, number: int, oldest: int, end: float, stop: Event, bare: bool, waits: bool
    ) -> Heard | None:
        """Ask until there is an answer, or no time."""
        n, lost = link.neighbour.number, 0
        beat = min(max(min(end - time.monotonic(), self._deadline) / BEATS, SHORTEST), LONGEST)
        while not stop.is_set() and (left := end - time.monotonic()) > 0:
            began = time.monotonic()
            patience = min(left, beat) if waits else 0.0
            allowed = min(left, beat * 2**lost, self._deadline) if waits else left
            try:
                self._introduce(link, allowed, stop)
                ask = Ask(run=self._run, round=number, oldest=oldest, wait=patience, bare=bare)
                raw = link.call(MODEL, frame(ask), patience + allowed, stop)
                self._reached(n)
                header, arrays = unframe(raw, Answer)
                heard = None if header.kind == "later" else self._read(header, arrays, n, number, oldest)
                if heard is not None or not waits:
                    return heard
            except UnreachableError as error:
                timely = time.monotonic() - began < allowed
                if not stop.is_set() and (timely or lost):  # one message may be lost
                    self._missed(n, str(error), began)
                if not waits:
                    return None
                lost += not timely
            except (RefusedError, DataError) as error:
                self._reached(n)
                return Heard(number, refused=str(error)[:300])
            stop.wait(max(0.0, PAUSE - (time.monotonic() - began)))
        return None

    def _read(self, header: Answer, arrays: Arrays, n: int, number: int, oldest: int) -> Heard:
        if header.run != self._run:
            raise DataError(f"a model of another run, {header.run!r}")
        if header.round < oldest:
            raise DataError(f"a model of round {header.round + 1}, and it is round {number + 1}")
        if header.round >= self._rounds:
            raise DataError(f"a model of round {header.round + 1}, and there are {self._rounds}")
        known = header.round <= self.presence[n].last
        if header.kind == "none" or (known and header.round > number):
            return Heard(header.round)
        if known and header.round < number:
            raise DataError(f"the model of round {header.round + 1} again")
        return Heard(header.round, read_update(header, arrays, n))

    def _introduce(self, link: Link, seconds: float, stop: Event | None = None) -> Hello | None:
        """Say hello to a neighbour that has not introduced itself yet; returns what it says then."""
        n = link.neighbour.number
        if self._told.knows(n):
            return None
        hello, facts = unframe(link.call(HELLO, self._hello(), seconds, stop), Hello)
        self._reached(n)
        self._told.introduced(n, hello, facts)
        return hello

    def look(self) -> dict[int, int]:
        """The round that each neighbour is in, of those who are there."""

        def meet(link: Link) -> int | None:
            try:
                hello, facts = unframe(link.call(HELLO, self._hello(), PROBE), Hello)
                self._reached(link.neighbour.number)
                self._told.introduced(link.neighbour.number, hello, facts)
                return hello.at
            except (UnreachableError, RefusedError, DataError) as error:
                log.info("%s: %s", link.neighbour.name, error)
                return None

        found = zip(self._links, self._pool.map(meet, self._links.values()), strict=True)
        return {n: at for n, at in found if at is not None}

    def newest(self, n: int) -> Heard | None:
        """The last model of one neighbour, where it is ahead."""
        return self._gather([n], 0, 0, time.monotonic() + PROBE + MARGIN, bare=False, waits=False).get(n)

    def farewell(self, seconds: float) -> None:
        """Tell neighbours that this peer is through, and wait until those who are there have got all they need."""
        end = time.monotonic() + seconds
        waiting = {n for n, presence in self.presence.items() if presence.misses == 0}
        told: set[int] = set()
        while waiting and time.monotonic() < end:
            for n in waiting - told:
                ask = Ask(run=self._run, round=self._rounds, oldest=self._rounds, wait=0.0, bare=True)
                with suppress(UnreachableError):
                    with suppress(RefusedError):  # it was told, whatever it says
                        self._links[n].call(MODEL, frame(ask), PROBE)
                    told.add(n)
            waiting -= {n for n in waiting if self._is_through(n)}
            time.sleep(PAUSE)

    def _is_through(self, n: int) -> bool:
        """Whether a neighbour has said that it has played its last round."""
        return self._service.asked.get(n, -1) >= self._rounds

    def _reached(self, n: int) -> None:
        self.presence[n].reached, self.presence[n].words = True, ""

    def _missed(self, n: int, words: str, began: float) -> None:
        presence = self.presence[n]
        presence.reached, presence.words, presence.failed_at = False, words[:300], began
