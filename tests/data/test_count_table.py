"""Label counts from files: what is understood, and what is refused with which words."""

import json
import re

import numpy as np
import pyarrow
import pyarrow.parquet
import pytest

from entrofed.data.count_table import CountTable, read_counts
from entrofed.errors import ConfigError, DataError, EntrofedError


def write(path, content):
    path.write_text(content, encoding="utf-8")
    return path


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("c.csv", "hospital,cat,dog\nBasel,3,0\nLugano,1,2\n"),
        ("c.csv", "﻿hospital,cat,dog\r\nBasel,3,0\r\nLugano,1,2\r\n"),
        ("c.csv", 'hospital;"cat";dog\n"Basel"; 3 ;0\nLugano;1;2'),
        ("c.tsv", "hospital\tcat\tdog\nBasel\t3\t0\nLugano\t1\t2\n"),
        ("c.json", '{"Basel": {"cat": 3}, "Lugano": {"cat": 1, "dog": 2}}'),
        ("c.json", '[{"client": "Basel", "cat": 3, "dog": 0}, {"client": "Lugano", "cat": 1, "dog": 2}]'),
    ],
)
def test_formats(tmp_path, name, content):
    table = read_counts(write(tmp_path / name, content))
    assert table.names == ("Basel", "Lugano")
    assert table.classes == ("cat", "dog")
    assert table.counts.tolist() == [[3, 0], [1, 2]]
    assert table.whole


@pytest.mark.parametrize("header", ["", "client", "Client", "id", "site"])
def test_numbers_name_clients_under_such_headers(tmp_path, header):
    table = read_counts(write(tmp_path / "c.csv", f"{header},0,1\n7,3,0\n9,1,2\n"))
    assert (table.names, table.classes) == (("7", "9"), ("0", "1"))


def test_without_names_clients_are_numbered(tmp_path):
    table = read_counts(write(tmp_path / "c.csv", "0,1\n3,0\n1,2.5\n"))
    assert (table.names, table.classes, table.whole) == (("0", "1"), ("0", "1"), False)
    assert read_counts(write(tmp_path / "c.json", "[[3, 0], [1, 2]]")).counts.tolist() == [[3, 0], [1, 2]]
    assert read_counts(write(tmp_path / "d.json", '{"a": [3, 0], "b": [1, 2]}')).names == ("a", "b")


def test_the_column_of_names_can_be_said(tmp_path):
    path = write(tmp_path / "c.csv", "cat,dog,ward\n3,0,11\n1,2,12\n")
    assert read_counts(path).classes == ("cat", "dog", "ward")
    assert read_counts(path, "ward").names == ("11", "12")
    with pytest.raises(ConfigError, match=r"unknown column of .*c\.csv: 'wards'; did you mean 'ward'\?"):
        read_counts(path, "wards")


def test_parquet(tmp_path):
    columns = {"client": ["a", "b"], "cat": [3, 1], "dog": pyarrow.array([0.5, 2.0], pyarrow.float32())}
    path = tmp_path / "c.parquet"
    pyarrow.parquet.write_table(pyarrow.table(columns), path)
    table = read_counts(path)
    assert (table.names, table.classes, table.counts.tolist()) == (("a", "b"), ("cat", "dog"), [[3, 0.5], [1, 2]])


def test_an_index_of_pandas_names_the_clients(tmp_path):
    told = {b"pandas": json.dumps({"index_columns": ["ward"], "columns": []}).encode()}
    table = pyarrow.table({"cat": [3, 1], "dog": [0, 2], "ward": [11, 12]}).replace_schema_metadata(told)
    path = tmp_path / "c.parquet"
    pyarrow.parquet.write_table(table, path)
    assert read_counts(path).names == ("11", "12")


def test_clients_that_hold_nothing_stay_and_classes_that_nobody_holds_go(tmp_path):
    table = read_counts(write(tmp_path / "c.csv", "client,cat,ghost,dog\na,0,0,0\nb,1,0,2\n"))
    assert (table.classes, table.unheld, table.counts.tolist()) == (("cat", "dog"), ("ghost",), [[0, 0], [1, 2]])


