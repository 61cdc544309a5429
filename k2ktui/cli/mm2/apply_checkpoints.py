"""``k2ktui mm2 apply-checkpoints``: check MirrorMaker 2's checkpoints and commit them once."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click

from k2ktui.cli.check import check_text
from k2ktui.cli.mm2.where import MIRROR_HELP
from k2ktui.cli.plan import show_plan, write_plan
from k2ktui.cli.terminal.confirm import confirm
from k2ktui.cli.terminal.notes import print_notes
from k2ktui.cli.terminal.options import LONGEST_WAIT_S, access_to, json_option, range_check
from k2ktui.cli.terminal.results import exit_code, result_object, show_results
from k2ktui.config.inputs import absolute_files
from k2ktui.engine.moves.plan import Plan, Rewind, dump_plan
from k2ktui.engine.name_pattern import pattern_of
from k2ktui.errors import ExitCode, Refused
from k2ktui.mm2.checkpoints.plan import REQUIRED, checks, make_plan, standing_in_the_way
from k2ktui.text import counted, safe_text

if TYPE_CHECKING:
    from k2ktui.config.model import PipelineConfig
    from k2ktui.mm2.checkpoints.plan import ClusterObservation
    from k2ktui.mm2.checkpoints.reader import CheckpointReader
    from k2ktui.replication.preflight.checks import Check
    from k2ktui.sync.moves.apply import Applied

_UNCHANGED = "Nothing was changed."


@click.command()
@click.option(
    "-f",
    "--file",
    "file",
    required=True,
    metavar="FILE",
    help=MIRROR_HELP,
)
@click.option(
    "--group", metavar="REGEX", default=".*", help="Groups to include; the whole name must match."
)
@click.option(
    "--topic",
    metavar="REGEX",
    default=".*",
    help="Source topics to include; the whole name must match.",
)
@click.option(
    "--watch",
    "watch_s",
    default=5.0,
    callback=range_check(0, LONGEST_WAIT_S),
    show_default=True,
    metavar="SECONDS",
    help="Time in seconds without new source records before committing.",
)
@click.option(
    "--rewind",
    type=click.Choice([str(policy) for policy in Rewind]),
    default=str(Rewind.NEVER),
    show_default=True,
    help="Action where the target's committed offset is ahead of the checkpoint: never (keep "
    "it) or follow (commit the lower offset).",
)
@click.option(
    "--accept",
    "accepted",
    multiple=True,
    type=click.Choice(REQUIRED),
    help="Check whose failure is accepted; may be repeated.",
)
@click.option("-o", "--output", metavar="FILE", help="File to write the plan to.")
@click.option(
    "--dry-run", is_flag=True, help="Show the checks and the plan without changing anything."
)
@click.option("--yes", is_flag=True, help="Skip the confirmation.")
@json_option
def command(
    file: str,
    group: str,
    topic: str,
    watch_s: float,
    rewind: str,
    accepted: tuple[str, ...],
    output: str | None,
    dry_run: bool,
    yes: bool,
    as_json: bool,
) -> int:
    """Commit MirrorMaker 2's checkpoints of the groups that move now.

    Reads the checkpoints topic once, checks the preconditions, shows a plan, asks for confirmation,
    commits the offsets on the target and reads them back. k2ktui undo reverts it.
    """
    from k2ktui.mm2.checkpoints.reader import CheckpointReader, read_checkpoints
    from k2ktui.mm2.mirror_flow import load_mirror
    from k2ktui.sync.moves.plans import whoami

    flow, notes = load_mirror(file)
    chosen = pattern_of("--group", group), pattern_of("--topic", topic)
    reading = CheckpointReader(flow)
    try:
        checkpoints, unreadable = read_checkpoints(flow.properties, reading.target.cluster)
        seen = reading.observe(checkpoints, *chosen, watch_s)
        plan = make_plan(
            seen, rewind=Rewind(rewind), valid_s=900.0, made_by=whoami(), files=_absolute(file)
        )
        judged = checks(seen)
        if unreadable:
            notes += (
                f"{unreadable:,} records of the checkpoints topic are not in "
                "MirrorMaker 2's format and were ignored",
            )
        print_notes(notes)
        if output:
            write_plan(Path(output), plan)
        if not as_json:
            _show(judged, plan)
        blocking = standing_in_the_way(judged, accepted)
        applied = None
        if plan.changes and not dry_run and not blocking:
            confirm(
                plan.pipeline,
                f"commit {counted(len(plan.changes), 'offset')} on the target",
                yes=yes,
            )
            applied = _apply_plan(reading, seen, plan, flow.config, accepted)
    finally:
        reading.close()
    return _print_result(judged, plan, blocking, applied, as_json=as_json)


def _apply_plan(
    reading: CheckpointReader,
    seen: ClusterObservation,
    plan: Plan,
    config: PipelineConfig,
    accepted: Iterable[str],
) -> Applied:
    """Apply the plan, if the source has neither grown nor been consumed since it was observed."""
    from k2ktui.mm2.checkpoints.plan import CONSUMERS_STOPPED, PRODUCERS_STOPPED
    from k2ktui.sync.operations import apply_plan

    grown = reading.find_grown(seen)
    if grown and PRODUCERS_STOPPED not in accepted:
        raise Refused(
            f"{safe_text(min(grown))} has received records since the check: its producers "
            "have not stopped",
            unchanged=_UNCHANGED,
            hint="Stop the producers, then repeat the command.",
        )
    consuming = reading.find_consuming(seen)
    if consuming and CONSUMERS_STOPPED not in accepted:
        raise Refused(
            f"group {safe_text(min(consuming))} has been used on the source since the check: its "
            "consumers have not stopped",
            unchanged=_UNCHANGED,
            hint="Stop the consumers there, then repeat the command.",
        )
    return apply_plan(config, plan, plan.files, access_to(config, unlock=False))


def _print_result(
    judged: list[Check],
    plan: Plan,
    blocking: list[Check],
    applied: Applied | None,
    *,
    as_json: bool,
) -> int:
    if as_json:
        shown = {
            "pipeline": plan.pipeline,
            "checks": [asdict(check) for check in judged],
            "plan": json.loads(dump_plan(plan)),
            "blocking": [check.name for check in blocking],
            "applied": applied is not None,
            "result": result_object(plan.pipeline, applied) if applied else None,
        }
        click.echo(json.dumps(shown))
    elif applied:
        show_results(applied)
        click.echo(f"To undo: k2ktui undo {applied.id}", err=True)
    elif not plan.changes:
        click.echo("Nothing to apply.", err=True)
    if applied:
        return exit_code(applied)
    if blocking:
        names = " ".join(f"--accept {check.name}" for check in blocking)
        click.echo(
            f"note: nothing was changed; fix the failed checks, or accept their risk with: {names}",
            err=True,
        )
        return ExitCode.REFUSED
    return ExitCode.OK


def _show(judged: list[Check], plan: Plan) -> None:
    for check in judged:
        click.echo(check_text(check))
    show_plan(plan)


def _absolute(file: str) -> tuple[str, ...]:
    path, mark, flow = file.partition("#")
    return tuple(f"{name}{mark}{flow}" for name in absolute_files([path]))
