"""Validates a tree against the typed model; errors use the file's keys and positions."""

from __future__ import annotations

import difflib
from collections import Counter
from collections.abc import Iterator
from functools import cache
from typing import Any, get_args

from pydantic import ValidationError

from k2ktui.config.clusters import ClusterConfig, Section, yaml_name
from k2ktui.config.model import PipelineConfig
from k2ktui.config.problems import Path, Problem, format_path, shown_value
from k2ktui.config.scalars import WrongEntry
from k2ktui.config.tree import Node

# Operator messages for pydantic's error types; {…} is filled from the error's context.
_EXPECTED = {
    "int_parsing": "a whole number",
    "int_type": "a whole number",
    "int_from_float": "a whole number",
    "greater_than": "more than {gt:g}",
    "greater_than_equal": "at least {ge:g}",
    "less_than_equal": "at most {le:g}",
    "string_too_short": "a non-empty string",
    "literal_error": "{expected}",
    "model_type": "a section with keys",
    "mapping_type": "a mapping of properties",
    "dict_type": "a mapping of properties",
    "tuple_type": "a list",
    "value_error": "{error}",
}


def validate(tree: Node, problems: list[Problem]) -> PipelineConfig | None:
    """Build the model from ``tree``; on errors append them to ``problems`` and return None."""
    problems += _unknown_without_value(tree)
    try:
        return PipelineConfig.model_validate(tree.plain(), by_alias=True, by_name=False)
    except ValidationError as failure:
        known = {(problem.mark, problem.path) for problem in problems}
        for error in failure.errors(include_url=False, include_input=False):
            problem = _problem(tree, error)
            # A template that could not be filled was reported already; skip its invalid value.
            if (problem.mark, problem.path) not in known:
                problems.append(problem)
        return None


def validate_cluster(tree: Node | None) -> ClusterConfig | None:
    """Build one cluster's section, or return None if invalid; ``validate`` reports the errors."""
    try:
        return (
            ClusterConfig.model_validate(tree.plain(), by_alias=True, by_name=False)
            if tree
            else None
        )
    except ValidationError:
        return None


def _problem(tree: Node, error: Any) -> Problem:
    path: Path = tuple(step for step in error["loc"] if step != "[key]")
    if isinstance(wrong := error.get("ctx", {}).get("error"), WrongEntry):
        path = (*path, wrong.index)
    node = tree.at(path)
    if error["type"] == "extra_forbidden" and node is not None:
        return Problem(node.mark, node.written, f"unknown key; {_nearest(path)}")
    if error["type"] == "missing" or node is None:
        return tree.problem(path, "missing; this key is required")
    expected = _EXPECTED.get(error["type"], error["msg"]).format(**error.get("ctx", {}))
    if error["type"] == "literal_error":
        expected = expected.replace("'", "")
    return Problem(node.mark, node.written, f"expected {expected}{_found_text(path, node)}")


def _unknown_without_value(tree: Node) -> Iterator[Problem]:
    """Yield an error for every unknown key that the model does not see, since it has no value."""
    for path, node in tree.walk():
        if node.value is None and path and isinstance(path[-1], str):
            section = _section_at(path[:-1])
            if section and path[-1] not in keys_of(section):
                yield Problem(node.mark, node.written, f"unknown key; {_nearest(path)}")


def _found_text(path: Path, node: Node) -> str:
    if isinstance(node.value, dict):
        # The message of a section error is complete without the value.
        return "" if _section_at(path) else ", found a mapping"
    if isinstance(node.value, list):
        return ", found a list"
    if node.value is None:
        return ", found nothing"
    return f", found {shown_value(str(path[-1]), node.value, secret=node.secret)}"


def _nearest(path: Path) -> str:
    """Suggest the known key closest to an unknown one, or list the known keys."""
    key = str(path[-1]).lower()
    section = _section_at(path[:-1]) or PipelineConfig
    here = keys_of(section)
    inside = {name.lower(): format_path((*path[:-1], name)) for name in here}
    elsewhere = _unique_keys()
    # A key in the wrong section is more likely than a misspelled key.
    close = [key] if key in elsewhere else difflib.get_close_matches(key, inside, 1, 0.75)
    close = close or difflib.get_close_matches(key, elsewhere, 1, 0.75)
    if close:
        return f"did you mean {inside.get(close[0]) or elsewhere[close[0]]}?"
    return f"known keys are {', '.join(sorted(here))}"


@cache
def _unique_keys() -> dict[str, str]:
    """Map every key that occurs in only one section, in lower case, to its path."""
    paths = [*known_paths()]
    count = Counter(str(path[-1]).lower() for path in paths)
    keys = {str(path[-1]).lower(): format_path(path) for path in paths}
    return {key: path for key, path in keys.items() if count[key] == 1}


def known_paths(section: type[Section] = PipelineConfig, above: Path = ()) -> Iterator[Path]:
    """Yield the path of every key of the model, sections before their keys."""
    for key, below in keys_of(section).items():
        yield (*above, key)
        if below is not None:
            yield from known_paths(below, (*above, key))


def _section_at(path: Path) -> type[Section] | None:
    section: type[Section] | None = PipelineConfig
    for step in path:
        if isinstance(step, str) and section is not None:
            section = keys_of(section).get(step)
    return section


def keys_of(section: type[Section]) -> dict[str, type[Section] | None]:
    """Return the keys of a section in the file, each with the section that it holds or lists."""
    return {
        yaml_key(section, name): _section_in(field.annotation)
        for name, field in section.model_fields.items()
    }


def yaml_key(section: type[Section], field: str) -> str:
    """Return the key of a field in the file."""
    return section.model_fields[field].alias or yaml_name(field)


def _section_in(annotation: Any) -> type[Section] | None:
    inner = [annotation, *get_args(annotation)]
    sections = (kind for kind in inner if isinstance(kind, type) and issubclass(kind, Section))
    return next(sections, None)
