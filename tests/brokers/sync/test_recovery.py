"""Positions that the commit topic has lost: planned, rebuilt or stopped; copies made by hand."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import KafkaException, Producer

from k2ktui.engine.access import Access
from k2ktui.engine.drill.changes import dump_names
from k2ktui.engine.drill.checks import DrillKind, DrillPhase
from k2ktui.engine.drill.model import Change, ChangeKind, ChangeStatus, Drill, DrillStatus
from k2ktui.engine.moves.journal import DrillKey
from k2ktui.engine.moves.journal_format import state_key, state_value
from k2ktui.engine.records.hold import HoldKey
from k2ktui.engine.records.state import (
    Covers,
    MappingRange,
    MappingRecord,
    Position,
    SourcePartition,
    mapping_key,
    mapping_value,
)
from k2ktui.errors import Refused
from k2ktui.kafka.clients import target_cluster
from k2ktui.log.content import ContentReader
from k2ktui.replication.ownership.commit_state import CommitState
from k2ktui.runtime.node import KafkaNode
from k2ktui.sync.positions.position_planner import PositionPlanner
from k2ktui.sync.positions.position_writer import PositionWriter
from k2ktui.sync.positions.recovery import plan_to_recover
from tests.support.clusters.kafka import (
    TIMEOUT,
    Out,
    await_stable,
    client,
    create_topic,
    delete_before,
    delete_topic,
    end_offsets,
    produce,
    read_all,
    unique_name,
)
from tests.support.commands.cli import k2ktui, k2ktui_json
from tests.support.pipelines.copied import Copied

STOPPED, REFUSED = 1, 5
DRILL = "20261121-101500-3f2a"


@pytest.fixture
def copied(source: KafkaNode, target: KafkaNode, tmp_path: Path) -> Copied:
    """A pipeline that copies only the topics that its test makes."""
    copied = Copied(tmp_path, source, target)
    copied.settings = settings_of(copied)
    return copied


def settings_of(copied: Copied, **features: str) -> dict[str, Any]:
    return {
        "features": {"autoCreateControlTopics": "enabled", **features},
        "replication": [
            {"source": {"topic": f"{copied.name}-.*"}},
            {"sink": {"topic": "source", "partition": "source"}},
        ],
    }


def fill(copied: Copied, partitions: int = 2, count: int = 40) -> str:
    topic = create_topic(copied.source, unique_name(copied.name), partitions)
    for partition in range(partitions):
        produce(copied.source, topic, [Out(b"%d" % i, partition=partition) for i in range(count)])
    copied.copy(topic)
    return topic


def commits(copied: Copied) -> CommitState:
    return copied.commit_state()


def position(copied: Copied, topic: str, partition: int = 0) -> Position:
    return commits(copied).positions[SourcePartition(topic, partition)]


def recover(copied: Copied, *arguments: str, code: int | None = 0) -> Any:
    return k2ktui_json("offsets", "recover", "-f", copied.file, *arguments, code=code)


def effects(shown: Any, topic: str) -> dict[int, str]:
    return {m["partition"]: m["effect"] for m in shown["moves"] if m["topic"] == topic}


@contextmanager
def transaction(copied: Copied, name: str, topic: str) -> Iterator[Producer]:
    """A committed transaction on a topic of the target."""
    producer = Producer(client(copied.target, transactional_id=f"{copied.name}-{name}"))
    producer.init_transactions(TIMEOUT)
    producer.begin_transaction()
    yield producer
    producer.commit_transaction(TIMEOUT)
    await_stable(copied.target, topic)


def copy_in_transaction(copied: Copied, topic: str) -> int:
    """Copy three more records of partition 0 as a run does; return its producer id."""
    first = end_offsets(copied.source, topic)[0]
    produce(copied.source, topic, [b"1 more", b"2 more", b"3 more"])
    own = [got for got in read_all(copied.source, topic) if got.partition == 0][-3:]
    landed = end_offsets(copied.target, topic)[0]
    with transaction(copied, "a-run", topic) as producer:
        for got in own:
            producer.produce(topic, got.value, partition=0, timestamp=got.timestamp)
        pairs = {got.offset: landed + n for n, got in enumerate(own)}
        copied.record(topic, 0, pairs, first + 3, 0, first)
    return producers_of(copied, topic)[-1]


def producers_of(copied: Copied, topic: str) -> list[int]:
    """Return the producer ids of the records of partition 0 on the target."""
    end = end_offsets(copied.target, topic)[0]
    with ContentReader(target_cluster(copied.config)) as reader:
        (found,) = reader.stretches([((topic, 0, 0), end)], TIMEOUT)
    return [found.producers[offset] for offset in sorted(found.producers)]


def put_drill(copied: Copied, *topics: str) -> None:
    """Write the record of a drill that has moved topics."""
    change = Change(
        DrillPhase.MOVE_TOPICS,
        ChangeKind.MOVED_TOPICS,
        "move",
        "",
        dump_names(topics),
        "",
        ChangeStatus.MADE,
    )
    drill = Drill(
        DRILL,
        DrillKind.PLANNED,
        copied.name,
        copied.source.cluster_id,
        copied.target.cluster_id,
        "0.1",
        1_795_252_312_786,
        "ann@bastion",
        status=DrillStatus.DONE,
        topics=topics,
        changes=(change,),
    )
    create_topic(copied.target, copied.state, 1, {"cleanup.policy": "compact"})
    entry = Out(state_value(drill), state_key(copied.name, DrillKey(DRILL)))
    produce(copied.target, copied.state, [entry])


def test_positions_are_rebuilt_where_both_logs_prove_them(copied: Copied) -> None:
    topic = fill(copied)
    before = {p: position(copied, topic, p) for p in range(2)}
    delete_topic(copied.target, copied.commits)

    shown = recover(copied, "--dry-run")
    assert effects(shown, topic) == {0: "recover", 1: "recover"} and not shown["applied"]
    done = recover(copied, "--yes")

    assert done["applied"] and done["id"]
    state = commits(copied)
    assert state.run.term == done["term"] > copied.term
    for partition, old in before.items():
        new = state.positions[SourcePartition(topic, partition)]
        assert (new.offset, new.start, new.topic_id) == (old.offset, old.start, old.topic_id)
        assert (new.target_topic, new.target_topic_id) == (old.target_topic, old.target_topic_id)
        assert new.term == done["term"] and not new.stopped
    assert effects(recover(copied, "--dry-run"), topic) == {0: "keep", 1: "keep"}
    # Nothing is lost any more: a topic that was not copied yet is new, whatever the target has.
    fresh = create_topic(copied.source, unique_name(copied.name))
    create_topic(copied.target, fresh)
    produce(copied.target, fresh, [b"of another program"])
    assert not effects(recover(copied, "--dry-run"), fresh)


def test_what_the_logs_do_not_prove_stays_stopped(copied: Copied) -> None:
    topic = fill(copied, partitions=4)
    repeats = create_topic(copied.source, unique_name(copied.name))
    produce(copied.source, repeats, [Out(b"same", timestamp=int(time.time() * 1000))] * 40)
    copied.copy(repeats)
    produce(copied.target, topic, [Out(b"of another program", partition=1)])
    delete_before(copied.source, topic, 40, partition=2)
    mapping = MappingRecord(
        copied.name,
        SourcePartition(topic, 3),
        topic,
        3,
        copied.term + 4,
        (MappingRange(36, 40, 4),),
        covers=Covers(36, 40),
    )
    copied.put_mapping(mapping_key(mapping), mapping_value(mapping))
    delete_topic(copied.target, copied.commits)

    done = recover(copied, "--yes", code=STOPPED)

    reasons = {(m["topic"], m["partition"]): m["reason"] for m in done["moves"]}
    assert effects(done, topic) == {0: "recover", 1: "stop", 2: "stop", 3: "stop"}
    assert "records from offset 47 on that no mapping names" in reasons[topic, 1]
    assert "not on the source any more" in reasons[topic, 2]
    assert "not the same on both clusters" in reasons[topic, 3]
    assert "differs from all others" in reasons[repeats, 0]
    state = commits(copied)
    assert state.run.term > copied.term + 4, "mappings of a later term would count before ours"
    for (name, partition), reason in reasons.items():
        stopped = state.positions[SourcePartition(name, partition)].stopped
        assert stopped == (reason if (name, partition) != (topic, 0) else "")
    chosen = k2ktui_json("offsets", "set", f"{topic}:1:40", "-f", copied.file, "--yes")
    assert chosen["applied"] and not position(copied, topic, 1).stopped


def test_kept_positions_and_new_topics_are_left_alone(copied: Copied) -> None:
    topic = fill(copied, partitions=2)
    new = create_topic(copied.source, unique_name(copied.name))
    produce(copied.source, new, [b"new"] * 3)
    # Compaction may leave either record of a key below what was deleted.
    cut = end_offsets(copied.target, copied.commits)[0] - 1
    delete_before(copied.target, copied.commits, cut)
    kept = position(copied, topic, 1)

    done = recover(copied, "--yes")

    assert effects(done, topic) == {0: "recover", 1: "keep"}
    assert not effects(done, new)
    assert position(copied, topic, 1) == kept and position(copied, topic, 0).offset == 40
    assert SourcePartition(new, 0) not in commits(copied).positions


def test_an_older_position_of_another_commit_partition_is_replaced(copied: Copied) -> None:
    topic = fill(copied, partitions=1)
    delete_topic(copied.target, copied.commits)
    create_topic(copied.target, copied.commits, 1, {"cleanup.policy": "compact"})
    copied.put_run()
    copied.put_position(topic, 0, 7, 0)

    (move,) = recover(copied, "--yes")["moves"]

    assert (move["position"], move["new"], move["effect"]) == (7, 40, "recover")


def test_moved_topics_and_producer_ids_are_recorded_again(copied: Copied) -> None:
    topic, moved = fill(copied), fill(copied)
    with transaction(copied, "native-application", topic) as producer:
        producer.produce(topic, b"before", partition=0)
    own = copy_in_transaction(copied, topic)
    put_drill(copied, moved)
    delete_topic(copied.target, copied.commits)

    done = recover(copied, "--yes", code=None)

    assert any(moved in note for note in done["notes"])
    state = commits(copied)
    assert [(m.topic, m.target, m.drill) for m in state.moved.all] == [(moved, moved, DRILL)]
    assert state.run.has_moved and not state.run.has_unregistered
    pair = {(r.source, r.target) for r in state.registrations.values()}
    assert pair == {(copied.source.cluster_id, copied.target.cluster_id)}
    assert own in state.registrations, "the batch that it has copied"
    written = set(producers_of(copied, topic)) - {own, -1}
    assert written and not written & state.registrations.keys(), "others are not ours"


def test_a_drill_or_a_hold_that_cannot_be_read_refuses_its_topics(copied: Copied) -> None:
    topic, held = fill(copied), fill(copied, partitions=1)
    create_topic(copied.target, copied.state, 1, {"cleanup.policy": "compact"})
    unreadable: dict[str, tuple[DrillKey | HoldKey, dict[str, dict[int, str]]]] = {
        "whether it is held cannot be read": (
            HoldKey(held),
            {topic: {0: "recover", 1: "recover"}, held: {0: "stop"}},
        ),
        "which topics it has moved is not known": (
            DrillKey(DRILL),
            {topic: {0: "stop", 1: "stop"}, held: {0: "stop"}},
        ),
    }
    for why, (key, expected) in unreadable.items():
        delete_topic(copied.target, copied.commits)
        produce(copied.target, copied.state, [Out(b'{"v":99}', state_key(copied.name, key))])
        done = recover(copied, "--yes", code=STOPPED)
        assert {name: effects(done, name) for name in expected} == expected
        assert all(why in m["reason"] for m in done["moves"] if m["effect"] == "stop")


def suspended(copied: Copied, slot: str, topic: str) -> Producer:
    """A run's producer that has written to a topic, and was not told to end its transaction."""
    identity = f"{copied.name}.{slot}"
    zombie = Producer(
        client(copied.target, transactional_id=identity, transaction_timeout_ms=600_000)
    )
    zombie.init_transactions(TIMEOUT)
    zombie.begin_transaction()
    for name in (topic, copied.mappings):
        zombie.produce(name, b"late", partition=0)
    zombie.flush(TIMEOUT)
    return zombie


