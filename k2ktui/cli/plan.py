"""``k2ktui plan``: decide which offsets to commit on the target, without changing anything."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from k2ktui.cli.terminal.notes import print_notes
from k2ktui.cli.terminal.options import (
    LONGEST_WAIT_S,
    file_option,
    json_option,
    load_flow,
    range_check,
)
from k2ktui.cli.terminal.tables import MOST, note_pair, print_table, read_beside
from k2ktui.engine.moves.plan import (
    Action,
    Plan,
    Rewind,
    dump_plan,
    plan_remarks,
    to_csv,
    uncertain_first,
)
from k2ktui.engine.name_pattern import pattern_of
from k2ktui.errors import ConfigError, ExitCode
from k2ktui.present.formatting import WORDS, moment
from k2ktui.present.plans import plan_columns, summarize_plan
from k2ktui.private_files import write_private
from k2ktui.text import safe_text


@click.command(help="Plan the offsets to commit on the target, without changing anything.")
@file_option
@json_option
@click.option(
    "--group", "group", metavar="REGEX", help="Groups to include; the whole name must match."
)
@click.option(
    "--topic", "topic", metavar="REGEX", help="Source topics to include; the whole name must match."
)
@click.option(
    "--rewind",
    type=click.Choice([str(policy) for policy in Rewind]),
    default=str(Rewind.NEVER),
    show_default=True,
    help="Action where the target's committed offset is ahead of the translation: never "
    "(keep it) or follow (commit the lower offset).",
)
@click.option(
    "--set",
    "rows_set",
    multiple=True,
    metavar="'GROUP TOPIC:PARTITION=VALUE'",
    help="A row to set instead of translating it (target topic and partition): an offset, an "
    "ISO-8601 time, earliest, latest, +N or -N from the proposed offset, or leave-out. Repeatable.",
)
@click.option("-o", "--output", metavar="FILE", help="File to write the plan to, for k2ktui apply.")
@click.option(
    "--csv",
    "as_csv",
    is_flag=True,
    help="Print CSV for kafka-consumer-groups --reset-offsets --from-file.",
)
@click.option(
    "--valid",
    "valid_s",
    default=900,
    show_default=True,
    metavar="SECONDS",
    callback=range_check(0, LONGEST_WAIT_S),
    help="Plan lifetime in seconds.",
)
def command(
    files: tuple[str, ...],
    as_json: bool,
    group: str | None,
    topic: str | None,
    rewind: str,
    rows_set: tuple[str, ...],
    output: str | None,
    as_csv: bool,
    valid_s: int,
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
        valid_s=valid_s,
        group=pattern_of("--group", group),
        topic=pattern_of("--topic", topic),
        choices=choices,
    )
    pair = read_beside(flow.config)
    plan = create_plan(flow, options, files)
    note_pair(flow.config, pair())
    print_notes(plan.notes)
    if output:
        write_plan(Path(output), plan)
    if as_json:
        click.echo(dump_plan(plan), nl=False)
    elif as_csv:
        # color=True keeps click from stripping escape sequences in names, for programs.
        click.echo(plan_csv(plan, to_terminal=sys.stdout.isatty()), nl=False, color=True)
    else:
        show_plan(plan)
    if output:
        click.echo(
            f"Written to {safe_text(output)}; apply it with: k2ktui apply {safe_text(output)}",
            err=True,
        )
    has_findings = plan.is_stopped_by_conflict or nothing_can_move(plan)
    return ExitCode.FINDINGS if has_findings else ExitCode.OK


def nothing_can_move(plan: Plan) -> bool:
    """Whether there is no row, or each of them is left out."""
    return all(row.action is Action.BLOCKED for row in plan.rows)


def plan_csv(plan: Plan, *, to_terminal: bool) -> str:
    """Return the plan as CSV: raw names for a program, printable ones for a terminal."""
    text = to_csv(plan)
    if not to_terminal:
        return text
    return "".join(f"{safe_text(line)}\n" for line in text.split("\n")[:-1])


def write_plan(path: Path, plan: Plan) -> None:
    """Write a plan to a file that only its owner can read.

    Raises:
        ConfigError: the file cannot be written.
    """
    try:
        write_private(path, dump_plan(plan).encode())
    except OSError as error:
        raise ConfigError(
            f"the plan could not be written to {safe_text(str(path))}: {error.strerror}",
            unchanged="Nothing was changed.",
        ) from error


def show_plan(plan: Plan) -> None:
    """Print a plan, uncertain rows first, with a summary and remarks."""
    title = f"Plan {plan.id} for {safe_text(plan.pipeline)}, made {moment(plan.created_at)}"
    if not plan.rows or any(row.source for row in plan.rows):
        title += f", of the commits of cluster {safe_text(plan.source_cluster) or 'unknown'}"
    print_table(title, COLUMNS, uncertain_first(plan.rows), most=MOST)
    click.echo(summarize_plan(plan.rows).text())
    print_notes(plan_remarks(plan))


COLUMNS = plan_columns(WORDS)
