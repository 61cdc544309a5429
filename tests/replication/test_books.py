"""The commit topic read again and again says what it says when it is read whole."""

from __future__ import annotations

from pathlib import Path

import pytest

from k2ktui.engine.state import SourcePartition, position_key
from k2ktui.kafka.clients import TopicDescription
from k2ktui.replication.books import Books, BooksReader
from k2ktui.replication.fencing import read_books
from k2ktui.replication.pipeline import commit_topic
from k2ktui.runtime.node import KafkaNode
from tests.support.copied import Copied, delete_topic
from tests.support.kafka import Out, create_topic, eventually, produce


@pytest.fixture
def copied(source: KafkaNode, target: KafkaNode, tmp_path: Path) -> Copied:
    return Copied(tmp_path, source, target)


def test_later_readings_add_what_is_new(copied: Copied, source: KafkaNode) -> None:
    reader = BooksReader(copied.cluster)

    def both() -> Books:
        about = copied.cluster.describe([copied.commits])[copied.commits]
        assert isinstance(about, TopicDescription)
        topic = commit_topic(copied.config, about.partitions)
        now = reader.read(topic, about, 20)
        assert now == read_books(copied.cluster, topic, 20)
        return now

    assert not both().positions
    topic = create_topic(source, partitions=2)
    produce(source, topic, [Out(b"x", partition=p) for p in (0, 1)])
    copied.copy(topic)
    assert len(both().positions) == 2

    at = SourcePartition(topic, 0)
    copied.record(topic, 0, {}, 7, 0)
    assert both().positions[at].offset == 7
    assert both().positions[at].offset == 7  # nothing is new

    produce(copied.target, copied.commits, [Out(None, position_key(copied.name, at))])
    assert set(both().positions) == {SourcePartition(topic, 1)}

    delete_topic(copied.target, copied.commits)
    eventually(
        lambda: (
            not isinstance(
                copied.cluster.describe([copied.commits])[copied.commits], TopicDescription
            )
        ),
        "the topic is gone",
    )
    create_topic(copied.target, copied.commits)
    # As many records as before, so that only the topic's id tells that it is another one.
    for offset in range(1, 8):
        copied.record(topic, 1, {}, offset, 0)
    assert {p: q.offset for p, q in both().positions.items()} == {SourcePartition(topic, 1): 7}
