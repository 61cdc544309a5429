"""``k2ktui mm2 takeover``: a pipeline continues where a stopped MirrorMaker 2 ended."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import click

from k2ktui.cli.mm2.where import positions_of, where_options
from k2ktui.cli.terminal.confirm import confirm
from k2ktui.cli.terminal.notes import print_notes
from k2ktui.cli.terminal.options import (
    access_to,
    file_option,
    json_option,
    load_pipeline,
    unlock_option,
)
from k2ktui.cli.terminal.tables import print_table
from k2ktui.errors import ExitCode
from k2ktui.present.columns import Column, text_column
from k2ktui.present.formatting import number
from k2ktui.text import counted, safe_message, safe_text

if TYPE_CHECKING:
    from k2ktui.mm2.takeover.plan import TakeoverPlan, TakeoverRow
    from k2ktui.mm2.takeover.write import TakenOver


@click.command()
@file_option
@where_options("--from", "mirror")
@click.option(
    "--span",
    type=click.IntRange(min=1000),
    default=100_000,
    show_default=True,
    metavar="OFFSETS",
    help="Number of offsets per target partition, counted back from its end, whose mapping "
    "is rebuilt.",
)
@click.option(
    "--accept-unproven", is_flag=True, help="Take over partitions whose position is not proven."
)
@click.option("--dry-run", is_flag=True, help="Show the plan without changing anything.")
@click.option("--yes", is_flag=True, help="Skip the confirmation.")
@unlock_option
@json_option
def command(
    files: tuple[str, ...],
    span: int,
    accept_unproven: bool,
    dry_run: bool,
    yes: bool,
    unlock: bool,
    as_json: bool,
    **where: str,
) -> int:
    """Take over from a stopped MirrorMaker 2 on its target topics.

    The records on the target prove how far MirrorMaker 2 has copied. Their mapping is rebuilt, so
    that consumer groups translate exactly. Start the pipeline afterwards: no record is copied twice
    or left out. Never start that MirrorMaker 2 again.
    """
    from k2ktui.engine.access import require
    from k2ktui.kafka.clients import target_cluster
    from k2ktui.mm2.takeover.plan import TakeoverPlanner
    from k2ktui.mm2.takeover.write import require_new, take_over

    config = load_pipeline(files)
    mirror = positions_of(**where)
    may = access_to(config, unlock=unlock)
    if not dry_run:
        require(may, "taking over")
    require_new(config, target_cluster(config))
    plan = TakeoverPlanner(config, mirror, span).plan()
    doubtful = plan.doubtful and not accept_unproven
    if not as_json:
        _show(plan)
    done = None
    if plan.rows and not dry_run and not doubtful:
        what = f"write positions of {counted(len(plan.rows), 'partition')}"
        confirm(config.name, what, yes=yes)
        done = take_over(config, mirror, plan, may)
    if as_json:
        click.echo(json.dumps(_object(plan, done)))
    return _print_result(plan, done, refused=bool(doubtful))


def _print_result(plan: TakeoverPlan, done: TakenOver | None, *, refused: bool) -> int:
    notes = (*plan.notes, *(done.notes if done else ()))
    print_notes(notes)
    if done:
        click.echo(f"Taken over in term {done.term}. Next: k2ktui start -f FILE", err=True)
    elif refused:
        click.echo(
            "note: nothing was changed; the position is not proven for "
            f"{counted(len(plan.doubtful), 'partition')} (--accept-unproven accepts the positions "
            "shown)",
            err=True,
        )
        return ExitCode.REFUSED
    elif not plan.rows:
        click.echo("Nothing to take over.", err=True)
    return ExitCode.OK


def _show(plan: TakeoverPlan) -> None:
    title = f"{safe_text(plan.pipeline)} takes over {safe_text(plan.flow)}"
    print_table(title, COLUMNS, sorted(plan.rows, key=lambda row: not row.doubt))
    mapped = sum(row.mapped for row in plan.rows)
    past = sum(row.past for row in plan.rows)
    click.echo(
        f"{counted(len(plan.rows), 'partition')}, {counted(mapped, 'record')} mapped exactly; "
        f"{counted(past, 'offset')} "
        "beyond MirrorMaker 2's stored positions are already on the target and are not "
        "copied again"
    )


def _object(plan: TakeoverPlan, done: TakenOver | None) -> dict[str, Any]:
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
    parts = [
        f"{count:,} {what}"
        for count, what in (
            (row.missing, "not on the target"),
            (row.twice, "twice on the target"),
            (row.strange, "not on the source"),
        )
        if count
    ]
    return safe_message("; ".join(filter(None, (row.doubt, *parts))))


COLUMNS: tuple[Column[TakeoverRow], ...] = (
    text_column("topic-partition", lambda row: safe_text(row.source), left=True),
    text_column("target", lambda row: safe_text(f"{row.target[0]}-{row.target[1]}"), left=True),
    text_column("stored", lambda row: number(row.stored)),
    text_column("continues at", lambda row: number(row.position)),
    text_column("exact from", lambda row: number(row.start)),
    text_column("mapped", lambda row: number(row.mapped)),
    text_column("from syncs", lambda row: number(len(row.from_syncs)), wide=True),
    text_column("remarks", _remarks, left=True),
)
