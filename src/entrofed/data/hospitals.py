"""Heart disease in four hospitals, each a natural client: 920 patients, 13 features, healthy or not.

Of the files' ``num`` (0 to 4), 0 is healthy and 1 to 4 are disease. A cholesterol or a blood pressure of 0, which no
patient has, counts as missing, as ``?`` does: whole columns of a hospital are (Switzerland measured no cholesterol, and
slope, ca and thal are rare outside Cleveland). Missing values get the median or the most frequent category of the
training rows of all hospitals. A fifth of the rows of each hospital and class is for testing.
"""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from entrofed.data.dataset import Dataset
from entrofed.data.readers import damaged, read_table

HOSPITALS = {"cleveland": "Cleveland", "hungarian": "Budapest", "switzerland": "Switzerland", "va": "Long Beach"}
_COLUMNS = "age sex cp trestbps chol fbs restecg thalach exang oldpeak slope ca thal"
COLUMNS = tuple(_COLUMNS.split())
CATEGORIES = ("cp", "restecg", "slope", "thal")
NEVER_ZERO = ("trestbps", "chol")
TEST_SHARE = 0.2


def heart_hospitals(directory: Path) -> Dataset:
    """All four; see the module."""
    from entrofed.data.files.memory import memory_rows
    from entrofed.data.tabular.choice import Choice
    from entrofed.data.tabular.table import table_dataset

    rows = replace(memory_rows(hospital_table(directory)), class_names={"disease": ("healthy", "disease")})
    choice = Choice(label="disease", client="hospital", test="test", missing="impute")
    return table_dataset(rows, choice, name="heart-hospitals")


def hospital_table(directory: Path) -> Any:
    """The patients as a table of Arrow with the columns ``disease`` (0 or 1), ``hospital`` and ``test``."""
    import pyarrow

    from entrofed.data.own import stratified_rows

    parts, ill, hospital = [], [], []
    for number, file in enumerate(HOSPITALS):
        path = directory / f"processed.{file}.data"
        x, texts = read_table(path, len(COLUMNS) + 1, ",", header=False)
        if strange := set(texts) - set("01234"):
            raise damaged(path, "the last column is one of 0, 1, 2, 3, 4", ", ".join(sorted(strange)))
        parts.append(x)
        ill += [int(text != "0") for text in texts]
        hospital += [number] * len(x)
    x = np.concatenate(parts)
    for name in NEVER_ZERO:
        column = x[:, COLUMNS.index(name)]
        column[column == 0] = np.nan
    for_test = np.zeros(len(x), bool)
    for_test[stratified_rows(2 * np.array(hospital) + ill, TEST_SHARE)] = True
    columns: dict[str, Any] = {
        name: [None if np.isnan(v) else str(int(v)) for v in column] if name in CATEGORIES else column
        for name, column in zip(COLUMNS, x.T, strict=True)
    }
    names = np.array(list(HOSPITALS.values()))[hospital]
    return pyarrow.table({**columns, "disease": ill, "hospital": names, "test": for_test})
