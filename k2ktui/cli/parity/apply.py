"""``k2ktui parity apply``: change the target as a parity plan shows."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from k2ktui.cli.apply import show_connections
from k2ktui.cli.parity.plan import show_plan
from k2ktui.cli.terminal.confirm import confirm
from k2ktui.cli.terminal.options import (
    access_to,
    json_option,
    load_pipeline,
    optional_file_option,
    unlock_option,
)
from k2ktui.cli.terminal.results import print_nothing
from k2ktui.cli.terminal.tables import MOST, print_table
from k2ktui.engine.access import require
from k2ktui.engine.moves.apply import WriteOutcome, results_text
from k2ktui.engine.parity.plan import ParityPlan, load_plan
from k2ktui.errors import ExitCode
from k2ktui.present.parity import result_columns
from k2ktui.text import counted

if TYPE_CHECKING:
    from k2ktui.parity.writer import ParityApplied


@click.command(help="Apply a parity plan to the target, after confirmation; undo reverts it.")
@click.argument("plan_file", metavar="PLAN")
@optional_file_option
@click.option("--yes", is_flag=True, help="Skip the confirmation.")
@unlock_option
@json_option
def command(plan_file: str, files: tuple[str, ...], yes: bool, unlock: bool, as_json: bool) -> int:
    """Apply a plan; a partial result has its own exit code."""
    from k2ktui.parity.operations import apply_plan
    from k2ktui.sync.moves.plan_files import read_plan_file, require_trusted_files

    now = time.time()
    plan = read_plan_file(Path(plan_file), lambda text: load_plan(text, now), "k2ktui parity plan")
    if not files:
        require_trusted_files(plan, "k2ktui parity apply")
    config = load_pipeline(files or plan.files)
    may = access_to(config, unlock=unlock)
    require(may, "applying a parity plan")
    if not as_json:
        show_plan(plan)
    if not plan.changes:
        print_nothing(plan.pipeline, as_json=as_json)
        return 0
    if not files:
        show_connections(plan.files, config)
    confirm(plan.pipeline, effect_text(plan), yes=yes)
    applied = apply_plan(config, plan, files or plan.files, may)
    report(config.name, applied, as_json=as_json)
    if not as_json:
        click.echo(f"To undo: k2ktui parity undo {applied.id}", err=True)
    return exit_code(applied)


def effect_text(plan: ParityPlan) -> str:
    """Return what applying a plan does, as the end of a question."""
    return f"change {counted(len(plan.changes), 'value')} on the target"


def report(pipeline: str, applied: ParityApplied, *, as_json: bool) -> None:
    """Print the results, those that were not applied first."""
    if as_json:
        click.echo(json.dumps(result_object(pipeline, applied)))
        return
    rows = sorted(applied.rows, key=lambda row: row.result is WriteOutcome.APPLIED)
    print_table(f"Journal entry {applied.id}", result_columns(), rows, most=MOST)
    click.echo(f"{results_text(applied.counts)}.")


def result_object(pipeline: str, applied: ParityApplied) -> dict[str, Any]:
    """Return what ``--json`` prints."""
    return {
        "pipeline": pipeline,
        "id": applied.id,
        "counts": applied.counts,
        "rows": [
            {
                "kind": str(row.write.item.kind),
                "name": row.write.item.name,
                "key": row.write.item.key,
                "before": row.write.before,
                "after": row.write.after,
                "outcome": str(row.result),
                "reason": row.why,
            }
            for row in applied.rows
        ],
    }


def exit_code(applied: ParityApplied) -> int:
    """Return 0 if everything was applied, otherwise the code of a partial result."""
    return int(ExitCode.OK if applied.complete else ExitCode.PARTIAL)
