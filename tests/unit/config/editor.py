"""What an editor says to a pipeline file, by the schema of ``config schema``."""

from __future__ import annotations

from functools import cache
from typing import Any

import yaml
from jsonschema import Draft202012Validator

from k2ktui.config.editor_schema import editor_schema


class _Loader(yaml.SafeLoader):
    """Reads YAML as editors do: a date is a text."""


_Loader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in rules if not tag.endswith(":timestamp")]
    for first, rules in yaml.SafeLoader.yaml_implicit_resolvers.items()
}


def editor_errors(text: str) -> list[str]:
    """Return the errors that an editor shows in a file."""
    return value_errors(yaml.load(text, Loader=_Loader) or {})


def value_errors(tree: Any) -> list[str]:
    """Return the errors that an editor shows in a file with this content."""
    return [f"{e.json_path}: {e.message}" for e in _validator().iter_errors(_with_text_keys(tree))]


@cache
def _validator() -> Any:
    schema = editor_schema()
    Draft202012Validator.check_schema(schema)
    return Draft202012Validator(schema)


def _with_text_keys(value: Any) -> Any:
    if isinstance(value, dict):
        return {str(key): _with_text_keys(item) for key, item in value.items()}
    return [_with_text_keys(item) for item in value] if isinstance(value, list) else value
