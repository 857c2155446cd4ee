"""Where tasks are done: the data of a federation (or of one client), and one model.

Every worker has one runtime; the inline backend has one.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import numpy as np
import torch
from numpy.typing import NDArray

from entrofed.client.device import Compile, Precision
from entrofed.client.model import Inputs, LocalModel
from entrofed.core.seeds import CPU
from entrofed.core.types import ClientData
from entrofed.data.federation import Federation

KEPT = 1 << 27
"""Bytes of converted test and validation samples that are kept."""


class ClientRuntime:
    """The samples that are here, and the model that works on them."""

    def __init__(
        self,
        federation: Federation,
        build: Callable[[], torch.nn.Module],
        *,
        compiled: Compile,
        device: torch.device = CPU,
        precision: Precision = "float32",
    ) -> None:
        self._federation = federation
        data = federation.data
        inputs = Inputs(data.kind, federation.shift, federation.scale, data.train_x.shape[2:])
        self.model = LocalModel(build, inputs, compiled=compiled, device=device, precision=precision)
        self._kept: dict[tuple[str, bytes], ClientData] = {}
        self._room = KEPT

    def client_data(self, client: int) -> ClientData:
        """What a client sees."""
        return self.samples("train", self._federation.shards[client])

    def clients_data(self, clients: Sequence[int]) -> list[ClientData]:
        """What each of several clients sees, looked up at once."""
        rows = [self._federation.shards[client] for client in clients]
        found, sizes = self.samples("train", np.concatenate(rows)), [len(own) for own in rows]
        parts = zip(torch.split(found.x, sizes), torch.split(found.y, sizes), strict=True)
        return [ClientData(x, y, found.classes) for x, y in parts]

    def samples(self, part: str, rows: NDArray[np.int64]) -> ClientData:
        """Rows of the ``train``, ``test`` or ``valid`` part: images in 0..1, tables as they are, text as tokens.

        Samples move to the device here, as they are stored (images as bytes), and labels stay. What models are
        evaluated on is the same in every round: it is converted once, as far as there is room.
        """
        if part == "train":
            return self._converted(part, rows)
        key = part, rows.tobytes()
        found = self._kept.get(key)
        if found is None:
            found = self._converted(part, rows)
            if found.x.nbytes <= self._room:
                self._room -= found.x.nbytes
                self._kept[key] = found
        return found

    def _converted(self, part: str, rows: NDArray[np.int64]) -> ClientData:
        data = self._federation.data
        x = torch.from_numpy(getattr(data, f"{part}_x")[rows]).to(self.model.device)
        y = torch.from_numpy(getattr(data, f"{part}_y")[rows])
        if data.kind == "image":
            x = x.permute(0, 2, 3, 1).contiguous().float().div_(data.full_scale)
        return ClientData(x.long() if data.kind == "text" else x, y, len(data.classes))


@contextmanager
def one_thread() -> Iterator[None]:
    """Train with one thread, so that the bits are the same here and in every worker process."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)
