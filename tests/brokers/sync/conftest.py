"""Fixtures that most tests of groups and positions need."""

from __future__ import annotations

from pathlib import Path

import pytest

from k2ktui.runtime.node import KafkaNode
from tests.support.clusters.kafka import create_topic, produce
from tests.support.pipelines.copied import Copied


@pytest.fixture
def copied(source: KafkaNode, target: KafkaNode, tmp_path: Path) -> Copied:
    """A pipeline that the test copies for."""
    return Copied(tmp_path, source, target)


@pytest.fixture
def topic(copied: Copied, source: KafkaNode) -> str:
    """A copied topic of 50 records; each lands 7 offsets further on, the last at 56."""
    name = create_topic(source)
    produce(source, name, [b"%d" % n for n in range(50)])
    copied.copy(name)
    return name
