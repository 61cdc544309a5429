"""groups, plan, apply, undo and journal on real clusters, and the races they must hold."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer

from k2ktui.runtime.node import KafkaNode
from tests.support.clusters.kafka import (
    TIMEOUT,
    Out,
    client,
    create_topic,
    delete_topic,
    eventually,
    produce,
    produce_transaction,
    unique_name,
)
from tests.support.commands.cli import k2ktui, k2ktui_json
from tests.support.oracle.group_offsets import commit_offsets
from tests.support.pipelines.copied import Copied, Where, committed

pytestmark = pytest.mark.slow

Landed = dict[Where, dict[int, int]]


@pytest.fixture
def topic(source: KafkaNode) -> str:
    """Two partitions: plain records, a transaction, an aborted one, plain records."""
    name = create_topic(source, unique_name("t"), 2)
    for partition in (0, 1):
        outs = [Out(b"%d" % n, b"k%d" % n, partition) for n in range(20)]
        produce(source, name, outs)
        produce_transaction(source, name, outs)
        produce_transaction(source, name, outs, commit=False)
        produce(source, name, outs)
    return name


@pytest.fixture
def landed(copied: Copied, topic: str) -> Landed:
    return copied.copy(topic)


def plan_file(copied: Copied, *options: str, code: int = 0) -> Path:
    path = copied.directory / f"{unique_name('plan')}.json"
    k2ktui("plan", "-f", copied.file, "-o", path, *options, code=code)
    return path


def first_unread(pairs: dict[int, int], offset: int) -> int:
    """Target offset of the first record at or after a source offset, by the copy's own account."""
    left = [to for at, to in sorted(pairs.items()) if at >= offset]
    return left[0] if left else max(pairs.values()) + 1


@pytest.fixture
def moved(copied: Copied, topic: str, landed: Landed, source: KafkaNode) -> str:
    """A group with offsets everywhere that could be hard."""
    group = copied.group("g")
    commit_offsets(source, group, {(topic, 0): 5, (topic, 1): 45}, "mine")
    return group


def test_every_offset_of_a_log_translates_to_the_first_unread_record(
    copied: Copied, topic: str, landed: Landed, source: KafkaNode
) -> None:
    pairs, end = landed[topic, 0], 82
    groups = {copied.group(f"at{offset}"): offset for offset in range(end + 1)}
    for group, offset in groups.items():
        commit_offsets(source, group, {(topic, 0): offset})
    reported = k2ktui_json("groups", "-f", copied.file)
    rows = {row["group"]: row for row in reported["groups"]}
    assert len(rows) == len(groups)
    for group, offset in groups.items():
        row = rows[group]
        assert row["translated_offset"] == first_unread(pairs, offset), row
        assert (row["reread"], row["skipped"]) == (0, 0)
        assert row["basis"] == ("exact" if offset <= max(pairs) else "end")
        assert (row["source_offset"], row["target_offset"]) == (offset, None)
        assert row["state_source"] == "Empty"


def test_applied_verified_and_undone(
    copied: Copied, topic: str, landed: Landed, moved: str, target: KafkaNode
) -> None:
    where = [(topic, 0), (topic, 1)]
    commit_offsets(target, moved, {(topic, 1): 8}, "there before")
    plan = plan_file(copied)
    assert committed(target, moved, where) == {(topic, 0): None, (topic, 1): 8}
    result = k2ktui_json("apply", plan, "--yes")
    expected = {
        at: first_unread(landed[at], offset) for at, offset in zip(where, (5, 45), strict=True)
    }
    assert result["counts"] == {"applied": 2}
    assert committed(target, moved, where) == expected

    (row,) = [r for r in k2ktui_json("groups", "-f", copied.file)["groups"] if r["partition"] == 0]
    assert (row["target_offset"], row["divergence"]) == (expected[topic, 0], 0)
    listed = k2ktui_json("journal")["journal"]
    assert [(entry["id"], entry["operation"]) for entry in listed] == [(result["id"], "apply")]
    again = k2ktui_json("journal", result["id"])
    assert again["groups"][0]["consumer_group"] == moved

    back = k2ktui_json("undo", result["id"], "--yes")
    assert back["counts"] == {"applied": 2}
    assert committed(target, moved, where) == {(topic, 0): None, (topic, 1): 8}
    reported = k2ktui_json("journal", "-f", copied.file)["journal"]
    assert [entry["operation"] for entry in reported] == ["undo", "apply"]
    assert reported[0]["undoes"] == result["id"]


