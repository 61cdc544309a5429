"""``k2ktui offsets show|set|clear|recover|acknowledge``: replicated positions on the target."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click

from k2ktui.cli.terminal.changes import ChangeFlags, change_options
from k2ktui.cli.terminal.confirm import confirm
from k2ktui.cli.terminal.notes import print_notes
from k2ktui.cli.terminal.options import (
    access_to,
    file_option,
    json_option,
    load_pipeline,
)
from k2ktui.cli.terminal.positions import (
    MOVES,
    ROWS,
    acknowledged_object,
    change_object,
    row_object,
    runner_object,
)
from k2ktui.cli.terminal.tables import note_pair, output, print_table
from k2ktui.config.scalars import parse_instant
from k2ktui.engine.access import require
from k2ktui.engine.drill.pair_state import PairState, find_pair_state
from k2ktui.engine.moves.journal import RunKind
from k2ktui.engine.moves.positions import MoveEffect
from k2ktui.engine.name_pattern import pattern_of
from k2ktui.engine.records.state import SourcePartition
from k2ktui.errors import ConfigError, ExitCode
from k2ktui.present.formatting import moment
from k2ktui.present.positions import sum_moves
from k2ktui.sync.moves.positions_text import parse_partitions, parse_positions
from k2ktui.text import counted, safe_text

if TYPE_CHECKING:
    from k2ktui.sync.moves.position_writer import PositionWriteResult
    from k2ktui.sync.moves.positions import PositionPlan, PositionPlanner

_UNCHANGED = "Nothing was changed."
_MARKS = ("earliest", "latest")


@click.group(name="offsets", help="Show, set, clear and recover a pipeline's source positions.")
def command() -> None:
    """Show and change positions on the target; the source is only read."""


def _change_options(function: Callable[..., Any]) -> Callable[..., Any]:
    topic = click.option(
        "--topic", metavar="REGEX", help="Source topics to include; the whole name must match."
    )
    return change_options(topic(function))


@command.command(name="show", help="Show each partition's position and log bounds.")
@file_option
@json_option
def show(files: tuple[str, ...], as_json: bool) -> None:
    """Read both clusters once and print."""
    from k2ktui.sync.moves.positions import PositionPlanner

    config = load_pipeline(files)
    positions = PositionPlanner(config)
    try:
        rows = positions.rows()
        state, unread = positions.state()
    finally:
        positions.close()
    notes = [note for note in (positions.source_down, unread) if note]
    pair = PairState(unread=unread) if unread else find_pair_state(state.drills.values())
    if not unread:
        note_pair(config, pair)
    print_notes(notes)
    now = time.time()
    if as_json:
        click.echo(
            json.dumps(
                {
                    "pipeline": config.name,
                    "taken_at": now,
                    "pair_state": pair.as_json(),
                    "notes": notes,
                    "runners": [runner_object(r, now) for r in state.runners],
                    "partitions": [row_object(row) for row in rows],
                }
            )
        )
        return
    print_table(f"Positions of {safe_text(config.name)} at {moment(now)}", ROWS, rows)
    for runner in state.runners:
        if runner.kind is RunKind.COPY and runner.alive(int(now * 1000)):
            click.echo(f"{runner.state} on {safe_text(runner.host)}, pid {runner.pid}", err=True)


@command.command(
    name="set",
    help="Set the positions given, or all with --to. Stop the pipeline first.",
)
@_change_options
@click.option(
    "--to",
    "to",
    metavar="WHERE",
    help="Position for all partitions: earliest, latest, an ISO-8601 time or epoch milliseconds.",
)
@click.argument("positions", nargs=-1, metavar="[TOPIC:PARTITION:OFFSET]...")
def set_(
    files: tuple[str, ...],
    positions: tuple[str, ...],
    to: str | None,
    topic: str | None,
    flags: ChangeFlags,
) -> int:
    """Plan the change, show it, ask for confirmation and apply it."""
    if bool(positions) == (to is not None):
        raise ConfigError(
            "give either positions or --to",
            unchanged=_UNCHANGED,
            hint="Such as orders:0:1200 for one partition, or --to earliest for all.",
        )
    if positions and topic is not None:
        raise ConfigError(
            "--topic needs --to and cannot be combined with single positions", unchanged=_UNCHANGED
        )
    wanted = parse_positions(positions)
    matches = pattern_of("--topic", topic)
    kind, at_ms = _place(to or "latest")
    return _run(
        files,
        lambda known: known.plan_set(wanted) if wanted else known.plan_to(matches, kind, at_ms),
        flags,
    )


@command.command(
    name="clear",
    help="Remove positions; the partitions then start as new ones. Stop the pipeline first.",
)
@_change_options
@click.argument("partitions", nargs=-1, metavar="[TOPIC[:PARTITION]]...")
def clear(
    files: tuple[str, ...],
    partitions: tuple[str, ...],
    topic: str | None,
    flags: ChangeFlags,
) -> int:
    """Plan the removal, show it, ask for confirmation and apply it."""
    is_chosen = _chooser(partitions, topic)
    chosen = parse_partitions(partitions)

    def plan(known: PositionPlanner) -> PositionPlan:
        change = known.plan_clear(is_chosen)
        _require_all_found(chosen, change)
        return change

    return _run(files, plan, flags)


@command.command(
    name="recover",
    help="Rebuild positions that the commit topic has lost, from mappings and both logs. Stop the "
    "pipeline first. Partitions whose position cannot be proven stay stopped.",
)
@change_options
def recover(files: tuple[str, ...], flags: ChangeFlags) -> int:
    """Plan the positions, show them, ask for confirmation, fence every run and write."""
    from k2ktui.sync.recovery import plan_to_recover

    return _run(files, lambda known: plan_to_recover(known.config), flags)


@command.command(
    name="acknowledge",
    help="Acknowledge topics that were deleted on the source before all records were copied. "
    "The pipeline may run.",
)
@_change_options
@click.argument("partitions", nargs=-1, metavar="[TOPIC[:PARTITION]]...")
def acknowledge(
    files: tuple[str, ...],
    partitions: tuple[str, ...],
    topic: str | None,
    flags: ChangeFlags,
) -> int:
    """Show what was not copied, ask for confirmation and record the acknowledgment."""
    from k2ktui.sync.moves.acknowledge import Acknowledgment, find_unacknowledged
    from k2ktui.sync.moves.acknowledge import acknowledge as record
    from k2ktui.sync.moves.positions import PositionPlanner

    is_chosen = _chooser(partitions, topic)
    config = load_pipeline(files)
    known = PositionPlanner(config)
    done = Acknowledgment()
    try:
        logs = find_unacknowledged(known, is_chosen)
        for log in logs if flags.shows_plan else ():
            click.echo(
                f"{safe_text(log.topic)}-{log.partition}: copied up to offset {log.offset:,}, "
                f"ended at offset {log.end:,}: {counted(log.lost, 'offset')} not copied",
                err=flags.as_json,
            )
        if logs and not flags.dry_run:
            may = access_to(config, unlock=flags.unlock)
            require(may, "acknowledging a deleted topic")
            what = f"acknowledge {counted(len(logs), 'partition')} of deleted topics"
            confirm(config.name, what, yes=flags.yes)
            done = record(config, known, logs, may)
    finally:
        known.close()
    if flags.as_json:
        click.echo(json.dumps(acknowledged_object(config.name, logs, done)))
    elif not logs:
        click.echo("Nothing to acknowledge.", err=True)
    elif flags.dry_run:
        click.echo("Nothing was changed (--dry-run).", err=True)
    else:
        entry = f", journal entry {done.entry}" if done.entry else ""
        click.echo(f"{counted(len(done.logs), 'partition')} acknowledged{entry}")
    print_notes(done.notes)
    return ExitCode.OK


def _chooser(partitions: tuple[str, ...], topic: str | None) -> Callable[[SourcePartition], bool]:
    """Return which partitions the arguments or ``--topic`` choose; at least one must be given."""
    if not partitions and topic is None:
        raise ConfigError(
            "give topics, partitions, or --topic",
            unchanged=_UNCHANGED,
            hint="Give one; --topic '.*' selects all partitions.",
        )
    chosen = parse_partitions(partitions)
    matches = pattern_of("--topic", topic) if topic is not None else lambda _: False

    def is_chosen(source: SourcePartition) -> bool:
        named = (source.topic, None) in chosen or (source.topic, source.partition) in chosen
        return named or matches(source.topic)

    return is_chosen


def _run(
    files: tuple[str, ...], plan: Callable[[PositionPlanner], PositionPlan], flags: ChangeFlags
) -> int:
    from k2ktui.sync.moves.position_writer import refuse_bad
    from k2ktui.sync.moves.positions import PositionPlanner
    from k2ktui.sync.recovery import RecoveryWriter

    config = load_pipeline(files)
    known = PositionPlanner(config)
    try:
        change = plan(known)
        show_change(change, flags)
        refuse_bad(change)
        if flags.dry_run or not change.changes:
            _print_result(change, None, flags)
            return _exit_code(change)
        may = access_to(config, unlock=flags.unlock)
        require(may, "changing positions")
        mover = RecoveryWriter(config, known)
        mover.require_stopped(change)
        verb = change.operation.removeprefix("offsets ")
        confirm(config.name, f"{verb} {counted(len(change.changes), 'position')}", yes=flags.yes)
        moved = mover.apply(change, may)
    finally:
        known.close()
    _print_result(change, moved, flags)
    return _exit_code(change)


def _exit_code(change: PositionPlan) -> int:
    """Return FINDINGS if an operator has to choose positions that could not be recovered."""
    is_partial = any(move.effect is MoveEffect.STOP for move in change.moves)
    return ExitCode.FINDINGS if is_partial else ExitCode.OK


def show_change(change: PositionPlan, flags: ChangeFlags) -> None:
    """Print a plan for positions and its notes."""
    if flags.shows_plan:
        name = safe_text(change.pipeline)
        console = output(stderr=flags.as_json)
        print_table(f"{change.operation} of {name}", MOVES, change.moves, console)
    print_notes(change.notes)
    if stopped := sum(move.effect is MoveEffect.STOP for move in change.moves):
        click.echo(
            f"Not proven: {counted(stopped, 'position')}. These partitions stay stopped until "
            "k2ktui offsets set or clear.",
            err=True,
        )
    again, left_out = sum_moves(change.moves)
    if again:
        click.echo(
            f"Copied again: up to {counted(again, 'record')}; they become duplicates unless "
            "the target topics are emptied first.",
            err=True,
        )
    if left_out:
        click.echo(
            f"Skipped: up to {counted(left_out, 'record')} that will never be copied.", err=True
        )


def _print_result(
    change: PositionPlan, moved: PositionWriteResult | None, flags: ChangeFlags
) -> None:
    if flags.as_json:
        click.echo(json.dumps(change_object(change, moved)))
    elif not change.changes:
        click.echo("Nothing to change.", err=True)
    elif moved is None:
        click.echo("Nothing was changed (--dry-run).", err=True)
    else:
        entry = f", journal entry {moved.entry}" if moved.entry else ""
        done = "written" if any(move.after for move in change.changes) else "removed"
        count = counted(len(change.changes), "position")
        click.echo(f"{count} {done}, term {moved.term}{entry}")
    print_notes(moved.notes if moved else ())


def _require_all_found(chosen: set[tuple[str, int | None]], change: PositionPlan) -> None:
    existing = {(m.source.topic, m.source.partition) for m in change.moves}
    there_too = {(topic, None) for topic, _ in existing}
    missing = sorted(
        topic if partition is None else f"{topic}:{partition}"
        for topic, partition in chosen - existing - there_too
    )
    if missing:
        raise ConfigError(
            f"no position exists for: {', '.join(safe_text(name) for name in missing)}",
            unchanged=_UNCHANGED,
            hint="List the positions with k2ktui offsets show -f FILE.",
        )


def _place(text: str) -> tuple[str, int | None]:
    if text in _MARKS:
        return text, None
    try:
        return "timestamp", parse_instant(text)
    except ValueError as error:
        raise ConfigError(
            f"--to: expected earliest, latest, {safe_text(error)}; found {safe_text(text)}",
            unchanged=_UNCHANGED,
        ) from error
