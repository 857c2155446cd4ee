"""Heart disease in four hospitals, each a natural client: 920 patients, 13 features, healthy or not.

Of the files' ``num`` (0 to 4), 0 is healthy and 1 to 4 are disease. A cholesterol or a blood pressure of 0, which no
patient has, counts as missing, as ``?`` does: whole columns of a hospital are (Switzerland measured no cholesterol, and
slope, ca and thal are rare outside Cleveland). Missing values get the median or the most frequent category of the
training rows of all hospitals. A fifth of the rows of each hospital and class is for testing.
"""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow

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
    from entrofed.data.own import stratified_rows
    from entrofed.data.tabular.choice import Choice
    from entrofed.data.tabular.table import table_dataset

    parts, degrees, hospital = [], [], []
    for number, file in enumerate(HOSPITALS):
        path = directory / f"processed.{file}.data"
        x, texts = read_table(path, len(COLUMNS) + 1, ",", header=False)
        if strange := set(texts) - set("01234"):
            raise damaged(path, "the last column is one of 0, 1, 2, 3, 4", ", ".join(sorted(strange)))
        parts.append(x)
        degrees += texts
        hospital += [number] * len(x)
    x, ill, hospital_of = np.concatenate(parts), np.array(degrees) != "0", np.array(hospital)
    for name in NEVER_ZERO:
        column = x[:, COLUMNS.index(name)]
        column[column == 0] = np.nan
    for_test = np.zeros(len(x), bool)
    for_test[stratified_rows(2 * hospital_of + ill, TEST_SHARE)] = True
    columns = {
        name: [None if np.isnan(v) else str(int(v)) for v in column] if name in CATEGORIES else column
        for name, column in zip(COLUMNS, x.T, strict=True)
    }
    names = np.array(list(HOSPITALS.values()))
    table = {**columns, "disease": ill.astype(np.int64), "hospital": names[hospital_of], "test": for_test}
    rows = replace(memory_rows(pyarrow.table(table)), class_names={"disease": ("healthy", "disease")})
    choice = Choice(label="disease", client="hospital", test="test", missing="impute")
    return table_dataset(rows, choice, name="heart-hospitals")