def test_the_guard_and_the_applications_own_metadata(
    copied: Copied, topic: str, landed: Landed, moved: str, target: KafkaNode
) -> None:
    k2ktui("apply", plan_file(copied), "--yes")
    consumer = Consumer(client(target, group_id=moved))
    try:
        from confluent_kafka import TopicPartition

        (offsets,) = consumer.committed([TopicPartition(topic, 0)], timeout=TIMEOUT)
    finally:
        consumer.close()
    assert offsets.metadata.rstrip("\0") == "mine"
    # What a newer run of an earlier release wrote is not overwritten by this older one.
    commit_offsets(target, moved, {(topic, 0): 8}, "k2k_2.1;mine")
    plan = json.loads(plan_file(copied).read_text())
    (row,) = [row for row in plan["rows"] if row["partition"] == 0]
    assert (row["action"], "newer mapping" in row["reason"]) == ("skip", True)


def test_csv_is_what_kafkas_tool_takes_of_chosen_groups_and_topics(
    copied: Copied, topic: str, moved: str, target: KafkaNode
) -> None:
    text = k2ktui("plan", "-f", copied.file, "--csv").stdout
    lines = [line.split(",") for line in text.splitlines()]
    assert {(group, name, int(p)) for group, name, p, _ in lines} == {
        (moved, topic, 0),
        (moved, topic, 1),
    }
    for option in ("--group", "--topic"):
        done = k2ktui("plan", "-f", copied.file, "--csv", option, "other.*", code=2)
        assert done.stdout == "" and "matches other" in done.stderr
    assert k2ktui("plan", "-f", copied.file, "--csv", "--topic", topic).stdout
    k2ktui("plan", "-f", copied.file, "--group", "(", code=2)
    # Without an answer, nothing is changed.
    k2ktui("apply", plan_file(copied), code=5)
    assert committed(target, moved, [(topic, 0)]) == {(topic, 0): None}


@pytest.fixture
def member(target: KafkaNode, moved: str, topic: str) -> Iterator[Consumer]:
    """A consumer that will join the group on the target; subscribing is the test's."""
    consumer = Consumer(client(target, group_id=moved, auto_offset_reset="earliest"))
    yield consumer
    consumer.close()


def join(consumer: Consumer, topic: str) -> None:
    consumer.subscribe([topic])
    eventually(lambda: consumer.poll(0.2) is None and consumer.assignment(), "joined")


def test_a_group_that_joins_after_the_plan_is_refused(
    copied: Copied, topic: str, landed: Landed, moved: str, target: KafkaNode, member: Consumer
) -> None:
    plan = plan_file(copied)
    join(member, topic)
    done = k2ktui("apply", plan, "--yes", code=5)
    assert "have changed since" in done.stderr
    assert "Stable" in done.stderr
    assert "Nothing was changed" in done.stderr
    # And a plan made now leaves it alone; as nothing can move, that is a finding.
    rows = json.loads(plan_file(copied, code=1).read_text())["rows"]
    assert {row["action"] for row in rows} == {"skip"}


def test_an_offset_that_moved_after_the_plan_is_refused(
    copied: Copied, topic: str, moved: str, target: KafkaNode
) -> None:
    plan = plan_file(copied)
    commit_offsets(target, moved, {(topic, 0): 9})
    done = k2ktui("apply", plan, "--yes", code=5)
    assert "now 9" in done.stderr
    assert committed(target, moved, [(topic, 1)]) == {(topic, 1): None}


def test_a_changed_or_expired_plan_is_refused(
    copied: Copied, topic: str, moved: str, target: KafkaNode
) -> None:
    plan = plan_file(copied)
    text = plan.read_text()
    plan.write_text(text.replace('"proposed": ', '"proposed": 1'))
    assert "modified after it was made" in k2ktui("apply", plan, "--yes", code=5).stderr
    plan.write_text("{}")
    k2ktui("apply", plan, "--yes", code=5)
    k2ktui("apply", copied.directory / "none.json", "--yes", code=2)
    short = plan_file(copied, "--valid", "0")
    assert "expired" in k2ktui("apply", short, "--yes", code=5).stderr
    assert committed(target, moved, [(topic, 0)]) == {(topic, 0): None}


def test_undo_leaves_alone_what_has_moved_since(
    copied: Copied, topic: str, landed: Landed, moved: str, target: KafkaNode
) -> None:
    entry = k2ktui_json("apply", plan_file(copied), "--yes")["id"]
    commit_offsets(target, moved, {(topic, 0): 30})
    assert "now 30" in k2ktui("undo", entry, "--yes", code=5).stderr
    assert k2ktui_json("undo", entry, "--yes", "--skip-moved")["counts"] == {"applied": 1}
    offsets = committed(target, moved, [(topic, 0), (topic, 1)])
    assert offsets == {(topic, 0): 30, (topic, 1): None}
    assert "no entry" in k2ktui("undo", "-f", copied.file, "nothing", "--yes", code=2).stderr


