"""Replicated positions of a pipeline, and moves of them, as tables and as JSON."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from k2ktui.engine.deleted_logs import DeletedLog
from k2ktui.engine.moves.journal import Runner
from k2ktui.present.columns import Column, text_column
from k2ktui.present.formatting import NOT_AVAILABLE, WORDS, number
from k2ktui.present.positions import move_columns
from k2ktui.text import safe_text

if TYPE_CHECKING:
    from k2ktui.sync.moves.acknowledge import Acknowledgment
    from k2ktui.sync.moves.position_writer import PositionWriteResult
    from k2ktui.sync.moves.positions import PositionPlan, PositionRow


def runner_object(runner: Runner, now: float) -> dict[str, Any]:
    """Return a runner as ``--json`` prints it; times are epoch seconds."""
    return {
        "host": runner.host,
        "pid": runner.pid,
        "user": runner.user,
        "state": str(runner.standing(int(now * 1000))),
        "started_at": runner.started_ms / 1000,
        "heartbeat_at": runner.last_ms / 1000,
        "last_error": runner.last_error,
    }


def row_object(row: PositionRow) -> dict[str, Any]:
    """Return a position as ``--json`` prints it; null is unknown or none."""
    position, log = row.position, row.log
    return {
        "topic": row.source.topic,
        "partition": row.source.partition,
        "position": position.offset if position else None,
        "start": position.start if position else None,
        "term": position.term if position else None,
        "since_term": position.since if position else None,
        "slot": position.slot if position else None,
        "source_start": log.start if log else None,
        "source_end": log.end if log else None,
        "lag_records": row.lag,
        "target_topic": row.target_topic,
        "target_partition": row.target_partition,
        "gaps": [[g.first, g.end, g.reason] for g in position.gaps] if position else [],
        "written_at": position.at_ms / 1000 if position else None,
    }


def change_object(change: PositionPlan, moved: PositionWriteResult | None) -> dict[str, Any]:
    """Return a plan and its result as ``--json`` prints them; ``moved`` None: not applied."""
    return {
        "pipeline": change.pipeline,
        "operation": change.operation,
        "applied": moved is not None,
        "term": moved.term if moved else None,
        "id": (moved.entry if moved else "") or None,
        "notes": [*change.notes, *(moved.notes if moved else ())],
        "moves": [
            {
                "topic": move.source.topic,
                "partition": move.source.partition,
                "position": move.before.offset if move.before else None,
                "new": move.offset,
                "effect": str(move.effect),
                "again": move.again,
                "left_out": move.left_out,
                "reason": move.why,
            }
            for move in change.moves
        ],
    }


def acknowledged_object(
    pipeline: str, logs: Sequence[DeletedLog], done: Acknowledgment
) -> dict[str, Any]:
    """Return deleted logs and what was acknowledged of them as ``--json`` prints it."""
    return {
        "pipeline": pipeline,
        "operation": "offsets acknowledge",
        "applied": bool(done.logs),
        "id": done.entry or None,
        "notes": list(done.notes),
        "partitions": [
            {
                "topic": log.topic,
                "partition": log.partition,
                "position": log.offset,
                "last_known_end": log.end,
                "lost": log.lost,
            }
            for log in logs
        ],
    }


def _target(row: PositionRow) -> str:
    partition = "*" if row.target_partition is None else str(row.target_partition)
    return safe_text(f"{row.target_topic}-{partition}") if row.target_topic else NOT_AVAILABLE


ROWS: tuple[Column[PositionRow], ...] = (
    text_column("topic-partition", lambda row: safe_text(row.source), left=True),
    text_column("position", lambda row: number(row.position.offset if row.position else None)),
    text_column("started at", lambda row: number(row.position.start if row.position else None)),
    text_column("term", lambda row: number(row.position.term if row.position else None)),
    text_column(
        "slot", lambda row: str(row.position.slot) if row.position else NOT_AVAILABLE, wide=True
    ),
    text_column("log start", lambda row: number(row.log.start if row.log else None)),
    text_column("last stable", lambda row: number(row.log.end if row.log else None)),
    text_column("lag", lambda row: number(row.lag)),
    text_column("target", _target, left=True, wide=True),
)
MOVES = move_columns(WORDS)
