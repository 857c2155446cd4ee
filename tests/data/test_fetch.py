"""Downloads against a server on this machine: mirrors, resumption, checks, archives."""

import hashlib
import io
import socket
import tarfile
import threading
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from tests.data.archives import tar

from entrofed.data import catalog
from entrofed.data.catalog import DatasetEntry
from entrofed.data.fetch import CHUNK, fetch, verify
from entrofed.data.sources import File
from entrofed.errors import ConfigError, DataError

CONTENT = bytes(range(256)) * 40


@dataclass
class Mirror:
    """A web server: what it serves, how it misbehaves, and what it was asked."""

    files: dict[str, bytes] = field(default_factory=dict)
    ranges: bool = True
    lengths: bool = True
    break_off: int | None = None
    asked: list[tuple[str, str | None]] = field(default_factory=list)
    address: str = ""


@pytest.fixture(autouse=True)
def _no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("no_proxy", "127.0.0.1")


@pytest.fixture
def mirror() -> Iterator[Mirror]:
    state = Mirror()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            wanted = self.headers.get("Range")
            state.asked.append((self.path, wanted))
            if self.path not in state.files:
                self.send_error(404)
                return
            body = state.files[self.path]
            start = int(wanted.removeprefix("bytes=").removesuffix("-")) if wanted and state.ranges else 0
            if start >= len(body) > 0:
                self.send_error(416)
                return
            self.send_response(206 if start else 200)
            if start:
                self.send_header("Content-Range", f"bytes {start}-{len(body) - 1}/{len(body)}")
            if state.lengths:
                self.send_header("Content-Length", str(len(body) - start))
            self.end_headers()
            self.wfile.write(body[start:][: state.break_off])

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    state.address = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield state
    server.shutdown()
    thread.join()
    server.server_close()


def entry(*files: File, archive: File | None = None) -> DatasetEntry:
    return DatasetEntry(
        description="a toy",
        train=1,
        test=1,
        classes=1,
        shape=(1,),
        licence="none",
        source="https://example.org/toy",
        read=lambda _: pytest.fail("not read here"),
        files=files,
        archive=archive,
        packages=("the npm package toy",),
    )


def described(path: str, content: bytes, *urls: str, member: str = "") -> File:
    return File(path, len(content), hashlib.sha256(content).hexdigest(), urls, member)