def test_a_rewind_on_the_source(
    copied: Copied, topic: str, landed: Landed, moved: str, source: KafkaNode, target: KafkaNode
) -> None:
    k2ktui("apply", plan_file(copied), "--yes")
    commit_offsets(source, moved, {(topic, 0): 2, (topic, 1): 45}, "mine")
    rows = json.loads(plan_file(copied).read_text())["rows"]
    assert sorted(row["action"] for row in rows) == ["keep", "skip"]
    k2ktui("apply", plan_file(copied, "--rewind", "follow"), "--yes")
    expected = first_unread(landed[topic, 0], 2)
    assert committed(target, moved, [(topic, 0)]) == {(topic, 0): expected}


def test_a_topic_created_again_is_unmapped(
    copied: Copied, topic: str, moved: str, source: KafkaNode
) -> None:
    delete_topic(source, topic)
    eventually(lambda: _created(source, topic), "created again")
    produce(source, topic, [b"new"] * 10)
    commit_offsets(source, moved, {(topic, 0): 5})
    rows = k2ktui_json("groups", "-f", copied.file)["groups"]
    assert {row["basis"] for row in rows} == {"unmapped"}
    assert "created again on the source" in rows[0]["reason"]


def _created(node: KafkaNode, topic: str) -> bool:
    from confluent_kafka import KafkaException

    try:
        create_topic(node, topic, 2)
    except KafkaException:
        return False
    return True


def test_offsets_of_a_damaged_mapping_record_are_found_by_comparing(
    copied: Copied, topic: str, source: KafkaNode
) -> None:
    outs = [Out(b"%d" % n, partition=0) for n in range(30)]
    copied.prior = 0
    other = create_topic(source)
    produce(source, other, outs)
    landed = copied.copy(other)[other, 0]
    copied.record(other, 0, {at: to for at, to in landed.items() if at < 10}, 10, 0)
    copied.put_mapping(b"?", b"no json")
    copied.record(other, 0, {at: to for at, to in landed.items() if at >= 20}, 30, 0, first=20)
    for offset in (5, 15, 25):
        commit_offsets(source, copied.group(f"d{offset}"), {(other, 0): offset})
    reported = k2ktui_json("groups", "-f", copied.file)
    assert any("damaged" in note for note in reported["notes"])
    rows = {row["source_offset"]: row for row in reported["groups"]}
    # The second mapping ends at 10, and the last one begins at 20: records were compared between.
    assert {at: row["translated_offset"] for at, row in rows.items()} == {5: 5, 15: 15, 25: 25}
    assert {row["basis"] for row in rows.values()} == {"exact"}


def test_hostile_group_names_do_no_harm(
    copied: Copied, topic: str, landed: Landed, source: KafkaNode
) -> None:
    for stem in ("[red]x[/red]", "\x1b[31mred", "‮backwards", "a" * 150, "comma,quote'\""):
        commit_offsets(source, copied.group(stem), {(topic, 0): 5})
    for verb in ("groups", "plan"):
        out = k2ktui(verb, "-f", copied.file).stdout
        assert "\x1b[31m" not in out
        assert "‮" not in out


def test_a_pair_that_may_not_be_changed(
    copied: Copied, topic: str, moved: str, target: KafkaNode
) -> None:
    entry = k2ktui_json("apply", plan_file(copied), "--yes")["id"]
    # Only what is locked by its environment is unlocked by an option.
    for locked, code in (({"readOnly": "enabled"}, 5), ({"environment": "production"}, 0)):
        copied.settings = locked
        assert "Nothing was changed" in k2ktui("apply", plan_file(copied), "--yes", code=5).stderr
        assert "Nothing was changed" in k2ktui("undo", entry, "--yes", code=5).stderr
        k2ktui("undo", entry, "--yes", "--unlock", code=code)


def test_a_plan_is_proven_although_its_group_reads_on(
    copied: Copied, topic: str, moved: str, source: KafkaNode
) -> None:
    plan = plan_file(copied)
    k2ktui("apply", plan, "--yes")
    commit_offsets(source, moved, {(topic, 0): 7, (topic, 1): 70})
    assert k2ktui_json("verify", "-f", copied.file)["positions"]["re-reads"] == 2
    reported = k2ktui_json("verify", "-f", copied.file, "--plan", plan)
    assert reported["positions"] == {
        "same": 2,
        "re-reads": 0,
        "different": 0,
        "could-not-check": 0,
    }
    other = Copied(copied.directory, source, copied.target)
    k2ktui("verify", "-f", other.file, "--plan", plan, code=5)
    k2ktui("verify", "-f", copied.file, "--plan", plan, "--translated", code=2)
