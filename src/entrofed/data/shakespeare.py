"""Next-character prediction on Shakespeare's plays; every speaking role is a natural client.

The text is the Moby edition. A play starts with the cast, which ends at the first four blank lines. After
that, a speech is ``NAME<tab>text`` followed by lines that start with a tab; a long name runs over two lines;
stage directions stand in square brackets (a few are never closed: they end at the next blank line); two or
more blank lines end a speech, and titles, acts and scenes stand between such gaps; ``|`` marks what several
roles say together. Directions and marks are dropped, runs of blanks become one, and lines and speeches are
joined by line breaks.
"""

import re
import string
import zipfile
import zlib
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from entrofed.data.dataset import Dataset
from entrofed.data.readers import damaged

ALPHABET = "\n !&'(),-.:;?" + string.digits + string.ascii_letters
"""Characters with a token of their own, their index; every other character is token ``len(ALPHABET)``."""
LENGTH = 80
"""Characters in a sample; its label is the next one."""
STRIDE = 20
"""A sample starts at every 20th character, so that each character is read in four samples."""
TEST_SHARE = 0.2
"""The end of each role's text that is kept for testing; no sample reaches across the border."""
MIN_SAMPLES = 64
"""A role with fewer training samples is left out."""
PLAY_LIMIT = 1 << 20
"""Bytes of one play."""

_COMEDIES = """
allswellthatendswell asyoulikeit comedyoferrors cymbeline loveslabourslost measureforemeasure merchantofvenice
merrywivesofwindsor midsummersnightsdream muchadoaboutnothing periclesprinceoftyre tamingoftheshrew tempest
troilusandcressida twelfthnight twogentlemenofverona winterstale
"""
_HISTORIES = """
1kinghenryiv 1kinghenryvi 2kinghenryiv 2kinghenryvi 3kinghenryvi kinghenryv kinghenryviii kingjohn
kingrichardii kingrichardiii
"""
_TRAGEDIES = """
antonyandcleopatra coriolanus hamlet juliuscaesar kinglear macbeth othello romeoandjuliet timonofathens
titusandronicus
"""
PLAYS = tuple(
    f"shakespeare/{folder}/{play}"
    for folder, plays in (("comedies", _COMEDIES), ("histories", _HISTORIES), ("tragedies", _TRAGEDIES))
    for play in plays.split()
)
"""The members of the zip that are read."""

_SPEAKER = re.compile(r"^([^\t\n]+(?:\n[^\t\n]+)?)\t", re.MULTILINE)
_DIRECTION = re.compile(r"\[[^\[\]]*?(?:\]|(?=\n\n)|\Z)")
_TOKENS = np.full(256, len(ALPHABET), np.uint8)
_TOKENS[np.frombuffer(ALPHABET.encode("ascii"), np.uint8)] = np.arange(len(ALPHABET))


def shakespeare(directory: Path) -> Dataset:
    """All roles with enough text, as samples of 80 characters labelled with the character that follows."""
    path = directory / "shakespeare" / "moby-shakespeare.zip"
    names, train, test = [], [], []
    for play in PLAYS:
        for role, text in speeches(_read(path, play)).items():
            tokens = _TOKENS[np.frombuffer(text.encode("latin-1"), np.uint8)]
            border = round(len(tokens) * (1 - TEST_SHARE))
            samples = _windows(tokens[:border])
            if len(samples) >= MIN_SAMPLES:
                names.append(f"{play.split('/')[-1]}/{role}")
                train.append(samples)
                test.append(_windows(tokens[border:]))
    if not names:
        raise damaged(path, f"some role must have at least {MIN_SAMPLES} training samples", "none")
    train_all, test_all = np.concatenate(train), np.concatenate(test)
    return Dataset(
        "shakespeare",
        "text",
        train_all[:, :LENGTH].copy(),
        train_all[:, LENGTH].astype(np.int64),
        test_all[:, :LENGTH].copy(),
        test_all[:, LENGTH].astype(np.int64),
        classes=(*ALPHABET, "other"),
        roles=np.repeat(np.arange(len(names), dtype=np.int64), [len(samples) for samples in train]),
        role_names=tuple(names),
    )


def speeches(play: str) -> dict[str, str]:
    r"""What each role of a play says.

    >>> cast = "BRUTUS\ta Roman.\n\n\n\n\nSCENE I\tRome."
    >>> speeches(cast + "\n\n\nMARK\nANTONY\tFriends,  [Aside]\n\tRomans,\n\nBRUTUS\tPeace, ho!\n")
    {'MARK ANTONY': 'Friends,\nRomans,', 'BRUTUS': 'Peace, ho!'}
    """
    said: dict[str, list[str]] = {}
    _, *scenes = re.split(r"\n{5,}", play)
    for block in (block for scene in scenes for block in re.split(r"\n{3,}", scene)):
        pieces = _SPEAKER.split(_DIRECTION.sub("", block))
        for name, speech in zip(pieces[1::2], pieces[2::2], strict=True):
            lines = [" ".join(line.replace("|", " ").split()) for line in speech.split("\n")]
            role = " ".join(name.split()).rstrip(":")
            if not role.startswith("SCENE"):
                said.setdefault(role, []).extend(line for line in lines if line)
    return {role: "\n".join(lines) for role, lines in said.items()}


def _windows(tokens: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Samples and, in the last column, their labels.

    >>> _windows(np.zeros(LENGTH + 1 + 2 * STRIDE, np.uint8)).shape
    (3, 81)
    """
    if len(tokens) <= LENGTH:
        return np.empty((0, LENGTH + 1), np.uint8)
    return np.lib.stride_tricks.sliding_window_view(tokens, LENGTH + 1)[::STRIDE]


def _read(path: Path, member: str) -> str:
    try:
        with zipfile.ZipFile(path) as archive, archive.open(member) as file:
            data = file.read(PLAY_LIMIT + 1)
    except (OSError, EOFError, KeyError, ValueError, RuntimeError, zipfile.BadZipFile, zlib.error) as error:
        raise damaged(path, f"the zip must hold a readable {member}", error) from error
    if len(data) > PLAY_LIMIT:
        raise damaged(path, f"{member} has at most {PLAY_LIMIT:,} bytes", "more")
    return data.decode("latin-1")
