"""What changes while offsets are translated and applied: members, commits, other applications."""

from __future__ import annotations

import contextlib
import json
import random
import threading
from collections.abc import Callable, Collection, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaException, Message, TopicPartition
from confluent_kafka.admin import AclOperation, ResourcePatternType, ResourceType

from k2ktui.engine.moves.apply import WriteOutcome, WriteResult
from k2ktui.engine.moves.groups import GroupRow, GroupView, make_group_rows
from k2ktui.engine.moves.plan import Plan, Rewind
from k2ktui.engine.moves.written import OffsetWrite
from k2ktui.runtime.node import KafkaNode
from k2ktui.sync.cluster_readers import TargetClusterReader
from k2ktui.sync.flow import Flow
from k2ktui.sync.loop.poll import SyncLoop
from k2ktui.sync.moves.apply import Applied, Applier
from k2ktui.sync.moves.plans import make_pipeline_plan, plan_options
from k2ktui.sync.moves.snapshot import SnapshotReader, take_snapshot
from tests.support.clusters.kafka import (
    TIMEOUT,
    Out,
    client,
    create_topic,
    eventually,
    produce,
    read_all,
)
from tests.support.clusters.secure import SecureNode
from tests.support.commands.cli import k2ktui, k2ktui_json
from tests.support.oracle.group_offsets import commit_offsets, read_committed_offsets
from tests.support.pipelines.copied import Copied, committed

pytestmark = pytest.mark.slow

PROTOCOLS = ("classic", "consumer")
COUNT = 200


@pytest.fixture
def topic(copied: Copied, source: KafkaNode) -> str:
    """A copied topic; each record lands 7 offsets further on."""
    name = create_topic(source)
    produce(source, name, [Out(b"%d" % n) for n in range(COUNT)])
    copied.copy(name)
    return name


@contextlib.contextmanager
def member(node: KafkaNode, group: str, topic: str, protocol: str) -> Iterator[Consumer]:
    """A consumer that has joined."""
    settings = client(node, group_id=group, group_protocol=protocol, auto_offset_reset="error")
    consumer = Consumer(settings | {"enable.auto.commit": False})
    try:
        consumer.subscribe([topic])
        eventually(lambda: consumer.poll(0.1) is None and consumer.assignment(), "joined")
        yield consumer
    finally:
        consumer.close()


class Disturbed(TargetClusterReader):
    """The target's groups; something happens before they are looked at for the n-th time."""

    def __init__(self, copied: Copied, at: int, disturb: Callable[[], object]) -> None:
        super().__init__(copied.config)
        self._at, self._disturb = at, disturb

    def views(self, names: Collection[str]) -> dict[str, GroupView]:
        self._at -= 1
        if self._at == 0:
            self._disturb()
        return super().views(names)


def plan_of(copied: Copied, rewind: Rewind = Rewind.NEVER) -> Plan:
    snapshot = take_snapshot(Flow(copied.config))
    return make_pipeline_plan(
        snapshot, plan_options(copied.config, rewind=rewind), [str(copied.file)]
    )


def applied_with(copied: Copied, look: int, disturb: Callable[[], object]) -> Applied:
    """Apply a plan while something happens.

    Args:
        copied: the pipeline.
        look: before which look at the groups: 1 checks the preconditions, 2 reads back.
        disturb: what happens.
    """
    plan = plan_of(copied)
    target = Disturbed(copied, look, disturb)
    store = SnapshotReader(Flow(copied.config)).store
    try:
        return Applier(copied.config, target, store).apply(plan)
    finally:
        target.close()
        store.close()


