"""What a demo cannot show: a group's records, a plan for positions, checks before a start."""

from __future__ import annotations

from k2ktui.engine.mapping.translate import Basis
from k2ktui.engine.moves.groups import GroupRow
from k2ktui.engine.moves.positions import SET, MoveEffect, PositionMove, PositionPlan
from k2ktui.engine.records.state import Position, SourcePartition
from k2ktui.log.listing import LogEntry, OffsetState
from k2ktui.log.record import KafkaRecord
from k2ktui.replication.preflight.checks import Check, CheckOutcome
from k2ktui.sync.records.pairs import GroupRecords, RecordListing, RecordPair, RecordPlace
from k2ktui.sync.verify.record_comparison import Comparison, ComparisonOutcome
from k2ktui.watch.model import View

TOPIC = "payments"
_AT_MS = 1_795_262_300_000
CHECKS = (
    Check("source cluster", CheckOutcome.PASS, "dc-east answers: Kafka 4.3, 1 broker"),
    Check("target cluster", CheckOutcome.PASS, "dc-west answers: Kafka 4.3, 1 broker"),
    Check("target topics", CheckOutcome.PASS, "5 topics, as many partitions as on the source"),
    Check(
        "quota",
        CheckOutcome.WARN,
        "producers of this user may write 5 MB/s",
        "Raise producer_byte_rate, or the copy falls behind at peaks.",
    ),
)


def records() -> tuple[GroupRow, GroupRecords]:
    """Return a group's position, and the records around it."""

    def listed(offset: int, value: bytes) -> LogEntry:
        record = KafkaRecord(offset, b"user-7", value, (("trace", b"1f"),), _AT_MS + offset)
        return LogEntry(offset, offset, OffsetState.RECORD, record)

    def pair(offset: int) -> RecordPair:
        value = b'{"id": %d}' % offset
        same = Comparison(ComparisonOutcome.SAME)
        there = (TOPIC, 0)
        return RecordPair(listed(offset, value), listed(offset + 7, value), there, same)

    row = GroupRow(
        *("billing", TOPIC, 0, "Stable", "", 44, TOPIC, 0, None, 51, Basis.EXACT, 0, 0, None)
    )
    before = (pair(40), pair(41), RecordPair(LogEntry(42, 42, OffsetState.COMMIT_MARKER)), pair(43))
    following = (pair(44), pair(45), pair(46))
    listing = RecordListing(RecordPlace(TOPIC, 0, 44), "both", before, following)
    return row, GroupRecords(listing)


def moves(view: View) -> PositionPlan:
    """Return a plan for the first positions of a view: back, forward, and one that is refused."""
    rows = [row for row in view.partitions if row.status.position]
    found = []
    for row, by in zip(rows, (-5_000, 300, 0, 10**6), strict=False):
        status = row.status
        source, now = SourcePartition(status.topic, status.partition), status.position or 0
        to = max(0, now + by)
        effect, why = MoveEffect.KEEP, ""
        if by < 0:
            effect = MoveEffect.BACK
        elif by > now:
            effect, why = MoveEffect.REFUSED, f"offset {to:,} is outside the source log"
        elif by:
            effect = MoveEffect.FORWARD
        refused = effect is MoveEffect.REFUSED
        found.append(
            PositionMove(
                source,
                effect,
                _position(source, now),
                None if refused else _position(source, to),
                to,
                again=max(0, now - to),
                left_out=0 if refused else max(0, to - now),
                why=why,
            )
        )
    return PositionPlan(SET, view.pair.pipeline, tuple(found))


def _position(source: SourcePartition, offset: int) -> Position:
    return Position(offset, 0, 0, "", 1, 0, source.topic, source.partition, "", 0, 0)
