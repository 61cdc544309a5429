"""A pipeline's own positions: planned, refused, moved, cleared, journalled; copies made by hand."""

from __future__ import annotations

import json
import time
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from k2ktui.engine.moves.journal import Runner, RunnerState
from k2ktui.engine.moves.positions import LOST, SKIPPED
from k2ktui.engine.records.state import Gap, Position, SourcePartition, position_key, position_value
from k2ktui.kafka.clients import target_cluster
from k2ktui.replication.ownership.commit_state import CommitState, CommitTopic, read_commit_state
from k2ktui.runtime.node import KafkaNode
from k2ktui.sync.store import StateStore
from tests.support.clusters.kafka import (
    TIMEOUT,
    Out,
    create_topic,
    delete_before,
    delete_topic,
    end_offsets,
    produce,
    read_all,
    unique_name,
)
from tests.support.commands.acting import repeatedly
from tests.support.commands.cli import k2ktui, k2ktui_json
from tests.support.pipelines.copied import Copied

REFUSED, USAGE = 5, 2


def fill(copied: Copied, partitions: int = 1, count: int = 100) -> str:
    """A copied topic of so many records a partition, one a second."""
    now = int(time.time() * 1000) - count * 1000
    topic = create_topic(copied.source, partitions=partitions)
    for partition in range(partitions):
        stamps = (now + i * 1000 for i in range(count))
        produce(
            copied.source,
            topic,
            [Out(b"%d" % i, partition=partition, timestamp=at) for i, at in enumerate(stamps)],
        )
    copied.copy(topic)
    return topic


def books(copied: Copied, partitions: int = 1) -> CommitState:
    return copied.commit_state(partitions)


def position(copied: Copied, topic: str, partition: int = 0) -> Position:
    return books(copied).positions[SourcePartition(topic, partition)]


def change(copied: Copied, *arguments: str, code: int = 0) -> Any:
    return k2ktui_json("offsets", *arguments, "-f", copied.file, "--yes", code=code)


def refused(copied: Copied, *arguments: str, code: int = REFUSED) -> str:
    before = books(copied)
    said = k2ktui("offsets", *arguments, "-f", copied.file, "--yes", code=code)
    assert books(copied) == before, "nothing was changed"
    return said.stderr


@pytest.mark.slow
def test_positions_are_shown(copied: Copied) -> None:
    topic = fill(copied, partitions=2)
    produce(copied.source, topic, [Out(b"more", partition=1)] * 3)
    new = create_topic(copied.source)
    before = end_offsets(copied.target, copied.commits)

    shown = k2ktui_json("offsets", "show", "-f", copied.file)

    rows = {(r["topic"], r["partition"]): r for r in shown["partitions"]}
    one = rows[topic, 1]
    assert (one["position"], one["start"], one["lag_records"], one["slot"]) == (100, 0, 3, 0)
    assert (one["source_start"], one["source_end"]) == (0, 103)
    assert (one["target_topic"], one["target_partition"], one["gaps"]) == (topic, 1, [])
    assert (rows[new, 0]["position"], rows[new, 0]["lag_records"]) == (None, None)
    assert shown["runners"] == []
    text = k2ktui("offsets", "show", "-f", copied.file).stdout
    assert f"{topic}-1" in text and "103" in text
    assert end_offsets(copied.target, copied.commits) == before, "looking writes nothing"


@pytest.mark.slow
def test_back_keeps_the_mapping_of_what_lies_before(copied: Copied) -> None:
    topic = fill(copied, partitions=2)
    old = position(copied, topic)

    done = change(copied, "set", f"{topic}:0:40")

    assert done["applied"] and done["term"] == books(copied).run.term
    (move,) = done["moves"]
    assert (move["position"], move["new"], move["effect"], move["again"]) == (100, 40, "back", 60)
    new = position(copied, topic)
    assert (new.offset, new.start, new.since) == (40, old.start, old.since)
    assert new.term > old.term and new.gaps == () and new.topic_id == old.topic_id
    assert position(copied, topic, 1).offset == 100, "the other one stays"