class JoinsBeforeTheWrite(Applier):
    """Something happens after the preconditions were checked, before anything is written."""

    disturb: Callable[[], object]

    def write_only(self, writes: Sequence[OffsetWrite]) -> list[WriteResult]:
        self.disturb()
        return super().write_only(writes)


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_member_that_joins_between_check_and_write_is_refused_by_the_broker(
    copied: Copied, topic: str, source: KafkaNode, target: KafkaNode, protocol: str
) -> None:
    joins, stays = copied.group("joins"), copied.group("stays")
    for group in (joins, stays):
        commit_offsets(source, group, {(topic, 0): 50})
    snapshots = SnapshotReader(Flow(copied.config))
    applier = JoinsBeforeTheWrite(copied.config, snapshots.target_reader, snapshots.store)
    with contextlib.ExitStack() as stack:
        stack.callback(snapshots.close)
        applier.disturb = lambda: stack.enter_context(member(target, joins, topic, protocol))
        done = applier.apply(plan_of(copied))
    results = {row.write.group: row.outcome for row in done.rows}
    assert results == {joins: WriteOutcome.REFUSED, stays: WriteOutcome.APPLIED}
    where = (topic, 0)
    assert committed(target, joins, [where]) == {where: None}
    assert committed(target, stays, [where]) == {where: 57}
    back = k2ktui_json("undo", done.id, "-f", copied.file, "--yes")
    assert back["counts"] == {"applied": 1}, "only what was applied is undone"


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_member_that_joins_right_after_the_write_is_reported(
    copied: Copied, topic: str, source: KafkaNode, target: KafkaNode, protocol: str
) -> None:
    group = copied.group("g")
    commit_offsets(source, group, {(topic, 0): 50})
    with contextlib.ExitStack() as stack:
        done = applied_with(
            copied, 2, lambda: stack.enter_context(member(target, group, topic, protocol))
        )
    (row,) = done.rows
    assert row.outcome is WriteOutcome.CHANGED
    assert "check its position" in row.reason


def test_an_offset_that_moves_right_after_the_write_is_reported(
    copied: Copied, topic: str, source: KafkaNode, target: KafkaNode
) -> None:
    group = copied.group("g")
    commit_offsets(source, group, {(topic, 0): 50})
    done = applied_with(copied, 2, lambda: commit_offsets(target, group, {(topic, 0): 99}))
    (row,) = done.rows
    assert (row.outcome, row.reason) == (WriteOutcome.CHANGED, "right after the write it was 99")
    assert committed(target, group, [(topic, 0)]) == {(topic, 0): 99}


def test_commits_on_the_source_while_it_is_translated(
    copied: Copied, topic: str, source: KafkaNode
) -> None:
    """Whatever moment a snapshot catches, what it shows belongs together."""
    groups = [copied.group(f"g{n}") for n in range(5)]
    over, chosen = threading.Event(), random.Random(4)

    def consume() -> None:
        while not over.is_set():
            commit_offsets(source, chosen.choice(groups), {(topic, 0): chosen.randrange(COUNT + 1)})

    snapshots = SnapshotReader(Flow(copied.config))
    with ThreadPoolExecutor(1) as pool:
        committing = pool.submit(consume)
        try:
            eventually(lambda: len(snapshots.take().source) == len(groups), "all have committed")
            seen = list[list[GroupRow]]()

            def have_moved() -> bool:
                seen.append(make_group_rows(snapshots.take()))
                offsets = {tuple(row.source_offset for row in poll) for poll in seen}
                return len(seen) >= 10 and len(offsets) > 1

            eventually(have_moved, "they move")
        finally:
            over.set()
            snapshots.close()
        committing.result(TIMEOUT)
    for row in (row for poll in seen for row in poll):
        assert row.translated_offset == (row.source_offset or 0) + 7


def test_two_sync_applications_at_once(
    copied: Copied, topic: str, source: KafkaNode, target: KafkaNode
) -> None:
    """They do not fight: offsets never go back, and end where the source's are."""
    groups = [copied.group(f"g{n}") for n in range(4)]
    where = (topic, 0)
    loops = [SyncLoop(Flow(copied.config)), SyncLoop(Flow(copied.config))]
    failed: list[str] = []

    def follow(loop: SyncLoop) -> None:
        failed.extend(loop.turn().failed)

    history: list[dict[str, int | None]] = []
    try:
        with ThreadPoolExecutor(2) as pool:
            for offset in (10, 60, 110, COUNT):
                for group in groups:
                    commit_offsets(source, group, {where: offset})
                list(pool.map(follow, loops))
                history.append({g: committed(target, g, [where])[where] for g in groups})
    finally:
        for loop in loops:
            loop.close()
    assert not failed
    for group in groups:
        reached = [offsets[group] or 0 for offsets in history]
        assert reached == sorted(reached)
        assert reached[-1] == COUNT + 7
    # Both may have written the same; nothing is left for either to do.
    assert "committed" in k2ktui("sync", "-f", copied.file, "--once").stdout
    assert {row.action for row in plan_of(copied).rows} == {"keep"}


