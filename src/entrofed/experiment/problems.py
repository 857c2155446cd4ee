"""What is wrong with a table of an experiment file, in words."""

from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from typing import Any, TypeVar, get_args

from pydantic import BaseModel, ValidationError

from entrofed.errors import ConfigError, unknown

S = TypeVar("S", bound=BaseModel)


def checked(section: type[S], table: Mapping[str, Any], where: str) -> S:
    """One section from a plain table, with the same words about what is wrong."""
    for key in table:
        if key not in section.model_fields:
            raise unknown(f"option of {where}:", key, section.model_fields)
    try:
        return section.model_validate(table)
    except ValidationError as error:
        raise ConfigError("\n".join(f"{where}: {explain(problem, section)}" for problem in error.errors())) from None


def explain(problem: Any, section: Any) -> str:
    path = [str(step) for step in problem["loc"]]
    if problem["type"] in ("extra_forbidden", "unexpected_keyword_argument"):
        where = ".".join(path)
        for step in path[:-1]:
            annotation = section.model_fields[step].annotation
            of = [part for part in get_args(annotation) if is_dataclass(part) or hasattr(part, "model_fields")]
            section = of[0] if of else annotation  # the section of "section | None"
        keys = [field.name for field in fields(section)] if is_dataclass(section) else section.model_fields
        return str(unknown(f"key {where!r}:", path[-1], keys))
    if problem["type"] == "value_error":  # from one of the checks above, which name the key themselves
        return str(problem["msg"].removeprefix("Value error, "))
    where = ".".join(step for step in path if step != "str" and not step.startswith(("constrained-", "dict[")))
    return f"{where} = {problem['input']!r}: {problem['msg']}"
