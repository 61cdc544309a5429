"""Memory holds few mappings; what is said of groups does not depend on it."""

from __future__ import annotations

from pathlib import Path

import pytest

from k2ktui.runtime.node import KafkaNode
from tests.support.cli import k2ktui_json
from tests.support.copied import Copied, commit
from tests.support.kafka import Out, create_topic, produce

RECORDS, STEP = 4_000, 10


@pytest.fixture
def copied(source: KafkaNode, target: KafkaNode, tmp_path: Path) -> Copied:
    made = Copied(tmp_path, source, target)
    retention = {"count": 5, "schedule": "1 millisecond"}
    made.settings = {"offsetMapping": {"topic": made.mappings, "retention": retention}}
    return made


@pytest.mark.parametrize("off", [-500, 300])
def test_a_group_that_is_off_where_memory_holds_no_mapping(
    copied: Copied, source: KafkaNode, target: KafkaNode, off: int
) -> None:
    topic = create_topic(source)
    produce(source, topic, [Out(b"%d" % n) for n in range(RECORDS)])
    landed = copied.copy(topic, step=STEP)[topic, 0]
    group, at = copied.group("g"), 3_200
    commit(source, group, {(topic, 0): at})
    commit(target, group, {(topic, 0): landed[at + off]})
    (row,) = k2ktui_json("groups", "-f", copied.file)["groups"]
    assert (row["translated_offset"], row["basis"]) == (landed[at], "exact")
    assert row["divergence"] == off