def test_a_run_that_is_suspended_cannot_commit_after_a_recovery(copied: Copied) -> None:
    """The run records that would name its slots are lost, and old brokers list no ids.

    In three of its slots at once: the recovery waits half a minute for their transactions.
    """
    topic = fill(copied, partitions=8)
    zombies = [suspended(copied, slot, topic) for slot in ("3", "slot-5.0", "slot-5.1")]
    delete_topic(copied.target, copied.commits)
    before = end_offsets(copied.target, topic, "read_committed")

    done = recover(copied, "--yes")

    assert effects(done, topic) == dict.fromkeys(range(8), "recover")
    for zombie in zombies:
        with pytest.raises(KafkaException) as refused:
            zombie.commit_transaction(TIMEOUT)
        assert refused.value.args[0].fatal()
    late = [got for got in read_all(copied.target, topic) if got.value == b"late"]
    assert not late and end_offsets(copied.target, topic, "read_committed")[1] == before[1]


def test_what_is_committed_after_the_plan_refuses_it(copied: Copied) -> None:
    topic = fill(copied, partitions=1)
    delete_topic(copied.target, copied.commits)
    positions = PositionPlanner(copied.config)
    try:
        shown = plan_to_recover(copied.config)
        create_topic(copied.target, copied.commits, 1, {"cleanup.policy": "compact"})
        produce(copied.source, topic, [b"more"] * 3)
        copied.copy_on(topic, 40)
        delete_topic(copied.target, copied.commits)  # the copy has written its position
        with pytest.raises(Refused) as refused:
            PositionWriter(positions).apply(shown, Access(writable=True))
    finally:
        positions.close()

    assert f"{topic}-0 has changed since the plan" in refused.value.message
    state = commits(copied)
    assert not state.positions and state.run.lost_term, "the next start knows that some are lost"
    (move,) = recover(copied, "--yes")["moves"]
    assert (move["new"], move["effect"]) == (43, "recover")


def test_without_mappings_or_fencing_nothing_is_rebuilt(copied: Copied) -> None:
    fill(copied)
    for feature in ("exactlyOnce", "offsetMapping"):
        copied.settings = settings_of(copied, **{feature: "disabled"})
        said = k2ktui("offsets", "recover", "-f", copied.file, "--yes", code=REFUSED).stderr
        assert f"features.{feature}" in said and "offsets set" in said


def test_expired_mappings_keep_records_from_coming_back(copied: Copied) -> None:
    topic = fill(copied)
    with transaction(copied, "an-earlier-run", topic) as producer:
        producer.produce(topic, b"of a mapping that has expired", partition=0)
    copy_in_transaction(copied, topic)
    delete_before(copied.target, copied.mappings, 1)
    delete_topic(copied.target, copied.commits)

    done = recover(copied, "--yes", code=None)

    assert any("a failback is refused" in note for note in done["notes"])
    assert commits(copied).run.has_unregistered
    copied.settings = settings_of(copied, bidirectionalReplication="enabled")
    delete_topic(copied.target, copied.commits)
    said = k2ktui("offsets", "recover", "-f", copied.file, "--yes", code=REFUSED).stderr
    assert "would copy them back" in said