BAD = {
    "negative": ("client,cat,dog\na,1,2\nb,-4,0\n", r"client 'b' \(row 2\) has -4 of class 'cat'; a count is a number"),
    "huge": ("client,cat,dog\na,1e300,2\n", "a count is a number from 0 to 9007199254740992"),
    "not a number": ("client,cat,dog\na,nan,2\n", "client 'a' .* has nan of class 'cat'"),
    "infinite": ("client,cat,dog\na,inf,2\n", "has inf of class 'cat'"),
    "text": ("client,cat,dog\na,1,2\nb,many,0\n", "class 'cat', row 2 holds 'many', which is no number"),
    "two columns of names": (
        "client,city,cat,dog\na,Basel,1,2\n",
        "class 'city', row 1 holds 'Basel'.*chosen as client",
    ),
    "empty cell": ("client,cat,dog\na,1,\n", "class 'dog', row 1 holds '', which is no number"),
    "ragged": ("client,cat,dog\na,1,2\nb,1\n", "Expected 3 columns, got 2"),
    "too many cells": ("client,cat,dog\na,1,2,3\n", "Expected 3 columns, got 4"),
    "one class": ("client,cat\na,1\n", "1 clients hold samples of 1 classes; at least 1 client and 2 classes"),
    "one class with samples": ("client,cat,dog\na,1,0\nb,4,0\n", "samples of 1 classes"),
    "nothing but zeros": ("client,cat,dog\na,0,0\n", "samples of 0 classes"),
    "no rows": ("client,cat,dog\n", "0 clients hold samples of 0 classes"),
    "names only": ("client\na\n", "samples of 0 classes"),
    "empty": ("", "the first line is empty"),
    "a class twice": ("client,cat,cat\na,1,2\n", "'cat' is there twice"),
    "no header": ("3,3,1\n2,2,2\n", r"columns \(the first line must name the classes\): '3' is there twice"),
    "a client twice": ("client,cat,dog\na,1,2\na,3,4\n", "clients: 'a' is there twice"),
    "a total": ("client,cat,dog,Total\na,1,2,3\nb,3,4,7\n", "class 'Total' is the sum of the others; leave it out"),
    "a row of totals": ("client,cat,dog\na,1,2\nb,3,4\nAll,4,6\n", "client 'All' is the sum of the others"),
    "a long first line": ("c" * (2**20 + 5), "the first line is longer than 1,048,576 characters"),
    "nul bytes": ("\0\0\0\n\0", "0 classes|not readable|no number"),
}


@pytest.mark.parametrize("what", BAD)
def test_bad_tables(tmp_path, what):
    content, words = BAD[what]
    with pytest.raises(DataError, match=words) as error:
        read_counts(write(tmp_path / "c.csv", content))
    assert "c.csv" in str(error.value)
    assert len(str(error.value)) < 600


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("{", "not readable as json"),
        ("3", "a list of rows, or an object of rows by client, is expected"),
        ("[]", "a list of rows"),
        ("[[1, 2], [1]]", "the rows differ in length"),
        ('[["a", "b"]]', "numbers with one row per client"),
        ("[[null, 1]]", "numbers with one row per client"),
        ('{"a": {"cat": true, "dog": 1}}', "class 'cat', row 1 holds 'True'"),
        ('{"a": {"cat": null, "dog": 1}}', "class 'cat', row 1 is empty; write 0"),
        ('{"a": {"cat": [1], "dog": 1}}', "class 'cat', row 1 holds"),
        ('{"a": [1, 2], "b": {"cat": 1}}', "a list of rows"),
    ],
)
def test_bad_json(tmp_path, content, words):
    with pytest.raises(DataError, match=words):
        read_counts(write(tmp_path / "c.json", content))


def test_what_is_no_such_file(tmp_path):
    (tmp_path / "c.parquet").write_bytes(b"PAR1 no, not really")
    with pytest.raises(DataError, match=r"c\.parquet: not readable as parquet"):
        read_counts(tmp_path / "c.parquet")
    (tmp_path / "c.csv").write_bytes(b"client,cat,dog\n\xff\xfe,1,2\n")
    with pytest.raises(DataError, match=r"c\.csv"):
        read_counts(tmp_path / "c.csv")
    with pytest.raises(DataError, match="there is no such file"):
        read_counts(tmp_path / "nowhere.csv")
    (tmp_path / "folder.csv").mkdir()
    with pytest.raises(DataError, match="not readable"):
        read_counts(tmp_path / "folder.csv")
    with pytest.raises(ConfigError, match=re.escape("are read from .csv, .tsv, .parquet, .json files")):
        read_counts(tmp_path / "c.pickle")


@pytest.mark.parametrize(
    "wrong",
    [
        {"counts": [1, 2]},
        {"counts": [[1, 2]], "classes": ["a"]},
        {"counts": [[1, 2]], "names": []},
        {"counts": [[1, 2]], "classes": ["a", "a"]},
        {"counts": [[1, 2], [3]]},
        {"counts": [["1", "2"]]},
        {"counts": [[True, False]]},
        {"counts": [[1j, 2]]},
        {"counts": None},
    ],
)
def test_bad_arrays(wrong):
    with pytest.raises(EntrofedError):
        CountTable.of(**wrong)


def test_a_row_can_be_the_sum_of_others_by_chance():
    assert len(CountTable.of([[5, 0], [0, 5], [5, 5]]).counts) == 3


def test_many_clients_are_read_in_no_time(tmp_path):
    counts = np.random.default_rng(0).integers(0, 30, (5000, 20))
    text = "\n".join([",".join(map(str, range(20))), *(",".join(map(str, row)) for row in counts.tolist())])
    np.testing.assert_array_equal(read_counts(write(tmp_path / "c.csv", text)).counts, counts)
