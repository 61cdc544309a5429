"""Results of an apply or an undo, as a table and as JSON."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from k2ktui.cli.terminal.tables import MOST, print_table
from k2ktui.engine.moves.apply import OffsetWrite, WriteOutcome, WriteResult, results_text
from k2ktui.errors import ExitCode
from k2ktui.present.columns import Column, text_column
from k2ktui.present.formatting import number
from k2ktui.text import safe_message, safe_text

if TYPE_CHECKING:
    from k2ktui.sync.moves.apply import Applied


def exit_code(applied: Applied) -> int:
    """Return 0 if everything was applied, otherwise the code of a partial result."""
    return int(ExitCode.OK if applied.complete else ExitCode.PARTIAL)


def result_object(pipeline: str, applied: Applied) -> dict[str, Any]:
    """Return what ``--json`` prints."""
    return {
        "pipeline": pipeline,
        "id": applied.id,
        "counts": applied.counts,
        "rows": [
            {
                "group": row.write.group,
                "topic": row.write.topic,
                "partition": row.write.partition,
                "before": row.write.before,
                "after": row.write.after,
                "outcome": str(row.outcome),
                "reason": row.reason,
            }
            for row in applied.rows
        ],
    }


def print_nothing(pipeline: str, *, as_json: bool) -> None:
    """Print that a plan changes nothing: there is no journal entry."""
    click.echo("Nothing to apply.", err=True)
    if as_json:
        click.echo(json.dumps({"pipeline": pipeline, "id": None, "counts": {}, "rows": []}))


def show_results(applied: Applied) -> None:
    """Print the rows, those that were not applied first."""
    rows = sorted(applied.rows, key=lambda row: row.outcome is WriteOutcome.APPLIED)
    print_table(f"Journal entry {applied.id}", COLUMNS, rows, most=MOST)
    click.echo(f"{results_text(applied.counts)}.")


def show_writes(title: str, writes: Sequence[OffsetWrite]) -> None:
    """Print the writes that an undo will make."""
    print_table(title, WRITES, writes, most=MOST)


def _result(row: WriteResult) -> str:
    return f"{row.outcome}: {safe_message(row.reason)}" if row.reason else str(row.outcome)


WRITES: tuple[Column[OffsetWrite], ...] = (
    text_column("group", lambda write: safe_text(write.group), left=True),
    text_column("target partition", lambda w: safe_text(f"{w.topic}-{w.partition}"), left=True),
    text_column("now", lambda write: number(write.before)),
    text_column("restored", lambda write: number(write.after)),
)
COLUMNS: tuple[Column[WriteResult], ...] = (
    text_column("group", lambda row: safe_text(row.write.group), left=True),
    text_column(
        "target partition",
        lambda row: safe_text(f"{row.write.topic}-{row.write.partition}"),
        left=True,
    ),
    text_column("before", lambda row: number(row.write.before)),
    text_column("after", lambda row: number(row.write.after)),
    text_column("result", _result, left=True),
)