@pytest.mark.slow
def test_forward_leaves_a_gap(copied: Copied) -> None:
    topic = fill(copied)
    produce(copied.source, topic, [b"more"] * 50)

    (move,) = change(copied, "set", f"{topic}:0:130")["moves"]

    assert (move["effect"], move["left_out"]) == ("forward", 30)
    new = position(copied, topic)
    assert (new.offset, new.start, new.gaps) == (130, 0, (Gap(100, 130, SKIPPED),))


@pytest.mark.slow
def test_a_mistake_is_set_right(copied: Copied) -> None:
    """Back, further back, and forward again to where copying was: no gap, nothing copied twice."""
    topic = fill(copied)
    old = position(copied, topic)
    change(copied, "set", f"{topic}:0:40")
    change(copied, "set", f"{topic}:0:0")
    assert position(copied, topic).since > old.since

    (move,) = change(copied, "set", f"{topic}:0:100")["moves"]

    assert (move["again"], move["left_out"]) == (0, 0)
    new = position(copied, topic)
    assert (new.offset, new.start, new.since, new.gaps) == (100, old.start, old.since, ())


@pytest.mark.slow
def test_marks_and_times(copied: Copied) -> None:
    topic = fill(copied, partitions=2)
    other = fill(copied)
    produce(copied.source, topic, [b"more"] * 5)

    latest = change(copied, "set", "--to", "latest", "--topic", topic)
    assert {m["effect"] for m in latest["moves"]} == {"forward", "keep"}
    assert position(copied, topic).offset == 105
    assert position(copied, other).offset == 100

    at_60 = {got.timestamp for got in read_all(copied.source, topic) if got.offset == 60}
    back = change(copied, "set", "--to", str(*at_60), "--topic", topic)
    assert {m["new"] for m in back["moves"]} == {60}
    iso = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() + 3600))
    assert change(copied, "set", "--to", iso, "--topic", topic)["moves"][0]["new"] == 105

    change(copied, "set", "--to", "earliest")
    assert [position(copied, name).offset for name in (topic, other)] == [0, 0]


@pytest.mark.slow
def test_earliest_of_a_log_whose_head_is_gone(copied: Copied) -> None:
    topic = fill(copied)
    produce(copied.source, topic, [b"more"] * 50)
    delete_before(copied.source, topic, 120)

    assert "log start offset 120" in refused(copied, "set", f"{topic}:0:119")
    (move,) = change(copied, "set", "--to", "earliest")["moves"]

    assert "20 of them are lost" in move["reason"]
    assert position(copied, topic).gaps == (Gap(100, 120, LOST),)


@pytest.mark.slow
def test_what_cannot_be_set_is_refused_as_a_whole(copied: Copied) -> None:
    topic = fill(copied, partitions=2)
    said = refused(copied, "set", f"{topic}:0:101", f"{topic}:1:50", f"{topic}:7:0")
    assert f"{topic}-0: offset 101 is outside" in said and f"{topic}-7: the source" in said
    gone = fill(copied)
    delete_topic(copied.target, gone)
    assert "does not exist: clear the position" in refused(copied, "set", f"{gone}:0:5")
    assert "is not replicated by" in refused(copied, "set", f"{copied.commits}:0:5", code=USAGE)
    assert f"no position exists for: another, {topic}:9" in refused(
        copied, "clear", topic, f"{topic}:9", "another", code=USAGE
    )


@pytest.mark.slow
def test_a_target_that_was_created_again_begins_again(copied: Copied) -> None:
    topic = fill(copied)
    old = position(copied, topic)
    delete_topic(copied.target, topic)
    create_topic(copied.target, topic)

    (move,) = change(copied, "set", f"{topic}:0:30")["moves"]

    assert move["effect"] == "restart" and "created again on the target" in move["reason"]
    new = position(copied, topic)
    assert (new.start, new.since, new.offset) == (30, new.term, 30)
    assert new.target_topic_id != old.target_topic_id and new.topic_id == old.topic_id


@pytest.mark.slow
def test_clearing(copied: Copied) -> None:
    topic, other = fill(copied, partitions=3), fill(copied)

    cleared = change(copied, "clear", f"{topic}:0", other)

    assert {(m["topic"], m["partition"], m["effect"]) for m in cleared["moves"]} == {
        (topic, 0, "clear"),
        (other, 0, "clear"),
    }
    assert "at the log start offset" in cleared["notes"][0]
    left = books(copied).positions
    assert left.keys() == {SourcePartition(topic, 1), SourcePartition(topic, 2)}
    everything = change(copied, "clear", "--topic", ".*")
    assert "at the configured start position (earliest)" in everything["notes"][0]
    assert books(copied).positions == {}
    assert books(copied).run.term == everything["term"], "terms continue"


