"""What travels between peers: a small typed header, then named arrays (safetensors). No pickle, no code.

A message is ``EFP1``, the length of the header (4 bytes, little-endian), the header as JSON, and a safetensors file.
Whatever cannot be read, or says more or less than it should, is a :class:`~entrofed.errors.DataError` with a reason.
"""

import json
from collections.abc import Mapping
from typing import Any, Literal, TypeVar

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field, ValidationError
from safetensors import SafetensorError
from safetensors.numpy import load, save

from entrofed.core.params import Layout, Params
from entrofed.core.types import PartState, Update
from entrofed.errors import DataError

MAGIC = b"EFP1"
MAX_HEADER = 1 << 14
SMALL = 1 << 20
"""Bytes of a message without a model, at most."""
VALUES, COUNTERS, FACT, STATE = "values", "counters", "fact/", "state/"

Arrays = dict[str, NDArray[Any]]


class Header(BaseModel):
    """What every message says: which run it belongs to."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, ser_json_inf_nan="constants")

    run: str = Field(max_length=64)


class Hello(Header):
    """Who somebody is, what it agreed on, and where it stands; the arrays are the facts that it tells once."""

    number: int
    agreed: dict[str, str]
    """Digests of what all peers of a run have in common; see :mod:`entrofed.peer.agreement`."""
    examples: int = Field(ge=1)
    at: int = Field(ge=0)
    """The round that it is in."""


class Ask(Header):
    """For the model of a round, or of one of those before it; the answer may take ``wait`` seconds."""

    round: int = Field(ge=0)
    oldest: int = Field(ge=0)
    wait: float = Field(ge=0, le=3600)
    bare: bool = False
    """Whether it is enough to hear that the round has come, without its model."""


class Answer(Header):
    """A model, with what goes along; or that there is none for this round; or that it is not there yet."""

    kind: Literal["model", "none", "later"]
    round: int = Field(ge=0)
    examples: int = 0
    steps: int = 0
    train_loss: float = 0.0
    train_loss_last_epoch: float = 0.0
    seconds: float = 0.0
    terms: dict[str, float] = Field(default_factory=dict, max_length=32)


H = TypeVar("H", bound=Header)


def frame(header: Header, arrays: Mapping[str, NDArray[Any]] | None = None) -> bytes:
    """A message."""
    words = header.model_dump_json().encode()
    return (
        MAGIC
        + len(words).to_bytes(4, "little")
        + words
        + save({name: np.asarray(array, order="C") for name, array in (arrays or {}).items()})
    )


def unframe(raw: bytes, kind: type[H]) -> tuple[H, Arrays]:
    """The inverse of :func:`frame`.

    >>> unframe(frame(Ask(run="r", round=1, oldest=1, wait=0.0)), Ask)[0].round
    1
    """
    size = int.from_bytes(raw[4:8], "little")
    if raw[:4] != MAGIC or size > MAX_HEADER or len(raw) < 8 + size:
        raise DataError("not a message of a peer")
    try:
        return kind.model_validate_json(raw[8 : 8 + size]), load(raw[8 + size :])
    except ValidationError as error:
        first = error.errors()[0]
        raise DataError(f"header: {'.'.join(map(str, first['loc']))[:100]}: {first['msg'][:200]}") from None
    except (SafetensorError, ValueError, KeyError, TypeError, json.JSONDecodeError) as error:
        raise DataError(f"arrays: {str(error)[:200]}") from None


def write_update(update: Update, *, run: str, number: int, private: bool = False) -> bytes:
    """The model of round ``number`` as a message; ``private``: with what the peer keeps for itself, for its disk."""
    header = Answer(
        run=run,
        kind="model",
        round=number,
        examples=update.num_examples,
        steps=update.num_steps,
        train_loss=update.train_loss,
        train_loss_last_epoch=update.train_loss_last_epoch,
        seconds=update.seconds if private else 0.0,
        terms=dict(update.terms),
    )
    arrays: Arrays = {VALUES: update.params.values, COUNTERS: update.params.counters}
    arrays |= {FACT + name: array for name, array in update.facts.items()}
    if private:
        arrays |= {STATE + name: array for name, array in update.client_state.items()}
    return frame(header, arrays)


def read_update(header: Answer, arrays: Arrays, client: int) -> Update:
    """The update in a message; whether it can be used, admission decides (:mod:`entrofed.core.validation`)."""
    strange = [name for name in arrays if name not in (VALUES, COUNTERS) and not name.startswith((FACT, STATE))]
    if VALUES not in arrays or COUNTERS not in arrays or strange:
        raise DataError(f"a model is {VALUES} and {COUNTERS}; found {sorted(arrays)[:5]}")
    return Update(
        client=client,
        params=Params(arrays[VALUES], arrays[COUNTERS]),
        num_examples=header.examples,
        num_steps=header.steps,
        train_loss=header.train_loss,
        train_loss_last_epoch=header.train_loss_last_epoch,
        seconds=header.seconds,
        terms=header.terms,
        client_state=_below(STATE, arrays),
        facts=_below(FACT, arrays),
    )


def _below(prefix: str, arrays: Arrays) -> PartState:
    return {name.removeprefix(prefix): array for name, array in arrays.items() if name.startswith(prefix)}


def most_bytes(layout: Layout) -> int:
    """The largest message with a model: what goes along with it may be twice its size, in double precision."""
    return SMALL + 5 * layout.nbytes
