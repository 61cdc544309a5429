"""``k2ktui mm2``: import, audit and correct MirrorMaker 2, take over from it, publish for it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import closing
from dataclasses import asdict
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Any

import click

from k2ktui.cli import mm2_offsets
from k2ktui.cli.changes import (
    Change,
    ChangeFlags,
    change_flags,
    run_change,
    write_plan,
    written_code,
)
from k2ktui.cli.check import check_text
from k2ktui.cli.mm2_offsets import MIRROR_HELP, positions_of, where_options
from k2ktui.cli.terminal import options
from k2ktui.cli.terminal.files import (
    access_to,
    allowed_to,
    load_flow,
    load_flow_and_notes,
    load_pipeline,
    require_new,
    write_new,
)
from k2ktui.cli.terminal.notes import print_note, print_notes
from k2ktui.cli.terminal.streams import ended_code, note_signals
from k2ktui.cli.terminal.tables import print_json, print_table
from k2ktui.config.inputs import absolute_files
from k2ktui.engine.name_pattern import pattern_of
from k2ktui.errors import (
    REFUSALS,
    ClusterRefused,
    ConfigError,
    ConnectionFailed,
    ExitCode,
    K2kError,
    Refused,
    TimedOut,
)
from k2ktui.present.columns import Column, text_column
from k2ktui.present.formatting import moment, number
from k2ktui.text import counted, safe_message, safe_text

if TYPE_CHECKING:
    from k2ktui.mm2.publish import Published
    from k2ktui.mm2.takeover.plan import TakeoverPlan, TakeoverRow
    from k2ktui.sync.moves.apply import Applied
    from k2ktui.sync.positions.position_writer import PositionWriteResult

_UNCHANGED = "Nothing was changed."
_MIN_INTERVAL_S = 0.5
_REFUSED_PAUSE_S = 30.0
_OUTAGES: tuple[type[K2kError], ...] = (ConnectionFailed, TimedOut)
_AUDITED = "Show what groups would read again or skip after a failover now."
# Not imported from k2ktui.mm2.checkpoints.plan and k2ktui.engine.moves.plan, which load numpy.
REQUIRED = (
    "consumers-stopped",
    "producers-stopped",
    "everything-replicated",
    "topics-of-their-own",
)
REWINDS = ("never", "follow")


@click.group(cls=options.Group)
def mm2() -> None:
    """Import, audit and correct MirrorMaker 2 flows."""


mm2.add_command(mm2_offsets.offsets)


@mm2.command(
    name="import",
    short_help="Convert a file of MirrorMaker 2 to a pipeline file.",
    help="Convert mm2.properties, a Strimzi resource or a connector's JSON to a pipeline file; "
    "notes name the counterparts of settings that are not carried over.",
)
@click.argument("file", metavar="FILE[#A->B]", default="")
@options.value("-f --file named", "FILE", "The same as FILE.", default="")
@options.value("-o --output", "FILE", "File to write to (default: standard output).")
@options.flag("--json as_json", "Print the file and the notes as JSON.")
def import_(file: str, named: str, output: str | None, as_json: bool) -> None:
    """Read the file, print or write the pipeline, and print notes to stderr."""
    from k2ktui.mm2.importing.pipeline_file import import_file

    if bool(file) == bool(named):
        raise ConfigError(
            "give one file of MirrorMaker 2" + (", not two" if file else ""),
            unchanged="Nothing was done.",
            hint="k2ktui mm2 import FILE, or -f FILE; FILE#A->B selects one flow.",
        )
    imported = import_file(file or named)
    if output is not None:
        write_new(Path(output), imported.text)
    if as_json:
        print_json({"file": output, "text": imported.text, "notes": list(imported.notes)})
        return
    print_notes(imported.notes)
    if output is None:
        click.echo(imported.text, nl=False)
    else:
        name = safe_text(output)
        click.echo(f"{name} was written. Next: k2ktui config validate -f {name}", err=True)


@mm2.command(
    short_help=_AUDITED,
    help="Show what each consumer group would read again or skip after a failover now, with "
    "MirrorMaker 2's checkpoints and with what it has committed. Needs no pipeline; both clusters "
    "are only read.",
)
@options.value("-f --file files", "FILE", MIRROR_HELP, multiple=True, required=True)
@options.value(
    "--html",
    "FILE",
    "New file to write the audit to, too, as one HTML page.",
    type=click.Path(path_type=Path),
)
@options.json
def audit(files: tuple[str, ...], html: Path | None, as_json: bool) -> int:
    """Read both clusters once and print; findings if a group would not resume where it was."""
    from k2ktui.mm2.audit import audit as audit_flow
    from k2ktui.present.audits import (
        audit_columns,
        audit_group_columns,
        group_audits,
        make_audit_report,
        summarize_audit,
    )

    if html is not None:
        require_new(html)
    flow, notes = load_flow_and_notes(files)
    result = audit_flow(flow)
    if as_json:
        print_json(result.as_json())
    else:
        print_notes(result.notes)
        title = f"MirrorMaker 2 {safe_text(result.flow)} at {moment(result.taken_at)}"
        print_table(title, audit_columns(), result.rows)
        if result.rows:
            print_table("Groups", audit_group_columns(), group_audits(result))
        click.echo(summarize_audit(result))
        if result.is_wrong:
            print_note(f"Move groups exactly: k2ktui plan -f {quote(safe_text(files[-1]))}")
    if html is not None:
        from k2ktui.drill.report_html import render_html

        write_new(html, render_html(make_audit_report(result, notes)))
        print_note(f"The page is in {safe_text(html)}.")
    return ExitCode.FINDINGS if result.is_wrong else ExitCode.OK


@mm2.command(short_help="Commit MirrorMaker 2's checkpoints once, after checking them.")
@options.value("-f --file", "FILE", MIRROR_HELP, required=True)
@options.value("--group", "REGEX", "Groups to include; the whole name must match.", default=".*")
@options.value(
    "--topic", "REGEX", "Source topics to include; the whole name must match.", default=".*"
)
@options.seconds("--watch", 5.0, "Time in seconds without new source records before committing.")
@options.choice(
    "--rewind",
    REWINDS,
    "Action where the target's committed offset is ahead of the checkpoint: never (keep "
    "it) or follow (commit the lower offset).",
    "never",
)
@options.choice(
    "--accept accepted",
    REQUIRED,
    "Check whose failure is accepted; may be repeated.",
    multiple=True,
)
@options.value("-o --output", "FILE", "File to write the plan to.")
@options.flag("--dry-run", "Show the checks and the plan without changing anything.")
@options.yes
@options.json
@change_flags
def apply_checkpoints(
    file: str,
    group: str,
    topic: str,
    watch: float,
    rewind: str,
    accepted: Sequence[str],
    output: str | None,
    flags: ChangeFlags,
) -> int:
    """Commit MirrorMaker 2's checkpoints of the groups that move now.

    Reads the checkpoints topic once, checks the preconditions, shows a plan, asks for confirmation,
    commits the offsets on the target and reads them back. k2ktui undo reverts it.
    """
    from k2ktui.cli.groups import result_object, show_applied, show_plan
    from k2ktui.engine.moves.plan import Rewind, dump_plan
    from k2ktui.mm2.checkpoints.plan import (
        CONSUMERS_STOPPED,
        PRODUCERS_STOPPED,
        checks,
        make_plan,
        standing_in_the_way,
    )
    from k2ktui.mm2.checkpoints.reader import CheckpointReader, read_checkpoints
    from k2ktui.mm2.mirror_flow import load_mirror
    from k2ktui.sync.moves.plans import whoami
    from k2ktui.sync.operations import apply_plan

    flow, notes = load_mirror(file)
    chosen = pattern_of("--group", group), pattern_of("--topic", topic)
    path, mark, name = file.partition("#")
    with closing(CheckpointReader(flow)) as reader:
        checkpoints, unreadable = read_checkpoints(flow.properties, reader.target.cluster)
        seen = reader.observe(checkpoints, *chosen, watch)
        files = tuple(f"{one}{mark}{name}" for one in absolute_files([path]))
        plan = make_plan(seen, rewind=Rewind(rewind), valid_s=900.0, made_by=whoami(), files=files)
        judged = checks(seen)
        blocking = standing_in_the_way(judged, accepted)
        if unreadable:
            notes += (
                f"{unreadable:,} records of the checkpoints topic are not in "
                "MirrorMaker 2's format and were ignored",
            )
        print_notes(notes)
        if output:
            write_plan(output, dump_plan(plan))

        def show() -> None:
            for check in judged:
                click.echo(check_text(check))
            show_plan(plan)

        def apply() -> Applied:
            """Apply the plan, if the source was neither written to nor consumed since then."""
            grown = reader.find_grown(seen)
            if grown and PRODUCERS_STOPPED not in accepted:
                raise Refused(
                    f"{safe_text(min(grown))} has received records since the check: its producers "
                    "have not stopped",
                    unchanged=_UNCHANGED,
                    hint="Stop the producers, then repeat the command.",
                )
            consuming = reader.find_consuming(seen)
            if consuming and CONSUMERS_STOPPED not in accepted:
                raise Refused(
                    f"group {safe_text(min(consuming))} has been used on the source since the "
                    "check: its consumers have not stopped",
                    unchanged=_UNCHANGED,
                    hint="Stop the consumers there, then repeat the command.",
                )
            return apply_plan(flow.config, plan, plan.files, access_to(flow.config, unlock=False))

        def as_json(applied: Applied | None) -> dict[str, Any]:
            return {
                "pipeline": plan.pipeline,
                "checks": [asdict(check) for check in judged],
                "plan": json.loads(dump_plan(plan)),
                "blocking": [check.name for check in blocking],
                "applied": applied is not None,
                "result": result_object(plan.pipeline, applied) if applied else None,
            }

        def finish(applied: Applied | None) -> int:
            if applied or not blocking:
                return written_code(applied)
            names = " ".join(f"--accept {check.name}" for check in blocking)
            print_note(
                f"nothing was changed; fix the failed checks, or accept their risk with: {names}"
            )
            return ExitCode.REFUSED

        effect = f"commit {counted(len(plan.changes), 'offset')} on the target"
        change: Change[Applied] = Change(
            plan.pipeline,
            effect if plan.changes and not blocking else "",
            show=show,
            apply=apply,
            report=show_applied,
            undo=lambda done: f"k2ktui undo {done.id}",
            as_json=as_json,
            finish=finish,
            nothing="" if plan.changes else "Nothing to apply.",
        )
        return run_change(change, flags)


@mm2.command(short_help="Take over from a stopped MirrorMaker 2 on its target topics.")
@options.file
@where_options("--from", "mirror")
@options.number(
    "--span",
    "OFFSETS",
    1000,
    100_000,
    "Number of offsets per target partition, counted back from its end, whose mapping is rebuilt.",
)
@options.flag("--accept-unproven", "Take over partitions whose position is not proven.")
@options.flag("--dry-run", "Show the plan without changing anything.")
@options.yes
@options.unlock
@options.json
@change_flags
def takeover(
    files: tuple[str, ...], span: int, accept_unproven: bool, flags: ChangeFlags, **where: str
) -> int:
    """Take over from a stopped MirrorMaker 2 on its target topics.

    The records on the target prove how far MirrorMaker 2 has copied. Their mapping is rebuilt, so
    that consumer groups translate exactly. Start the pipeline afterwards: no record is copied twice
    or left out. Never start that MirrorMaker 2 again.
    """
    from k2ktui.kafka.clients import target_cluster
    from k2ktui.mm2.takeover.plan import TakeoverPlanner
    from k2ktui.mm2.takeover.write import require_new, take_over

    config = load_pipeline(files)
    mirror = positions_of(**where)
    if not flags.dry_run:
        allowed_to(config, "taking over", unlock=flags.unlock)
    require_new(config, target_cluster(config))
    plan = TakeoverPlanner(config, mirror, span).plan()
    doubtful = plan.doubtful and not accept_unproven
    count = counted(len(plan.rows), "partition")

    def show() -> None:
        title = f"{safe_text(plan.pipeline)} takes over {safe_text(plan.flow)}"
        print_table(title, TAKEOVER_COLUMNS, sorted(plan.rows, key=lambda row: not row.doubt))
        mapped = sum(row.mapped for row in plan.rows)
        past = sum(row.past for row in plan.rows)
        click.echo(
            f"{count}, {counted(mapped, 'record')} mapped exactly; {counted(past, 'offset')} "
            "beyond MirrorMaker 2's stored positions are already on the target and are not "
            "copied again"
        )

    def finish(done: PositionWriteResult | None) -> int:
        print_notes((*plan.notes, *(done.notes if done else ())))
        if done:
            click.echo(f"Taken over in term {done.term}. Next: k2ktui start -f FILE", err=True)
        elif doubtful:
            print_note(
                "nothing was changed; the position is not proven for "
                f"{counted(len(plan.doubtful), 'partition')} (--accept-unproven accepts the "
                "positions shown)"
            )
            return ExitCode.REFUSED
        elif not plan.rows:
            click.echo("Nothing to take over.", err=True)
        return ExitCode.OK

    change: Change[PositionWriteResult] = Change(
        config.name,
        f"write positions of {count}" if plan.rows and not doubtful else "",
        show=show,
        apply=lambda: take_over(config, mirror, plan, access_to(config, unlock=flags.unlock)),
        report=lambda _: None,
        as_json=lambda done: _takeover_object(plan, done),
        finish=finish,
        nothing="",
    )
    return run_change(change, flags)


def _takeover_object(plan: TakeoverPlan, done: PositionWriteResult | None) -> dict[str, Any]:
    return {
        "pipeline": plan.pipeline,
        "flow": plan.flow,
        "applied": done is not None,
        "term": done.term if done else None,
        "id": (done.entry if done else "") or None,
        "notes": [*plan.notes, *(done.notes if done else ())],
        "partitions": [
            {
                "topic": row.source.topic,
                "partition": row.source.partition,
                "target_topic": row.target[0],
                "target_partition": row.target[1],
                "target_end": row.end,
                "stored": row.stored,
                "position": row.position,
                "exact_from": row.start,
                "mapped": row.mapped,
                "from_syncs": len(row.from_syncs),
                "missing": row.missing,
                "twice": row.twice,
                "strange": row.strange,
                "doubt": row.doubt,
            }
            for row in plan.rows
        ],
    }


def _remarks(row: TakeoverRow) -> str:
    counts = {
        "not on the target": row.missing,
        "twice on the target": row.twice,
        "not on the source": row.strange,
    }
    parts = [row.doubt, *(f"{count:,} {what}" for what, count in counts.items() if count)]
    return safe_message("; ".join(filter(None, parts)))


TAKEOVER_COLUMNS: tuple[Column[TakeoverRow], ...] = (
    text_column("topic-partition", lambda row: safe_text(row.source), left=True),
    text_column("target", lambda row: safe_text(f"{row.target[0]}-{row.target[1]}"), left=True),
    text_column("stored", lambda row: number(row.stored)),
    text_column("continues at", lambda row: number(row.position)),
    text_column("exact from", lambda row: number(row.start)),
    text_column("mapped", lambda row: number(row.mapped)),
    text_column("from syncs", lambda row: number(len(row.from_syncs)), wide=True),
    text_column("remarks", _remarks, left=True),
)


@mm2.command(
    short_help="Publish a pipeline's checkpoints and heartbeats in MirrorMaker 2's format.",
    help="Publish checkpoints, heartbeats and offset-syncs in MirrorMaker 2's format on the "
    "target, until SIGTERM or SIGINT.",
)
@options.file
@click.option("--source-alias", help="Alias of the source cluster.  [default: mm2.sourceAlias]")
@click.option("--target-alias", help="Alias of the target cluster.  [default: mm2.targetAlias]")
@click.option(
    "--separator",
    help="Separator in remote topic names "
    "(replication.policy.separator).  [default: mm2.separator]",
)
@options.value(
    "--interval",
    "SECONDS",
    f"Publishing interval in seconds (minimum {_MIN_INTERVAL_S:g}).  [default: mm2.interval]",
    type=float,
    callback=options.range_check(_MIN_INTERVAL_S),
)
@options.flag("--once", "Publish once, then exit.")
@options.flag("--force", "Write even if MirrorMaker 2's topics of this alias exist on the target.")
@click.option("--even-so", "force", is_flag=True, hidden=True)
@options.unlock
@options.json
def publish(
    files: tuple[str, ...],
    source_alias: str | None,
    target_alias: str | None,
    separator: str | None,
    interval: float | None,
    once: bool,
    force: bool,
    unlock: bool,
    as_json: bool,
) -> int:
    """Publish repeatedly until a signal, or once."""
    from k2ktui.mm2.publish import MirrorNames, Publisher
    from k2ktui.runtime.stop_flag import StopFlag

    over = StopFlag()
    flow = load_flow(files)
    allowed_to(flow.config, "publishing", unlock=unlock)
    chosen = flow.config.mm2
    names = MirrorNames(
        source_alias or chosen.source_alias,
        target_alias or chosen.target_alias,
        chosen.separator if separator is None else separator,
    )
    publisher = Publisher(flow, names, force=force or chosen.force)
    seen = note_signals(over.set)
    forgiven = () if once else _OUTAGES
    try:
        while not over.is_set():
            pause_s = interval or chosen.interval_s
            try:
                _print_published(publisher.turn(), as_json=as_json)
            except forgiven as error:
                print_note(f"{error.message}; retrying")
                if isinstance(error, REFUSALS):
                    pause_s = max(pause_s, _REFUSED_PAUSE_S)
            else:
                # From now on, a right may be taken away for a while.
                forgiven = () if once else (*_OUTAGES, ClusterRefused)
            if once:
                break
            over.wait(pause_s)
    finally:
        publisher.close()
    return ended_code(seen)


def _print_published(done: Published, *, as_json: bool) -> None:
    if as_json:
        print_json(asdict(done))
    elif done.checkpoints or done.offset_syncs:
        left = f"; {done.left_out} group-partitions have no position" if done.left_out else ""
        syncs = counted(done.offset_syncs, "offset-sync")
        click.echo(f"{counted(done.checkpoints, 'checkpoint')}, {syncs}{left}")