@pytest.mark.slow
def test_clearing_removes_what_lies_in_any_commit_partition(
    source: KafkaNode, target: KafkaNode, tmp_path: Path
) -> None:
    copied = Copied(tmp_path, source, target)
    copied.commits = unique_name("__commits")
    create_topic(target, copied.commits, 3, {"cleanup.policy": "compact"})
    topic = fill(copied)
    at = SourcePartition(topic, 0)
    (position,) = books(copied, 3).positions.values()
    for partition, offset in ((1, 20), (2, 60)):
        older = position_value(Position(**{**_fields(position), "offset": offset}))
        produce(target, copied.commits, [Out(older, position_key(copied.name, at), partition)])

    change(copied, "clear", topic)

    assert books(copied, 3).positions == {}


def test_a_tombstone_is_about_its_own_commit_partition(copied: Copied, target: KafkaNode) -> None:
    """Whatever partition is read first, a position that came later in another one counts."""
    for late, early in ((0, 1), (1, 0)):
        topic = create_topic(target, partitions=2, config={"cleanup.policy": "compact"})
        at = SourcePartition("t", 0)
        key = position_key("g", at)
        old, new = (Position(o, 0, -1, "", t, 0, "t", 0) for o, t in ((5, 1), (9, 2)))
        produce(target, topic, [Out(position_value(old), key, early), Out(None, key, early)])
        produce(target, topic, [Out(None, key, late), Out(position_value(new), key, late)])
        state = read_commit_state(
            target_cluster(copied.config), CommitTopic(topic, 2, "g"), TIMEOUT
        )
        assert state.positions == {at: new}


def _fields(position: Position) -> dict[str, Any]:
    return {name: getattr(position, name) for name in position.__slots__}


@pytest.mark.slow
def test_nothing_is_changed_by_a_dry_run_or_without_a_yes(copied: Copied) -> None:
    topic = fill(copied)
    before = books(copied)
    file = copied.file

    planned = k2ktui_json("offsets", "set", f"{topic}:0:10", "-f", file, "--dry-run")
    assert not planned["applied"] and planned["id"] is None
    assert planned["moves"][0]["again"] == 90
    asked = k2ktui("offsets", "set", f"{topic}:0:10", "-f", file, code=REFUSED)
    assert "confirmation is required" in asked.stderr and "90 copied again" in asked.stdout
    assert "they become duplicates" in asked.stderr
    unchanged = change(copied, "set", f"{topic}:0:100")
    assert [move["effect"] for move in unchanged["moves"]] == ["keep"]

    assert books(copied) == before, "not even a term began"


def test_read_only_pipelines_are_left_alone(copied: Copied) -> None:
    topic = fill(copied)
    copied.settings = {"readOnly": "enabled"}
    assert "readOnly is enabled" in refused(copied, "set", f"{topic}:0:10")


def heartbeat(copied: Copied, state: RunnerState, age_s: float, name: str) -> None:
    now = int(time.time() * 1000)
    runner = Runner(name, "host-1", "u", 4711, now, now - int(age_s * 1000), state)
    store = StateStore(copied.config, target_cluster(copied.config))
    store.put([runner])
    store.close()


def running(copied: Copied) -> AbstractContextManager[None]:
    """A run that is alive: its heartbeat counts for 15 s, and a command may take longer."""
    beat = partial(heartbeat, copied, RunnerState.RUNNING, 0, unique_name("r"))
    return repeatedly(beat, 2.0)


@pytest.mark.slow
def test_a_running_pipeline_is_left_alone(copied: Copied) -> None:
    topic = fill(copied)
    with running(copied):
        said = refused(copied, "set", f"{topic}:0:10")
        assert "is running on host-1, pid 4711 (running, last heartbeat" in said
        assert "is running on host-1" in refused(copied, "clear", topic)
        shown = k2ktui_json("offsets", "show", "-f", copied.file)
    assert (shown["runners"][0]["state"], shown["runners"][0]["pid"]) == ("running", 4711)


