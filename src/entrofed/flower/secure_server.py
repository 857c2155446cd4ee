"""The server's side of secure aggregation: it passes on what it cannot read, and gets the sum.

A client that sends nonsense at any stage is left out with a reason. If those left are fewer than the threshold, or the
masks of the missing cannot be recovered, there is no sum and the round is skipped; nothing was revealed.
"""

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from flwr.app import RecordDict
from flwr.serverapp import Grid
from numpy.typing import NDArray

from entrofed.core.types import Failure
from entrofed.errors import DataError
from entrofed.flower.arrays import read_array
from entrofed.flower.grid import ask_each
from entrofed.flower.identity import SIGNATURE, SIGNED, SIGNER
from entrofed.flower.masks import SCALAR, SEED, Key, digest, mask, pair_mask, recovered
from entrofed.flower.secure_client import COUNTS, KEYS, LEAST, MASKED, SHARES, UNMASK
from entrofed.privacy.fixed_point import Whole, decode

LONGEST = 1000
"""Letters of a key or a signature: all of them go to everybody."""


@dataclass
class Session:
    """One round of the protocol."""

    grid: Grid
    nodes: Mapping[int, int]
    """The node of each client of the cohort."""
    length: int
    """Numbers in an update."""
    timeout: float
    reasons: dict[int, str] = field(default_factory=dict)
    """Why clients are not in the sum."""
    name: str = field(default_factory=lambda: os.urandom(16).hex())
    threshold: int = 0
    keys: dict[int, dict[str, str]] = field(default_factory=dict)
    shares: dict[int, dict[str, str]] = field(default_factory=dict)
    """By sender: what it sealed for each of the others."""

    def prepare(self) -> None:
        """Keys, then shares; afterwards :meth:`order` says what goes along with the task."""
        questions: dict[int, dict[str, Any]] = {client: {"what": KEYS, "session": self.name} for client in self.nodes}
        for client, answer in self._ask(questions).items():
            if self._usable(client, answer):
                self.keys[client] = {key: str(value) for key, value in answer.items()}
        self.threshold = max(LEAST, -(-2 * len(self.keys) // 3))
        if len(self.keys) < LEAST:
            self._give_up(f"only {len(self.keys)} clients gave keys")
            return
        publics = {str(client): keys for client, keys in self.keys.items()}
        questions = {
            client: {
                "what": SHARES,
                "session": self.name,
                "you": client,
                "keys": publics,
                "threshold": self.threshold,
            }
            for client in self.keys
        }
        for client, answer in self._ask(questions).items():
            expected = {str(other) for other in self.keys if other != client}
            found = answer.get("shares") if isinstance(answer, dict) else None
            if isinstance(found, dict) and set(found) == expected and all(isinstance(v, str) for v in found.values()):
                self.shares[client] = found
            else:
                self._leave_out(client, answer, "it does not share its keys")
        if len(self.shares) < self.threshold:
            self._give_up(f"{len(self.shares)} clients shared their keys, and {self.threshold} are needed")

    def order(self, client: int) -> dict[str, Any]:
        """What a client needs to mask what it sends."""
        sent = {str(other): sealed[str(client)] for other, sealed in self.shares.items() if other != client}
        return {"session": self.name, "shares": sent}

    def read(self, client: int, content: RecordDict | Failure) -> Whole | None:
        """The masked update in a reply."""
        if isinstance(content, Failure):
            self.reasons[client] = content.reason
            return None
        try:
            record = content.array_records[MASKED]
            values = read_array(record["sum"])
            if set(record) != {"sum"} or values.dtype != np.int64 or values.shape != (self.length,):
                raise DataError(f"a masked update of {values.dtype} {values.shape}, expected int64 ({self.length},)")
        except (KeyError, DataError) as error:
            self.reasons[client] = f"no masked update: {error}"
            return None
        return values.view(np.uint64)

    def counts(self) -> NDArray[np.float64] | None:
        """The label counts of all clients together; None, with reasons, if they cannot be unmasked."""
        self.prepare()
        clients = sorted(self.shares)
        masked: dict[int, Whole] = {}
        for client, answer in self._ask({k: {"what": COUNTS, **self.order(k)} for k in clients}).items():
            try:
                if isinstance(answer, Failure):
                    raise DataError(answer.reason)
                content = bytes.fromhex(answer["sum"])
                if len(content) != 8 * self.length:
                    raise DataError(f"{len(content)} bytes for {self.length} classes")
                masked[client] = np.frombuffer(content, "<u8").astype(np.uint64)
            except (DataError, KeyError, ValueError, TypeError) as error:
                self.reasons[client] = f"no masked counts: {error}"
        total = self.total(masked) if clients else None
        return None if total is None else decode(total)

    def total(self, masked: Mapping[int, Whole]) -> Whole | None:
        """The sum of the updates of all who sent one; None, with reasons, if it cannot be unmasked."""
        if len(masked) < self.threshold:
            self._give_up(f"{len(masked)} masked updates, and {self.threshold} are needed: nothing was unmasked")
            return None
        there = sorted(masked)
        questions = {client: {"what": UNMASK, "session": self.name, "there": there} for client in there}
        told: dict[int, dict[str, Any]] = {
            client: answer
            for client, answer in self._ask(questions).items()
            if isinstance(answer, dict) and all(isinstance(answer.get(key), dict) for key in ("seeds", "keys"))
        }
        total = np.zeros(self.length, np.uint64)
        for values in masked.values():
            total += values
        for client in there:
            seed = self._secret(told, "seeds", client, lambda s, c=client: digest(s).hex() == self.keys[c]["seed"])
            if seed is None:
                self._give_up(f"the mask of client {client} cannot be recovered: too few shares are right")
                return None
            total -= mask(seed, self.length)
        for client in sorted(set(self.shares) - set(there)):
            secret = self._secret(told, "keys", client, lambda s, c=client: Key(s).public.hex() == self.keys[c]["pair"])
            if secret is None:
                self._give_up(f"the masks with client {client}, who is missing, cannot be recovered")
                return None
            for other in there:  # what the other added is taken away: the missing one would have
                public = bytes.fromhex(self.keys[other]["pair"])
                total += pair_mask(Key(secret), public, self.length, first=client < other)
        return total

    def _secret(self, told: Mapping[int, dict[str, Any]], kind: str, client: int, right: Any) -> bytes | None:
        shares = []
        for answer in told.values():
            try:
                shares.append(bytes.fromhex(answer[kind][str(client)]))
            except (KeyError, ValueError, TypeError):
                continue
        return recovered(shares, self.threshold, SEED if kind == "seeds" else SCALAR, right)

    def _ask(self, questions: Mapping[int, dict[str, Any]]) -> dict[int, Any]:
        answers = ask_each(self.grid, {self.nodes[client]: words for client, words in questions.items()}, self.timeout)
        return {client: answers[self.nodes[client]] for client in questions}

    def _usable(self, client: int, answer: Any) -> bool:
        try:
            if isinstance(answer, Failure) or set(answer) not in (set(SIGNED), {*SIGNED, SIGNER, SIGNATURE}):
                raise DataError("keys of another form")
            if any(len(str(value)) > LONGEST for value in answer.values()):
                raise DataError("keys that are too long")
            mine = Key.fresh()
            for key in ("lock", "pair"):
                mine.shared(bytes.fromhex(answer[key]))
            if len(bytes.fromhex(answer["seed"])) != 32 or any(
                one["pair"] == answer["pair"] for one in self.keys.values()
            ):
                raise DataError("keys that somebody else has")
        except (DataError, ValueError, TypeError) as error:
            self._leave_out(client, answer, f"its keys cannot be used: {error}")
            return False
        return True

    def _leave_out(self, client: int, answer: Any, reason: str) -> None:
        self.reasons[client] = answer.reason if isinstance(answer, Failure) else reason

    def _give_up(self, reason: str) -> None:
        self.shares = {}
        for client in self.nodes:
            self.reasons.setdefault(client, f"secure aggregation: {reason}")
