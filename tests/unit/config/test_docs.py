from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml

from k2ktui.config.show import effective
from k2ktui.config.validate import known_paths
from tests.unit.config.files import MINIMAL, Files

DOC = (Path(__file__).parents[3] / "docs" / "configuration.md").read_text(encoding="utf-8")
KEYS = DOC.split("## Kafka client properties")[0]
ROWS = dict(re.findall(r"^\| `([\w.]+)` \| `?([^`|]*?)`? \|", KEYS, re.MULTILINE))
NOT_VALUES = ("", "empty", "required", "the pipeline's name")
# Described once for all places where they occur.
REPEATED = {"partitions", "replication", "config", "pattern", "properties"}


@pytest.mark.parametrize("path", [*known_paths()], ids=".".join)
def test_every_key_is_described(path: tuple[str, ...]) -> None:
    key = ".".join(path)
    if path[-1] in REPEATED or key == "source.kafka.topicPropsExclusionList":
        assert f"`{path[-1]}`" in DOC or path[-1] in DOC
    else:
        assert f"`{key}`" in DOC or f"`{key}." in DOC, key


def test_defaults_are_as_described(files: Files) -> None:
    shown = effective(files.load(MINIMAL))
    compared = 0
    for key, described in ROWS.items():
        value: object = shown
        for step in key.split("."):
            value = value.get(step) if isinstance(value, dict) else None
        if isinstance(value, (str, int)) and described not in NOT_VALUES:
            assert str(value) == described, key
            compared += 1
    assert compared > 50


def test_the_example_loads(files: Files) -> None:
    example = DOC.split("```yaml\n")[1].split("```")[0]
    files.env = {"SOURCE_JAAS": "x"}
    assert files.load(example).config.topics.matches("orders-1")
    assert yaml.safe_load(example)["name"] == "orders-dr"
