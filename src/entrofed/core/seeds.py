"""Named random streams: every draw in a run comes from one of these, never from ambient state.

A stream is keyed by (seed, purpose, *key), where the key is usually (round, client). Streams with different
keys are independent, and a stream does not depend on what was drawn elsewhere, so results do not depend on
the order of execution or on the number of workers.

>>> a = stream(7, "select", 3)
>>> b = stream(7, "select", 3)
>>> bool((a.integers(100, size=5) == b.integers(100, size=5)).all())
True
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache
from hashlib import blake2b
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray


@lru_cache(maxsize=256)
def _number(purpose: str) -> int:
    return int.from_bytes(blake2b(purpose.encode(), digest_size=4).digest(), "little")


def _sequence(seed: int, purpose: str, key: tuple[int, ...]) -> np.random.SeedSequence:
    return np.random.SeedSequence(seed, spawn_key=(_number(purpose), *key))


def stream(seed: int, purpose: str, *key: int) -> np.random.Generator:
    """The numpy generator of one purpose (and round, and client)."""
    return np.random.Generator(np.random.PCG64(_sequence(seed, purpose, key)))


class _Known(np.random.bit_generator.ISeedSequence):
    """A seed sequence of which the state is known."""

    def __init__(self, state: NDArray[np.uint64]) -> None:
        self._state = state

    def generate_state(self, n_words: int, dtype: Any = np.uint32) -> NDArray[Any]:
        return self._state


def streams(seed: int, purpose: str, *key: int, last: Sequence[int]) -> list[np.random.Generator]:
    """``[stream(seed, purpose, *key, k) for k in last]``, named at once, in a fifth of the time.

    Numpy mixes one word of a key after the other into a pool of four; here that is done for all that differ in the
    last one. The constants are those of :class:`numpy.random.SeedSequence`, which stays as it is for good.
    """
    words = np.array(last, np.int64)
    if not 0 <= words.min(initial=0) <= words.max(initial=0) < 1 << 32 or max(seed, *key, 0) >= 1 << 32:
        return [stream(seed, purpose, *key, k) for k in last]
    before = 4 + 12 + 4 * (1 + len(key))  # hashes: of the seed's words, of these among each other, of the key's
    pool = _sequence(seed, purpose, key).pool[:, None]
    pool = _fold(0xCA01F9DD * pool - 0x4973F715 * _hashed(words.astype(np.uint32), 0x43B0D7E5, 0x931E8875, before, 4))
    found = _hashed(np.concatenate([pool, pool]), 0x8B51F9DD, 0x58F38DED, 0, 8)
    states = np.ascontiguousarray(found.T).astype("<u4").view("<u8").astype(np.uint64)
    known: list[Any] = [_Known(state) for state in states]  # as good as a SeedSequence, which the annotations ask for
    return [np.random.Generator(np.random.PCG64(one)) for one in known]


def _hashed(words: NDArray[np.uint32], start: int, factor: int, before: int, rows: int) -> NDArray[np.uint32]:
    """Words as the hashes number ``before``, ``before + 1``, ... make of them, one row for each hash."""
    constants = _constants(start, factor, before, rows + 1)
    return _fold((words ^ constants[:-1]) * constants[1:])


@lru_cache(maxsize=16)
def _constants(start: int, factor: int, before: int, rows: int) -> NDArray[np.uint32]:
    found = [start * pow(factor, before + i, 1 << 32) % (1 << 32) for i in range(rows)]
    return np.array(found, np.uint32)[:, None]


def _fold(words: NDArray[np.uint32]) -> NDArray[np.uint32]:
    return words ^ (words >> np.uint32(16))


CPU = torch.device("cpu")


@contextmanager
def no_trace(device: torch.device = CPU) -> Iterator[None]:
    """Whatever is drawn within the block, torch's default generators (the CPU's, the device's) are then as before."""
    with torch.random.fork_rng([] if device.type == "cpu" else [device], device_type=device.type):
        yield


def torch_seed(seed: int, purpose: str, *key: int) -> int:
    """What a torch generator is seeded with, to be the named stream."""
    return int(_sequence(seed, purpose, key).generate_state(1, np.uint64)[0] >> 1)


@contextmanager
def torch_stream(seed: int, purpose: str, *key: int, device: torch.device = CPU) -> Iterator[None]:
    """Within the block, torch's default generator *is* the named stream; afterwards it is as before.

    Layers such as ``nn.Dropout`` and initializers draw from the default generator and take no other. Every device has
    one of its own: it gets the same seed, and draws other numbers from it.
    """
    number = torch_seed(seed, purpose, *key)
    with no_trace(device):
        torch.default_generator.manual_seed(number)
        if device.type == "cuda":
            torch.cuda.default_generators[device.index].manual_seed(number)
        elif device.type == "mps":
            torch.mps.manual_seed(number)
        yield
