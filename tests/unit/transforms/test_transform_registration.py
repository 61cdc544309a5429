"""Which transforms may register schemas: what only warms up must not."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from k2ktui.config.load import load
from k2ktui.config.transforms import TransformRule
from k2ktui.replication.transforms.schemas import TransformSchemas

_ENCODED = {"encode": {"value": {"avro": {"schemaFile": "a.avsc", "subject": "a-value"}}}}
_DECODED = {"decode": {"value": {"json": {"schema": "id INT"}}}}


@pytest.mark.parametrize(
    ("rule", "auto_register", "may"),
    [
        (_DECODED | _ENCODED, "enabled", True),
        (_DECODED | _ENCODED, "disabled", False),
        (_DECODED, "enabled", False),
    ],
)
def test_a_schema_is_registered_only_if_records_are_encoded_with_it(
    tmp_path: Path, rule: dict[str, Any], auto_register: str, may: bool
) -> None:
    file = tmp_path / "p.yaml"
    file.write_text(
        'name: p\nsource: {kafka: {common: {bootstrap.servers: "s:1"}}}\n'
        'target: {kafka: {common: {bootstrap.servers: "t:1"}}}\n'
        f"schemaMapping: {{autoRegister: {auto_register}}}\n"
        'replication: [{source: {topic: ".*"}}, {sink: {topic: source}}]\n'
    )
    transform = TransformRule.model_validate(rule).transform
    assert transform is not None
    assert TransformSchemas(load([file]).config).may_register(transform) is may
