"""Writes a planned takeover: mappings first, then positions, in a new term.

The order matters: positions without their mapping would claim coverage that does not exist, while
mappings without positions belong to a term that is never used.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import closing
from zlib import crc32

from confluent_kafka import IsolationLevel
from confluent_kafka.admin import OffsetSpec

from k2ktui.config.model import PipelineConfig
from k2ktui.engine.access import Access, require
from k2ktui.engine.moves.journal import JournalRow
from k2ktui.engine.moves.positions import position_image
from k2ktui.engine.records.cleared import Cleared
from k2ktui.engine.records.state import (
    Covers,
    MappingRange,
    MappingRecord,
    Position,
    SourcePartition,
    mapping_key,
    mapping_value,
)
from k2ktui.errors import K2kError, PartlyApplied, Refused
from k2ktui.kafka.clients import Cluster, TopicDescription, target_cluster
from k2ktui.kafka.control.keyed_writer import Entry, KeyedWriter
from k2ktui.kafka.control.topics import ensure_control_topics
from k2ktui.kafka.properties.translation import wire
from k2ktui.mm2.takeover.plan import (
    MirrorMakerSource,
    TakeoverPlan,
    TakeoverRow,
    refuse_changed_target,
)
from k2ktui.replication.copying.partition_reader import now_ms
from k2ktui.replication.ownership.commit_state import read_commit_state
from k2ktui.replication.ownership.ownership import Ownership
from k2ktui.replication.ownership.pipeline import commit_topic, make_ownership
from k2ktui.sync.moves.journal_writer import JournalWriter
from k2ktui.sync.moves.plans import whoami
from k2ktui.sync.positions.position_writer import PositionWriteResult, refuse_running
from k2ktui.sync.store import StateStore
from k2ktui.text import safe_text

log = logging.getLogger(__name__)

_UNCHANGED = "No position was written."
_RANGES_A_RECORD = 5_000
_READ_S = 60.0
_DRIVER_SLOT = -1
WHAT = "mm2 takeover"


def require_new(config: PipelineConfig, target: Cluster) -> None:
    """Check that the pipeline is not running and has never copied.

    Raises:
        Refused: it is running or has positions.
        ConnectionFailed, TimedOut: the target did not answer.
    """
    refuse_running(config.name, StateStore(config, target).read_settled().alive(now_ms()), now_ms())
    name = config.coordination.commit.topic
    topic = target.describe([name])[name]
    if isinstance(topic, TopicDescription):
        state = read_commit_state(target, commit_topic(config, topic.partitions), _READ_S)
        _require_none(config, len(state.positions))


def _require_none(config: PipelineConfig, positions: int) -> None:
    if positions:
        raise Refused(
            f"pipeline {safe_text(config.name)} already has {positions} positions: only a "
            "pipeline that has never run can take over",
            unchanged=_UNCHANGED,
            hint="Remove them with k2ktui offsets clear -f FILE --topic '.*', or rename the "
            "pipeline.",
        )


def take_over(
    config: PipelineConfig, mirror: MirrorMakerSource, plan: TakeoverPlan, may: Access
) -> PositionWriteResult:
    """Write positions and mappings exactly as planned.

    Args:
        config: the k2ktui pipeline.
        mirror: the MirrorMaker 2 to take over from.
        plan: the confirmed plan.
        may: the caller's permissions.

    Raises:
        Refused: not permitted, the pipeline or MirrorMaker 2 runs, or the target has changed.
        PartlyApplied: the positions read back differ from those written.
        ConnectionFailed, TimedOut: the target did not answer.
    """
    require(may, "taking over")
    target = target_cluster(config)
    require_new(config, target)
    mirror.require_stopped(_UNCHANGED)
    topics = ensure_control_topics(config, target)
    options = wire(config.target, "producer")
    ownership = make_ownership(config, target, options, topics.commit_partitions)
    try:
        _require_none(config, len(ownership.take_over(0).positions))
        _require_no_losses(config, ownership)
        where = [row.target for row in plan.rows]
        refuse_changed_target(
            plan, target.offsets(where, OffsetSpec.latest(), IsolationLevel.READ_COMMITTED)
        )
        positions = {row.source: _position(row, ownership.run.term) for row in plan.rows}
        term = ownership.run.term
        log.info("term %d: writing the mappings of %d partitions", term, len(positions))
        if topics.mapping_partitions:
            _write_mappings(config, target, plan, ownership.run.term, topics.mapping_partitions)
        _write_positions(ownership, positions)
        note = _write_cleared(config, target, ownership.run.term - 1)
        log.info("term %d: positions written and read back", term)
    finally:
        ownership.close()
    entry, unwritten = _journal(config, target, positions)
    notes = tuple(text for text in (note, unwritten) if text)
    return PositionWriteResult(term, entry, notes, len(positions))


def _require_no_losses(config: PipelineConfig, ownership: Ownership) -> None:
    if ownership.lost_term:
        raise Refused(
            f"pipeline {safe_text(config.name)} was copied before, up to term "
            f"{ownership.lost_term}, and its positions are lost: only a pipeline that has never "
            "run can take over",
            unchanged=_UNCHANGED,
            hint="Rebuild them with k2ktui offsets recover -f FILE, or let them go with k2ktui "
            "offsets clear -f FILE --topic '.*'.",
        )


def _write_cleared(config: PipelineConfig, target: Cluster, term: int) -> str:
    """Let nothing that was left before the takeover say anything of a position; return a note."""
    if term < 1:
        return ""
    store = StateStore(config, target)
    try:
        record = Cleared("", whoami(), now_ms(), term)
        store.put([record.joined(store.read().cleared.get(""))])
    except K2kError as error:
        log.warning("what was left before the takeover still counts: %s", error.message)
        return f"what was left before the take-over still counts: {error.message}"
    finally:
        store.close()
    return ""


def _position(row: TakeoverRow, term: int) -> Position:
    source_id, target_id = row.ids
    return Position(
        offset=row.position,
        start=row.start,
        leader_epoch=-1,
        topic_id=source_id,
        term=term,
        slot=_DRIVER_SLOT,
        target_topic=row.target[0],
        target_partition=row.target[1],
        target_topic_id=target_id,
        since=term,
        at_ms=now_ms(),
    )


def _write_mappings(
    config: PipelineConfig, target: Cluster, plan: TakeoverPlan, term: int, partitions: int
) -> None:
    writer = KeyedWriter(
        target,
        config.offset_mapping.topic,
        partition_of=lambda key: crc32(key) % partitions,
    )
    group = config.coordination.commit.group
    try:
        for row in plan.rows:
            writer.put(list(_entries(group, row, term)))
    finally:
        writer.close()


def _entries(group: str, row: TakeoverRow, term: int) -> Iterator[Entry]:
    """Yield the mapping records of a partition: single records first, then the span's ranges."""
    for single in row.from_syncs:
        yield _entry(group, row, term, (single,), Covers(single.source, single.source + 1))
    if row.start == row.position:
        return
    parts = max(1, -(-len(row.ranges) // _RANGES_A_RECORD))
    for part in range(parts):
        ranges = row.ranges[part * _RANGES_A_RECORD : (part + 1) * _RANGES_A_RECORD]
        yield _entry(group, row, term, ranges, Covers(row.start, row.position, part, parts))


def _entry(
    group: str, row: TakeoverRow, term: int, ranges: tuple[MappingRange, ...], covers: Covers
) -> Entry:
    mapping = MappingRecord(group, row.source, *row.target, term, ranges, covers=covers)
    return mapping_key(mapping), mapping_value(mapping)


def _write_positions(ownership: Ownership, positions: dict[SourcePartition, Position]) -> None:
    ownership.write_positions(positions)
    written = ownership.read().positions
    wrong = [source for source, position in positions.items() if written.get(source) != position]
    if wrong:
        raise PartlyApplied(
            f"{len(wrong)} positions differ from those just written, such as that of "
            f"{safe_text(wrong[0])}",
            unchanged="The other positions are as planned.",
            hint="Find the other process that writes positions of this pipeline: k2ktui "
            "offsets show.",
        )


def _journal(
    config: PipelineConfig, target: Cluster, positions: dict[SourcePartition, Position]
) -> tuple[str, str]:
    """Write the journal entry; return its id, or "" and why writing failed."""
    group = config.coordination.commit.group
    rows = [
        (group, JournalRow(s.topic, s.partition, None, "", p.offset, position_image(p), "applied"))
        for s, p in positions.items()
    ]
    with closing(StateStore(config, target)) as store:
        entry, note = JournalWriter(store.put, config.name).note_made(
            WHAT, rows, unwritten="the take-over was not recorded in the journal"
        )
    if note:
        log.warning("%s", note)
    return entry, note
