"""What is wrong with a table of an experiment file, in words."""

from collections.abc import Iterator, Mapping
from dataclasses import fields, is_dataclass
from typing import Any, TypeVar, get_args

from pydantic import BaseModel, ValidationError

from entrofed.errors import ConfigError, unknown
from entrofed.experiment.type_words import type_words

S = TypeVar("S", bound=BaseModel)

EXTRA = ("extra_forbidden", "unexpected_keyword_argument")
OF_TYPES = (
    "greater_",
    "less_",
    "int_",
    "float_",
    "bool_",
    "string_type",
    "literal_",
    "list_",
    "tuple_type",
    "model_type",
)
"""How the kinds of problems begin that the key's type says better."""
UNIONS = ("constrained-", "dict[", "function-")
"""How the steps of a path begin that only say which of several types was tried."""


def checked(section: type[S], table: Mapping[str, Any], where: str) -> S:
    """One section from a plain table, with the same words about what is wrong."""
    for key in table:
        if key not in section.model_fields:
            raise unknown(f"option of {where}:", key, section.model_fields)
    try:
        return section.model_validate(table)
    except ValidationError as error:
        raise ConfigError("\n".join(f"{where}: {words}" for words in complaints(error, section))) from None


def complaints(error: ValidationError, section: type[BaseModel]) -> list[str]:
    """Everything that is wrong, a line for each key; where a key may have several types, one line for all of them."""
    found: dict[tuple[str, ...], list[Any]] = {}
    for problem in error.errors():
        found.setdefault(_path(problem), []).append(problem)
    return [
        explain(problems[0], section)
        if len(problems) == 1
        else f"{'.'.join(path)} = {problems[0]['input']!r}: {_expected(section, path) or 'another type'} is expected"
        for path, problems in found.items()
    ]


def explain(problem: Any, section: Any) -> str:
    """One problem."""
    path = _path(problem)
    where = ".".join(path)
    if problem["type"] in EXTRA:
        elsewhere = [found for found in _keys(section) if found.endswith(f".{path[-1]}")]
        if elsewhere:
            return f"unknown key {where!r}: it is {' or '.join(repr(found) for found in elsewhere)}"
        for step in path[:-1]:
            section = _inner(section, step)
        known = [name for name in _fields(section) if name != "given"]  # what a file cannot say
        return str(unknown("key" if len(path) == 1 else f"key {where!r}:", path[-1], known))
    if problem["type"] == "value_error":  # from one of the checks above, which name the key themselves
        return str(problem["msg"].removeprefix("Value error, "))
    if problem["type"] == "string_pattern_mismatch":
        return f"{where} = {problem['input']!r}: letters, digits and . _ + - are allowed, a letter or digit first"
    expected = _expected(section, path) if problem["type"].startswith(OF_TYPES) else None
    return f"{where} = {problem['input']!r}: {problem['msg'] if expected is None else f'{expected} is expected'}"


def _path(problem: Any) -> tuple[str, ...]:
    steps = tuple(str(step) for step in problem["loc"])
    if problem["type"] in EXTRA:
        return steps  # a key may be called anything
    return tuple(step for step in steps if step != "str" and not step.startswith(UNIONS))


def _inner(section: Any, name: str) -> Any:
    """The section of a field: of ``Section``, and of ``Section | None``."""
    annotation = section.model_fields[name].annotation
    return next((part for part in get_args(annotation) if _fields(part)), annotation)


def _fields(section: Any) -> list[str]:
    if is_dataclass(section):
        return [field.name for field in fields(section)]
    return list(getattr(section, "model_fields", ()))


def _keys(section: Any) -> Iterator[str]:
    """Every key of the sections in a section, as ``method.lr``."""
    for name in getattr(section, "model_fields", ()):
        yield from (f"{name}.{key}" for key in _fields(_inner(section, name)))


def _expected(section: type[BaseModel], path: tuple[str, ...]) -> str | None:
    """What a key takes, in words; None inside a list, or a table without a model."""
    schema = section.model_json_schema()
    found = schema
    for step in path:
        of = [found, *found.get("anyOf", ())]
        found = next((schema["$defs"][one["$ref"].split("/")[-1]] for one in of if "$ref" in one), found)
        if step not in found.get("properties", {}):
            return None
        found = found["properties"][step]
    return type_words(found)
