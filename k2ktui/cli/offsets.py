"""``k2ktui offsets``, ``hold`` and ``release``: where a pipeline copies, and what it does not."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import closing, redirect_stdout
from typing import TYPE_CHECKING, Any

import click

from k2ktui.cli.changes import Change, ChangeFlags, change_options, run_change
from k2ktui.cli.terminal import options
from k2ktui.cli.terminal.files import allowed_to, load_pipeline
from k2ktui.cli.terminal.notes import print_notes
from k2ktui.cli.terminal.tables import note_pair, print_json, print_table
from k2ktui.config.scalars import parse_instant
from k2ktui.engine.drill.pair_state import PairState, find_pair_state
from k2ktui.engine.moves.positions import MoveEffect
from k2ktui.engine.moves.positions_text import parse_partitions, parse_positions
from k2ktui.engine.name_pattern import pattern_of
from k2ktui.engine.records.hold import Hold, HoldKey
from k2ktui.engine.records.state import SourcePartition
from k2ktui.errors import ConfigError, ExitCode
from k2ktui.present.columns import Column, text_column
from k2ktui.present.formatting import NOT_AVAILABLE, WORDS, moment, number
from k2ktui.present.positions import move_columns, move_object, sum_moves
from k2ktui.text import counted, safe_text

if TYPE_CHECKING:
    from k2ktui.config.model import PipelineConfig
    from k2ktui.engine.access import Access
    from k2ktui.engine.deleted_logs import DeletedLog
    from k2ktui.engine.moves.journal import Runner
    from k2ktui.engine.moves.positions import PositionPlan
    from k2ktui.sync.holds import HoldChange
    from k2ktui.sync.positions.position_planner import PositionPlanner, PositionRow
    from k2ktui.sync.positions.position_writer import PositionWriteResult

_UNCHANGED = "Nothing was changed."
_NOT_DONE = "Nothing was changed (--dry-run)."
MOVES = move_columns(WORDS)


@click.group(help="Show, set, clear and recover a pipeline's source positions.")
def offsets() -> None:
    """Show and change positions on the target; the source is only read."""


@offsets.command(help="Show each partition's position and log bounds.")
@options.reading
def show(files: tuple[str, ...], as_json: bool) -> None:
    """Read both clusters once and print."""
    from k2ktui.engine.moves.journal import RunKind
    from k2ktui.sync.positions.position_planner import PositionPlanner

    config = load_pipeline(files)
    with closing(PositionPlanner(config)) as planner:
        rows = planner.rows()
        state, unread = planner.state()
    notes = [note for note in (planner.source_down, unread) if note]
    pair = PairState(unread=unread) if unread else find_pair_state(state.drills.values())
    if not unread:
        note_pair(config, pair)
    print_notes(notes)
    now = time.time()
    if as_json:
        shown = {
            "pipeline": config.name,
            "taken_at": now,
            "pair_state": pair.as_json(),
            "notes": notes,
            "runners": [_runner_object(runner, now) for runner in state.runners],
            "partitions": [_row_object(row) for row in rows],
        }
        print_json(shown)
        return
    print_table(f"Positions of {safe_text(config.name)} at {moment(now)}", ROWS, rows)
    for runner in state.runners:
        if runner.kind is RunKind.COPY and runner.alive(int(now * 1000)):
            click.echo(f"{runner.state} on {safe_text(runner.host)}, pid {runner.pid}", err=True)


@offsets.command(
    name="set", help="Set the positions given, or all with --to. Stop the pipeline first."
)
@change_options
@options.topic
@options.value(
    "--to",
    "WHERE",
    "Position for all partitions: earliest, latest, an ISO-8601 time or epoch milliseconds.",
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
    given = parse_positions(positions)
    matches = pattern_of("--topic", topic)
    place: str = to or "latest"
    at_ms: int | None = None
    if place not in ("earliest", "latest"):
        try:
            place, at_ms = "timestamp", parse_instant(place)
        except ValueError as error:
            raise ConfigError(
                f"--to: expected earliest, latest, {safe_text(error)}; found {safe_text(to)}",
                unchanged=_UNCHANGED,
            ) from error

    def plan(planner: PositionPlanner) -> PositionPlan:
        return planner.plan_set(given) if given else planner.plan_to(matches, place, at_ms)

    return _move(files, plan, flags)


@offsets.command(
    help="Remove positions; the partitions then start as new ones. Stop the pipeline first."
)
@change_options
@options.topic
@click.argument("partitions", nargs=-1, metavar="[TOPIC[:PARTITION]]...")
def clear(
    files: tuple[str, ...], partitions: tuple[str, ...], topic: str | None, flags: ChangeFlags
) -> int:
    """Plan the removal, show it, ask for confirmation and apply it."""
    is_chosen = _chooser(partitions, topic)

    def plan(planner: PositionPlanner) -> PositionPlan:
        change = planner.plan_clear(is_chosen)
        existing = {(move.source.topic, move.source.partition) for move in change.moves}
        topics = {(topic, None) for topic, _ in existing}
        missing = sorted(
            name if partition is None else f"{name}:{partition}"
            for name, partition in parse_partitions(partitions) - existing - topics
        )
        if missing:
            raise ConfigError(
                f"no position exists for: {', '.join(map(safe_text, missing))}",
                unchanged=_UNCHANGED,
                hint="List the positions with k2ktui offsets show -f FILE.",
            )
        return change

    return _move(files, plan, flags)


@offsets.command(
    help="Rebuild positions that the commit topic has lost, from mappings and both logs. Stop the "
    "pipeline first. Partitions whose position cannot be proven stay stopped.",
)
@change_options
def recover(files: tuple[str, ...], flags: ChangeFlags) -> int:
    """Plan the positions, show them, ask for confirmation, fence every run and write."""
    from k2ktui.sync.positions.recovery import plan_to_recover

    return _move(files, lambda planner: plan_to_recover(planner.config), flags)


def _chooser(partitions: Sequence[str], topic: str | None) -> Callable[[SourcePartition], bool]:
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


def _move(
    files: tuple[str, ...], plan: Callable[[PositionPlanner], PositionPlan], flags: ChangeFlags
) -> int:
    """Change positions; findings if an operator has to choose some that were not recovered."""
    from k2ktui.sync.positions.position_planner import PositionPlanner
    from k2ktui.sync.positions.position_writer import PositionWriter, refuse_bad

    def allow() -> Access:
        return allowed_to(config, "changing positions", unlock=flags.unlock)

    def require_stopped() -> None:
        allow()
        writer.require_stopped(change)

    def check() -> None:
        note_moves(change)
        refuse_bad(change)

    def report(moved: PositionWriteResult) -> None:
        done = "written" if any(move.after for move in change.changes) else "removed"
        click.echo(f"{count} {done}, term {moved.term}{_entry(moved.entry)}")

    def finish(moved: PositionWriteResult | None) -> int:
        print_notes(moved.notes if moved else ())
        return ExitCode.FINDINGS if _count_stopped(change) else ExitCode.OK

    config = load_pipeline(files)
    with closing(PositionPlanner(config)) as planner:
        change = plan(planner)
        writer, count = PositionWriter(planner), counted(len(change.changes), "position")
        declared: Change[PositionWriteResult] = Change(
            config.name,
            f"{change.operation.removeprefix('offsets ')} {count}" if change.changes else "",
            show=lambda: show_moves(change),
            check=check,
            allow=require_stopped,
            apply=lambda: writer.apply(change, allow()),
            report=report,
            as_json=lambda moved: moves_object(change, moved),
            finish=finish,
            not_done=_NOT_DONE,
        )
        return run_change(declared, flags)


def accept_clusters(
    config: PipelineConfig, ids: tuple[str, ...], allowed: Access, *, yes: bool
) -> None:
    """Plan the acceptance of clusters that were restored from a backup, and record it if confirmed.

    Raises:
        ConfigError: ``--yes`` without ids.
        Refused: no cluster was restored under these ids, the pipeline runs, or not confirmed.
        PartlyApplied, ConnectionFailed, TimedOut: as for ``PositionWriter.apply``.
    """
    from k2ktui.sync.positions.cluster_acceptance import plan_to_accept
    from k2ktui.sync.positions.position_planner import PositionPlanner
    from k2ktui.sync.positions.position_writer import PositionWriter

    if not ids:
        raise ConfigError(
            "--yes confirms --accept-cluster, which is not given", unchanged="Nothing was started."
        )
    with closing(PositionPlanner(config)) as planner, redirect_stdout(sys.stderr):
        writer = PositionWriter(planner)
        writer.refuse_running()
        change = plan_to_accept(config, ids)
        accepted = ", ".join(
            f"the {side} cluster {safe_text(now)} in place of {safe_text(former)}"
            for side, former, now in change.recorded.find_changed(change.accepted)
        )
        stopped = _count_stopped(change)
        effect = f"accept {accepted} ({counted(len(change.moves) - stopped, 'partition')})"
        effect += f" and stop {counted(stopped, 'partition')}" if stopped else ""
        title = f"{change.operation}: {safe_text(config.name)}"

        def report(done: PositionWriteResult) -> None:
            click.echo(f"done: {effect}, term {done.term}{_entry(done.entry)}")
            print_notes(done.notes)

        declared: Change[PositionWriteResult] = Change(
            config.name,
            effect,
            show=lambda: print_table(title, MOVES, change.moves),
            apply=lambda: writer.apply(change, allowed),
            report=report,
            as_json=lambda moved: moves_object(change, moved),
        )
        run_change(declared, ChangeFlags(yes=yes))


def show_moves(change: PositionPlan) -> None:
    """Print a plan for positions."""
    print_table(f"{change.operation} of {safe_text(change.pipeline)}", MOVES, change.moves)


def note_moves(change: PositionPlan) -> None:
    """Print the notes on a plan for positions, and what it costs."""
    print_notes(change.notes)
    again, left_out = sum_moves(change.moves)
    if stopped := _count_stopped(change):
        click.echo(
            f"Not proven: {counted(stopped, 'position')}. These partitions stay stopped until "
            "k2ktui offsets set or clear.",
            err=True,
        )
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


def _count_stopped(change: PositionPlan) -> int:
    return sum(move.effect is MoveEffect.STOP for move in change.moves)


def _entry(entry: str) -> str:
    return f", journal entry {entry}" if entry else ""


@offsets.command(
    help="Acknowledge topics that were deleted on the source before all records were copied. "
    "The pipeline may run.",
)
@change_options
@options.topic
@click.argument("partitions", nargs=-1, metavar="[TOPIC[:PARTITION]]...")
def acknowledge(
    files: tuple[str, ...], partitions: tuple[str, ...], topic: str | None, flags: ChangeFlags
) -> int:
    """Show what was not copied, ask for confirmation and record the acknowledgment."""
    from k2ktui.sync.positions.acknowledge import acknowledge as record
    from k2ktui.sync.positions.acknowledge import find_unacknowledged
    from k2ktui.sync.positions.position_planner import PositionPlanner

    def allow() -> Access:
        return allowed_to(config, "acknowledging a deleted topic", unlock=flags.unlock)

    def show() -> None:
        for log in logs:
            click.echo(
                f"{safe_text(log.topic)}-{log.partition}: copied up to offset {log.offset:,}, "
                f"ended at offset {log.end:,}: {counted(log.lost, 'offset')} not copied"
            )

    def report(done: PositionWriteResult) -> None:
        click.echo(f"{counted(done.count, 'partition')} acknowledged{_entry(done.entry)}")

    def finish(done: PositionWriteResult | None) -> int:
        print_notes(done.notes if done else ())
        return ExitCode.OK

    is_chosen = _chooser(partitions, topic)
    config = load_pipeline(files)
    with closing(PositionPlanner(config)) as planner:
        logs = find_unacknowledged(planner, is_chosen)
        count = counted(len(logs), "partition")
        declared: Change[PositionWriteResult] = Change(
            config.name,
            f"acknowledge {count} of deleted topics" if logs else "",
            show=show,
            allow=allow,
            apply=lambda: record(planner, logs, allow()),
            report=report,
            as_json=lambda done: acknowledged_object(config.name, logs, done),
            finish=finish,
            nothing="Nothing to acknowledge.",
            not_done=_NOT_DONE,
        )
        return run_change(declared, flags)


_why_option = options.value("--why", "TEXT", "Reason, for the journal and the views.", default="")


@click.command(
    help="Stop copying topics or partitions until k2ktui release; their positions stay. "
    "The pipeline may run. Without names, list what is held.",
)
@change_options
@_why_option
@click.argument("names", nargs=-1, metavar="[TOPIC[:PARTITION]]...")
def hold(files: tuple[str, ...], names: tuple[str, ...], why: str, flags: ChangeFlags) -> int:
    """Show what is held, ask for confirmation and write it; or list what is held now."""
    from k2ktui.sync.holds import plan_hold, read_holds

    config, keys = load_pipeline(files), _hold_keys(names)
    if keys:
        return _change_holds(config, plan_hold(config, keys, why), flags)
    holds = read_holds(config)
    if flags.as_json:
        rows = [_hold_object(hold) for hold in holds.all]
        print_json({"pipeline": config.name, "holds": rows})
        return ExitCode.OK
    for one in holds.all:
        click.echo(f"{safe_text(one.key.name)}: {safe_text(one.describe())}")
    if not holds:
        click.echo("Nothing is held.", err=True)
    return ExitCode.OK


@click.command(
    help="Copy held topics or partitions again, from where they were held. Needs the target only.",
)
@change_options
@_why_option
@click.argument("names", nargs=-1, required=True, metavar="TOPIC[:PARTITION]...")
def release(files: tuple[str, ...], names: tuple[str, ...], why: str, flags: ChangeFlags) -> int:
    """Show what is released, ask for confirmation and remove the holds."""
    from k2ktui.sync.holds import plan_release

    config = load_pipeline(files)
    return _change_holds(config, plan_release(config, _hold_keys(names), why), flags)


def _hold_keys(words: tuple[str, ...]) -> list[HoldKey]:
    return [HoldKey(topic, partition) for topic, partition in parse_partitions(words)]


def _change_holds(config: PipelineConfig, change: HoldChange, flags: ChangeFlags) -> int:
    from k2ktui.present.holds import change_text
    from k2ktui.sync.holds import write_change

    def allow() -> Access:
        action = "holding a topic" if change.is_hold else "releasing a topic"
        return allowed_to(config, action, unlock=flags.unlock)

    def show() -> None:
        for one in change.holds:
            click.echo(f"{change.operation} {change_text(one, change)}")

    def report(done: HoldChange) -> None:
        names = ", ".join(safe_text(one.key.name) for one in done.holds)
        verb = "held" if done.is_hold else "released"
        click.echo(f"{names}: {verb}, journal entry {done.entry}")

    count = len(change.holds)
    what = "1 topic or partition" if count == 1 else f"{count:,} topics or partitions"
    declared: Change[HoldChange] = Change(
        config.name,
        f"{change.operation} {what}" if change.holds else "",
        show=show,
        check=lambda: print_notes(change.notes),
        allow=allow,
        apply=lambda: write_change(config, change, allow()),
        report=report,
        as_json=lambda done: holds_object(config.name, done or change),
        nothing=f"Nothing to {change.operation}.",
        not_done=_NOT_DONE,
    )
    return run_change(declared, flags)


def _runner_object(runner: Runner, now: float) -> dict[str, Any]:
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


def _row_object(row: PositionRow) -> dict[str, Any]:
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


def moves_object(change: PositionPlan, moved: PositionWriteResult | None) -> dict[str, Any]:
    """Return a plan and its result as ``--json`` prints them; ``moved`` None: not applied."""
    return {
        "pipeline": change.pipeline,
        "operation": change.operation,
        "applied": moved is not None,
        "term": moved.term if moved else None,
        "id": (moved.entry if moved else "") or None,
        "notes": [*change.notes, *(moved.notes if moved else ())],
        "moves": [{**move_object(move), "reason": move.why} for move in change.moves],
    }


def acknowledged_object(
    pipeline: str, logs: Iterable[DeletedLog], done: PositionWriteResult | None
) -> dict[str, Any]:
    """Return deleted logs and what was acknowledged of them as ``--json`` prints it."""
    return {
        "pipeline": pipeline,
        "operation": "offsets acknowledge",
        "applied": bool(done and done.count),
        "id": (done.entry if done else "") or None,
        "notes": list(done.notes if done else ()),
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


def holds_object(pipeline: str, change: HoldChange) -> dict[str, Any]:
    """Return a change of holds as ``--json`` prints it."""
    return {
        "pipeline": pipeline,
        "operation": change.operation,
        "applied": bool(change.entry),
        "id": change.entry or None,
        "notes": list(change.notes),
        "holds": [
            {
                **_hold_object(one),
                "positions": [
                    [at.partition, position.offset]
                    for at, position in change.positions
                    if one.key.covers(at)
                ],
            }
            for one in change.holds
        ],
    }


def _hold_object(hold: Hold) -> dict[str, Any]:
    """Return a hold as ``--json`` prints it; the partition of a whole topic is null."""
    return {
        "topic": hold.topic,
        "partition": hold.partition,
        "who": hold.who,
        "held_at": hold.at_ms / 1000,
        "reason": hold.why,
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
