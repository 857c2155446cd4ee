"""A new app: its names, what is refused, and that nothing is overwritten."""

import ast
import tomllib

import pytest

pytest.importorskip("flwr", reason="needs the extra flower")

from entrofed.errors import ConfigError
from entrofed.flower.new import TEMPLATE, new_app
from entrofed.flower.strategy import EntroStrategy


def test_its_files_name_the_app(tmp_path):
    files = new_app(tmp_path / "my-app", method="fedep")
    package = {"__init__.py", "server_app.py", "client_app.py", "task.py"}
    expected = {"pyproject.toml", "README.md", "LICENSE"} | {f"my_app/{name}" for name in package}
    assert {path.relative_to(tmp_path / "my-app").as_posix() for path in files} == expected
    assert sorted(files) == sorted(path for path in (tmp_path / "my-app").rglob("*") if path.is_file())
    texts = {path.name: path.read_text() for path in files}
    assert not [name for name, text in texts.items() if "template" in text or "entrofed-app" in text]
    project = tomllib.loads(texts["pyproject.toml"])
    assert project["project"]["name"] == "my-app"
    assert project["tool"]["flwr"]["app"]["components"]["serverapp"] == "my_app.server_app:app"
    assert project["tool"]["flwr"]["app"]["config"]["method"] == "fedep"
    for name in package:
        ast.parse(texts[name])


def test_an_empty_folder_is_taken_and_a_full_one_left_alone(tmp_path):
    (tmp_path / "empty_one").mkdir()
    assert new_app(tmp_path / "empty_one")
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    with pytest.raises(ConfigError, match="nothing is overwritten"):
        new_app(tmp_path / "empty_one")
    (tmp_path / "a_file").write_text("mine")
    with pytest.raises(ConfigError, match="nothing is overwritten"):
        new_app(tmp_path / "a_file")
    assert {path: path.read_bytes() for path in before} == before


@pytest.mark.parametrize("name", ["9lives", "My-App", "a b", "class", "torch", "json", "entrofed", "é", "-"])
def test_a_name_that_cannot_be_a_package(tmp_path, name):
    with pytest.raises(ConfigError, match="named after its folder"):
        new_app(tmp_path / name)
    assert not (tmp_path / name).exists()


@pytest.mark.parametrize(
    ("method", "words"), [("fedentop", "did you mean 'fedentopt'"), ("inv_entropy", "validation set")]
)
def test_a_method_that_it_cannot_play(tmp_path, method, words):
    with pytest.raises(ConfigError, match=words):
        new_app(tmp_path / "my-app", method=method)
    assert not (tmp_path / "my-app").exists()


def test_the_template_plays_as_its_configuration_says():
    """The strategy takes the configuration's values as the template gives them."""
    config = tomllib.loads((TEMPLATE / "pyproject.toml").read_text())["tool"]["flwr"]["app"]["config"]
    strategy = EntroStrategy(config["method"], cohort=config["cohort"], epochs=config["epochs"], classes=10)
    assert strategy.section.cohort_size(10) == 5


def test_it_is_what_flowers_app_format_asks_for(tmp_path):
    """Version 1 of the format: the license's file, a least version of Flower, and the one it is made for."""
    from flwr.supercore.fab_format_version import normalize_and_validate_fab_format

    new_app(tmp_path / "my-app")
    found = normalize_and_validate_fab_format(tomllib.loads((tmp_path / "my-app" / "pyproject.toml").read_text()))
    assert found.fab_format_version == 1