@pytest.fixture
def offer(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    return lambda *files, archive=None: monkeypatch.setitem(catalog.CATALOG, "toy", entry(*files, archive=archive))


@pytest.fixture
def serving(mirror: Mirror, offer: Callable[..., None]) -> Mirror:
    """The mirror with the one file of the dataset, ``a``, as it should be."""
    mirror.files["/a"] = CONTENT
    offer(described("a", CONTENT, f"{mirror.address}/a"))
    return mirror


def test_downloads_verifies_and_reports(mirror: Mirror, offer: Callable[..., None], tmp_path: Path) -> None:
    mirror.files["/a"] = CONTENT
    offer(described("toy/a", CONTENT, f"{mirror.address}/a"))
    assert [s.state for s in verify("toy", tmp_path)] == ["missing"]
    seen: list[tuple[str, int, int]] = []
    assert fetch("toy", tmp_path, lambda *report: seen.append(report)) == [tmp_path / "toy/a"]
    assert (tmp_path / "toy/a").read_bytes() == CONTENT
    assert seen[-1] == ("toy/a", len(CONTENT), len(CONTENT))
    assert [s.state for s in verify("toy", tmp_path)] == ["ok"]
    assert [p.name for p in (tmp_path / "toy").iterdir()] == ["a"]

    mirror.asked.clear()
    fetch("toy", tmp_path)
    assert mirror.asked == []


def test_resumes_a_part(serving: Mirror, tmp_path: Path) -> None:
    (tmp_path / "a.part").write_bytes(CONTENT[:1000])
    fetch("toy", tmp_path)
    assert serving.asked == [("/a", "bytes=1000-")]
    assert (tmp_path / "a").read_bytes() == CONTENT


def test_starts_anew_where_the_server_cannot_resume(serving: Mirror, tmp_path: Path) -> None:
    serving.ranges = False
    (tmp_path / "a.part").write_bytes(CONTENT[:1000])
    fetch("toy", tmp_path)
    assert len(serving.asked) == 1
    assert (tmp_path / "a").read_bytes() == CONTENT


def test_an_endless_answer_is_cut_short(serving: Mirror, tmp_path: Path) -> None:
    serving.files["/a"] = CONTENT + bytes(1 << 22)
    serving.lengths = False
    sizes: list[int] = []
    with pytest.raises(DataError, match="not the published one"):
        fetch("toy", tmp_path, lambda _, done, __: sizes.append(done))
    assert max(sizes) <= len(CONTENT) + CHUNK


def test_a_broken_connection_leaves_a_part_that_is_resumed(serving: Mirror, tmp_path: Path) -> None:
    serving.break_off = 3000
    with pytest.raises(DataError, match=r"broke off after 3,000 of 10,240 bytes"):
        fetch("toy", tmp_path)
    assert not (tmp_path / "a").exists()
    serving.break_off = None
    fetch("toy", tmp_path)
    assert serving.asked[-1] == ("/a", "bytes=3000-")
    assert (tmp_path / "a").read_bytes() == CONTENT


@pytest.mark.parametrize("leftover", [b"x" * 1000, b"x" * len(CONTENT), b"x" * 2 * len(CONTENT)])
@pytest.mark.parametrize("ranges", [True, False])
def test_a_bad_part_does_no_harm(serving: Mirror, tmp_path: Path, leftover: bytes, ranges: bool) -> None:
    serving.ranges = ranges
    (tmp_path / "a.part").write_bytes(leftover)
    fetch("toy", tmp_path)
    assert (tmp_path / "a").read_bytes() == CONTENT
    assert not (tmp_path / "a.part").exists()


@pytest.mark.parametrize("wrong", [CONTENT[::-1], CONTENT + b"more", CONTENT[:-1], b""])
@pytest.mark.parametrize("lengths", [True, False])
def test_wrong_content_is_refused(serving: Mirror, tmp_path: Path, wrong: bytes, lengths: bool) -> None:
    serving.files["/a"] = wrong
    serving.lengths = lengths
    with pytest.raises(DataError, match="could not be fetched"):
        fetch("toy", tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_without_announced_lengths(serving: Mirror, tmp_path: Path) -> None:
    serving.lengths = False
    fetch("toy", tmp_path)
    assert (tmp_path / "a").read_bytes() == CONTENT


def test_the_second_mirror_helps_out(mirror: Mirror, offer: Callable[..., None], tmp_path: Path) -> None:
    mirror.files.update({"/portal": b"<html>please log in</html>", "/b": CONTENT})
    offer(described("a", CONTENT, *(f"{mirror.address}/{path}" for path in ("gone", "portal", "b"))))
    fetch("toy", tmp_path)
    assert [path for path, _ in mirror.asked] == ["/gone", "/portal", "/b"]
    assert (tmp_path / "a").read_bytes() == CONTENT


def test_no_server(offer: Callable[..., None], tmp_path: Path) -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{unused.getsockname()[1]}/a"
    offer(described("toy/a", CONTENT, url))
    with pytest.raises(DataError) as caught:
        fetch("toy", tmp_path)
    message = str(caught.value)
    assert f"Put it at {tmp_path / 'toy/a'}" in message
    assert f"  from {url}" in message
    assert "npm package toy" in message
    assert "https://example.org/toy" in message
    assert "refused" in message


def test_a_file_without_address(offer: Callable[..., None], tmp_path: Path) -> None:
    offer(described("toy/a", CONTENT))
    with pytest.raises(DataError, match=r"Put it at .*toy.a\n.*npm package toy\n.*example.org") as caught:
        fetch("toy", tmp_path)
    assert "Tried" not in str(caught.value)
    (tmp_path / "toy").mkdir()
    (tmp_path / "toy/a").write_bytes(b"something else")
    with pytest.raises(DataError, match="is there, but is not the published file"):
        fetch("toy", tmp_path)
    (tmp_path / "toy/a").write_bytes(CONTENT)
    assert fetch("toy", tmp_path) == [tmp_path / "toy/a"]


def test_a_damaged_file_is_replaced(serving: Mirror, tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(CONTENT[::-1])
    assert [s.state for s in verify("toy", tmp_path)] == ["damaged"]
    fetch("toy", tmp_path)
    assert (tmp_path / "a").read_bytes() == CONTENT


def test_md5_where_no_sha256_is_published(mirror: Mirror, offer: Callable[..., None], tmp_path: Path) -> None:
    file = described("a", CONTENT, f"{mirror.address}/a")
    offer(replace(file, sha256="", md5=hashlib.md5(CONTENT, usedforsecurity=False).hexdigest()))
    mirror.files["/a"] = CONTENT[::-1]
    with pytest.raises(DataError):
        fetch("toy", tmp_path)
    mirror.files["/a"] = CONTENT
    fetch("toy", tmp_path)
    assert [s.state for s in verify("toy", tmp_path)] == ["ok"]


def packed(kind: str, members: dict[str, bytes]) -> bytes:
    if kind == "tar.gz":
        return tar(members)
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return buffer.getvalue()


@pytest.mark.parametrize("kind", ["zip", "tar.gz"])
def test_only_named_members_of_an_archive_are_written(
    mirror: Mirror, offer: Callable[..., None], tmp_path: Path, kind: str
) -> None:
    data = packed(kind, {"../evil": b"x", "in/a": CONTENT, "in/other": b"y", "in/b": b"bee"})
    mirror.files["/archive"] = data
    offer(
        described("toy/a", CONTENT, member="in/a"),
        described("toy/b", b"bee", member="in/b"),
        archive=described(f"toy.{kind}", data, f"{mirror.address}/archive"),
    )
    folder = tmp_path / "data"
    assert fetch("toy", folder) == [folder / "toy/a", folder / "toy/b"]
    assert sorted(p.relative_to(tmp_path).as_posix() for p in tmp_path.rglob("*") if p.is_file()) == [
        "data/toy/a",
        "data/toy/b",
    ]
    assert (folder / "toy/a").read_bytes() == CONTENT


@pytest.mark.parametrize("kind", ["zip", "tar.gz"])
@pytest.mark.parametrize("found", [b"x" * len(CONTENT), CONTENT[:-1], CONTENT + b"x", None])
def test_a_wrong_or_absent_member_is_refused(
    offer: Callable[..., None], tmp_path: Path, kind: str, found: bytes | None
) -> None:
    data = packed(kind, {"in/b": b"bee"} if found is None else {"in/a": found})
    (tmp_path / f"toy.{kind}").write_bytes(data)
    offer(described("a", CONTENT, member="in/a"), archive=described(f"toy.{kind}", data))
    with pytest.raises(DataError, match="in/a"):
        fetch("toy", tmp_path)
    assert [p.name for p in tmp_path.iterdir()] == [f"toy.{kind}"]


def test_a_link_in_an_archive_is_not_followed(offer: Callable[..., None], tmp_path: Path) -> None:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as archive:
        link = tarfile.TarInfo("in/a")
        link.type, link.linkname = tarfile.SYMTYPE, "/etc/passwd"
        archive.addfile(link)
    (tmp_path / "toy.tar.gz").write_bytes(buffer.getvalue())
    offer(described("a", CONTENT, member="in/a"), archive=described("toy.tar.gz", buffer.getvalue()))
    with pytest.raises(DataError, match="no member in/a"):
        fetch("toy", tmp_path)


def test_an_archive_put_there_by_hand_is_used_and_kept(offer: Callable[..., None], tmp_path: Path) -> None:
    data = packed("tar.gz", {"in/a": CONTENT})
    (tmp_path / "toy.tar.gz").write_bytes(data)
    offer(described("a", CONTENT, member="in/a"), archive=described("toy.tar.gz", data))
    fetch("toy", tmp_path)
    assert (tmp_path / "a").read_bytes() == CONTENT
    assert (tmp_path / "toy.tar.gz").exists()


def test_an_unwritable_directory(mirror: Mirror, offer: Callable[..., None], tmp_path: Path) -> None:
    (tmp_path / "file").write_text("not a directory")
    offer(described("toy/a", CONTENT, f"{mirror.address}/a"))
    with pytest.raises(DataError, match="Choose another data directory"):
        fetch("toy", tmp_path / "file")


def test_unpacked_pictures_are_counted(tmp_path: Path) -> None:
    first = tmp_path / "cinic-10/train/airplane"
    first.mkdir(parents=True)
    (first / "1.png").touch()
    states = {s.path: s.state for s in verify("cinic-10", tmp_path)}
    assert len(states) == 20
    assert states.pop(first) == "damaged"
    assert set(states.values()) == {"missing"}


def test_shipped_and_bundled_datasets_need_no_network(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert fetch("digits", tmp_path) == []
    assert [p.name for p in fetch("iris", tmp_path)] == ["iris.csv"]
    broken = replace(catalog.CATALOG["iris"], files=(described("iris.csv", b"else"),))
    monkeypatch.setitem(catalog.CATALOG, "iris", broken)
    with pytest.raises(DataError, match="Install entrofed again"):
        fetch("iris", tmp_path)


def test_an_unknown_name(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="did you mean 'mnist'"):
        fetch("mnits", tmp_path)
