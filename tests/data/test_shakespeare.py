"""Plays: who says what, and how it becomes samples."""

import os
import zipfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from entrofed.data import shakespeare as module
from entrofed.data.shakespeare import ALPHABET, LENGTH, MIN_SAMPLES, PLAYS, STRIDE, shakespeare, speeches
from entrofed.errors import DataError

PLAY = """\tA PLAY


\tDRAMATIS PERSONAE

DUKE\ta duke.

SCENE\tVerona.




\tA PLAY


ACT I



SCENE I\tA street.


\t[Enter DUKE, and the
\tcrowd]

DUKE\tHear   me, [Aside] all,
\t      and go.

\t[Trumpets]

\tGo now!

ANTIPHOLUS
OF EPHESUS\tMy lord!

FRIEND\t|
\t|  We go.
FOE:\t|

\t[A direction that is never closed

DUKE\tFarewell.

\t[Exeunt]




\tA PLAY


ACT I


SCENE II\tThe same.

DUKE\tAgain.
"""


def zipped(directory: Path, text: str) -> Path:
    path = directory / "shakespeare/moby-shakespeare.zip"
    path.parent.mkdir(exist_ok=True)
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for number, play in enumerate(PLAYS):
            archive.writestr(play, text if number == 0 else PLAY)
    return path


def spoken(text: str) -> str:
    return f"cast\n\n\n\n\nDUKE\t{text}\n"


def test_speeches() -> None:
    assert speeches(PLAY) == {
        "DUKE": "Hear me, all,\nand go.\nGo now!\nFarewell.\nAgain.",
        "ANTIPHOLUS OF EPHESUS": "My lord!",
        "FRIEND": "We go.",
        "FOE": "",
    }


@given(st.text("AB\t\n[]| :", max_size=200))
def test_any_text_is_a_play(text: str) -> None:
    for role, said in speeches("\n\n\n\n\n" + text).items():
        assert "\t" not in role + said
        assert "|" not in said


def test_samples_labels_and_border(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    text = "".join(rng.choice(list("abcd,;"), size=2500))
    zipped(tmp_path, spoken(text))
    data = shakespeare(tmp_path)
    assert data.role_names == ("allswellthatendswell/DUKE",)
    assert data.classes == (*ALPHABET, "other")

    border = 2000
    starts = range(0, border - LENGTH, STRIDE)
    assert len(data.train_x) == len(starts) >= MIN_SAMPLES
    for row, start in enumerate(starts):
        assert "".join(data.classes[t] for t in data.train_x[row]) == text[start : start + LENGTH]
        assert data.classes[data.train_y[row]] == text[start + LENGTH]
    starts = range(border, 2500 - LENGTH, STRIDE)
    assert len(data.test_x) == len(starts)
    for row, start in enumerate(starts):
        assert "".join(data.classes[t] for t in data.test_x[row]) == text[start : start + LENGTH]
        assert data.classes[data.test_y[row]] == text[start + LENGTH]
    assert data.roles is not None
    np.testing.assert_array_equal(data.roles, np.zeros(len(data.train_y), np.int64), strict=True)


def test_enough_text_means_enough_training_samples(tmp_path: Path) -> None:
    needed = LENGTH + 1 + (MIN_SAMPLES - 1) * STRIDE
    length = next(n for n in range(needed, 2 * needed) if round(n * 0.8) == needed)
    zipped(tmp_path, spoken("x" * length))
    data = shakespeare(tmp_path)
    assert len(data.train_y) == MIN_SAMPLES
    assert len(data.test_y) > 0
    zipped(tmp_path, spoken("x" * (length - 2)))
    with pytest.raises(DataError, match="at least 64 training samples; found none"):
        shakespeare(tmp_path)


def test_unknown_characters_share_a_token(tmp_path: Path) -> None:
    zipped(tmp_path, spoken("$é~" * 1000))
    data = shakespeare(tmp_path)
    assert (data.train_y == len(ALPHABET)).all()
    assert (data.train_x == len(ALPHABET)).all()


def test_a_huge_play_is_not_expanded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "PLAY_LIMIT", 1000)
    zipped(tmp_path, spoken("x" * 5000))
    with pytest.raises(DataError, match="has at most 1,000 bytes; found more"):
        shakespeare(tmp_path)


def test_a_missing_play_or_zip(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="No such file"):
        shakespeare(tmp_path)
    path = zipped(tmp_path, PLAY)
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr(PLAYS[1], PLAY)
    with pytest.raises(DataError, match=PLAYS[0]):
        shakespeare(tmp_path)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.binary(max_size=64), st.integers(0, 2000), st.booleans())
def test_random_bytes(tmp_path: Path, content: bytes, place: int, overwrite: bool) -> None:
    path = zipped(tmp_path, PLAY)
    if overwrite:
        whole = path.read_bytes()
        path.write_bytes(whole[:place] + content + whole[place + len(content) :])
    else:
        path.write_bytes(content)
    with pytest.raises(DataError):
        shakespeare(tmp_path)


def test_the_real_text() -> None:
    place = os.environ.get("ENTROFED_TEST_DATA")
    if place is None or not (Path(place) / "shakespeare").exists():
        pytest.skip("set ENTROFED_TEST_DATA to a data directory with shakespeare/moby-shakespeare.zip")
    data = shakespeare(Path(place))
    assert len(data.role_names) == 497
    assert data.roles is not None
    hamlet = data.role_names.index("hamlet/HAMLET")
    first = data.train_x[np.flatnonzero(data.roles == hamlet)[0]]
    assert "".join(data.classes[t] for t in first).startswith("A little more than kin, and less than kind.\n")
    assert len(data.train_y) - np.count_nonzero(data.train_y == len(ALPHABET)) > 154_000
