from pathlib import Path

import pytest

from entrofed.errors import ConfigError
from entrofed.suite.sweep import cell_name, folder_of, grid, plan

FILE = """
rounds = 2
model = "iris_mlp"
[data]
name = "iris"
clients = 3
holdout = 0.2
[method]
cohort = 2
[engine]
backend = "inline"
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "iris.toml"
    path.write_text(FILE)
    return path


def test_every_combination_once():
    found = grid(["a.x=1,2,3", "b=[1,2],'p,q'"])
    assert len(found) == 6
    assert found[0] == {"a.x": "1", "b": "[1,2]"}
    assert found[-1] == {"a.x": "3", "b": "'p,q'"}
    assert grid([]) == [{}]


@pytest.mark.parametrize("option", ["data.alpha", "=1,2", "data.alpha=", "data.alpha=1,,2"])
def test_options_that_are_none(option):
    with pytest.raises(ConfigError, match="must look like"):
        grid([option])


def test_a_key_given_twice_is_refused():
    with pytest.raises(ConfigError, match="given twice"):
        grid(["a=1", "a=2"])


def test_keys_that_end_alike_are_told_apart():
    assert cell_name({"data.name": "iris", "method.name": "fedavg"}) == "data.name-iris+method.name-fedavg"


def test_runs_differ_in_what_the_grid_says_and_in_seeds(file, tmp_path):
    runs = plan(file, ["method.lr=0.5"], grid(["method.name=fedavg,fedprox", "method.epochs=1,2"]), 2, tmp_path)
    assert len(runs) == 8
    found = [(e.seed, e.method.name, e.method.epochs, e.method.lr) for e, _ in runs]
    assert found[:4] == [(0, "fedavg", 1, 0.5), (0, "fedavg", 2, 0.5), (0, "fedprox", 1, 0.5), (0, "fedprox", 2, 0.5)]
    assert {seed for seed, *_ in found[4:]} == {1}
    assert runs[0][1].path == tmp_path / "name-fedavg+epochs-1" / "seed-0"
    assert runs[0][0].name == "iris+name-fedavg+epochs-1"


def test_settings_with_the_same_name_are_refused(file, tmp_path):
    with pytest.raises(ConfigError, match="both be called"):
        plan(file, [], [{"method.lr": "0.1"}, {"method.lr": "'0.1'"}][:1] * 2, 1, tmp_path)


def test_a_setting_that_is_none_is_named(file, tmp_path):
    with pytest.raises(ConfigError, match="fedavgg"):
        plan(file, [], grid(["method.name=fedavgg"]), 1, tmp_path)


def test_a_sweep_lies_beside_the_runs_of_its_file(file, tmp_path):
    """``compare runs/iris`` compares the runs of the file, and no trials."""
    assert folder_of(file, [], [], tmp_path / "runs") == tmp_path / "runs" / "iris-sweep"
    assert folder_of(file, ["name=other"], [], tmp_path) == tmp_path / "other-sweep"


def test_keys_that_do_not_apply_are_left_out_of_a_setting(file, tmp_path):
    """A partition without alpha is played once, whatever alphas the other partition is played with."""
    settings = grid(["data.partition=iid,dirichlet_balanced", "data.alpha=0.5,5"])
    runs = plan(file, [], settings, 1, tmp_path)
    assert [(e.data.partition, e.data.alpha) for e, _ in runs] == [
        ("iid", None),
        ("dirichlet_balanced", 0.5),
        ("dirichlet_balanced", 5.0),
    ]
    assert runs[0][1].path.parent.name == "partition-iid"


@pytest.mark.parametrize("where", ["file", "--set"])
def test_what_a_grid_chooses_anew_leaves_the_former_choice_behind(file, tmp_path, where):
    if where == "file":
        file.write_text(
            file.read_text().replace("clients = 3", 'clients = 3\npartition = "dirichlet_plain"\nalpha = 0.5')
        )
    overrides = ["data.alpha=0.5"] if where == "--set" else []
    runs = plan(
        file,
        ["data.partition=dirichlet_plain", *overrides],
        grid(["data.partition=iid,dirichlet_balanced"]),
        1,
        tmp_path,
    )
    assert [e.data.alpha for e, _ in runs] == [None, 0.5]


def test_a_key_that_no_choice_of_the_grid_makes_idle_is_an_error(file, tmp_path):
    with pytest.raises(ConfigError, match=r"data\.alpha does not apply to partition 'iid'"):
        plan(file, [], grid(["data.alpha=0.1,1"]), 1, tmp_path)
