"""Where models are trained and evaluated: the CPU, or an accelerator.

Names are those of ``engine.device``: ``cpu``; ``cuda``, which spreads workers over all NVIDIA (or AMD) GPUs; one of
them, as in ``cuda:1``; ``mps`` (Apple); ``auto``, the best of what is there.
"""

import os
import re
from typing import Literal

import torch

from entrofed.core.seeds import CPU
from entrofed.errors import ConfigError

NAMES = re.compile(r"cpu|cuda|cuda:\d+|mps|auto")

Compile = bool | Literal["native"]
"""``True``: each step as one graph, by torch's compiler. ``"native"``: the convolutions of small networks in C++
(:mod:`entrofed.client.native`)."""
Precision = Literal["float32", "bf16"]
"""``bf16``: losses, and so their gradients, are computed in bfloat16 wherever torch's autocast does so."""


def kind_of(name: str) -> str:
    """What decides on the bits of a result.

    >>> kind_of("cuda:1")
    'cuda'
    """
    return name.partition(":")[0]


def devices() -> dict[str, str]:
    """The devices that are here, by name, with words on each.

    >>> list(devices())[0]
    'cpu'
    """
    found = {"cpu": f"{os.cpu_count()} cores"}
    if torch.cuda.is_available():
        for i in range(torch.cuda.device_count()):
            about = torch.cuda.get_device_properties(i)
            found[f"cuda:{i}"] = f"{about.name}, {about.total_memory / 1e9:.0f} GB"
    if torch.backends.mps.is_available():
        found["mps"] = "Apple GPU"
    return found


def resolved(name: str) -> str:
    """The name itself; for ``auto``, the kind of the best device that is here.

    >>> resolved("cpu")
    'cpu'
    """
    return kind_of(list(devices())[-1]) if name == "auto" else name


def check_device(name: str) -> None:
    """Raise a ConfigError if the device is not here."""
    here = devices()
    if name not in here and name not in map(kind_of, here):
        raise ConfigError(
            f"engine.device = {name!r}: there is none on this machine, which has {', '.join(here)}; choose one of "
            f"these or 'auto', or install a torch that knows the device (this one is {torch.__version__})"
        )


def place(name: str, worker: int = 0) -> torch.device:
    """The device that a worker computes on; workers take turns among the GPUs of ``cuda``.

    On an accelerator, torch is told, for this process, to take kernels that give the same bits every time, where it has
    some (it warns where it has none), and to compute in true float32.
    """
    if name == "cpu":
        return CPU
    check_device(name)
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # read when cuBLAS starts; without it, sums vary
    torch.use_deterministic_algorithms(True, warn_only=True)
    torch.utils.deterministic.fill_uninitialized_memory = False  # type: ignore[attr-defined]
    torch.backends.cudnn.benchmark = torch.backends.cudnn.allow_tf32 = False
    return torch.device("cuda", worker % torch.cuda.device_count()) if name == "cuda" else torch.device(name)
