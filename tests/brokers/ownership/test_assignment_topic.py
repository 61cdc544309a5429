"""Runs that take part by the assignment topic of a real broker."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from k2ktui.engine.ownership.assignment_records import AssignmentFold, Member
from k2ktui.engine.ownership.slot_owners import SlotOwners
from k2ktui.engine.records.run_record import SharedLayout
from k2ktui.engine.records.state import SourcePartition, position_key, position_value
from k2ktui.errors import Refused, TimedOut
from k2ktui.kafka.control.reader import stable_ends
from k2ktui.replication.ownership.assignment_topic import AssignmentTopic
from k2ktui.replication.ownership.commit_state import CommitTopic, read_commit_state
from k2ktui.replication.ownership.sharing_member import SharingMember
from k2ktui.runtime.node import KafkaNode
from tests.support.clusters.kafka import (
    TIMEOUT,
    Out,
    create_topic,
    delete_topic,
    eventually,
    open_transaction,
    unique_name,
)
from tests.support.pipelines.copied import Copied
from tests.support.pipelines.telemetry import position

LAYOUT = SharedLayout("l", 4, ready=True)


@pytest.fixture
def copied(source: KafkaNode, target: KafkaNode, tmp_path: Path) -> Copied:
    return Copied(tmp_path, source, target)


@pytest.fixture
def closing() -> Iterator[ExitStack]:
    with ExitStack() as raised:
        yield raised


class Members:
    """The runs of a test, and what each holds."""

    def __init__(self, copied: Copied, topic: str, closing: ExitStack) -> None:
        self._copied, self._topic, self._closing = copied, topic, closing
        self.now = 0.0

    def join(self, name: str) -> SharingMember:
        log = AssignmentTopic(self._copied.cluster, self._topic)
        self._closing.callback(log.close)
        member = SharingMember(
            Member(name),
            "g",
            log,
            lambda: LAYOUT,
            15,
            5,
            60,
            lambda pid, space, birth: False,
            lambda: self.now,
        )
        member.report((), "")
        return member

    @staticmethod
    def look(member: SharingMember) -> SlotOwners:
        """Let a run do what it does each second, with slots that are taken and released at once."""
        owners = member.choose_owners(member.look())
        if owners is not None:
            member.write_owners(owners)
        member.look()
        member.report(member.owners.of(member.own), "")
        return member.owners


@pytest.mark.parametrize("partitions", [1, 3])
def test_two_runs_share_all_slots_and_one_leaves(
    copied: Copied, closing: ExitStack, partitions: int
) -> None:
    topic = create_topic(copied.target, None, partitions, {"cleanup.policy": "compact"})
    members = Members(copied, topic, closing)
    first = members.join("a")
    assert members.look(first).of("a") == {0, 1, 2, 3}
    second = members.join("b")
    for _ in range(3):
        members.look(first)
        owners = members.look(second)
    assert len(owners.of("a")) == len(owners.of("b")) == 2
    first.leave()
    members.look(second)
    assert members.look(second).of("b") == {0, 1, 2, 3}


def test_runs_share_all_slots_beside_the_positions_of_open_transactions(
    copied: Copied, closing: ExitStack
) -> None:
    """The commit topic may be the assignment topic."""
    topic = create_topic(copied.target, None, 1, {"cleanup.policy": "compact"})
    at = SourcePartition("orders", 0)
    lap = open_transaction(
        copied.target, topic, [Out(position_value(position(4)), position_key("g", at))]
    )
    members = Members(copied, topic, closing)
    runs = [members.join(name) for name in "ab"]
    for _ in range(3):
        owners = [members.look(run) for run in runs]
    assert [len(owners[-1].of(run.own)) for run in runs] == [2, 2]
    lap.commit_transaction(TIMEOUT)
    eventually(lambda: stable_ends(copied.cluster, topic, 1)[0] > 5, "the lap is committed")
    state = read_commit_state(copied.cluster, CommitTopic(topic, 1, "g"), TIMEOUT)
    assert {source: position.offset for source, position in state.positions.items()} == {at: 4}
    assert (state.malformed, state.damaged) == (0, 0)


def test_a_missing_topic_is_named(copied: Copied, closing: ExitStack) -> None:
    log = AssignmentTopic(copied.cluster, unique_name("missing"))
    closing.callback(log.close)
    with pytest.raises(Refused, match="cannot be read on the target"):
        log.read(AssignmentFold("g"))


def test_a_topic_that_was_created_again_is_read_completely(
    copied: Copied, closing: ExitStack
) -> None:
    topic = create_topic(copied.target, None, 1, {"cleanup.policy": "compact"})
    members = Members(copied, topic, closing)
    first = members.join("a")
    for _ in range(3):
        members.look(first)
    delete_topic(copied.target, topic)
    with pytest.raises(TimedOut, match="does not exist"):  # a later look may find it
        members.look(first)
    create_topic(copied.target, topic, 1, {"cleanup.policy": "compact"})
    second = members.join("0")
    members.look(second)
    members.look(first)
    assert first.owners == second.owners
