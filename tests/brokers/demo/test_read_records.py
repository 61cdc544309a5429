"""What groups have read is compared with the records of a cluster, each as often as it is there."""

from __future__ import annotations

import threading
from collections import Counter
from functools import partial

import pytest
from confluent_kafka import Message, TopicPartition

from k2ktui.demo import applications, clients
from k2ktui.demo.applications import (
    Consumers,
    LiveGroup,
    ReadRecords,
    ReadTotals,
    Uncommitted,
    committed,
)
from k2ktui.errors import TimedOut
from k2ktui.runtime.node import KafkaNode
from tests.support.clusters.kafka import (
    Out,
    create_topic,
    eventually,
    produce,
    produce_transaction,
    unique_name,
)
from tests.support.oracle.group_offsets import commit_offsets


def test_a_partition_that_cannot_be_read_is_named(
    source: KafkaNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Records of another partition, which is read to its end, do not keep it waiting."""
    busy, missing = create_topic(source), unique_name("missing")
    produce(source, busy, [Out(b"1")])
    digest = vars(applications)["_digest"]

    def read(message: Message) -> bytes:
        monkeypatch.setattr(applications, "_SILENCE_S", 2.0)
        return bytes(digest(message))

    # However long it takes until the other one is read, too.
    monkeypatch.setattr(applications, "_SILENCE_S", 3600.0)
    monkeypatch.setattr(applications, "_digest", read)
    ends = {(busy, 0): 1, (missing, 0): 1}
    monkeypatch.setattr(clients, "last_stable_offsets", lambda *_: ends)
    over = threading.Event()

    def write() -> None:
        while not over.wait(0.05):
            produce(source, busy, [Out(b"more")])

    thread = threading.Thread(target=write)
    thread.start()
    try:
        with pytest.raises(TimedOut, match=f"could not read {missing}-0 to the end") as raised:
            ReadRecords().compare(source.bootstrap, {"g": {(busy, 0): 0, (missing, 0): 0}})
    finally:
        over.set()
        thread.join()
    assert raised.value.unchanged and raised.value.hint


def test_records_read_again_and_skipped_are_counted(source: KafkaNode) -> None:
    topic, group = create_topic(source), unique_name("reader")
    produce(source, topic, [Out(b"before")])
    produce_transaction(source, topic, [Out(b"%d" % n, b"k") for n in range(4)])
    produce_transaction(source, topic, [Out(b"aborted")], commit=False)
    commit_offsets(source, group, {(topic, 0): 1})
    assert committed(source.bootstrap, group, [(topic, 0)]) == {(topic, 0): 1}
    consumer = clients.consumer(source.bootstrap, group)
    consumer.assign([TopicPartition(topic, 0, 1)])
    messages: list[Message] = []
    while len(messages) < 4:
        messages += consumer.consume(10, timeout=1)
    consumer.close()
    records, starts = ReadRecords(), {group: {(topic, 0): 1}}
    add = records.recorder()

    def compare() -> ReadTotals:
        return records.compare(source.bootstrap, starts)[group]

    for message in messages[1:]:
        add(group, message)
    assert compare() == ReadTotals(3, 0, 1) and not compare().is_exact
    add(group, messages[0])
    assert compare() == ReadTotals(4, 0, 0) and compare().is_exact
    add(group, messages[0])
    assert compare() == ReadTotals(5, 1, 0)
    records.clear()
    add(group, messages[0])  # by a member that was stopped before
    assert compare() == ReadTotals(0, 0, 4)


def test_what_a_member_reads_again_after_it_has_lost_its_place_counts_once(
    source: KafkaNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As on a machine that stands still: no move of the group is the cause."""
    topic, group = create_topic(source, partitions=2), unique_name("lost")
    produce(source, topic, [Out(b"%d" % n, partition=n % 2) for n in range(40)])
    monkeypatch.setattr(applications, "_COMMIT_SECONDS", 3600.0)
    records, read, add = ReadRecords(), Counter[tuple[int, int]](), Uncommitted.add
    counted = records.recorder()

    def note(uncommitted: Uncommitted, message: Message) -> None:
        read[message.partition() or 0, message.offset() or 0] += 1
        add(uncommitted, message)

    monkeypatch.setattr(Uncommitted, "add", note)
    consumers = Consumers(source.bootstrap, [LiveGroup(group, "source", (topic,))], counted)
    try:
        eventually(lambda: len(read) == 40, "all is read")
        other = clients.consumer(source.bootstrap, group)
        other.subscribe([topic])
        eventually(lambda: other.poll(0.2) is not None or other.assignment(), "it takes a place")
        other.close()
        eventually(lambda: min(read.values()) > 1, "all is read again")
    finally:
        consumers.stop()
    starts = {group: {(topic, number): 0 for number in range(2)}}
    # A member that has not committed within seconds is left behind, and does so later.
    eventually(
        lambda: not records.compare(source.bootstrap, starts)[group].skipped, "it has committed"
    )
    assert records.compare(source.bootstrap, starts) == {group: ReadTotals(40, 0, 0)}


def test_a_batch_that_was_read_before_a_new_assignment_counts_once(source: KafkaNode) -> None:
    """The member is told of its new place within a call that then returns older records."""
    topic, group = create_topic(source), unique_name("late")
    produce(source, topic, [Out(b"%d" % n) for n in range(10)])
    commit_offsets(source, group, {(topic, 0): 0})  # from now on, the group has a coordinator
    records = ReadRecords()
    uncommitted = Uncommitted(partial(records.recorder(), group))
    place = TopicPartition(topic, 0, 0)
    consumer = clients.consumer(source.bootstrap, group)

    def read() -> None:
        consumer.assign([place])
        left = 10
        while left:
            batch = consumer.consume(left, timeout=1)
            left -= len(batch)
            for message in batch:
                uncommitted.add(message)

    try:
        uncommitted.begin(consumer, [place])
        read()
        read()
        uncommitted.commit(consumer)
    finally:
        consumer.close()
    totals = records.compare(source.bootstrap, {group: {(topic, 0): 0}})
    assert totals == {group: ReadTotals(10, 0, 0)}
