"""The commit topic read piece by piece has the same content as when it is read whole."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from k2ktui.config.model import PipelineConfig
from k2ktui.engine.records.run_record import SharedLayout
from k2ktui.engine.records.state import Run, SourcePartition, position_key, run_key, run_value
from k2ktui.errors import Refused
from k2ktui.kafka.clients import TopicDescription
from k2ktui.kafka.control.reader import ControlRecord
from k2ktui.replication.ownership.commit_state import (
    CommitState,
    CommitStateFold,
    CommitStatesReader,
    CommittedPositions,
    read_commit_state,
)
from k2ktui.replication.ownership.pipeline import commit_topic, describe_malformed
from k2ktui.runtime.node import KafkaNode
from tests.support.clusters.kafka import (
    TIMEOUT,
    Out,
    create_topic,
    delete_topic,
    eventually,
    produce,
)
from tests.support.pipelines.copied import Copied


@pytest.fixture
def copied(source: KafkaNode, target: KafkaNode, tmp_path: Path) -> Copied:
    return Copied(tmp_path, source, target)


BODY = {
    "v": 1,
    "offset": 1,
    "start": 0,
    "leaderEpoch": 0,
    "topicId": "",
    "term": 1,
    "slot": 0,
    "targetTopic": "t",
    "targetPartition": 0,
}
TOO_MANY_SLOTS = b'{"v":1,"term":1,"slots":1000000000}'


def test_a_run_begins_a_later_term_than_any_slot_of_the_pipeline() -> None:
    """A partition may have been in another slot before; the runs of others do not count."""
    records = [
        (run_key("ours"), Run(3, 2, most_shared=4)),
        (run_key("ours", 1), Run(7, 1)),
        (run_key("ours", 2), Run(5, 3)),
        (run_key("ours"), Run(4, 1)),
        (run_key("others", 1), Run(9, 9)),
    ]
    for slot, expected in (
        (None, Run(7, 2, most_shared=4)),
        (1, Run(7, 1, shared_slot=1)),
        (2, Run(7, 3, shared_slot=2)),
        (0, Run(7, 0, shared_slot=0)),
    ):
        fold = CommitStateFold("ours", slot)
        for offset, (key, run) in enumerate(records):
            fold.take(ControlRecord(0, offset, key, run_value(run)))
        assert fold.state().run == expected


@pytest.mark.parametrize("partitions", [(0, 2), (2, 0)])
def test_the_run_of_the_highest_term_counts_in_whatever_partition_it_is(
    partitions: tuple[int, int],
) -> None:
    """A topic that has got more partitions keeps an old record in another one."""
    runs = Run(4, 2, layout=SharedLayout("old", 2)), Run(6, 1, layout=SharedLayout("new", 3))
    key = run_key("ours")
    records = [
        ControlRecord(partition, 0, key, run_value(run))
        for partition, run in zip((0, 2), runs, strict=True)
    ]
    fold = CommitStateFold("ours")
    for partition in partitions:
        fold.take(next(record for record in records if record.partition == partition))
    folded = fold.state().run
    assert (folded.term, folded.slots, folded.layout) == (6, 2, runs[1].layout)


@pytest.mark.parametrize(
    ("run", "value"),
    [
        (False, json.dumps(BODY).replace('"offset": 1', '"offset": 1e999').encode()),
        (False, json.dumps(BODY | {"gaps": [[1]]}).encode()),
        (False, json.dumps(BODY | {"targetPartition": True}).encode()),
        (False, json.dumps(BODY | {"offset": -1}).encode()),
        (False, json.dumps(BODY | {"term": 1 << 62}).encode()),
        (False, json.dumps(BODY).replace('"start": 0', '"start": 0, "start": 0').encode()),
        (True, TOO_MANY_SLOTS),
        (True, b'{"v":1,"term":1e999,"slots":1}'),
    ],
)
def test_a_hostile_record_stops_no_pipeline(run: bool, value: bytes) -> None:
    """Each stopped every pipeline that shares the commit topic, or hung it in fencing slots."""
    for group, malformed in (("ours", 1), ("others", 0)):
        key = run_key(group) if run else position_key(group, SourcePartition("t", 0))
        fold = CommitStateFold("ours")
        fold.take(ControlRecord(0, 0, key, value))
        assert fold.state() == CommitState(Run(0, 0), {}, malformed, malformed), (
            "of others not even a value"
        )


def test_committed_positions_are_newer_than_what_the_driver_knows(
    copied: Copied, source: KafkaNode
) -> None:
    topic = create_topic(source)
    produce(source, topic, [Out(b"x")] * 3)
    copied.copy(topic)
    at = SourcePartition(topic, 0)
    where = commit_topic(copied.config, 1)
    known = dict(read_commit_state(copied.cluster, where, TIMEOUT).positions)
    committed = CommittedPositions(copied.cluster, where)
    assert committed.read(known) == known
    copied.record(topic, 0, {}, 5, 0)
    copied.record(topic, 0, {}, 7, 0)
    assert committed.read(known)[at].offset == 7
    assert committed.read(known)[at].offset == 7, "nothing is new, and nothing is forgotten"
    moved = {at: replace(known[at], offset=2, term=known[at].term + 1)}
    assert committed.read(moved) == moved, "an operator has moved it back since"
    assert committed.read({}) == {}, "a partition that the driver does not copy has no lag"


def test_later_readings_add_what_is_new(copied: Copied, source: KafkaNode) -> None:
    reader = CommitStatesReader(copied.cluster, copied.name)
    of_all = CommitStatesReader(copied.cluster)
    other = Copied(copied.directory, copied.source, copied.target)
    other.commits = copied.commits

    def both() -> CommitState:
        about = copied.cluster.describe([copied.commits])[copied.commits]
        assert isinstance(about, TopicDescription)
        topic = commit_topic(copied.config, about.partitions)
        states = reader.read(about, TIMEOUT)
        now = states.get(copied.name, CommitState(Run(0, 0), {}))
        assert not (other.name in states and states[other.name].positions), "only its runs"
        read_states = of_all.read(about, TIMEOUT)
        assert read_states.get(copied.name, now) == now
        theirs = read_commit_state(copied.cluster, replace(topic, group=other.name), TIMEOUT)
        assert read_states.get(other.name, theirs) == theirs
        assert now == read_commit_state(copied.cluster, topic, TIMEOUT)
        return now

    assert not both().positions
    topic = create_topic(source, partitions=2)
    produce(source, topic, [Out(b"x", partition=p) for p in (0, 1)])
    copied.copy(topic)
    assert len(both().positions) == 2
    other.put_position(topic, 0, 9, 0)
    other.put_run()
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
    # As many records as before, so that only the topic's id shows that it is another one.
    for offset in range(1, 8):
        copied.record(topic, 1, {}, offset, 0)
    assert {p: q.offset for p, q in both().positions.items()} == {SourcePartition(topic, 1): 7}


def test_a_damaged_record_of_the_pipeline_ends_a_start_unless_it_is_ignored() -> None:
    own, other = position_key("g", SourcePartition("t", 0)), b"\x00 another program's"

    def state(*entries: tuple[bytes, bytes]) -> CommitState:
        fold = CommitStateFold("g")
        for offset, (key, value) in enumerate(entries):
            fold.take(ControlRecord(0, offset, key, value))
        return fold.state()

    def config(handling: str) -> PipelineConfig:
        cluster = {"kafka": {"common": {"bootstrap.servers": "localhost:1"}}}
        errors = {"onControlMessageDeserializationError": handling}
        tree = {"name": "g", "source": cluster, "target": cluster, "errorHandling": errors}
        return PipelineConfig.model_validate(tree)

    damaged = state((own, b"{}"))
    with pytest.raises(Refused, match="1 record of this pipeline"):
        describe_malformed(config("fail"), damaged)
    assert "1 record of" in describe_malformed(config("ignore"), damaged)
    assert describe_malformed(config("fail"), state((other, b"x"))), "it stops no pipeline"
    healed = state((own, b"{}"), (own, json.dumps(BODY).encode()))
    assert (healed.malformed, healed.damaged) == (1, 0)
