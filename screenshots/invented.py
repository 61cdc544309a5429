"""What a demo cannot show: a transform's preview, a plan for positions, checks before a start."""

from __future__ import annotations

from k2ktui.engine.moves.positions import MoveEffect, PositionMove
from k2ktui.engine.records.state import Position, SourcePartition
from k2ktui.log.record import KafkaRecord
from k2ktui.replication.preflight.checks import Check, CheckOutcome
from k2ktui.replication.preview_records import Preview, PreviewOutcome, PreviewRow
from k2ktui.sync.moves.positions import SET, PositionPlan
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


def preview() -> Preview:
    """Return the newest records of a topic with a transform."""
    card = b'{"id": 7, "card": "4000-1234", "country": "CH"}'
    masked = b'{"id":7,"card":"9f86d081884c7d65","country":"CH"}'
    rows = (
        _row(40, card, masked, PreviewOutcome.COPIED),
        _row(41, b'{"id": 8}', None, PreviewOutcome.LEFT_OUT, "filter"),
        _row(42, b'{"id": ', None, PreviewOutcome.STOPS, "decode.value"),
        _row(43, None, None, PreviewOutcome.SKIPPED, "set value.id"),
        _row(44, card, masked, PreviewOutcome.COPIED),
    )
    return Preview(TOPIC, TOPIC, "decodes value (json), sets value.card", rows)


def _row(
    offset: int,
    before: bytes | None,
    after: bytes | None,
    outcome: PreviewOutcome,
    step: str = "",
) -> PreviewRow:
    def record(value: bytes | None) -> KafkaRecord:
        return KafkaRecord(offset, b"user-7", value, (("trace", b"1f"),), _AT_MS + offset)

    copied = outcome is PreviewOutcome.COPIED
    source = SourcePartition(TOPIC, offset % 2)
    return PreviewRow(source, record(before), record(after) if copied else None, outcome, step)


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
