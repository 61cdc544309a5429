"""Shows the effective pipeline: defaults applied, secrets redacted, position of every key."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterator
from typing import Any

import yaml

from k2ktui.config.load import Loaded
from k2ktui.config.problems import Path
from k2ktui.config.scalars import Text
from k2ktui.secret_values import REDACTED, hide_secrets, is_secret_key

_PLAIN = re.compile(r"([A-Za-z_][A-Za-z0-9_.*/-]*|[0-9]+ [a-z]+)")
_RESERVED = frozenset({"true", "false", "yes", "no", "on", "off", "null", "y", "n"})
_COMMENT_COLUMN = 60

# Sections with free-form properties, where only the key name can identify a secret.
PROPERTY_TABLES = frozenset({"common", "consumer", "producer", "admin", "config", "headers"})


def effective(loaded: Loaded) -> dict[str, Any]:
    """Return the effective configuration with the file's keys and secrets redacted."""
    plain = loaded.config.model_dump(by_alias=True, mode="json")
    shown: dict[str, Any] = _redact(plain, (), loaded.secret_paths)
    # The start comes from `start` or from auto.offset.reset; show it in `start`.
    shown["start"]["from"] = loaded.config.start.kind
    # The source is only read: the model rejects these keys there.
    del shown["source"]["kafka"]["topicPropsExclusionList"], shown["source"]["writers"]
    replication = shown["replication"]
    entries = ("source", "transform", "headers", "sink")
    shown["replication"] = [{key: replication[key]} for key in entries if replication[key]]
    return shown


def sources(loaded: Loaded) -> dict[str, str]:
    """Return the position of every key in ``effective``: ``file:line`` or ``default``."""
    shown = effective(loaded)
    return {".".join(map(str, path)): loaded.source_of(_in_model(path)) for path in _leaves(shown)}


def to_yaml(loaded: Loaded, *, with_sources: bool = False) -> str:
    """Return ``effective`` as YAML, optionally with each key's position as a comment."""

    def comment(path: Path) -> str:
        return loaded.source_of(_in_model(path))

    lines = _lines(effective(loaded), (), comment if with_sources else None)
    return "\n".join(lines) + "\n"


def dump_yaml(tree: dict[str, Any]) -> str:
    """Return the tree of a pipeline file as YAML."""
    return "\n".join(_lines(tree, (), None)) + "\n"


def to_json(loaded: Loaded, *, with_sources: bool = False) -> str:
    """Return ``{"config": …, "notes": […]}`` as JSON, optionally with ``"sources"``."""
    shown: dict[str, Any] = {
        "config": effective(loaded),
        "notes": list(map(hide_secrets, loaded.notes)),
    }
    if with_sources:
        shown["sources"] = sources(loaded)
    return json.dumps(shown, indent=2)


def _redact(value: Any, path: Path, secrets: frozenset[Path]) -> Any:
    if path in secrets:
        return REDACTED
    if isinstance(value, dict):
        known = {key: item for key, item in value.items() if item is not None}
        return {key: _redact(item, (*path, key), secrets) for key, item in known.items()}
    if isinstance(value, list):
        return [_redact(item, (*path, index), secrets) for index, item in enumerate(value)]
    if isinstance(value, str):
        in_properties = len(path) > 1 and path[-2] in PROPERTY_TABLES
        return REDACTED if in_properties and is_secret_key(str(path[-1])) else hide_secrets(value)
    return value


def _in_model(path: Path) -> Path:
    """Drop the list level of ``replication``, which exists in the file but not in the model."""
    inside = path[:1] == ("replication",) and len(path) > 1
    return (path[0], *path[2:]) if inside else path


def _leaves(value: Any, path: Path = ()) -> Iterator[Path]:
    pairs = value.items() if isinstance(value, dict) else enumerate(value)
    for key, item in pairs:
        if isinstance(item, (dict, list)) and item:
            yield from _leaves(item, (*path, key))
        else:
            yield (*path, key)


def _lines(value: Any, path: Path, comment: Callable[[Path], str] | None) -> Iterator[str]:
    indent = "  " * len(path)
    is_list = isinstance(value, list)
    for key, item in enumerate(value) if is_list else value.items():
        below = (*path, key)
        head = f"{indent}-" if is_list else f"{indent}{yaml_scalar(key)}:"
        if not isinstance(item, (dict, list)) or not item:
            line = f"{head} {yaml_scalar(item)}"
            yield f"{line.ljust(_COMMENT_COLUMN)} # {comment(below)}" if comment else line
            continue
        lines = _lines(item, below, comment)
        # The first line of a list item goes next to its dash.
        yield f"{head} {next(lines).lstrip()}" if is_list else head
        yield from lines


def yaml_scalar(value: Any) -> str:
    """Format a scalar so that YAML parses it back to the same value."""
    if not isinstance(value, str):
        return json.dumps(value)
    if isinstance(value, Text) and value.boolean is not None:
        return str(value)
    if _PLAIN.fullmatch(value) and value.lower() not in _RESERVED:
        return value
    quoted: str = yaml.safe_dump(str(value), default_style='"', width=math.inf)
    return quoted.rstrip("\n")
