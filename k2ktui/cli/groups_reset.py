"""``k2ktui groups reset``: set the offsets of a group of one cluster, without a mapping."""

from __future__ import annotations

import json
import time
from typing import Any

import click

from k2ktui.cli.apply import effect_text
from k2ktui.cli.plan import show_plan
from k2ktui.cli.terminal.changes import ChangeFlags, change_options
from k2ktui.cli.terminal.confirm import confirm
from k2ktui.cli.terminal.notes import print_notes
from k2ktui.cli.terminal.options import access_to, load_flow
from k2ktui.cli.terminal.results import exit_code, print_nothing, result_object, show_results
from k2ktui.engine.access import require
from k2ktui.engine.moves.choice import RowValue
from k2ktui.engine.moves.plan import dump_plan
from k2ktui.engine.name_pattern import pattern_of
from k2ktui.errors import ConfigError, ExitCode
from k2ktui.text import safe_message, safe_text


@click.command(
    name="reset",
    help="Set the offsets of a group that exists on the target only, or copy another group's. "
    "With --side source, of a group of the source.",
)
@change_options
@click.argument("group", metavar="GROUP")
@click.option(
    "--to",
    "to",
    metavar="VALUE",
    help="Value for all its partitions: an offset, an ISO-8601 time, earliest, latest, or +N or "
    "-N from its committed offset.",
)
@click.option(
    "--copy-from",
    "copy_from",
    metavar="GROUP",
    default="",
    help="Group on the same cluster whose offsets and metadata are copied.",
)
@click.option(
    "--topic", "topic", metavar="REGEX", help="Topics to include; the whole name must match."
)
@click.option(
    "--side",
    type=click.Choice(["target", "source"]),
    default="target",
    show_default=True,
    help="Cluster of the group; on the source, --yes does not replace typing the name.",
)
def command(
    group: str,
    files: tuple[str, ...],
    to: str | None,
    copy_from: str,
    topic: str | None,
    side: Any,
    flags: ChangeFlags,
) -> int:
    """Plan, show, confirm and apply; a partial result has its own exit code."""
    from k2ktui.sync.moves.reset import ResetRequest, plan_group_reset
    from k2ktui.sync.operations import apply_plan

    if bool(copy_from) == (to is not None):
        raise ConfigError(
            "give either --to or --copy-from",
            unchanged="Nothing was changed.",
            hint="For example: k2ktui groups reset GROUP -f FILE --to earliest",
        )
    value = None if to is None else _value(to)
    flow = load_flow(files)
    may = access_to(flow.config, unlock=flags.unlock)
    if not flags.dry_run:
        require(may, "resetting a group")
    request = ResetRequest(group, value, copy_from, pattern_of("--topic", topic), side)
    plan, notes = plan_group_reset(flow.config, request, files)
    print_notes(notes)
    if flags.dry_run and flags.as_json:
        click.echo(dump_plan(plan), nl=False)
    elif not flags.as_json:
        show_plan(plan)
    if not plan.applied:
        print_nothing(plan.pipeline, as_json=flags.as_json and not flags.dry_run)
        return ExitCode.FINDINGS
    if flags.dry_run:
        return ExitCode.OK
    confirm(plan.pipeline, effect_text(plan, time.time()), yes=flags.yes, side=side)
    applied = apply_plan(flow.config, plan, plan.files, may)
    if flags.as_json:
        click.echo(json.dumps(result_object(plan.pipeline, applied)))
    else:
        show_results(applied)
        click.echo(f"To undo: k2ktui undo {applied.id}", err=True)
    return exit_code(applied)


def _value(text: str) -> RowValue:
    from k2ktui.sync.moves.choices import parse_value

    try:
        return parse_value(text)
    except ValueError as error:
        raise ConfigError(
            f"--to {safe_text(text)}: {safe_message(str(error))}", unchanged="Nothing was changed."
        ) from error
