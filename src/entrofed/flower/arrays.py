"""Models and the named arrays of parts as Flower's ArrayRecords; read from a stranger without trust."""

from dataclasses import dataclass
from io import BytesIO
from typing import Any

import numpy as np
from flwr.app import Array, ArrayRecord, RecordDict
from numpy.lib import format as npy
from numpy.typing import NDArray

from entrofed.core.params import Kind, Layout, Params
from entrofed.core.types import PartState
from entrofed.errors import ConfigError, DataError

BUFFERS = ("running_mean", "running_var", "num_batches_tracked")
"""How the buffers of BatchNorm end, in models that are known by their arrays only."""
KEPT = [np.dtype(name) for name in ("bool", "int32", "int64", "uint8", "float16", "float32", "float64")]
"""Types of arrays that are taken from a client: those that a checkpoint can hold."""


@dataclass(frozen=True)
class Format:
    """How a model is written as an ArrayRecord: its layout, and its keys in their order."""

    layout: Layout
    keys: tuple[str, ...]

    @classmethod
    def by_layout(cls, layout: Layout) -> "Format":
        """The format of a model that is at hand."""
        return cls(layout, tuple(entry.name for entry in layout.entries))

    @classmethod
    def of(cls, arrays: ArrayRecord) -> "Format":
        """The format of a model of which only the arrays are there; buffers are known by their names."""
        if not arrays:
            raise ConfigError("initial_arrays is empty; give the arrays of the model that is trained")
        found: dict[str, tuple[Kind, tuple[int, ...]]] = {}
        for key, array in arrays.items():
            values = read_array(array)
            if values.dtype == np.int64:
                found[key] = "counter", values.shape
            elif values.dtype == np.float32:
                found[key] = "buffer" if key.rsplit(".", 1)[-1] in BUFFERS else "trainable", values.shape
            else:
                raise ConfigError(
                    f"initial_arrays[{key!r}] has type {values.dtype}; models are float32 with int64 counters. "
                    "Convert it before the strategy starts"
                )
        return cls(Layout.of_shapes(found), tuple(arrays))

    def write(self, params: Params) -> ArrayRecord:
        """The model as Flower sends it."""
        tensors = self.layout.split(params)
        return ArrayRecord({key: Array(np.array(tensors[key], order="C")) for key in self.keys})

    def read(self, arrays: ArrayRecord) -> Params:
        """The model that was sent; a DataError says what is wrong with it."""
        if set(arrays) != set(self.keys):
            missing, extra = sorted(set(self.keys) - set(arrays)), sorted(set(arrays) - set(self.keys))
            raise DataError(f"other arrays than the model's: missing {missing[:3]}, not expected {extra[:3]}")
        tensors: dict[str, Any] = {}
        for entry in self.layout.entries:
            values, dtype = read_array(arrays[entry.name]), np.int64 if entry.kind == "counter" else np.float32
            if values.dtype != dtype or values.shape != entry.shape:
                raise DataError(
                    f"array {entry.name!r} is {values.dtype} {values.shape}, expected {np.dtype(dtype)} {entry.shape}"
                )
            tensors[entry.name] = values
        return self.layout.join(tensors)


def read_array(array: Array) -> NDArray[Any]:
    """The values of an array; a DataError unless its bytes are those of one plain array, and no more is allocated."""
    if array.stype != "numpy.ndarray":
        raise DataError(f"an array is written as {array.stype!r}, expected 'numpy.ndarray'")
    file = BytesIO(array.data)
    try:
        version = npy.read_magic(file)
        header = npy.read_array_header_1_0 if version == (1, 0) else npy.read_array_header_2_0
        shape, columns_first, dtype = header(file)
    except Exception as error:
        raise DataError(f"an array cannot be read: {type(error).__name__}: {str(error)[:200]}") from None
    if dtype not in KEPT:
        raise DataError(f"an array of type {str(dtype)[:50]}; taken are {', '.join(map(str, KEPT))}")
    size, left = dtype.itemsize, len(array.data) - file.tell()
    for length in shape:
        size *= length
    if size != left or any(length < 0 for length in shape):
        raise DataError(f"an array of shape {str(shape)[:50]} and type {dtype} in {left} bytes")
    values = np.frombuffer(array.data, dtype, offset=file.tell()) if size else np.zeros(0, dtype)
    return values.reshape(shape, order="F" if columns_first else "C").copy()


def write_state(state: PartState) -> ArrayRecord:
    """Named arrays of a part."""
    return ArrayRecord({key: Array(np.asarray(value)) for key, value in state.items()})


def read_state(content: RecordDict, name: str) -> dict[str, NDArray[Any]]:
    """What :func:`write_state` wrote; empty if it is not there."""
    record = content.array_records.get(name, ArrayRecord())
    if any(key.startswith("__") for key in record):  # names that a checkpoint cannot hold
        raise DataError(f"{name}: names of arrays do not begin with '__'")
    return {key: read_array(array) for key, array in record.items()}


def size_of(content: RecordDict) -> int:
    """Bytes that a message holds."""
    total = 0
    for record in content.values():
        for key, value in record.items():
            values = value if isinstance(value, list) else [value]
            total += len(key) + sum(len(v.data) if isinstance(v, Array) else _bytes(v) for v in values)
    return total


def _bytes(value: str | bytes | float) -> int:
    return len(value) if isinstance(value, str | bytes) else 8
