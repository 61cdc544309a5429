from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml

from k2ktui.config.show import effective
from k2ktui.config.validate import known_paths
from tests.unit.config.files import MINIMAL, Files

DOCS = Path(__file__).parents[3] / "docs"
DOC = (DOCS / "configuration.md").read_text(encoding="utf-8")
KEYS = (DOCS / "reference" / "keys.md").read_text(encoding="utf-8")
_CELLS = re.findall(r"^\| `([\w.]+)` \|[^|]+\|([^|]*)\|", KEYS, re.MULTILINE)
ROWS = {key: default.strip().strip("`") for key, default in _CELLS}


@pytest.mark.parametrize("path", [*known_paths()], ids=".".join)
def test_every_key_is_described(path: tuple[str, ...]) -> None:
    key = ".".join(path)
    assert key in ROWS or any(other.startswith(f"{key}.") for other in ROWS), key


def test_defaults_are_as_described(files: Files) -> None:
    """In the page, of sections alone; here, of a file."""
    shown = effective(files.load(MINIMAL))
    compared = 0
    for key, described in ROWS.items():
        value: object = shown
        for step in key.split("."):
            value = value.get(step) if isinstance(value, dict) else None
        if isinstance(value, (str, int)) and described not in ("", "required"):
            assert str(value) == described, key
            compared += 1
    assert compared > 50


def test_the_smallest_file_loads_and_creates_control_topics(files: Files) -> None:
    example = DOC.split("```yaml\n")[1].split("```")[0]
    config = files.load(example).config
    assert config.topics.matches("orders-1") and config.features.auto_create_control_topics
    keys = yaml.safe_load(example)
    assert keys["name"] == "orders-dr"
    for key in keys.keys() - {"features", "replication"}:
        assert files.errors(yaml.safe_dump({k: v for k, v in keys.items() if k != key})), key
