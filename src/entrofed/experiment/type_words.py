"""What type of value a key takes, in words."""

from collections.abc import Mapping
from typing import Any

LIMITS = {"minimum": ">=", "exclusiveMinimum": ">", "maximum": "<=", "exclusiveMaximum": "<"}
WORDS = {"integer": "whole number", "number": "number", "string": "text", "boolean": "true or false", "object": "table"}


def type_words(field: Mapping[str, Any]) -> str:
    """A JSON schema in words.

    >>> type_words({"anyOf": [{"type": "integer", "minimum": 1}, {"type": "null"}]})
    'whole number >= 1'
    """
    if "anyOf" in field:
        return " or ".join(type_words(one) for one in field["anyOf"] if one.get("type") != "null")
    if "$ref" in field:
        return "table"
    if "enum" in field or "const" in field:
        return " or ".join(f'"{value}"' for value in field.get("enum", [field.get("const")]))
    if "prefixItems" in field:
        return f"list of {len(field['prefixItems'])}: {type_words(field['prefixItems'][0])}"
    if field.get("type") == "array":
        return f"list: {type_words(field['items'])}"
    limits = [f"{sign} {field[limit]:g}" for limit, sign in LIMITS.items() if limit in field]
    return " ".join([WORDS[field["type"]], ", ".join(limits)]).strip()
