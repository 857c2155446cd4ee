"""Folders of pictures by class (``root/class/*.png``), or by client and class (``root/client/class/*.png``).

Pillow reads them. All have the same size, or are resized; if all are gray there is one channel, else there are three.
"""

import importlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from entrofed.errors import DataError

ENDINGS = (".png", ".jpg", ".jpeg", ".bmp", ".webp", ".tif", ".tiff")
FORMATS = ("PNG", "JPEG", "BMP", "WEBP", "TIFF")
GRAY, COLOUR = ("1", "L", "LA"), ("P", "PA", "RGB", "RGBA", "CMYK", "YCbCr")
SIZE_LIMIT = 1 << 34
"""Bytes of all pictures."""


@dataclass(frozen=True)
class PictureFiles:
    """The files of a folder, sorted, with the class of each and, if there is a level of clients, its client."""

    root: Path
    paths: tuple[Path, ...]
    classes: tuple[str, ...]
    clients: tuple[str, ...] = ()

    @property
    def labels(self) -> list[str]:
        """The class of each picture."""
        return [path.parent.name for path in self.paths]

    @property
    def owners(self) -> list[str] | None:
        """The client of each picture."""
        return [path.parent.parent.name for path in self.paths] if self.clients else None


def picture_files(root: Path) -> PictureFiles:
    """What pictures a folder holds, and of whom; no picture is opened."""
    paths = sorted(path for path in root.rglob("*") if path.suffix.lower() in ENDINGS and not _hidden(path, root))
    if not paths:
        raise DataError(
            f"{root}: no pictures ({', '.join(ENDINGS)}) in folders named by class, or by client and class within it"
        )
    depths = {len(path.relative_to(root).parts) - 1: path for path in reversed(paths)}
    if depths.keys() not in ({1}, {2}):
        shown = "; ".join(str(path.relative_to(root)) for path in depths.values())
        raise DataError(f"{root}: every picture lies in class/ or every picture lies in client/class/; found {shown}")
    owners = {path.parent.parent.name for path in paths} if 2 in depths else set()
    return PictureFiles(root, tuple(paths), tuple(sorted({path.parent.name for path in paths})), tuple(sorted(owners)))


def _hidden(path: Path, root: Path) -> bool:
    return any(part.startswith((".", "__")) for part in path.relative_to(root).parts)


def read_pictures(
    sources: Sequence[tuple[str, Callable[[], Any]]], where: str, size: tuple[int, int] | None
) -> NDArray[np.uint8]:
    """Pictures as ``uint8 [n, channels, height, width]``.

    Args:
        sources: What each picture is called, and a function that gives its path or an open file.
        where: What all are called in messages.
        size: Height and width to resize to.
    """
    shapes: set[tuple[int, int]] = set()
    modes: set[str] = set()

    def look(row: int, picture: Any) -> None:
        if picture.mode not in (*GRAY, *COLOUR):
            raise ValueError(f"pixels of mode {picture.mode}, not 8 bits per channel")
        shapes.add(picture.size[::-1])
        modes.add(picture.mode)

    _each(sources, where, look)
    if size is None and len(shapes) > 1:
        shown = ", ".join(f"{height}x{width}" for height, width in sorted(shapes)[:3])
        raise DataError(f"{where}: pictures have {len(shapes)} sizes ({shown} ...); set size = [height, width]")
    height, width = size or next(iter(shapes))
    channels, mode = (1, "L") if modes.issubset(GRAY) else (3, "RGB")
    if len(sources) * height * width * channels > SIZE_LIMIT:
        found = f"{len(sources):,} pictures of {height}x{width}"
        raise DataError(f"{where}: {found} take more than {SIZE_LIMIT >> 30} GB; set size = [height, width]")
    out = np.empty((len(sources), channels, height, width), np.uint8)

    def take(row: int, picture: Any) -> None:
        pixels = picture.convert(mode)
        if pixels.size != (width, height):
            pixels = pixels.resize((width, height))
        out[row] = np.atleast_3d(np.asarray(pixels)).transpose(2, 0, 1)

    _each(sources, where, take)
    return out


def _each(sources: Sequence[tuple[str, Callable[[], Any]]], where: str, use: Callable[[int, Any], None]) -> None:
    """Open one picture after the other; those that cannot be read are counted."""
    try:
        pillow = importlib.import_module("PIL.Image")
    except ImportError:
        raise DataError(f"{where}: pictures need Pillow, which is not installed; run: pip install pillow") from None
    broken = []
    for row, (name, source) in enumerate(sources):
        try:
            with pillow.open(source(), formats=FORMATS) as picture:
                use(row, picture)
        except Exception as error:  # whatever the decoder makes of bad bytes
            broken.append(f"{name}: {error}")
    if broken:
        raise DataError(
            f"{where}: {len(broken):,} of {len(sources):,} files cannot be read as pictures. The first is {broken[0]}"
        )
