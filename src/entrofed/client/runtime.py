"""Where orders are carried out: the federation's data and one model on a workbench.

Every worker has one site; the inline backend has one. Images are kept channels last (``[n, height, width,
channels]``) until the model sees them.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import numpy as np
import torch
from numpy.typing import NDArray

from entrofed.client.model import Workbench
from entrofed.data.federation import Federation

EVALUATION_BATCH = 250
"""Samples that a model evaluates at a time."""


class Site:
    """Data, model, and how samples become what the model takes."""

    def __init__(self, federation: Federation, build: Callable[[], torch.nn.Module], *, compiled: bool) -> None:
        self.federation = federation
        self.bench = Workbench(build, compiled=compiled)
        self._shift, self._scale = self._whole(federation.shift), self._whole(federation.scale)

    def _whole(self, values: NDArray[np.float32]) -> torch.Tensor:
        """A number a channel as one for every value of an image, which is six times as fast to subtract."""
        data = self.federation.data
        found = torch.from_numpy(values)
        return found.expand(*data.train_x.shape[2:], len(values)).contiguous() if data.kind == "image" else found

    def samples(self, part: str, rows: NDArray[np.int64] | slice) -> tuple[torch.Tensor, torch.Tensor]:
        """Rows of the ``train``, ``test`` or ``valid`` part: images in 0..1, tables as they are, text as tokens."""
        data = self.federation.data
        x = torch.from_numpy(getattr(data, f"{part}_x")[rows])
        y = torch.from_numpy(getattr(data, f"{part}_y")[rows])
        if data.kind == "image":
            return x.permute(0, 2, 3, 1).contiguous().float().div_(data.full_scale), y
        return x.long() if data.kind == "text" else x, y

    def standardize(self, x: torch.Tensor) -> torch.Tensor:
        """``(x - shift) / scale``, per channel or feature; text stays as it is."""
        return x if self.federation.data.kind == "text" else (x - self._shift).div_(self._scale)

    def for_model(self, x: torch.Tensor) -> torch.Tensor:
        """The same samples in the shape that models take (a view)."""
        return x.permute(0, 3, 1, 2) if self.federation.data.kind == "image" else x


@contextmanager
def one_thread() -> Iterator[None]:
    """Train with one thread, so that the bits are the same here and in every worker process."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)