def test_a_newer_mapping_wins_after_a_restart(
    copied: Copied, topic: str, source: KafkaNode, target: KafkaNode
) -> None:
    """A sync application that comes back with an older copy leaves alone what a newer one wrote."""
    group, where = copied.group("g"), (topic, 0)
    commit_offsets(source, group, {where: 150})
    commit_offsets(target, group, {where: 57}, "k2k_2.60;app")
    reported = k2ktui("sync", "-f", copied.file, "--once", "--rewind", "follow")
    assert "0 committed" in reported.stdout
    assert committed(target, group, [where]) == {where: 57}
    copied.settings = {"features": {"applyMappingsGuard": "disabled"}}
    k2ktui("sync", "-f", copied.file, "--once")
    assert committed(target, group, [where]) == {where: 157}


def test_groups_of_the_new_protocol_continue_at_the_record_they_had_not_read(
    copied: Copied, topic: str, source: KafkaNode, target: KafkaNode
) -> None:
    group = copied.group("new")
    where = TopicPartition(topic, 0)
    for first, last in ((0, 40), (40, 90)):
        commit_offsets(source, group, {(topic, 0): first})
        with member(source, group, topic, "consumer") as consumer:
            read = read_from(consumer, TopicPartition(topic, 0, first), last - first)
            assert [message.value() for message in read] == values(first, last)
            consumer.commit(message=read[-1], asynchronous=False)
        k2ktui("apply", plan_file(copied), "--yes")
        with member(target, group, topic, "consumer") as consumer:
            (offset,) = read_committed_offsets(consumer, [where]).values()
            assert offset == last + 7
            unread = read_from(consumer, TopicPartition(topic, 0, offset), COUNT - last)
            assert [message.value() for message in unread] == values(last, COUNT)
            # 1: the group has members, nothing can move.
            rows_now = json.loads(plan_file(copied, code=1).read_text())["rows"]
            assert {row["state_target"] for row in rows_now} <= {"Stable", "Reconciling"}


def read_from(consumer: Consumer, position: TopicPartition, count: int) -> list[Message]:
    """Read records from a position. The client refuses to seek until it fetches the partition."""

    def seek() -> bool:
        try:
            consumer.seek(position)
        except KafkaException as error:
            if error.args[0].name() != "_STATE":
                raise
            return False
        return True

    eventually(seek, "the partition is fetched")
    read: list[Message] = consumer.consume(count, timeout=TIMEOUT)
    return read


def values(first: int, last: int) -> list[bytes]:
    return [b"%d" % n for n in range(first, last)]


def plan_file(copied: Copied, code: int = 0) -> Path:
    path = copied.directory / "plan.json"
    k2ktui("plan", "-f", copied.file, "-o", path, code=code)
    return path


