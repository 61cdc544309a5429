"""A group goes to the other cluster, works there, and comes back: proven by consuming."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, TopicPartition

from k2ktui.runtime.node import KafkaNode
from tests.support.both_ways import BothWays, identity
from tests.support.cli import k2ktui, k2ktui_json
from tests.support.kafka import (
    Out,
    client,
    create_topic,
    end_offsets,
    eventually,
    produce,
    read_all,
    unique_name,
)
from tests.support.pipeline import Pipeline
from tests.support.traffic import NUMBER, ORIGIN

pytestmark = pytest.mark.slow
Identity = tuple[bytes, bytes]


@pytest.fixture
def both(source: KafkaNode, target: KafkaNode, tmp_path: Path) -> Iterator[BothWays]:
    topic = unique_name("back")
    for node in (source, target):
        create_topic(node, topic, 2)
    made = BothWays(tmp_path, source, target, [topic])
    yield made
    made.close()


def write(node: KafkaNode, topic: str, origin: str, numbers: range) -> None:
    produce(
        node,
        topic,
        [
            Out(
                b"%d" % n,
                b"%d" % n,
                partition=n % 2,
                headers=((ORIGIN, origin.encode()), (NUMBER, b"%d" % n)),
            )
            for n in numbers
        ],
    )


def consume(node: KafkaNode, group: str, topic: str, most: int | None = None) -> list[Identity]:
    """Read as a member of the group, to the end or so many of each partition, and commit."""
    made = Consumer(
        client(node, group_id=group, enable_auto_commit=False, auto_offset_reset="earliest")
    )
    found: list[Identity] = []
    per: Counter[int] = Counter()
    ends = end_offsets(node, topic, "read_committed")
    try:
        made.subscribe([topic])
        eventually(lambda: made.poll(0.1) is None and len(made.assignment()) == len(ends), "joined")
        for tp in made.committed([TopicPartition(topic, n) for n in ends], timeout=30):
            made.seek(TopicPartition(topic, tp.partition, max(tp.offset, 0)))
        done: dict[int, int] = {}

        def finished() -> bool:
            message = made.poll(0.1)
            if message is not None and message.error() is None:
                number = message.partition() or 0
                if most is None or per[number] < most:
                    per[number] += 1
                    got = dict(message.headers() or [])
                    found.append((got[ORIGIN], got[NUMBER]))
                    done[number] = (message.offset() or 0) + 1
            at = {tp.partition: tp.offset for tp in made.position(made.assignment())}
            return all(per[n] == most or at.get(n, -1) >= end for n, end in ends.items())

        eventually(finished, f"{group} reads", 60)
        offsets = {tp.partition: tp.offset for tp in made.position(made.assignment())}
        if most is not None:
            offsets |= done
        made.commit(
            offsets=[TopicPartition(topic, n, at) for n, at in offsets.items() if at >= 0],
            asynchronous=False,
        )
    finally:
        made.close()
    return found


def move(pipeline: Pipeline, group: str) -> list[dict[str, Any]]:
    """Move a group with a plan; return its rows."""
    plan = pipeline.directory / "plan.json"
    k2ktui("plan", "-f", pipeline.write(), "--group", group, "-o", plan, timeout=180)
    rows = k2ktui_json("plan", "-f", pipeline.write(), "--group", group, timeout=180)["rows"]
    k2ktui("apply", "-f", pipeline.write(), plan, "--yes", timeout=180)
    return list(rows)


def all_of(node: KafkaNode, topic: str) -> Counter[Identity]:
    return Counter(map(identity, read_all(node, topic)))


@pytest.fixture
def group() -> str:
    return unique_name("worker")


def test_there_and_back_nothing_is_read_again_and_nothing_skipped(
    both: BothWays, group: str
) -> None:
    """A planned switchover and back; the forward pipeline stays stopped."""
    (topic,) = list(both.topics)
    there, back = both.both
    slow = f"{group}-slow"
    write(both.a, topic, "a", range(100))
    there.catch_up()
    read = {group: consume(both.a, group, topic, 20), slow: consume(both.a, slow, topic, 5)}
    for each in read:
        assert {(row["basis"], row["reread"]) for row in move(there, each)} == {("exact", 0)}
    write(both.b, topic, "b", range(40))
    read[group] += consume(both.b, group, topic)
    read[slow] += consume(both.b, slow, topic, 10)
    back.catch_up()
    rows = move(back, group)
    assert {(row["basis"], row["reread"], row["skipped"]) for row in rows} == {("end", 0, 0)}
    rows = move(back, slow)
    assert {(row["basis"], row["reread"], row["skipped"]) for row in rows} == {("exact", 0, 0)}
    shown = k2ktui_json("groups", "-f", back.write(), timeout=180)["groups"]
    shown = [row for row in shown if row["group"] in read]
    assert [row["divergence"] for row in shown] == [0, 0, 0, 0]
    assert {(row["reread_now"], row["skipped_now"]) for row in shown} == {(0, 0)}
    at = [f"{row['topic']}:{row['partition']}:{row['source_offset']}" for row in shown[2:]]
    there_again = k2ktui_json("translate", "-f", back.write(), *at, timeout=180)["positions"]
    offsets = [row["translated_offset"] for row in shown[2:]]
    assert [row["translated_offset"] for row in there_again] == offsets
    plan = back.directory / "plan.json"
    for options in (("--plan", plan), ("--group", slow)):
        proof = k2ktui_json("verify", "-f", back.write(), *options, "--sample", 50, timeout=180)
        assert (proof["positions"]["same"], proof["positions"]["different"]) == (2, 0), proof
        assert proof["records"]["same"] and not proof["not_compared"], proof
    write(both.a, topic, "a", range(100, 120))
    for each in read:
        read[each] += consume(both.a, each, topic)
        assert Counter(read[each]) == all_of(both.a, topic), "each record once"


def test_after_a_disaster_with_replay(both: BothWays, group: str) -> None:
    """The tail of the old source is copied late; the group reads it there, then goes back."""
    (topic,) = list(both.topics)
    there, back = both.both
    write(both.a, topic, "a", range(100))
    there.catch_up()
    read = consume(both.a, group, topic, 20)
    write(both.a, topic, "a", range(100, 130))  # never copied
    move(there, group)
    write(both.b, topic, "b", range(40))
    read += consume(both.b, group, topic)
    back.catch_up()
    rows = k2ktui_json("plan", "-f", back.write(), "--group", group, timeout=180)["rows"]
    assert {row["basis"] for row in rows} == {"bounded"}, "without replay"
    assert [row["reread"] for row in rows] == [20, 20] and {row["skipped"] for row in rows} == {0}
    there.catch_up()
    back.catch_up()
    write(both.b, topic, "b", range(40, 50))
    read += consume(both.b, group, topic)
    back.catch_up()
    rows = move(back, group)
    assert {(row["basis"], row["reread"], row["skipped"]) for row in rows} == {("end", 0, 0)}
    write(both.a, topic, "a", range(130, 140))
    read += consume(both.a, group, topic)
    assert Counter(read) == all_of(both.a, topic), "each record once"


def test_without_replay_the_bound_is_what_is_read_again(both: BothWays, group: str) -> None:
    (topic,) = list(both.topics)
    there, back = both.both
    write(both.a, topic, "a", range(60))
    there.catch_up()
    read = consume(both.a, group, topic, 20)
    write(both.a, topic, "a", range(60, 70))
    move(there, group)
    write(both.b, topic, "b", range(20))
    read += consume(both.b, group, topic)
    back.catch_up()
    rows = move(back, group)
    assert {row["basis"] for row in rows} == {"bounded"}
    assert all("were not copied to the source" in row["reason"] for row in rows)
    found = Counter(read) + Counter(consume(both.a, group, topic))
    assert found.keys() == all_of(both.a, topic).keys(), "nothing is skipped"
    again = sum(found.values()) - len(found)
    assert again == sum(row["reread"] for row in rows) == 20
