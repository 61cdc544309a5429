"""``k2ktui hold`` and ``release`` on real clusters, and what a run reads of them."""

from __future__ import annotations

from typing import Any

import pytest

from k2ktui.config.model import PipelineConfig
from k2ktui.engine.access import Access
from k2ktui.engine.moves.journal_format import state_key
from k2ktui.engine.records.hold import NO_HOLDS, Hold, HoldKey, Holds
from k2ktui.errors import ConfigError, Refused
from k2ktui.kafka.clients import target_cluster
from k2ktui.runtime.node import KafkaNode
from k2ktui.sync.holds import (
    HoldReader,
    HoldWatcher,
    check_holds,
    plan_hold,
    plan_release,
    read_holds,
    write_change,
)
from k2ktui.sync.store import StateStore
from tests.support.clusters.kafka import (
    TIMEOUT,
    Out,
    create_topic,
    delete_topic,
    eventually,
    produce,
    read_all,
)
from tests.support.commands.cli import k2ktui, k2ktui_json
from tests.support.pipelines.copied import Copied
from tests.support.pipelines.preflight import pipeline

REFUSED, USAGE = 5, 2
SINK = {"sink": {"topic": "source", "partition": "source"}}
MAY = Access(writable=True)


@pytest.fixture
def config(source: KafkaNode, target: KafkaNode) -> PipelineConfig:
    return pipeline(source, target, "orders", "payments")


def held(config: PipelineConfig, *names: HoldKey) -> None:
    write_change(config, plan_hold(config, names, "why"), MAY)


def test_the_commands_hold_list_and_release(copied: Copied) -> None:
    """With positions in the journal; what is held already stays as it is."""
    topic = create_topic(copied.source, partitions=2)
    produce(copied.source, topic, [Out(b"%d" % i, partition=i % 2) for i in range(10)])
    copied.copy(topic)
    file = copied.file

    dry = k2ktui_json("hold", "-f", file, topic, "--dry-run")
    assert (dry["applied"], dry["id"]) == (False, None)
    assert k2ktui_json("hold", "-f", file) == {"pipeline": copied.name, "holds": []}

    said = k2ktui("hold", "-f", file, f"{topic}:1", "--why", "it moves", "--yes")
    assert f"{topic}:1: held, journal entry " in said.stdout
    (hold,) = k2ktui_json("hold", "-f", file)["holds"]
    assert (hold["topic"], hold["partition"], hold["reason"]) == (topic, 1, "it moves")
    listed = k2ktui("hold", "-f", file).stdout
    assert listed.startswith(f"{topic}:1: held by {hold['who']} since ")

    rows = {
        (row["topic"], row["partition"]): (row["state"], row["hold"])
        for row in k2ktui_json("status", "-f", file)["partitions"]
    }
    assert rows[topic, 0] == ("caught-up", "")
    assert rows[topic, 1][0] == "held" and rows[topic, 1][1] in listed
    shown = k2ktui("status", "-f", file).stdout
    assert f"{topic}-1: held by {hold['who']} since " in shown and "No job is running" in shown
    assert f"{topic}:1: held by " in check_holds(copied.config).detail

    done = k2ktui_json("hold", "-f", file, topic, f"{topic}:1", "--yes")
    assert [one["partition"] for one in done["holds"]] == [None]
    assert done["holds"][0]["positions"] == [[0, 5], [1, 5]]
    assert f"{topic}:1: already held by {hold['who']}" in done["notes"][0]

    said = k2ktui("release", "-f", file, f"{topic}:0", "--yes", code=USAGE)
    assert "is held with its whole topic" in said.stderr
    said = k2ktui("release", "-f", file, topic, "orders:7", "--yes", code=USAGE)
    assert "orders:7 is not held" in said.stderr and f"Held: {topic}, {topic}:1" in said.stderr

    released = k2ktui_json("release", "-f", file, topic, "--why", "it has moved", "--yes")
    assert [one["partition"] for one in released["holds"]] == [None, 1]
    assert k2ktui("hold", "-f", file).stderr.strip().endswith("Nothing is held.")

    entries = k2ktui_json("journal", "-f", file)["journal"]
    assert sorted(entry["operation"] for entry in entries) == ["hold", "hold", "release"]
    shown = k2ktui_json("journal", "-f", file, released["id"])
    (part,) = shown["groups"]
    assert [
        (row["partition"], row["before"], row["after"], row["after_metadata"], row["result"])
        for row in part["rows"]
    ] == [(0, 5, 5, "it has moved", "released"), (1, 5, 5, "it has moved", "released")]
    said = k2ktui("undo", "-f", file, released["id"], "--yes", code=REFUSED)
    assert f"k2ktui hold -f FILE {topic}" in said.stderr


