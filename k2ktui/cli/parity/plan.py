"""``k2ktui parity plan``: what differs between the clusters, and what would be done about it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from k2ktui.cli.terminal.notes import print_notes
from k2ktui.cli.terminal.options import (
    LONGEST_WAIT_S,
    file_option,
    json_option,
    load_pipeline,
    range_check,
)
from k2ktui.cli.terminal.tables import MOST, print_table
from k2ktui.engine.parity.plan import ParityPlan, dump_plan, summarize
from k2ktui.engine.parity.rules import ParityKind
from k2ktui.errors import ConfigError, ExitCode
from k2ktui.present.formatting import WORDS, moment
from k2ktui.present.parity import difference_columns
from k2ktui.private_files import write_private
from k2ktui.text import safe_text

if TYPE_CHECKING:
    from collections.abc import Sequence


@click.command(help="Compare topic settings, quotas and ACLs, without changing anything.")
@file_option
@json_option
@click.option(
    "--kind",
    "kinds",
    multiple=True,
    type=click.Choice([kind.section for kind in ParityKind]),
    help="What to compare; repeatable.  [default: all]",
)
@click.option(
    "-o", "--output", metavar="FILE", help="File to write the plan to, for k2ktui parity apply."
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
    kinds: Sequence[str],
    output: str | None,
    valid_s: int,
) -> int:
    """Compare, and print or write the plan; findings if something differs."""
    from k2ktui.parity.operations import create_plan

    config = load_pipeline(files)
    chosen = [kind for kind in ParityKind if not kinds or kind.section in kinds]
    plan = create_plan(config, files, valid_s=valid_s, kinds=chosen)
    if output:
        write_plan(Path(output), plan)
    if as_json:
        click.echo(dump_plan(plan), nl=False)
    else:
        show_plan(plan)
    if output:
        where = safe_text(output)
        click.echo(f"Written to {where}; apply it with: k2ktui parity apply {where}", err=True)
    return ExitCode.FINDINGS if plan.rows else ExitCode.OK


def write_plan(path: Path, plan: ParityPlan) -> None:
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


def show_plan(plan: ParityPlan) -> None:
    """Print a plan with its notes and a summary; what only is reported comes first."""
    title = f"Parity plan {plan.id} for {safe_text(plan.pipeline)}, made {moment(plan.created_at)}"
    rows = sorted(plan.rows, key=lambda row: (row.changes, row.item))
    if rows:
        print_table(title, difference_columns(WORDS), rows, most=MOST)
        click.echo(f"{summarize(plan.rows)}.")
    else:
        click.echo(f"{title}: {summarize(plan.rows)}.")
    print_notes(plan.notes)
