"""Offsets of groups: ``k2ktui groups``, ``plan``, ``apply``, ``undo``, ``sync`` and ``journal``."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import click

from k2ktui.cli.changes import (
    Change,
    ChangeFlags,
    change_flags,
    change_options,
    note_undone,
    run_change,
    show_connections,
    show_written,
    write_plan,
    written_code,
    written_object,
)
from k2ktui.cli.start import ProgramOptions, log_format_option, program_options
from k2ktui.cli.terminal import options
from k2ktui.cli.terminal.files import allowed_to, load_flow
from k2ktui.cli.terminal.notes import note_text, print_notes
from k2ktui.cli.terminal.streams import ended_code, note_signals
from k2ktui.cli.terminal.tables import (
    MOST,
    note_pair,
    print_json,
    print_pair,
    print_table,
    read_beside,
)
from k2ktui.cli.views import group_columns
from k2ktui.engine.moves.apply import WriteResult
from k2ktui.engine.moves.failover import make_group_positions
from k2ktui.engine.moves.groups import Snapshot, list_members, members_json, snapshot_notes
from k2ktui.engine.moves.journal import JournalHeader
from k2ktui.engine.moves.plan import (
    Action,
    Plan,
    Rewind,
    dump_plan,
    plan_remarks,
    to_csv,
    uncertain_first,
)
from k2ktui.engine.moves.ratings import estimate_rereads
from k2ktui.engine.moves.written import OffsetWrite
from k2ktui.engine.name_pattern import pattern_of
from k2ktui.errors import ConfigError, ExitCode
from k2ktui.present.columns import Column, pick, text_column
from k2ktui.present.failover import group_lines
from k2ktui.present.formatting import WORDS, moment, number
from k2ktui.present.groups import member_columns, rereads_text
from k2ktui.present.journal import entry_columns, entry_row_columns
from k2ktui.present.plans import plan_columns, summarize_plan
from k2ktui.text import counted, duration, safe_message, safe_text

if TYPE_CHECKING:
    from k2ktui.sync.loop.poll import SyncPoll
    from k2ktui.sync.moves.apply import Applied
    from k2ktui.sync.operations import GroupDeletion

PLAN_COLUMNS = plan_columns(WORDS)


@click.group(
    invoke_without_command=True,
    help="Show consumer groups on both clusters with translated offsets and divergence.",
)
@options.optional_file
@options.json
@options.flag(
    "--members",
    "List who is in each group on both clusters instead: client id, instance id, host and "
    "assigned partitions.",
)
@click.pass_context
def groups(context: click.Context, files: tuple[str, ...], as_json: bool, members: bool) -> None:
    """Read both clusters once and print, if no subcommand is given."""
    name = context.invoked_subcommand
    if name is not None and (files or as_json or members):
        raise click.UsageError(f"options of {name} go after it: k2ktui groups {name} -f FILE")
    if name is not None:
        return
    if not files:
        raise click.UsageError("Missing option '-f' / '--file'.")
    from k2ktui.sync.group_lags import read_groups
    from k2ktui.sync.moves.snapshot import SnapshotReader

    flow = load_flow(files)
    if members:
        with closing(SnapshotReader(flow, for_plans=False)) as snapshots:
            show_members(snapshots.take_groups(), as_json=as_json)
        return
    reading = read_beside(flow.config)
    with closing(SnapshotReader(flow, for_plans=False, with_choices=True)) as snapshots:
        snapshot, logs = read_groups(snapshots)
    positions = make_group_positions(snapshot, reading(), logs)
    if as_json:
        print_json(positions.as_json())
        return
    print_pair(flow.config, positions.pair_state)
    print_notes(snapshot_notes(snapshot))
    title = f"{safe_text(positions.pipeline)} at {moment(positions.taken_at)}"
    print_table(title, group_columns(), positions.rows, most=MOST)
    click.echo(rereads_text(*estimate_rereads(positions.rows)))
    for line in group_lines(positions.estimate, failed_over=positions.pair_state.moved):
        click.echo(line)


def show_members(snapshot: Snapshot, *, as_json: bool) -> None:
    """Print the members of groups."""
    if as_json:
        print_json(members_json(snapshot))
        return
    print_notes(snapshot_notes(snapshot))
    title = f"Members of groups of {safe_text(snapshot.pipeline)} at {moment(snapshot.taken_at)}"
    print_table(title, member_columns(), list_members(snapshot), most=MOST)


@groups.command(
    name="reset",
    help="Set the offsets of a group that exists on the target only, or copy another group's. "
    "With --side source, of a group of the source.",
)
@change_options
@click.argument("group", metavar="GROUP")
@options.value(
    "--to",
    "VALUE",
    "Value for all its partitions: an offset, an ISO-8601 time, earliest, latest, or +N or "
    "-N from its committed offset.",
)
@options.value(
    "--copy-from",
    "GROUP",
    "Group on the same cluster whose offsets and metadata are copied.",
    default="",
)
@options.value("--topic", "REGEX", "Topics to include; the whole name must match.")
@options.choice(
    "--side",
    ["target", "source"],
    "Cluster of the group; on the source, --yes does not replace typing the name.",
    "target",
)
def reset(
    group: str,
    files: tuple[str, ...],
    to: str | None,
    copy_from: str,
    topic: str | None,
    side: Literal["target", "source"],
    flags: ChangeFlags,
) -> int:
    """Plan, show, confirm and apply; a partial result has its own exit code."""
    from k2ktui.sync.moves.choices import parse_value
    from k2ktui.sync.moves.reset import ResetRequest, plan_group_reset
    from k2ktui.sync.operations import apply_plan

    if bool(copy_from) == (to is not None):
        raise ConfigError(
            "give either --to or --copy-from",
            unchanged="Nothing was changed.",
            hint="For example: k2ktui groups reset GROUP -f FILE --to earliest",
        )
    try:
        value = None if to is None else parse_value(to)
    except ValueError as error:
        raise ConfigError(
            f"--to {safe_text(to)}: {safe_message(str(error))}", unchanged="Nothing was changed."
        ) from error
    config = load_flow(files).config
    if not flags.dry_run:
        allowed_to(config, "resetting a group", unlock=flags.unlock)
    request = ResetRequest(group, value, copy_from, pattern_of("--topic", topic), side)
    made, notes = plan_group_reset(config, request, files)
    print_notes(notes)

    def write() -> Applied:
        allowed = allowed_to(config, "resetting a group", unlock=flags.unlock)
        return apply_plan(config, made, made.files, allowed)

    change: Change[Applied] = Change(
        made.pipeline,
        effect_text(made, time.time()) if made.applied else "",
        show=lambda: show_plan(made),
        apply=write,
        report=show_applied,
        undo=lambda done: f"k2ktui undo {done.id}",
        as_json=lambda done: (
            dump_plan(made).rstrip() if flags.dry_run else result_object(made.pipeline, done)
        ),
        finish=lambda done: written_code(done) if made.applied else ExitCode.FINDINGS,
        side=side,
        nothing="Nothing to apply.",
        notes_nothing=True,
    )
    return run_change(change, flags)


@groups.command(
    name="delete",
    help="Delete a group on the target that has no members, or its offsets of some topics; undo "
    "commits them again.",
)
@change_options
@click.argument("group", metavar="GROUP")
@options.value("--topic", "REGEX", "Topics to include; the whole name must match.")
def delete(group: str, files: tuple[str, ...], topic: str | None, flags: ChangeFlags) -> int:
    """Show the offsets, confirm and delete; a partial result has its own exit code."""
    from k2ktui.sync.operations import delete_group, plan_deletion

    config = load_flow(files).config
    if not flags.dry_run:
        allowed_to(config, "deleting a group", unlock=flags.unlock)
    deletion = plan_deletion(config, group, pattern_of("--topic", topic))
    name, offsets = safe_text(group), counted(len(deletion.offsets), "committed offset")
    what = f"group {name} with {offsets}" if deletion.is_whole else f"{offsets} of group {name}"

    def write() -> Applied:
        allowed = allowed_to(config, "deleting a group", unlock=flags.unlock)
        return delete_group(config, deletion, files, allowed)

    change: Change[Applied] = Change(
        config.name,
        f"delete {what} on the target",
        show=lambda: print_table(f"To delete: {what}", DELETIONS, deletion.writes, most=MOST),
        apply=write,
        report=show_applied,
        undo=lambda done: f"k2ktui undo {done.id}",
        as_json=lambda done: (
            deletion_object(config.name, deletion)
            if flags.dry_run
            else result_object(config.name, done)
        ),
        finish=written_code,
    )
    return run_change(change, flags)


@click.command(help="Plan the offsets to commit on the target, without changing anything.")
@options.reading
@options.group
@options.topic
@options.choice(
    "--rewind",
    Rewind,
    "Action where the target's committed offset is ahead of the translation: never "
    "(keep it) or follow (commit the lower offset).",
    Rewind.NEVER,
)
@options.value(
    "--set rows_set",
    "'GROUP TOPIC:PARTITION=VALUE'",
    "A row to set instead of translating it (target topic and partition): an offset, an "
    "ISO-8601 time, earliest, latest, +N or -N from the proposed offset, or leave-out. Repeatable.",
    multiple=True,
)
@options.value("-o --output", "FILE", "File to write the plan to, for k2ktui apply.")
@options.flag("--csv as_csv", "Print CSV for kafka-consumer-groups --reset-offsets --from-file.")
@options.valid
def plan(
    files: tuple[str, ...],
    as_json: bool,
    group: str | None,
    topic: str | None,
    rewind: str,
    rows_set: tuple[str, ...],
    output: str | None,
    as_csv: bool,
    valid: int,
) -> int:
    """Take a snapshot, plan, and print or write it; findings if nothing can move."""
    from k2ktui.sync.moves.choices import parse_choices
    from k2ktui.sync.moves.plans import plan_options
    from k2ktui.sync.operations import create_plan

    if as_json and as_csv:
        raise ConfigError("--json and --csv cannot be combined")
    choices = parse_choices(rows_set)
    flow = load_flow(files)
    options = plan_options(
        flow.config,
        rewind=Rewind(rewind),
        valid_s=valid,
        group=pattern_of("--group", group),
        topic=pattern_of("--topic", topic),
        choices=choices,
    )
    pair = read_beside(flow.config)
    made = create_plan(flow, options, files)
    note_pair(flow.config, pair())
    print_notes(made.notes)
    if output:
        write_plan(output, dump_plan(made))
    if as_json:
        click.echo(dump_plan(made), nl=False)
    elif as_csv:
        # color=True keeps click from stripping escape sequences in names, for programs.
        click.echo(plan_csv(made, to_terminal=sys.stdout.isatty()), nl=False, color=True)
    else:
        show_plan(made)
    if output:
        where = safe_text(output)
        click.echo(f"Written to {where}; apply it with: k2ktui apply {where}", err=True)
    # Nothing can move where there is no row, or each of them is left out.
    is_stuck = all(row.action is Action.BLOCKED for row in made.rows)
    return ExitCode.FINDINGS if made.is_stopped_by_conflict or is_stuck else ExitCode.OK


def plan_csv(plan: Plan, *, to_terminal: bool) -> str:
    """Return the plan as CSV: raw names for a program, printable ones for a terminal."""
    text = to_csv(plan)
    if not to_terminal:
        return text
    return "".join(f"{safe_text(line)}\n" for line in text.split("\n")[:-1])


@click.command(help="Commit a plan's offsets on the target, after confirmation; undo reverts it.")
@click.argument("plan_file", metavar="PLAN")
@options.optional_file
@options.yes
@options.unlock
@options.json
@change_flags
def apply(plan_file: str, files: tuple[str, ...], flags: ChangeFlags) -> int:
    """Apply a plan; a partial result has its own exit code."""
    from k2ktui.sync.moves.plan_files import read_plan, require_trusted_files
    from k2ktui.sync.operations import apply_plan

    made = read_plan(Path(plan_file), time.time())
    if not files:  # nobody else chose their contents
        require_trusted_files(made, "k2ktui apply")
    config = load_flow(files or made.files).config
    allowed = allowed_to(config, "applying a plan", unlock=flags.unlock)
    chosen = made.files if made.applied and not files else ()
    change: Change[Applied] = Change(
        made.pipeline,
        effect_text(made, time.time()) if made.applied else "",
        show=lambda: show_plan(made),
        check=lambda: show_connections(chosen, config),
        apply=lambda: apply_plan(config, made, files or made.files, allowed),
        report=show_applied,
        undo=lambda done: f"k2ktui undo {done.id}",
        as_json=lambda done: result_object(config.name if done else made.pipeline, done),
        finish=written_code,
        side=made.side,
        nothing="Nothing to apply.",
        notes_nothing=True,
    )
    return run_change(change, flags)


@click.command(help="Undo a journal entry: restore the offsets that were committed before it.")
@click.argument("entry", metavar="ID")
@options.optional_file
@options.yes
@options.flag("--skip-moved", "Skip groups whose offsets have changed since.")
@options.unlock
@options.json
@change_flags
def undo(entry: str, files: tuple[str, ...], skip_moved: bool, flags: ChangeFlags) -> int:
    """Undo a journal entry; a partial result has its own exit code."""
    from k2ktui.sync.moves.entry_files import files_of
    from k2ktui.sync.operations import read_entry, undo_entry

    files = files or files_of(entry)
    config = load_flow(files).config
    allowed = allowed_to(config, "undoing a journal entry", unlock=flags.unlock)
    applied = read_entry(config, entry)
    writes, side, again = applied.reversal(), applied.header.side, applied.taken_back_by
    title = f"Changes that undo entry {safe_text(entry)}"
    change: Change[Applied] = Change(
        config.name,
        f"restore {counted(len(writes), 'offset')} on the {side}",
        show=lambda: print_table(title, WRITES, writes, most=MOST),
        check=lambda: note_undone(again),
        apply=lambda: undo_entry(config, applied, files, allowed, skip_moved=skip_moved),
        report=show_applied,
        as_json=lambda done: result_object(config.name, done),
        finish=written_code,
        side=side,
    )
    return run_change(change, flags)


@click.command(help="Translate and commit group offsets continuously, until SIGTERM or SIGINT.")
@options.file
@options.flag("--once", "Poll once, then exit.")
@options.choice(
    "--rewind",
    Rewind,
    "Action where a group moved back on the source: never (keep the target's offset) or "
    "follow (commit the lower offset). Offsets that it committed on the target itself "
    "are kept.",
    Rewind.NEVER,
)
@log_format_option("poll", "poll")
@options.flag("--json as_json", "The same as --log-format json.")
@options.telemetry
@options.unlock
@program_options
def sync(
    files: tuple[str, ...],
    once: bool,
    rewind: str,
    log_format: str,
    as_json: bool,
    telemetry: bool,
    unlock: bool,
    options: ProgramOptions,
) -> int:
    """Run the loop; with ``--once``, findings if groups were left alone or not moved."""
    from k2ktui.parity.watcher import watch_parity
    from k2ktui.runtime.log_lines import RunLog
    from k2ktui.sync.loop.poll_text import is_worth_reporting, poll_event, poll_lines
    from k2ktui.sync.loop.running import SyncReports, SyncRun

    flow = load_flow(files, templates=options.templates)
    allowed_to(flow.config, "translating continuously", unlock=unlock)
    log = RunLog()

    def report_note(note: str) -> None:
        log.print_error(note_text(note))

    def report_poll(poll: SyncPoll, always: bool) -> None:
        event = poll_event(poll)
        if as_json or log_format == "json":
            log.print(json.dumps(event))
            return
        for note in poll.notes:
            report_note(note)
        for failure in poll.failed:
            log.print_error(f"NOT COMMITTED {failure}")
        if always or is_worth_reporting(poll):
            log.print("\n".join(poll_lines(event)))

    run = SyncRun(
        flow,
        Rewind(rewind),
        SyncReports(report_note, report_poll),
        telemetry=telemetry,
        http=options.http,
        beside=watch_parity(flow.config, report_note, is_pipeline=flow.pipeline is not None),
    )
    seen = note_signals(run.stop)
    with log:
        findings = run.run(once=once)
    # As for `start`: who ends it knows from the log what was left alone.
    return ended_code(seen, ExitCode.FINDINGS if findings and not seen else ExitCode.OK)


@click.command(help="List applied and undone changes, or show one entry with its rows.")
@click.argument("entry", metavar="[ID]", required=False)
@options.optional_file
@options.json
def journal(entry: str | None, files: tuple[str, ...], as_json: bool) -> None:
    """Read the journal on the target and print it."""
    from k2ktui.sync.moves.entry_files import files_of, last_files
    from k2ktui.sync.operations import journal_json, read_entry, read_journal

    config = load_flow(files or (files_of(entry) if entry else last_files())).config
    if entry is not None:
        one = read_entry(config, entry)
        if as_json:
            print_json(one.as_json())
        else:
            print_table(f"Entry {safe_text(entry)}", entry_row_columns(), one.lines)
        return
    headers = read_journal(config)
    if as_json:
        print_json(journal_json(headers))
    else:
        print_table(f"Journal of {safe_text(config.name)}", journal_columns(headers), headers)


def journal_columns(headers: Sequence[JournalHeader]) -> tuple[Column[JournalHeader], ...]:
    """Return the columns of a table of these entries."""
    every = entry_columns(WORDS, {header.undoes for header in headers})
    return pick(every, "id", "when", "who", "operation", "state", "rows")


def show_plan(plan: Plan) -> None:
    """Print a plan, uncertain rows first, with a summary and remarks."""
    title = (
        f"Plan {plan.id} for {safe_text(plan.pipeline)}, made {moment(plan.created_at)}, "
        f"valid for {duration(plan.expires_at - plan.created_at)}"
    )
    if not plan.rows or any(row.source for row in plan.rows):
        title += f", of the commits of cluster {safe_text(plan.source_cluster) or 'unknown'}"
    print_table(title, PLAN_COLUMNS, uncertain_first(plan.rows), most=MOST)
    click.echo(summarize_plan(plan.rows).text())
    print_notes(plan_remarks(plan))


def effect_text(plan: Plan, now: float) -> str:
    """Return what applying a plan does, as the end of a question; ``now`` is in epoch seconds."""
    text = f"commit {counted(len(plan.changes), 'offset')} on the {plan.side}"
    if kept := len(plan.applied) - len(plan.changes):
        text += f" and leave {counted(kept, 'row')} as chosen"
    if plan.commits_at is None:
        return text
    age = duration(now - plan.commits_at)
    return f"{text}, from the source's commits of {moment(plan.commits_at)} ({age} ago)"


def result_object(pipeline: str, applied: Applied | None) -> dict[str, Any]:
    """Return what ``--json`` prints of an apply or an undo."""
    rows = (
        {
            "group": row.write.group,
            "topic": row.write.topic,
            "partition": row.write.partition,
            "before": row.write.before,
            "after": row.write.after,
            "outcome": str(row.outcome),
            "reason": row.reason,
        }
        for row in (applied.rows if applied else ())
    )
    return written_object(pipeline, applied, rows)


def deletion_object(pipeline: str, deletion: GroupDeletion) -> dict[str, Any]:
    """Return what ``--json`` prints of a deletion that is only shown."""
    return {
        "pipeline": pipeline,
        "group": deletion.group,
        "whole_group": deletion.is_whole,
        "rows": [
            {"topic": write.topic, "partition": write.partition, "before": write.before}
            for write in deletion.writes
        ],
    }


def show_applied(applied: Applied) -> None:
    """Print the results of writes to groups."""
    show_written(applied, RESULTS, applied.rows, lambda row: row.outcome)


def _result(row: WriteResult) -> str:
    return f"{row.outcome}: {safe_message(row.reason)}" if row.reason else str(row.outcome)


_PLACE: tuple[Column[OffsetWrite], ...] = (
    text_column("group", lambda write: safe_text(write.group), left=True),
    text_column("target partition", lambda w: safe_text(f"{w.topic}-{w.partition}"), left=True),
)
DELETIONS: tuple[Column[OffsetWrite], ...] = (
    *_PLACE,
    text_column("now", lambda write: number(write.before)),
)
WRITES: tuple[Column[OffsetWrite], ...] = (
    *_PLACE,
    text_column("now", lambda write: number(write.before)),
    text_column("restored", lambda write: number(write.after)),
)
RESULTS: tuple[Column[WriteResult], ...] = (
    *(column.of(lambda row: row.write) for column in _PLACE),
    text_column("before", lambda row: number(row.write.before)),
    text_column("after", lambda row: number(row.write.after)),
    text_column("result", _result, left=True),
)
