"""Federations of the user's own tables and files, from Python."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pytest

from entrofed.data.federation import Federation
from entrofed.errors import ConfigError, DataError

RNG = np.random.default_rng(0)
VISITS = pa.table(
    {
        "age": RNG.integers(18, 90, 100),
        "ward": RNG.choice(["A", "B", "C"], 100),
        "clinic": RNG.choice(["Basel", "Lugano", "Zug"], 100),
        "ill": RNG.choice(["no", "yes"], 100),
    }
)


def test_natural_clients() -> None:
    federation = Federation.from_table(VISITS, label="ill", client="clinic", test=0.2)
    assert (federation.names, federation.dealt, len(federation.data.test_y)) == (
        ("Basel", "Lugano", "Zug"),
        "natural",
        20,
    )
    assert federation.sizes.sum() == 80
    for k, name in enumerate(federation.names):
        assert federation.data.role_names[k] == name
        assert (federation.data.roles == k).sum() == federation.sizes[k]


def test_a_table_equals_its_arrays() -> None:
    """The same rows as arrays, dealt out the same way, are the same federation, bit for bit."""
    numbers = pa.table({name: RNG.normal(size=60).astype(np.float32) for name in "abc"})
    labels = RNG.choice(["x", "y", "z"], 60)
    from_table = Federation.from_table(
        numbers.append_column("label", pa.array(labels)),
        label="label",
        clients=5,
        partition="dirichlet_plain",
        alpha=0.5,
    )
    x = np.column_stack([numbers[name] for name in "abc"])
    from_arrays = Federation.partition(x, labels, "dirichlet_plain", clients=5, alpha=0.5, test=0.2)
    assert from_table.digest == from_arrays.digest


def test_the_file_equals_the_table_in_memory(tmp_path: Path) -> None:
    pyarrow.csv.write_csv(VISITS, tmp_path / "visits.csv")
    from_file = Federation.from_table(
        tmp_path / "visits.csv", label="ill", client="clinic", holdout=0.2, validation=0.1
    )
    in_memory = Federation.from_table(VISITS, label="ill", client="clinic", holdout=0.2, validation=0.1)
    assert from_file.digest == in_memory.digest
    assert Federation.from_table(VISITS, label="ill", client="clinic", holdout=0.2, seed=1).digest != in_memory.digest


def test_a_test_part_of_its_own(tmp_path: Path) -> None:
    pyarrow.csv.write_csv(VISITS.slice(0, 30), tmp_path / "test.csv")
    from_file = Federation.from_table(VISITS, label="ill", clients=3, test=tmp_path / "test.csv")
    in_memory = Federation.from_table(VISITS, label="ill", clients=3, test=VISITS.slice(0, 30))
    assert from_file.digest == in_memory.digest
    assert (len(from_file.data.train_y), len(from_file.data.test_y), from_file.dealt) == (100, 30, "iid")


def test_natural_clients_can_be_dealt_anew() -> None:
    federation = Federation.from_table(VISITS, label="ill", client="clinic", partition="iid", clients=4)
    assert (len(federation.shards), federation.names) == (4, ())
    assert [column["name"] for column in federation.data.preprocessing["columns"]] == ["age", "ward"]


def test_without_clients_it_says_what_to_do() -> None:
    with pytest.raises(ConfigError, match=r"no natural owners of samples; name the column .* \(client\)"):
        Federation.from_table(VISITS, label="ill")


def test_statistics_are_those_of_training_rows() -> None:
    table = {"a": [0, 2, 4, 100], "y": [0, 1, 0, 1], "t": [0, 0, 0, 1]}
    federation = Federation.from_table(table, label="y", test="t", clients=1)
    np.testing.assert_allclose(federation.shift, [2.0])
    np.testing.assert_allclose(federation.scale, [np.std([0, 2, 4])], rtol=1e-6)


def test_files(tmp_path: Path) -> None:
    x, y, who = RNG.normal(size=(30, 2, 3)), np.arange(30) % 3, np.repeat(["u", "v"], 15)
    np.savez(tmp_path / "own.npz", x=x, y=y, who=who)
    federation = Federation.from_files(tmp_path / "own.npz", client="who", kind="tensor")
    assert (federation.data.kind, federation.names) == ("tensor", ("u", "v"))
    from_clients = Federation.from_files(tmp_path / "own.npz", clients=3, kind="tensor")
    assert len(from_clients.shards) == 3
    with pytest.raises(DataError, match="there is no such file"):
        Federation.from_files(tmp_path / "none.npz")