def test_two_pipelines_of_one_source_into_one_target(
    copied: Copied, topic: str, source: KafkaNode, target: KafkaNode, tmp_path: Path
) -> None:
    group = copied.group("g")
    commit_offsets(source, group, {(topic, 0): 50})
    competitor = Copied(tmp_path, source, target, prior=0)
    competitor.mappings = copied.mappings
    landed = {at: at + 7 + COUNT for at in range(COUNT)}
    produce(target, topic, [got.value or b"" for got in read_all(source, topic)])
    competitor.record(topic, 0, landed, COUNT, 0)

    (row,) = k2ktui_json("plan", "-f", copied.file, code=1)["rows"]
    assert row["action"] == "skip"
    assert copied.name in row["reason"] and competitor.name in row["reason"]
    assert "onMultipleTargetCommittedOffsets" in row["reason"]
    assert "mapped by several" in k2ktui("sync", "-f", copied.file, "--once", code=1).stderr
    copied.settings = {"errorHandling": {"onMultipleTargetCommittedOffsets": "skip"}}
    assert "0 committed" in k2ktui("sync", "-f", copied.file, "--once").stdout
    copied.settings = {"errorHandling": {"onMultipleTargetCommittedOffsets": "ignore"}}
    (row,) = k2ktui_json("plan", "-f", copied.file)["rows"]
    assert (row["action"], row["proposed"]) == ("create", 57)
    assert competitor.name in row["reason"], "it is reported nevertheless"


def expect_said_by_all(copied: Copied, said: str) -> None:
    """What reads groups says which ones it could not read; ``sync --once`` has findings."""
    assert said in " ".join(k2ktui_json("groups", "-f", copied.file)["notes"])
    assert said in " ".join(k2ktui_json("status", "--groups", "-f", copied.file)["notes"])
    assert said in k2ktui("status", "--groups", "-f", copied.file).stderr
    assert said in k2ktui("sync", "-f", copied.file, "--once", code=1).stderr


def test_groups_of_the_source_that_the_principal_may_not_describe(
    target: KafkaNode, secure: SecureNode, tmp_path: Path
) -> None:
    """With Describe on the cluster, brokers list them, and do not describe them."""
    secure.allow("racer", [AclOperation.ALL], "*")
    everything = "kafka-cluster", ResourceType.BROKER, ResourcePatternType.LITERAL
    secure.allow("racer", [AclOperation.DESCRIBE], *everything)
    copied = Copied(tmp_path, secure.node, target)
    copied.settings = {"source": {"kafka": {"common": secure.java("racer")}}}
    seen, hidden = copied.group("seen"), copied.group("hidden")
    secure.allow(
        "racer", [AclOperation.READ], seen, ResourceType.GROUP, ResourcePatternType.LITERAL
    )
    topic = create_topic(secure.node)
    produce(secure.node, topic, [Out(b"%d" % n) for n in range(50)])
    copied.copy(topic)
    for group in (seen, hidden):
        commit_offsets(secure.node, group, {(topic, 0): 20})
    expect_said_by_all(copied, f"group {hidden} on the source: the source principal lacks")


def test_groups_that_the_principal_may_not_describe(
    source: KafkaNode, secure: SecureNode, tmp_path: Path
) -> None:
    """They are reported, left alone, and stop no other group."""
    secure.allow("racer", [AclOperation.ALL], "*")
    copied = Copied(tmp_path, source, secure.node)
    copied.settings = {"target": {"kafka": {"common": secure.java("racer")}}}
    seen, hidden = copied.group("seen"), copied.group("hidden")
    secure.allow(
        "racer", [AclOperation.READ], seen, ResourceType.GROUP, ResourcePatternType.LITERAL
    )
    topic = create_topic(source)
    produce(source, topic, [Out(b"%d" % n) for n in range(50)])
    copied.copy(topic)
    for group in (seen, hidden):
        commit_offsets(source, group, {(topic, 0): 20})
    commit_offsets(secure.node, hidden, {(topic, 0): 3})

    reported = k2ktui("groups", "-f", copied.file)
    assert "lacks Describe on the group" in reported.stderr
    path = plan_file(copied)
    planned = {row["group"]: row for row in json.loads(path.read_text())["rows"]}
    assert planned[seen]["action"] == "create"
    assert planned[hidden]["action"] == "skip"
    assert "lacks Describe on the group" in planned[hidden]["reason"]
    assert k2ktui_json("apply", path, "--yes")["counts"] == {"applied": 1}
    assert committed(secure.node, seen, [(topic, 0)]) == {(topic, 0): 27}
    assert committed(secure.node, hidden, [(topic, 0)]) == {(topic, 0): 3}
    expect_said_by_all(copied, f"group {hidden} on the target: the target principal lacks")
