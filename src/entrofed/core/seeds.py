"""Named random streams: every draw in a run comes from one of these, never from ambient state.

A stream is keyed by (seed, purpose, *key), where the key is usually (round, client). Streams with different
keys are independent, and a stream does not depend on what was drawn elsewhere, so results do not depend on
the order of execution or on the number of workers.

>>> a = stream(7, "select", 3)
>>> b = stream(7, "select", 3)
>>> bool((a.integers(100, size=5) == b.integers(100, size=5)).all())
True
"""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from hashlib import blake2b

import numpy as np
import torch


@lru_cache(maxsize=256)
def _number(purpose: str) -> int:
    return int.from_bytes(blake2b(purpose.encode(), digest_size=4).digest(), "little")


def _sequence(seed: int, purpose: str, key: tuple[int, ...]) -> np.random.SeedSequence:
    return np.random.SeedSequence(seed, spawn_key=(_number(purpose), *key))


def stream(seed: int, purpose: str, *key: int) -> np.random.Generator:
    """The numpy generator of one purpose (and round, and client)."""
    return np.random.Generator(np.random.PCG64(_sequence(seed, purpose, key)))


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