def test_the_rules_of_a_change_apply(copied: Copied) -> None:
    """A topic that is not copied, no confirmation, a locked pipeline, a reason that is too long."""
    topic = create_topic(copied.source)
    copied.settings = {"replication": [{"source": {"topic": [topic]}}, SINK]}
    file = copied.file
    said = k2ktui("hold", "-f", file, "elsewhere", "--yes", code=USAGE)
    assert "the pipeline does not copy elsewhere" in said.stderr
    said = k2ktui("hold", "-f", file, topic, "--why", "x" * 501, "--yes", code=USAGE)
    assert "the reason has 501 characters" in said.stderr
    assert "confirmation is required" in k2ktui("hold", "-f", file, topic, code=REFUSED).stderr
    for settings in ({"readOnly": "enabled"}, {"environment": "production"}):
        copied.settings = {**copied.settings, "readOnly": "disabled", **settings}
        locked = copied.file
        said = k2ktui("hold", "-f", locked, topic, "--yes", code=REFUSED)
        assert "holding a topic is refused" in said.stderr
    assert k2ktui_json("hold", "-f", file)["holds"] == []
    done = k2ktui_json("hold", "-f", file, topic, "--yes", "--unlock")
    assert "nothing of it was copied yet" in done["notes"][0]


def test_a_release_needs_only_the_target(source: KafkaNode, target: KafkaNode) -> None:
    config = pipeline(source, target, "orders")
    held(config, HoldKey("orders"), HoldKey("orders", 3))
    gone: Any = {"kafka": {"common": {"bootstrap.servers": "127.0.0.1:1"}}}
    without = pipeline(gone, target, "orders", coordination=config.coordination.model_dump())
    change = plan_release(without, [HoldKey("orders")])
    assert write_change(without, change, MAY).entry
    assert read_holds(config) == NO_HOLDS


def test_a_reader_sees_what_changes(config: PipelineConfig, target: KafkaNode) -> None:
    """The same object if nothing has; what is damaged, or of another pipeline, is no hold."""
    state, group = config.coordination.state.topic, config.coordination.commit.group
    reader = HoldReader(config, target_cluster(config))
    assert reader.read() == NO_HOLDS, "without the topic"
    held(config, HoldKey("orders"))
    first = reader.read()
    assert first.of("orders", 5) is not None and first.of("payments", 0) is None
    assert reader.read() is first
    produce(
        target,
        state,
        [
            Out(b'{"at":1,"v":1,"who":"b"}', state_key("another", HoldKey("payments"))),
            Out(b"{}", state_key(group, HoldKey("payments"))),
            Out(b"{}", b'{"kind":"hold"'),
            Out(None, state_key(group, HoldKey("orders", 1))),
        ],
    )
    assert reader.read() is first
    write_change(config, plan_release(config, [HoldKey("orders")]), MAY)
    assert reader.read() == NO_HOLDS
    held(config, HoldKey("payments", 2))
    assert [hold.key for hold in reader.read().all] == [HoldKey("payments", 2)]
    assert reader.read() == read_holds(config)
    reader.close()
    assert [hold.key for hold in reader.read().all] == [HoldKey("payments", 2)], "begun anew"
    delete_topic(target, state)
    assert reader.read() != NO_HOLDS, "a broker that has just started may not know the topic"
    assert reader.read() == NO_HOLDS
    reader.close()


def test_a_run_is_told_within_seconds(config: PipelineConfig) -> None:
    said: list[str] = []
    held(config, HoldKey("orders"))
    watcher = HoldWatcher(config, said.append)
    watcher.begin(target_cluster(config))
    try:
        assert [hold.key for hold in watcher.holds.all] == [HoldKey("orders")], "before the start"
        held(config, HoldKey("payments"))
        eventually(lambda: len(watcher.holds.all) == 2, "seen")
        write_change(config, plan_release(config, [HoldKey("orders")]), MAY)
        eventually(lambda: len(watcher.holds.all) == 1, "seen")
    finally:
        assert watcher.stop(TIMEOUT)
    assert said == []


def test_holds_are_part_of_the_state(config: PipelineConfig, target: KafkaNode) -> None:
    held(config, HoldKey("orders"))
    store = StateStore(config, target_cluster(config))
    try:
        state = store.read()
    finally:
        store.close()
    assert state.malformed == 0
    (hold,) = state.holds.all
    assert isinstance(hold, Hold) and state.holds == Holds([hold])
    keys = [got.key for got in read_all(target, config.coordination.state.topic)]
    assert state_key(config.coordination.commit.group, hold.key) in keys


def test_a_read_only_session_changes_nothing(config: PipelineConfig) -> None:
    change = plan_hold(config, [HoldKey("orders")])
    with pytest.raises(Refused):
        write_change(config, change, Access(writable=False, reason="this is a recording"))
    with pytest.raises(ConfigError):
        plan_release(config, [HoldKey("orders")])
    assert read_holds(config) == NO_HOLDS
