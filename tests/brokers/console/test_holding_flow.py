"""Partitions and topics are held and released from the console, on real clusters."""

from __future__ import annotations

from pathlib import Path

import pytest

from k2ktui.console.widgets.grid import Grid
from k2ktui.engine.records.hold import HoldKey
from k2ktui.runtime.node import KafkaNode
from k2ktui.sync.holds import read_holds
from tests.support.clusters.kafka import Out, create_topic, produce, unique_name
from tests.support.commands.cli import k2ktui_json
from tests.support.console.driver import ConsoleDriver, copied_session, drive_session
from tests.support.pipelines.copied import Copied

pytestmark = pytest.mark.slow


def test_a_partition_is_held_then_its_topic_released(
    source: KafkaNode, target: KafkaNode, tmp_path: Path
) -> None:
    copied = Copied(tmp_path, source, target, name=unique_name("c"))
    topic = create_topic(source, unique_name("t"), 2)
    produce(source, topic, [Out(b"%d" % n, partition=n % 2) for n in range(40)])
    copied.copy(topic)

    def held() -> list[HoldKey]:
        return [hold.key for hold in read_holds(copied.config).all]

    async def chosen(console: ConsoleDriver, *keys: str, why: str = "") -> None:
        await console.press("h")
        await console.sees("Hold or release")
        await console.press(*keys, "enter")
        await console.sees("Reason, for the journal")
        await console.type(why)
        await console.press("enter")
        await console.confirm(copied.name)

    async def steps(console: ConsoleDriver) -> None:
        await console.press("2")
        await console.until(lambda: console.screen.query_one(Grid).select((topic, 1)), "shown")
        await chosen(console, why="it moves")
        await console.sees(f"{topic}:1: held, journal entry")
        assert held() == [HoldKey(topic, 1)]
        await console.until(lambda: "○ held" in console.panel("Partitions"), "the row says so")
        await console.until(lambda: console.screen.query_one(Grid).select((topic, 1)), "shown")
        await chosen(console, "down")
        await console.sees(f"{topic}:1: released, journal entry")
        assert held() == []

    drive_session(copied_session(copied), steps, (120, 35))
    entries = k2ktui_json("journal", "-f", copied.file)["journal"]
    assert [entry["operation"] for entry in entries] == ["release", "hold"]
