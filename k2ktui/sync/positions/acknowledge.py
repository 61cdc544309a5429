"""Acknowledge that source topics were deleted before all of their records were copied.

The pipeline may run: its positions stay as they are, and it sees the acknowledgment within seconds.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from k2ktui.engine.access import Access, require
from k2ktui.engine.deleted_logs import DeletedLog, deleted_log_key, deleted_log_value
from k2ktui.engine.moves.journal import JournalRow
from k2ktui.engine.records.state import SourcePartition
from k2ktui.kafka.control.keyed_writer import KeyedWriter
from k2ktui.replication.copying.partition_reader import now_ms
from k2ktui.replication.ownership.commit_state import read_commit_state
from k2ktui.replication.ownership.epochs import DRIVER
from k2ktui.sync.moves.journal_writer import JournalWriter
from k2ktui.sync.moves.plans import whoami
from k2ktui.sync.positions.position_planner import PositionPlanner
from k2ktui.sync.positions.position_writer import PositionWriteResult

OPERATION = "offsets acknowledge"
ACKNOWLEDGED = "acknowledged"
_READ_S = 30.0


def find_unacknowledged(
    planner: PositionPlanner, chosen: Callable[[SourcePartition], bool]
) -> list[DeletedLog]:
    """Return the chosen deleted logs that nobody has acknowledged, of partitions with a position.

    Raises:
        ConnectionFailed, TimedOut: the target did not answer.
    """
    topic = planner.commit_topic()
    if topic is None:
        return []
    state = read_commit_state(planner.target, topic, _READ_S)
    return [
        log
        for at, log in sorted(state.deleted.items())
        if chosen(at)
        and not log.acknowledged
        and (position := state.positions.get(at)) is not None
        and log.is_of(position.offset, position.topic_id)
    ]


def acknowledge(
    planner: PositionPlanner, logs: Sequence[DeletedLog], may: Access
) -> PositionWriteResult:
    """Record that an operator knows of these logs, and add it to the journal.

    Raises:
        Refused: not allowed.
        K2kError: not everything was acknowledged by the target.
    """
    require(may, "acknowledging a deleted topic")
    topic = planner.commit_topic()
    if topic is None or not logs:
        return PositionWriteResult()
    who, at = whoami(), now_ms()
    known = tuple(replace(log, acknowledged=who, at_ms=at) for log in logs)
    # The partition to which runs write their own: the later record counts.
    partition = topic.partition(DRIVER)
    writer = KeyedWriter(planner.target, topic.name, partition_of=lambda _: partition)
    try:
        writer.put([(deleted_log_key(topic.group, log), deleted_log_value(log)) for log in known])
    finally:
        writer.close()
    rows = [
        (
            topic.group,
            JournalRow(log.topic, log.partition, log.offset, "", log.offset, "", ACKNOWLEDGED),
        )
        for log in known
    ]
    journal = JournalWriter(planner.store.put, planner.config.name)
    entry, note = journal.note_made(OPERATION, rows, unwritten="the journal was not written")
    return PositionWriteResult(0, entry, (note,) if note else (), len(known))
