"""What processes exchange by the thousand is pickled whole, and without a look at its class."""

from __future__ import annotations

import copy
import pickle
from dataclasses import fields
from typing import Any

import pytest

from k2ktui.engine.records.state import Gap, Position, SourcePartition
from k2ktui.engine.transforms.header_names import HeaderRules
from k2ktui.replication.copying.slot_task import (
    Assignment,
    CopyPath,
    Route,
    SizeLimit,
    SourceLogBounds,
)

SOURCE = SourcePartition("t", 3)
POSITION = Position(
    7, 2, 1, "ab", 4, 5, "u", 3, "cd", 2, 99, (Gap(3, 4, "lost"),), (("other", "ef"),)
)
ROUTE = Route(CopyPath.RECORD, "u", None, 4, HeaderRules(True, (("topic", "x"),)), codec=3)


def reduced(value: Any) -> tuple[Any, Any]:
    made, arguments = value.__reduce__()
    return made, arguments


@pytest.mark.parametrize(
    "value",
    [
        SOURCE,
        POSITION,
        ROUTE,
        Assignment(SOURCE, POSITION, ROUTE, 9, SizeLimit(1, 2)),
        SourceLogBounds(1, 2, 3),
    ],
    ids=lambda value: type(value).__name__,
)
def test_a_value_is_the_same_afterwards(value: object) -> None:
    for protocol in range(2, pickle.HIGHEST_PROTOCOL + 1):
        assert pickle.loads(pickle.dumps(value, protocol)) == value
    assert copy.deepcopy(value) == value
    made, arguments = reduced(value)
    assert made is type(value)
    assert arguments == tuple(getattr(value, field.name) for field in fields(value))  # type: ignore[arg-type]
