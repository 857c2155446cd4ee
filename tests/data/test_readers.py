"""File formats: what is written is read back, and whatever is wrong is a DataError that says so."""

import gzip
import struct
import sys
import zlib
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays
from tests.data.archives import tar

from entrofed.data import readers
from entrofed.data.readers import (
    read_cifar,
    read_idx,
    read_picture_archive,
    read_picture_folders,
    read_table,
)
from entrofed.errors import DataError

in_one_folder = settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


def idx(values: np.ndarray) -> bytes:
    return struct.pack(f">BBBB{values.ndim}I", 0, 0, 8, values.ndim, *values.shape) + values.tobytes()


def png(pixels: np.ndarray) -> bytes:
    """``[height, width, 3]`` or ``[height, width]`` bytes as a PNG picture."""
    height, width = pixels.shape[:2]

    def chunk(kind: bytes, body: bytes) -> bytes:
        return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))

    rows = b"".join(b"\0" + row.tobytes() for row in pixels)
    header = struct.pack(">IIBBBBB", width, height, 8, 2 if pixels.ndim == 3 else 0, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")


class TestIdx:
    @in_one_folder
    @given(arrays(np.uint8, array_shapes(min_dims=1, max_dims=4, max_side=6)))
    def test_round_trip(self, tmp_path: Path, values: np.ndarray) -> None:
        path = tmp_path / "x.gz"
        path.write_bytes(gzip.compress(idx(values)))
        read = read_idx(path, values.ndim)
        np.testing.assert_array_equal(read, values, strict=True)
        assert read.flags.writeable

    @in_one_folder
    @given(st.binary(max_size=64), st.booleans(), st.sampled_from([1, 3]))
    def test_random_bytes(self, tmp_path: Path, content: bytes, compress: bool, dimensions: int) -> None:
        path = tmp_path / "x.gz"
        path.write_bytes(gzip.compress(content) if compress else content)
        with pytest.raises(DataError, match=r"x\.gz: .*; found .*\. Replace"):
            read_idx(path, dimensions)

    @pytest.mark.parametrize(
        ("content", "found"),
        [
            (b"", "found nothing"),
            (idx(np.zeros((2, 2), np.uint8)), "found 00000802"),
            (b"\0\0\x0d\x01" + bytes(8), "found 00000d01"),
            (b"\0\0\x08\x01\0", "found 5 bytes"),
            (idx(np.zeros(4, np.uint8))[:-1], "calls for 4 bytes; found 3 bytes"),
            (idx(np.zeros(4, np.uint8)) + b"x", "calls for 4 bytes; found more bytes"),
            (idx(np.zeros(0, np.uint8)), r"found the shape \(0,\)"),
            (b"\0\0\x08\x01\xff\xff\xff\xff", r"found the shape \(4294967295,\)"),
        ],
    )
    def test_what_is_wrong(self, tmp_path: Path, content: bytes, found: str) -> None:
        path = tmp_path / "x.gz"
        path.write_bytes(gzip.compress(content))
        with pytest.raises(DataError, match=found):
            read_idx(path, 1)

    def test_truncated_or_corrupt_gzip(self, tmp_path: Path) -> None:
        path = tmp_path / "x.gz"
        whole = gzip.compress(idx(np.arange(200, dtype=np.uint8)))
        for content in (whole[:-9], whole[:-8] + b"wrongcrc", whole[:30]):
            path.write_bytes(content)
            with pytest.raises(DataError, match="readable gzip"):
                read_idx(path, 1)

    def test_a_bomb_is_not_expanded(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        path = tmp_path / "x.gz"
        path.write_bytes(gzip.compress(idx(np.zeros(3, np.uint8)) + bytes(1 << 24)))
        wanted = []
        original = gzip.GzipFile.read

        def read(file: gzip.GzipFile, size: int | None = -1) -> bytes:
            wanted.append(size)
            return original(file, size)

        monkeypatch.setattr(gzip.GzipFile, "read", read)
        with pytest.raises(DataError, match="more bytes"):
            read_idx(path, 1)
        assert wanted == [4, 4, 4]

    def test_missing(self, tmp_path: Path) -> None:
        with pytest.raises(DataError, match="No such file"):
            read_idx(tmp_path / "x.gz", 1)


class TestCifar:
    @in_one_folder
    @given(data=st.data(), classes=st.sampled_from([(10,), (20, 100)]), rows=st.integers(1, 3))
    def test_round_trip(self, tmp_path: Path, data: st.DataObject, classes: tuple[int, ...], rows: int) -> None:
        labels = [data.draw(arrays(np.uint8, rows, elements=st.integers(0, n - 1))) for n in classes]
        pixels = np.random.default_rng(rows).integers(256, size=(rows, 3, 32, 32), dtype=np.uint8)
        path = tmp_path / "x.bin"
        path.write_bytes(np.column_stack([*labels, pixels.reshape(rows, -1)]).tobytes())
        read_pixels, read_labels = read_cifar(path, classes)
        np.testing.assert_array_equal(read_pixels, pixels, strict=True)
        for found, label in zip(read_labels, labels, strict=True):
            np.testing.assert_array_equal(found, label.astype(np.int64), strict=True)

    @in_one_folder
    @given(st.binary(max_size=64), st.sampled_from([0, 3073]))
    def test_random_bytes(self, tmp_path: Path, content: bytes, padding: int) -> None:
        path = tmp_path / "x.bin"
        path.write_bytes(b"\xff" + content + bytes(padding))
        with pytest.raises(DataError, match=r"x\.bin: .*; found .*\. Replace"):
            read_cifar(path, (10,))

    @pytest.mark.parametrize(
        ("content", "found"),
        [
            (b"", "found 0 bytes"),
            (bytes(3072), "found 3,072 bytes, which is 1.00 records"),
            (bytes(3073) + b"x", "found 3,074 bytes"),
            (bytes(3073) + b"\x0a" + bytes(3072), r"labels must lie in 0\.\.9; found label 10"),
        ],
    )
    def test_what_is_wrong(self, tmp_path: Path, content: bytes, found: str) -> None:
        path = tmp_path / "x.bin"
        path.write_bytes(content)
        with pytest.raises(DataError, match=found):
            read_cifar(path, (10,))

    def test_too_large_is_not_read(self, tmp_path: Path) -> None:
        path = tmp_path / "x.bin"
        with path.open("wb") as file:
            file.truncate(3073 * 50_001)
        with pytest.raises(DataError, match=r"1\.\.50,000 records"):
            read_cifar(path, (10,))

    def test_missing(self, tmp_path: Path) -> None:
        with pytest.raises(DataError, match="No such file"):
            read_cifar(tmp_path / "x.bin", (10,))


class TestTable:
    @in_one_folder
    @given(
        arrays(np.float32, (3, 2), elements=st.floats(width=32, allow_nan=False, allow_infinity=False)),
        st.sampled_from([",", ";", None]),
    )
    def test_round_trip(self, tmp_path: Path, values: np.ndarray, separator: str | None) -> None:
        path = tmp_path / "x.csv"
        rows = [(separator or "\t\t").join([*(repr(float(v)) for v in row), "Ü"]) for row in values]
        path.write_text("a line to skip\n" + "\r\n".join(rows) + "\n\n", encoding="utf-8")
        numbers, labels = read_table(path, 3, separator, header=True)
        np.testing.assert_array_equal(numbers, values, strict=True)
        assert labels == ["Ü"] * 3

    @in_one_folder
    @given(st.one_of(st.binary(max_size=64), st.text("0123456789.,?-naif\n", max_size=64).map(str.encode)))
    def test_random_bytes(self, tmp_path: Path, content: bytes) -> None:
        path = tmp_path / "x.csv"
        path.write_bytes(content)
        try:
            numbers, labels = read_table(path, 3, ",", header=False)
        except DataError:
            return
        assert numbers.shape == (len(labels), 2)
        assert not np.isinf(numbers).any()

    def test_missing_values_and_a_byte_order_mark(self, tmp_path: Path) -> None:
        path = tmp_path / "x.csv"
        path.write_bytes(b"\xef\xbb\xbf1,?,a\n")
        numbers, labels = read_table(path, 3, ",", header=False)
        np.testing.assert_array_equal(numbers, [[1, np.nan]])
        assert labels == ["a"]

    @pytest.mark.parametrize(
        ("content", "found"),
        [
            ("1,2,a\n1,a\n", "every row has 3 columns; found 2 in line 2"),
            ("1,x,a\n", "are numbers; found .*'x'.* in line 1"),
            ("1,nan,a\n", "must be finite"),
            ("1,inf,a\n", "must be finite"),
            ("1,1e39,a\n", "must be finite in single precision"),
            ("1,2,\udcff", "UTF-8"),
        ],
    )
    def test_what_is_wrong(self, tmp_path: Path, content: str, found: str) -> None:
        path = tmp_path / "x.csv"
        path.write_bytes(content.encode("utf-8", "surrogateescape"))
        with pytest.raises(DataError, match=found):
            read_table(path, 3, ",", header=False)

    def test_too_large_is_not_read(self, tmp_path: Path) -> None:
        path = tmp_path / "x.csv"
        with path.open("wb") as file:
            file.truncate(readers.TABLE_LIMIT + 1)
        with pytest.raises(DataError, match="at most 16,777,216 bytes"):
            read_table(path, 3, ",", header=False)


class TestPictures:
    classes = ("cat", "dog")

    @pytest.fixture(autouse=True)
    def _pillow(self) -> None:
        pytest.importorskip("PIL", reason="PNG pictures need Pillow")

    @pytest.fixture
    def pictures(self) -> dict[str, np.ndarray]:
        rng = np.random.default_rng(0)
        names = ("dog/2.png", "cat/b.png", "dog/1.png", "cat/a.png")
        drawn = {name: rng.integers(256, size=(32, 32, 3), dtype=np.uint8) for name in names}
        drawn["cat/grey.png"] = rng.integers(256, size=(32, 32), dtype=np.uint8)
        return drawn

    def expected(self, pictures: dict[str, np.ndarray]) -> np.ndarray:
        in_order = [pictures[name] for name in sorted(pictures)]
        return np.stack([np.broadcast_to(x.T, (3, 32, 32)) if x.ndim == 2 else x.T for x in in_order]).swapaxes(2, 3)

    def test_folders(self, tmp_path: Path, pictures: dict[str, np.ndarray]) -> None:
        for name, pixels in pictures.items():
            (tmp_path / name).parent.mkdir(exist_ok=True)
            (tmp_path / name).write_bytes(png(pixels))
        pixels, labels = read_picture_folders(tmp_path, self.classes)
        np.testing.assert_array_equal(pixels, self.expected(pictures), strict=True)
        np.testing.assert_array_equal(labels, np.array([0, 0, 0, 1, 1]), strict=True)

    def test_archive(self, tmp_path: Path, pictures: dict[str, np.ndarray]) -> None:
        members = {f"./test/{name}": png(pixels) for name, pixels in pictures.items()}
        extra = {
            "README.md": b"x",
            "./valid/cat/a.png": b"x",
            "./test/cow/a.png": b"x",
            "./test/cat/a.txt": b"x",
        }
        path = tmp_path / "x.tar.gz"
        path.write_bytes(tar({**members, **extra, "./train/cat/only.png": members["./test/cat/a.png"]}))
        parts = read_picture_archive(path, ("train", "test"), self.classes)
        np.testing.assert_array_equal(parts["test"][0], self.expected(pictures), strict=True)
        np.testing.assert_array_equal(parts["test"][1], np.array([0, 0, 0, 1, 1]), strict=True)
        np.testing.assert_array_equal(parts["train"][0], self.expected(pictures)[:1], strict=True)

    @in_one_folder
    @given(st.binary(max_size=64), st.booleans())
    def test_random_bytes(self, tmp_path: Path, content: bytes, like_png: bool) -> None:
        whole = png(np.zeros((32, 32, 3), np.uint8))
        (tmp_path / "cat").mkdir(exist_ok=True)
        (tmp_path / "cat/x.png").write_bytes(whole[:33] + content if like_png else content)
        with pytest.raises(DataError, match=r"PNG picture|32x32"):
            read_picture_folders(tmp_path, self.classes)

    def test_another_size(self, tmp_path: Path) -> None:
        (tmp_path / "cat").mkdir()
        (tmp_path / "cat/x.png").write_bytes(png(np.zeros((32, 33, 3), np.uint8)))
        with pytest.raises(DataError, match=r"32x32; found \(33, 32\)"):
            read_picture_folders(tmp_path, self.classes)


def test_pictures_without_pillow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "PIL", None)
    monkeypatch.setitem(sys.modules, "PIL.Image", None)
    with pytest.raises(DataError, match="pip install pillow"):
        read_picture_folders(tmp_path, ("cat",))


@in_one_folder
@given(st.binary(max_size=64), st.booleans())
def test_random_bytes_as_an_archive(tmp_path: Path, content: bytes, compress: bool) -> None:
    path = tmp_path / "x.tar.gz"
    path.write_bytes(gzip.compress(content) if compress else content)
    with pytest.raises(DataError):
        read_picture_archive(path, ("train",), ("cat",))


def test_a_huge_picture_in_an_archive(tmp_path: Path) -> None:
    path = tmp_path / "x.tar.gz"
    path.write_bytes(tar({"train/cat/x.png": bytes(readers.PNG_LIMIT + 1)}))
    with pytest.raises(DataError, match="at most 65,536 bytes"):
        read_picture_archive(path, ("train",), ("cat",))
