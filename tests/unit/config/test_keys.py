"""Every key of the model has an effect, and names the test that sees it (``key_effects.py``)."""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path

import pytest

from k2ktui.config.key_aliases import IGNORED
from k2ktui.config.transforms import AVRO_KEYS, JSON_KEYS, PROTOBUF_KEYS
from k2ktui.config.validate import known_paths
from k2ktui.kafka.properties.table import ALL
from tests.unit.config.key_effects import FORMATS, KEYS, PROPERTIES

TESTS = Path(__file__).parents[2]


def leaves() -> list[str]:
    """The keys of the model that hold values."""
    paths = [".".join(map(str, path)) for path in known_paths()]
    return [path for path in paths if not any(o.startswith(f"{path}.") for o in paths)]


@cache
def functions_of(path: Path) -> frozenset[str]:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    return frozenset(node.name for node in tree.body if isinstance(node, ast.FunctionDef))


def test_every_key_is_listed_once() -> None:
    """Those of the model, and those that are accepted with a note only."""
    listed = [key for key, _, _ in KEYS]
    assert sorted(listed) == sorted([*leaves(), *map(".".join, IGNORED)])


def test_every_key_of_a_format_is_listed_once() -> None:
    listed = [key for key, _, _ in FORMATS]
    formats = {"avro": AVRO_KEYS, "json": JSON_KEYS, "protobuf": PROTOBUF_KEYS}
    named = [f"{name}.{key}" for name, keys in formats.items() for key in keys]
    assert sorted(listed) == sorted(named)


def test_every_listed_property_is_one_of_java() -> None:
    listed = [key for key, _, _ in PROPERTIES]
    assert len(listed) == len(set(listed)) > 10
    assert set(listed) <= ALL.keys()


@pytest.mark.parametrize(("key", "effect", "test"), [*KEYS, *FORMATS, *PROPERTIES])
def test_the_named_test_exists(key: str, effect: str, test: str) -> None:
    assert effect.strip()
    path, _, name = test.partition("::")
    assert name.startswith("test_") and name in functions_of(TESTS / path), f"{key}: {test}"