@pytest.mark.slow
def test_positions_of_moved_topics_are_set_while_the_pipeline_runs(copied: Copied) -> None:
    moved, stays = fill(copied), fill(copied)
    copied.move(moved)
    with running(copied):
        both = refused(copied, "set", f"{moved}:0:10", f"{stays}:0:10")
        assert "is running on host-1" in both
        before = position(copied, moved)
        shown = change(copied, "set", f"{moved}:0:10")
        now = position(copied, moved)
        assert (now.offset, now.term) == (10, shown["term"]) and now.term > before.term
        assert k2ktui_json("journal", "-f", copied.file)["journal"][0]["id"] == shown["id"]
        change(copied, "clear", moved)
    assert SourcePartition(moved, 0) not in books(copied).positions
    assert position(copied, stays).offset == 100


@pytest.mark.slow
def test_who_is_silent_or_stopped_does_not_count(copied: Copied) -> None:
    topic = fill(copied)
    heartbeat(copied, RunnerState.RUNNING, 16, unique_name("r"))
    heartbeat(copied, RunnerState.STOPPED, 0, unique_name("r"))
    assert change(copied, "set", f"{topic}:0:10")["applied"]


@pytest.mark.slow
def test_changes_are_on_the_journal(copied: Copied) -> None:
    topic = fill(copied, partitions=2)
    old = position(copied, topic)
    entry = change(copied, "set", f"{topic}:0:40", f"{topic}:1:100")["id"]

    store = StateStore(copied.config, target_cluster(copied.config))
    state = store.read()
    header, (part,) = state.journal[entry], state.entry(entry)
    assert (header.operation, header.pipeline, header.counts) == (
        "offsets set",
        copied.name,
        {"back": 1},
    )
    assert "@" in header.who and part.consumer_group == copied.name
    (row,) = part.rows
    assert (row.topic, row.partition, row.before, row.after, row.result) == (
        topic,
        0,
        100,
        40,
        "back",
    )
    assert json.loads(row.before_metadata) == json.loads(position_value(old))
    assert row.after_metadata.encode() == position_value(position(copied, topic))
    shown = k2ktui("journal", entry, "-f", copied.file).stdout
    assert f"{topic}-0" in shown and "back" in shown
    said = k2ktui("undo", entry, "-f", copied.file, "--yes", code=REFUSED).stderr
    assert f"k2ktui offsets set -f FILE {topic}:0:100" in said
    cleared = change(copied, "clear", topic)["id"]
    assert store.read().journal[cleared].operation == "offsets clear"
    store.close()


@pytest.mark.slow
def test_without_a_state_topic_it_is_done_and_said(copied: Copied) -> None:
    topic = fill(copied)
    copied.settings = {"features": {}}
    done = change(copied, "set", f"{topic}:0:40")
    assert done["applied"] and done["id"] is None
    assert any("journal was not written" in note and copied.state in note for note in done["notes"])
    assert position(copied, topic).offset == 40


@pytest.mark.slow
def test_a_pipeline_that_never_ran(source: KafkaNode, target: KafkaNode, tmp_path: Path) -> None:
    copied = Copied(tmp_path, source, target)
    topic = create_topic(source)
    copied.commits = unique_name("never")
    shown = k2ktui_json("offsets", "show", "-f", copied.file)
    assert (topic, None) in {(r["topic"], r["position"]) for r in shown["partitions"]}
    said = k2ktui("offsets", "set", f"{topic}:0:0", "-f", copied.file, "--yes", code=REFUSED)
    assert "has no positions" in said.stderr and "Start the pipeline first" in said.stderr


@pytest.mark.parametrize(
    "arguments",
    [
        ("set",),
        ("set", "a:0:1", "--to", "latest"),
        ("set", "a:0:1", "--topic", "a"),
        ("set", "--to", "tomorrow"),
        ("set", "--to", "latest", "--topic", "("),
        ("clear",),
    ],
)
def test_misuse(tmp_path: Path, arguments: tuple[str, ...]) -> None:
    k2ktui("offsets", *arguments, "-f", tmp_path / "none.yaml", code=USAGE)
