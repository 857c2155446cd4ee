"""The reference of the experiment file is complete."""

from typing import get_args

from pydantic import BaseModel

from entrofed.experiment.config import Experiment, parse
from entrofed.experiment.keys import TABLES, keys


def test_every_key_has_a_meaning_and_a_type() -> None:
    found = list(keys())
    assert len({key.path for key in found}) == len(found) > 100
    assert [key.path for key in found if not key.meaning or not key.type] == []
    assert [key.path for key in found if ":mod:" in key.meaning or ":class:" in key.meaning] == []


def tables(section: type, path: str = "") -> set[str]:
    """The tables below a model, by their paths."""
    found = set()
    for name, field in section.model_fields.items() if issubclass(section, BaseModel) else ():
        for part in (field.annotation, *get_args(field.annotation)):
            if isinstance(part, type) and (issubclass(part, BaseModel) or hasattr(part, "__pydantic_config__")):
                below = f"{path}{name}"
                found |= {below} | tables(part, f"{below}.")
    return found


def test_no_table_is_forgotten() -> None:
    assert tables(Experiment) == set(TABLES) - {""}


def test_defaults_are_those_of_the_models() -> None:
    experiment = parse({}).model_dump(mode="json")
    for key in keys():
        table, _, name = key.path.rpartition(".")
        if table in ("", "method", "faults") and key.default is not None:
            assert (experiment[table] if table else experiment)[name] == key.default, key.path
