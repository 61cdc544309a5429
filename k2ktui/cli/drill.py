"""``k2ktui drill``: rehearse and carry out a failover, step by step, with proof."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict
from typing import Any, TypeVar

import click

from k2ktui.cli import drill_check
from k2ktui.cli.drill_operator import TerminalOperator, print_drill, print_drills, read_phases
from k2ktui.cli.options import (
    access_to,
    file_option,
    json_option,
    load_flow,
    matcher,
    unlock_option,
)
from k2ktui.cli.status_line import StatusLine
from k2ktui.engine.drill import PHASES, ChangeStatus, Drill, DrillOptions, DrillStatus, Fence
from k2ktui.engine.drill_catalog import CATALOG
from k2ktui.engine.drill_checks import DrillKind
from k2ktui.engine.drill_report import has_findings, report_json, report_markdown, summarize
from k2ktui.engine.drill_steps import describe_phase, needs_confirmation
from k2ktui.errors import ConfigError, ExitCode
from k2ktui.text import safe_text

F = TypeVar("F", bound=Callable[..., Any])
_DEFAULTS = DrillOptions()


@click.group(help="Rehearse and carry out a failover, step by step, with proof.")
def command() -> None:
    """Failover drills."""


command.add_command(drill_check.command, "check")


def _option(name: str, field: str, metavar: str, text: str) -> Callable[[F], F]:
    default = getattr(_DEFAULTS, field)
    return click.option(
        name,
        field,
        type=click.FloatRange(min=0) if isinstance(default, float) else click.IntRange(min=0),
        default=default,
        show_default=True,
        metavar=metavar,
        help=text,
    )


_GROUPS = click.option(
    "--groups", metavar="REGEX", help="Groups to move; the whole name must match."
)
_YES_TO = click.option(
    "--yes-to",
    metavar="PHASES",
    help="Phases to confirm in advance, separated by commas, or all.",
)
_ACCEPT = click.option(
    "--accept",
    "accepted",
    metavar="IDS",
    help="Checks whose failure does not stop the drill, separated by commas: D07,D08.",
)
_DRY_RUN = click.option(
    "--dry-run", is_flag=True, help="Show what each phase would do; begin no drill."
)
_WATCH = _option(
    "--watch", "watch_s", "SECONDS", "Maximum time in seconds to wait for clients on the target."
)
_WAIT = _option(
    "--wait", "wait_s", "SECONDS", "Maximum wait in seconds for each condition of a phase."
)
_FROZEN = _option(
    "--frozen", "frozen_s", "SECONDS", "Time in seconds without a write that proves the fence."
)


@command.command(
    help="Try a failover without an effect on any application. Commits offsets of shadow groups "
    "on the target, and deletes these groups again."
)
@file_option
@_GROUPS
@_option(
    "--shadow-groups", "shadow_groups", "N", "Maximum number of groups to try as shadow groups."
)
@_option(
    "--records", "shadow_records", "N", "Number of records that a shadow group reads per partition."
)
@_option(
    "--content-rows",
    "content_rows",
    "N",
    "Number of planned rows above which only a sample is compared.",
)
@_DRY_RUN
@unlock_option
@json_option
def rehearse(
    files: tuple[str, ...],
    groups: str | None,
    dry_run: bool,
    unlock: bool,
    as_json: bool,
    **chosen: Any,
) -> int:
    """Rehearse; findings if a failover now would not be safe."""
    options = _options(groups, None, **chosen)
    return _start(DrillKind.REHEARSE, options, files, None, dry_run, unlock, as_json)


@command.command(help="Switch over while both clusters are up; no record is lost.")
@file_option
@_GROUPS
@click.option(
    "--fence",
    type=click.Choice([str(each) for each in Fence]),
    default=str(Fence.HAND),
    show_default=True,
    help="Fence of the producers: you stop them by hand, access rules, or quotas.",
)
@_option(
    "--max-lag",
    "lag_records",
    "RECORDS",
    "Maximum lag in records, of all partitions, before fencing.",
)
@_FROZEN
@_WAIT
@_WATCH
@_ACCEPT
@_YES_TO
@_DRY_RUN
@unlock_option
@json_option
def planned(
    files: tuple[str, ...],
    groups: str | None,
    fence: str,
    accepted: str | None,
    yes_to: str | None,
    dry_run: bool,
    unlock: bool,
    as_json: bool,
    **chosen: Any,
) -> int:
    """Begin a planned switchover."""
    options = _options(groups, accepted, fence=Fence(fence), **chosen)
    return _start(DrillKind.PLANNED, options, files, yes_to, dry_run, unlock, as_json)


@command.command(help="Fail over while the source is down, from its last commits.")
@file_option
@_GROUPS
@_WATCH
@_ACCEPT
@_YES_TO
@_DRY_RUN
@unlock_option
@json_option
def disaster(
    files: tuple[str, ...],
    groups: str | None,
    accepted: str | None,
    yes_to: str | None,
    dry_run: bool,
    unlock: bool,
    as_json: bool,
    **chosen: Any,
) -> int:
    """Begin a failover without the source."""
    options = _options(groups, accepted, **chosen)
    return _start(DrillKind.DISASTER, options, files, yes_to, dry_run, unlock, as_json)


def _options(groups: str | None, accepted: str | None, **chosen: Any) -> DrillOptions:
    matcher("--groups", groups)
    ids = tuple(part.strip() for part in (accepted or "").split(",") if part.strip())
    unknown = [each for each in ids if each not in CATALOG]
    if unknown:
        raise ConfigError(
            f"--accept: {safe_text(unknown[0])} is not a check",
            unchanged="Nothing was done.",
            hint=f"Use ids from {min(CATALOG)} to {max(CATALOG)}, separated by commas.",
        )
    return DrillOptions(groups=groups or "", accepted=ids, **chosen)


def _start(
    kind: DrillKind,
    options: DrillOptions,
    files: tuple[str, ...],
    yes_to: str | None,
    dry_run: bool,
    unlock: bool,
    as_json: bool,
) -> int:
    from k2ktui.drill.operations import start_drill

    agreed = read_phases(yes_to)
    flow = load_flow(files)
    if dry_run:
        return _show_phases(kind, options, as_json)
    may = access_to(flow.config, unlock=unlock)
    with StatusLine() as line:
        operator = TerminalOperator(line, agreed, quiet=as_json)
        drill = start_drill(flow, kind, options, files, may, operator)
    return _end(drill, as_json)


def _show_phases(kind: DrillKind, options: DrillOptions, as_json: bool) -> int:
    phases = [
        {
            "phase": str(phase),
            "does": describe_phase(phase, options.fence),
            "confirmed": needs_confirmation(phase, options.fence),
        }
        for phase in PHASES[kind]
    ]
    if as_json:
        click.echo(json.dumps({"kind": str(kind), "phases": phases}))
        return ExitCode.OK
    for number, each in enumerate(phases, start=1):
        asked = " Must be confirmed." if each["confirmed"] else ""
        click.echo(f"{number:>3} {each['phase']}: {each['does']}{asked}")
    click.echo("No drill was begun.", err=True)
    return ExitCode.OK


def _end(drill: Drill, as_json: bool) -> int:
    if as_json:
        click.echo(json.dumps(report_json(drill)))
    else:
        for line in summarize(drill):
            click.echo(safe_text(line))
        name = safe_text(drill.id)
        click.echo(f"Report: k2ktui drill report {name} -f FILE", err=True)
    if drill.status is DrillStatus.ABORTED:
        bad = any(change.status is ChangeStatus.KEPT for change in drill.changes)
    else:
        bad = not drill.is_over or has_findings(drill)
    return int(ExitCode.FINDINGS if bad else ExitCode.OK)


@command.command("list", help="List a pipeline's drills.")
@file_option
@json_option
def list_(files: tuple[str, ...], as_json: bool) -> int:
    """Print the drills, the newest first."""
    from k2ktui.drill.operations import list_drills

    flow = load_flow(files)
    found = list_drills(flow)
    if as_json:
        rows = [{"id": d.id, "kind": d.kind, "status": d.status, "by": d.started_by} for d in found]
        click.echo(json.dumps({"drills": rows}))
    else:
        print_drills(flow.config.name, found)
    return ExitCode.OK


@command.command(help="Show a drill as it is now. Safe while another operator acts on it.")
@click.argument("drill_id", metavar="ID")
@file_option
@json_option
def show(drill_id: str, files: tuple[str, ...], as_json: bool) -> int:
    """Print one drill."""
    from k2ktui.drill.operations import read_drill

    drill = read_drill(load_flow(files), drill_id)
    if as_json:
        click.echo(json.dumps(asdict(drill)))
    else:
        print_drill(drill)
    return ExitCode.OK


_TAKE_OVER = click.option(
    "--take-over", is_flag=True, help="Take the drill over from the operator who acts on it."
)


@command.command(help="Continue a drill on this host.")
@click.argument("drill_id", metavar="ID")
@file_option
@_YES_TO
@_TAKE_OVER
@click.option(
    "--as",
    "as_kind",
    type=click.Choice([str(DrillKind.DISASTER)]),
    help="Continue a planned drill without its source.",
)
@click.option("--from-fence", is_flag=True, help="Repeat the drill from fence-producers on.")
@unlock_option
@json_option
def resume(
    drill_id: str,
    files: tuple[str, ...],
    yes_to: str | None,
    take_over: bool,
    as_kind: str | None,
    from_fence: bool,
    unlock: bool,
    as_json: bool,
) -> int:
    """Resume a drill."""
    from k2ktui.drill.operations import resume_drill

    agreed = read_phases(yes_to)
    if as_kind and from_fence:
        raise ConfigError("--as and --from-fence cannot be combined")
    flow = load_flow(files)
    may = access_to(flow.config, unlock=unlock)
    with StatusLine() as line:
        operator = TerminalOperator(line, agreed, quiet=as_json)
        drill = resume_drill(
            flow,
            drill_id,
            files,
            may,
            operator,
            take_over=(lambda _: True) if take_over else operator.confirm_take_over,
            as_disaster=bool(as_kind),
            from_fence=from_fence,
        )
    return _end(drill, as_json)


@command.command(help="Restore what a drill changed, until the target is opened.")
@click.argument("drill_id", metavar="ID")
@file_option
@_TAKE_OVER
@unlock_option
@json_option
def abort(
    drill_id: str, files: tuple[str, ...], take_over: bool, unlock: bool, as_json: bool
) -> int:
    """Abort a drill."""
    from k2ktui.drill.operations import abort_drill

    flow = load_flow(files)
    may = access_to(flow.config, unlock=unlock)
    with StatusLine() as line:
        operator = TerminalOperator(line, (), quiet=as_json)
        drill = abort_drill(
            flow,
            drill_id,
            files,
            may,
            operator,
            take_over=(lambda _: True) if take_over else operator.confirm_take_over,
        )
    return _end(drill, as_json)


@command.command(help="Allow a pipeline to start again after a drill fenced it.")
@click.argument("drill_id", metavar="ID")
@file_option
@click.option("--yes", is_flag=True, help="Skip the confirmation.")
@unlock_option
@json_option
def release(drill_id: str, files: tuple[str, ...], yes: bool, unlock: bool, as_json: bool) -> int:
    """Release a pipeline."""
    from k2ktui.cli.confirm import confirm
    from k2ktui.drill.operations import release_replicator

    flow = load_flow(files)
    may = access_to(flow.config, unlock=unlock)
    confirm(flow.config.name, "let this pipeline copy to the target again", yes=yes)
    with StatusLine() as line:
        operator = TerminalOperator(line, (), quiet=as_json)
        drill = release_replicator(flow, drill_id, files, may, operator)
    if as_json:
        click.echo(json.dumps(report_json(drill)))
    else:
        click.echo(f"Pipeline {safe_text(drill.pipeline)} may start again.", err=True)
    return ExitCode.OK


@command.command(help="Print the report of a drill, or verify it against the journal.")
@click.argument("drill_id", metavar="ID")
@file_option
@click.option(
    "--verify", "verifies", is_flag=True, help="Verify the hashes against the journal instead."
)
@json_option
def report(drill_id: str, files: tuple[str, ...], verifies: bool, as_json: bool) -> int:
    """Print or verify a report."""
    from k2ktui.drill.operations import verify_drill

    drill, problems = verify_drill(load_flow(files), drill_id)
    if not verifies:
        click.echo(
            json.dumps(report_json(drill)) if as_json else report_markdown(drill), nl=as_json
        )
        return ExitCode.OK
    if as_json:
        click.echo(json.dumps({"id": drill.id, "problems": problems}))
    for problem in problems:
        click.echo(problem, err=True)
    if not problems and not as_json:
        click.echo("The report and the journal fit together.")
    return int(ExitCode.FINDINGS if problems else ExitCode.OK)
