"""What 30 people are doing, from a phone at the waist: windows of 2.56 s of accelerometer (g) and gyroscope (rad/s).

Each person is a natural client. The file has two or three recordings of each (``userNN_runM_signal`` [n, 6] at 50 Hz,
``_label`` [n]: 1 to 6 what the person does, 7 to 12 how it changes posture, -1 nothing known). A stretch of one of the
six activities is cut into windows of 128 samples, which overlap by half; its last quarter is for testing, and no window
reaches over a border. Changes of posture are too short for that and are left out.
"""

import re
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from entrofed.data.dataset import Dataset
from entrofed.data.readers import damaged
from entrofed.errors import DataError

ACTIVITIES = ("walking", "walking upstairs", "walking downstairs", "sitting", "standing", "lying")
CHANNELS, LENGTH, STEP, TEST_SHARE = 6, 128, 64, 0.25
Floats = NDArray[np.float32]


def activity(directory: Path) -> Dataset:
    """All people; see the module."""
    path = directory / "activity" / "hapt_raw_30_users.npz"
    parts: dict[str, list[tuple[Floats, int, int]]] = {"train": [], "test": []}
    people: list[str] = []
    for person, signal, label in _recordings(path):
        if person not in people:
            people.append(person)
        borders = np.flatnonzero(np.diff(label)) + 1
        for piece, what in zip(np.split(signal, borders), label[np.r_[0, borders]], strict=True):
            if 1 <= what <= len(ACTIVITIES):
                end = round(len(piece) * (1 - TEST_SHARE))
                parts["train"] += [(window, int(what) - 1, people.index(person)) for window in windows(piece[:end])]
                parts["test"] += [(window, int(what) - 1, people.index(person)) for window in windows(piece[end:])]
    if not parts["train"] or not parts["test"]:
        raise damaged(path, f"recordings hold stretches of more than {LENGTH} samples", "none")
    x = {part: np.stack([window for window, _, _ in found]) for part, found in parts.items()}
    y = {part: np.array([what for _, what, _ in found], np.int64) for part, found in parts.items()}
    return Dataset(
        name="activity",
        kind="tensor",
        train_x=x["train"],
        train_y=y["train"],
        test_x=x["test"],
        test_y=y["test"],
        classes=ACTIVITIES,
        roles=np.array([person for _, _, person in parts["train"]], np.int64),
        role_names=tuple(people),
        full_scale=1.0,
    )


def windows(signal: Floats) -> list[Floats]:
    """Windows ``[channels, LENGTH]`` that start at every ``STEP``-th sample.

    >>> [window.shape for window in windows(np.zeros((200, 6), np.float32))]
    [(6, 128), (6, 128)]
    """
    return [signal[start : start + LENGTH].T for start in range(0, len(signal) - LENGTH + 1, STEP)]


def _recordings(path: Path) -> Iterator[tuple[str, Floats, NDArray[np.int8]]]:
    """The person, the signal and the labels of each recording."""
    try:
        with path.open("rb") as opened, np.load(opened, allow_pickle=False) as file:
            for name in sorted(file.files):
                if found := re.fullmatch(r"(user\d\d)(_run\d_)signal", name):
                    signal, label = file[name], file[f"{found[1]}{found[2]}label"]
                    if signal.shape != (len(label), CHANNELS) or signal.dtype != np.float32 or label.ndim != 1:
                        raise damaged(path, f"{name} is float32 [n, {CHANNELS}] with n labels", signal.shape)
                    yield found[1], signal, label
    except DataError:
        raise
    except Exception as error:  # whatever zipfile and numpy make of bad bytes
        raise damaged(path, "the file must be a readable .npz", error) from error
