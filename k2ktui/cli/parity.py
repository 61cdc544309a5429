"""``k2ktui parity``: topic settings, quotas and ACLs of the target in step with the source."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from k2ktui.cli.changes import (
    Change,
    ChangeFlags,
    change_flags,
    note_undone,
    run_change,
    show_connections,
    show_written,
    write_plan,
    written_code,
    written_object,
)
from k2ktui.cli.terminal import options
from k2ktui.cli.terminal.files import allowed_to, load_pipeline
from k2ktui.cli.terminal.notes import print_notes
from k2ktui.cli.terminal.tables import MOST, print_table
from k2ktui.engine.parity.plan import ParityPlan, dump_plan, load_plan, summarize
from k2ktui.engine.parity.rules import ParityKind
from k2ktui.errors import ExitCode
from k2ktui.present.formatting import WORDS, moment
from k2ktui.present.parity import difference_columns, result_columns, write_columns
from k2ktui.text import counted, duration, safe_text

if TYPE_CHECKING:
    from k2ktui.parity.writer import ParityApplied


@click.group(cls=options.Group)
def parity() -> None:
    """Keep topic settings, client quotas and ACLs of the target in step with the source."""


@parity.command(help="Compare topic settings, quotas and ACLs, without changing anything.")
@options.reading
@options.choice(
    "--kind kinds",
    [kind.section for kind in ParityKind],
    "What to compare; repeatable.  [default: all]",
    multiple=True,
)
@options.value("-o --output", "FILE", "File to write the plan to, for k2ktui parity apply.")
@options.valid
def plan(
    files: tuple[str, ...], as_json: bool, kinds: Sequence[str], output: str | None, valid: int
) -> int:
    """Compare, and print or write the plan; findings if something differs."""
    from k2ktui.parity.operations import create_plan

    config = load_pipeline(files)
    chosen = [kind for kind in ParityKind if not kinds or kind.section in kinds]
    made = create_plan(config, files, valid_s=valid, kinds=chosen)
    if output:
        write_plan(output, dump_plan(made))
    if as_json:
        click.echo(dump_plan(made), nl=False)
    else:
        show_plan(made)
    if output:
        where = safe_text(output)
        click.echo(f"Written to {where}; apply it with: k2ktui parity apply {where}", err=True)
    return ExitCode.FINDINGS if made.rows else ExitCode.OK


@parity.command(
    short_help="Apply a parity plan to the target.",
    help="Apply a parity plan to the target, after confirmation; undo reverts it.",
)
@click.argument("plan_file", metavar="PLAN")
@options.optional_file
@options.yes
@options.unlock
@options.json
@change_flags
def apply(plan_file: str, files: tuple[str, ...], flags: ChangeFlags) -> int:
    """Apply a plan; a partial result has its own exit code."""
    from k2ktui.parity.operations import apply_plan
    from k2ktui.sync.moves.plan_files import read_plan_file, require_trusted_files

    now = time.time()
    made = read_plan_file(Path(plan_file), lambda text: load_plan(text, now), "k2ktui parity plan")
    if not files:
        require_trusted_files(made, "k2ktui parity apply")
    config = load_pipeline(files or made.files)
    allowed = allowed_to(config, "applying a parity plan", unlock=flags.unlock)
    count = counted(len(made.changes), "value")
    chosen = made.files if made.changes and not files else ()
    change: Change[ParityApplied] = Change(
        made.pipeline,
        f"change {count} on the target" if made.changes else "",
        show=lambda: show_plan(made),
        check=lambda: show_connections(chosen, config),
        apply=lambda: apply_plan(config, made, files or made.files, allowed),
        report=_show_applied,
        undo=lambda done: f"k2ktui parity undo {done.id}",
        as_json=lambda done: _result_object(config.name if done else made.pipeline, done),
        finish=written_code,
        nothing="Nothing to apply.",
        notes_nothing=True,
    )
    return run_change(change, flags)


@parity.command(
    short_help="Undo an applied parity plan: restore the previous values.",
    help="Undo a journal entry of parity: restore the values that were set before it.",
)
@click.argument("entry", metavar="ID")
@options.optional_file
@options.yes
@options.flag("--skip-moved", "Skip values that have changed since.")
@options.unlock
@options.json
@change_flags
def undo(entry: str, files: tuple[str, ...], skip_moved: bool, flags: ChangeFlags) -> int:
    """Undo a journal entry; a partial result has its own exit code."""
    from k2ktui.parity.operations import read_undo, undo_entry
    from k2ktui.sync.moves.entry_files import files_of

    files = files or files_of(entry)
    config = load_pipeline(files)
    allowed = allowed_to(config, "undoing a change of parity", unlock=flags.unlock)
    _, writes, undone_by = read_undo(config, entry)
    title = f"Changes that undo entry {safe_text(entry)}"
    change: Change[ParityApplied] = Change(
        config.name,
        f"restore {counted(len(writes), 'value')} on the target",
        show=lambda: print_table(title, write_columns(), writes, most=MOST),
        check=lambda: note_undone(undone_by),
        apply=lambda: undo_entry(config, entry, files, allowed, skip_moved=skip_moved),
        report=_show_applied,
        as_json=lambda done: _result_object(config.name, done),
        finish=written_code,
    )
    return run_change(change, flags)


def show_plan(plan: ParityPlan) -> None:
    """Print a plan with its notes and a summary; what only is reported comes first."""
    title = (
        f"Parity plan {plan.id} for {safe_text(plan.pipeline)}, made {moment(plan.created_at)}, "
        f"valid for {duration(plan.expires_at - plan.created_at)}"
    )
    rows = sorted(plan.rows, key=lambda row: (row.changes, row.item))
    if rows:
        print_table(title, difference_columns(WORDS), rows, most=MOST)
        click.echo(f"{summarize(plan.rows)}.")
    else:
        click.echo(f"{title}: {summarize(plan.rows)}.")
    print_notes(plan.notes)


def _show_applied(applied: ParityApplied) -> None:
    show_written(applied, result_columns(), applied.rows, lambda row: row.result)


def _result_object(pipeline: str, applied: ParityApplied | None) -> dict[str, Any]:
    rows = (
        {
            "kind": str(row.write.item.kind),
            "name": row.write.item.name,
            "key": row.write.item.key,
            "before": row.write.before,
            "after": row.write.after,
            "outcome": str(row.result),
            "reason": row.why,
        }
        for row in (applied.rows if applied else ())
    )
    return written_object(pipeline, applied, rows)
