"""``k2ktui apply``: commit the offsets of a plan, exactly as shown."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from pathlib import Path

import click

from k2ktui.cli.plan import show_plan
from k2ktui.cli.terminal.confirm import confirm
from k2ktui.cli.terminal.options import (
    access_to,
    json_option,
    load_flow,
    optional_file_option,
    unlock_option,
)
from k2ktui.cli.terminal.results import exit_code, print_nothing, result_object, show_results
from k2ktui.config.model import PipelineConfig
from k2ktui.engine.access import require
from k2ktui.engine.moves.plan import Plan
from k2ktui.text import counted, duration, moment, safe_text


@click.command(help="Commit a plan's offsets on the target, after confirmation; undo reverts it.")
@click.argument("plan_file", metavar="PLAN")
@optional_file_option
@click.option("--yes", is_flag=True, help="Skip the confirmation.")
@unlock_option
@json_option
def command(plan_file: str, files: tuple[str, ...], yes: bool, unlock: bool, as_json: bool) -> int:
    """Apply a plan; a partial result has its own exit code."""
    from k2ktui.sync.moves.plan_files import read_plan
    from k2ktui.sync.operations import apply_plan

    plan = read_plan(Path(plan_file), time.time())
    flow = load_flow(files or _files_of(plan))
    may = access_to(flow.config, unlock=unlock)
    require(may, "applying a plan")
    if not as_json:
        show_plan(plan)
    if not plan.applied:
        print_nothing(plan.pipeline, as_json=as_json)
        return 0
    if not files:
        show_connections(plan.files, flow.config)
    confirm(plan.pipeline, effect_text(plan, time.time()), yes=yes, side=plan.side)
    applied = apply_plan(flow.config, plan, files or plan.files, may)
    if as_json:
        click.echo(json.dumps(result_object(flow.config.name, applied)))
    else:
        show_results(applied)
        click.echo(f"To undo: k2ktui undo {applied.id}", err=True)
    return exit_code(applied)


def _files_of(plan: Plan) -> tuple[str, ...]:
    """Return the pipeline files that a plan names, if nobody else chose their contents."""
    from k2ktui.sync.moves.plan_files import require_trusted_files

    require_trusted_files(plan, "k2ktui apply")
    return plan.files


def show_connections(files: Sequence[str], config: PipelineConfig) -> None:
    """Print which files a plan has chosen, and the addresses that get their logins."""
    names = ", ".join(map(safe_text, files))
    click.echo(f"note: pipeline file (from the plan): {names}", err=True)
    for side, cluster in (("source", config.source), ("target", config.target)):
        click.echo(f"note: {side}: {safe_text(cluster.bootstrap_servers)}", err=True)


def effect_text(plan: Plan, now: float) -> str:
    """Return what applying a plan does, as the end of a question; ``now`` is in epoch seconds."""
    text = f"commit {counted(len(plan.changes), 'offset')} on the {plan.side}"
    if kept := len(plan.applied) - len(plan.changes):
        text += f" and leave {counted(kept, 'row')} as chosen"
    if plan.commits_at is None:
        return text
    age = duration(now - plan.commits_at)
    return f"{text}, from the source's commits of {moment(plan.commits_at)} ({age} ago)"
