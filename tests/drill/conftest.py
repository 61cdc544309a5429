"""Clusters that drills of a lost source need."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from k2ktui.runtime.node import KafkaNode
from tests.support.kafka import START_S


@pytest.fixture
def lost(tmp_path: Path) -> Iterator[KafkaNode]:
    """A source that the test may kill."""
    node = KafkaNode("lost", tmp_path / "lost").start(START_S)
    yield node
    node.close()
