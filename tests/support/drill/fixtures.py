"""Clusters that drills of a lost source need; drills that wait less between two readings."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from k2ktui.drill import runner, session
from k2ktui.drill.checks.context import CheckLimits
from k2ktui.runtime.node import KafkaNode
from tests.support.clusters.kafka import START_S


@pytest.fixture
def lost(tmp_path: Path) -> Iterator[KafkaNode]:
    """A source that the test may kill."""
    node = KafkaNode("lost", tmp_path / "lost").start(START_S)
    yield node
    node.close()


@pytest.fixture(autouse=True)
def brief_samples(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whole drills compare readings that are not five seconds apart, and look more often."""
    monkeypatch.setattr(runner, "CheckLimits", partial(CheckLimits, sample_s=0.2))
    monkeypatch.setattr(session, "_POLL_S", 0.1)
