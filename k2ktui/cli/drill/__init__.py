"""``k2ktui drill``: rehearse and carry out a failover, step by step, with proof."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click

from k2ktui.cli.drill import begin, check, site
from k2ktui.cli.drill.operator import (
    open_operator,
    print_drill,
    print_drills,
    print_result,
    read_phases,
    write_html,
)
from k2ktui.cli.terminal.notes import print_note
from k2ktui.cli.terminal.options import (
    json_option,
    kept_file_option,
    load_flow,
    unlock_option,
)
from k2ktui.drill.report import report_json, report_markdown
from k2ktui.engine.drill.checks import DrillKind
from k2ktui.errors import ConfigError, ExitCode
from k2ktui.text import list_names, safe_message, safe_text

if TYPE_CHECKING:
    from k2ktui.sync.flow import Flow

_LISTED = 20


@click.group(help="Rehearse and carry out a failover, step by step, with proof.")
def command() -> None:
    """Failover drills."""


for subcommand in (
    begin.rehearse,
    begin.planned,
    begin.disaster,
    begin.failback,
):
    command.add_command(subcommand)
command.add_command(check.command, "check")


@command.command("list", help="List a pipeline's drills, or the site drills of a directory.")
@site.files_or_directory
@json_option
def list_(files: tuple[str, ...], directory: Path | None, as_json: bool) -> int:
    """Print the drills, the newest first."""
    from k2ktui.drill.operations import list_all

    if site.is_site(files, directory):
        assert directory is not None
        return site.print_sites(directory, as_json)
    flow = load_flow(files)
    drills, rehearsals = list_all(flow)
    if as_json:
        rows = [
            {
                "id": d.id,
                "kind": d.kind,
                "status": d.status,
                "started_by": d.started_by,
                "topics": list(d.topics),
            }
            for d in drills
        ]
        trend = [rehearsal.as_json() for rehearsal in rehearsals]
        click.echo(json.dumps({"pipeline": flow.config.name, "drills": rows, "rehearsals": trend}))
    else:
        print_drills(flow.config.name, drills)
    return ExitCode.OK


@command.command(help="Show a drill as it is now. Safe while another operator acts on it.")
@click.argument("drill_id", metavar="ID")
@site.files_or_directory
@json_option
def show(drill_id: str, files: tuple[str, ...], directory: Path | None, as_json: bool) -> int:
    """Print one drill."""
    from k2ktui.drill.operations import read_drill
    from k2ktui.drill.ownership import is_acted_on

    if site.is_site(files, directory):
        assert directory is not None
        return site.print_site(drill_id, directory, as_json)
    drill = read_drill(load_flow(files), drill_id)
    acting = is_acted_on(drill)
    if as_json:
        click.echo(json.dumps({**asdict(drill), "acting": acting}))
    else:
        print_drill(drill, acting=acting)
    return ExitCode.OK


_TAKE_OVER = click.option(
    "--take-over", is_flag=True, help="Take the drill over from the operator who acts on it."
)


@command.command(help="Continue a drill on this host.")
@click.argument("drill_id", metavar="ID")
@site.kept_files_or_directory
@site.LEAVE_OUT
@begin.YES_TO
@_TAKE_OVER
@click.option(
    "--as",
    "as_kind",
    type=click.Choice([str(DrillKind.DISASTER)]),
    help="Continue a planned drill or a failback without its source.",
)
@click.option("--from-fence", is_flag=True, help="Repeat the drill from fence-producers on.")
@begin.ACCEPT
@begin.TAIL
@begin.EXPORT_TO
@begin.FORWARD
@unlock_option
@json_option
def resume(
    drill_id: str,
    files: tuple[str, ...],
    directory: Path | None,
    leave_out: tuple[str, ...],
    yes_to: str | None,
    take_over: bool,
    as_kind: str | None,
    from_fence: bool,
    accepted: str | None,
    tail: str | None,
    export_to: str | None,
    forward: str | None,
    unlock: bool,
    as_json: bool,
) -> int:
    """Resume a drill."""
    from k2ktui.drill.operations import resume_drill

    agreed, accept = read_phases(yes_to), begin.read_checks(accepted)
    if as_kind and from_fence:
        raise ConfigError(
            "--as and --from-fence cannot be combined", unchanged="Nothing was changed."
        )
    if site.is_site(files, directory, leave_out=leave_out):
        assert directory is not None
        site.refuse_with_directory(forward=forward, export_to=export_to)
        return site.resume(
            drill_id,
            directory,
            yes_to=agreed,
            leave_out=leave_out,
            unlock=unlock,
            as_json=as_json,
            take_over=take_over,
            as_disaster=bool(as_kind),
            from_fence=from_fence,
            accept=accept,
            chosen=begin.failback_options(tail, None, None),
        )
    flow = load_flow(files)
    with open_operator(flow, agreed, unlock=unlock, quiet=as_json) as (may, operator):
        drill = resume_drill(
            flow,
            drill_id,
            files,
            may,
            operator,
            take_over=(lambda _: True) if take_over else operator.confirm_take_over,
            as_disaster=bool(as_kind),
            from_fence=from_fence,
            accept=accept,
            chosen=begin.failback_options(tail, export_to, forward),
        )
    return print_result(drill, as_json, flow, files)


@command.command(help="Restore what a drill changed, until the target is opened.")
@click.argument("drill_id", metavar="ID")
@site.kept_files_or_directory
@site.LEAVE_OUT
@click.option(
    "--yes-to",
    metavar="HOOKS",
    help="Hooks whose abort command to confirm in advance, separated by commas, such as "
    "before-open-target, or all.",
)
@_TAKE_OVER
@begin.FORWARD
@unlock_option
@json_option
def abort(
    drill_id: str,
    files: tuple[str, ...],
    directory: Path | None,
    leave_out: tuple[str, ...],
    yes_to: str | None,
    take_over: bool,
    forward: str | None,
    unlock: bool,
    as_json: bool,
) -> int:
    """Abort a drill."""
    from k2ktui.drill.operations import abort_drill

    agreed = read_phases(yes_to)
    if site.is_site(files, directory, leave_out=leave_out):
        assert directory is not None
        site.refuse_with_directory(forward=forward)
        return site.abort(
            drill_id,
            directory,
            yes_to=agreed,
            leave_out=leave_out,
            take_over=take_over,
            unlock=unlock,
            as_json=as_json,
        )
    flow = load_flow(files)
    with open_operator(flow, agreed, unlock=unlock, quiet=as_json) as (may, operator):
        drill = abort_drill(
            flow,
            drill_id,
            files,
            may,
            operator,
            take_over=(lambda _: True) if take_over else operator.confirm_take_over,
            forward=begin.failback_options(None, None, forward).get("forward", ""),
        )
    return print_result(drill, as_json, flow, files)


@command.command(
    short_help="Allow a pipeline to start, or topics to be copied again.",
    help="Allow a pipeline to start again after drill ID fenced it; or, with --topics, let topics "
    "be copied again that drills have moved.",
)
@click.argument("drill_id", metavar="[ID]", required=False)
@kept_file_option
@click.option(
    "--topics", metavar="REGEX", help="Moved topics to copy again; the whole name must match."
)
@click.option("--yes", is_flag=True, help="Skip the confirmation.")
@unlock_option
@json_option
def release(
    drill_id: str | None,
    files: tuple[str, ...],
    topics: str | None,
    yes: bool,
    unlock: bool,
    as_json: bool,
) -> int:
    """Release a pipeline, or topics."""
    from k2ktui.cli.terminal.confirm import confirm
    from k2ktui.drill.kept_fences import list_kept_fences
    from k2ktui.drill.operations import list_drills, release_replicator

    if (drill_id is None) is (topics is None):
        raise ConfigError(
            "either the ID of a drill or --topics is required, and not both",
            unchanged="Nothing was done.",
            hint="ID lets a pipeline start again that this drill has fenced; --topics REGEX lets "
            "topics be copied again that drills have moved.",
        )
    flow = load_flow(files)
    if drill_id is None:
        pattern = begin.read_pattern("--topics", topics)
        return _release_topics(flow, pattern, files, yes=yes, unlock=unlock, as_json=as_json)
    with open_operator(flow, (), unlock=unlock, quiet=as_json) as (may, operator):
        known = [drill for drill in list_drills(flow) if drill.id == drill_id]
        for line in list_kept_fences(flow, known):
            click.echo(line, err=True)
        confirm(flow.config.name, "let this pipeline copy to the target again", yes=yes)
        drill = release_replicator(flow, drill_id, files, may, operator)
    if as_json:
        lost = {"id": drill_id, "pipeline": flow.config.name}
        click.echo(json.dumps(lost if drill is None else report_json(drill)))
    else:
        click.echo(f"Pipeline {safe_text(flow.config.name)} may start again.", err=True)
    return ExitCode.OK


def _release_topics(
    flow: Flow,
    pattern: str,
    files: tuple[str, ...],
    *,
    yes: bool,
    unlock: bool,
    as_json: bool,
) -> int:
    from k2ktui.cli.terminal.confirm import confirm
    from k2ktui.drill.operations import find_released, preview_release, release_moved

    with open_operator(flow, (), unlock=unlock, quiet=as_json) as (may, operator):
        moves = find_released(flow, pattern)
        names = list_names([move.topic for move in moves], _LISTED)
        for move in moves[:_LISTED]:
            print_note(f"{safe_text(move.topic)}: {safe_message(move.describe())}")
        kept = preview_release(flow, moves)
        for line in kept:
            click.echo(line, err=True)
        confirm(
            flow.config.name,
            f"let this pipeline copy {names} to the target again; the others stop for seconds",
            yes=yes,
        )
        drills = release_moved(flow, moves, files, may, operator)
    if as_json:
        topics = [move.topic for move in moves]
        name = flow.config.name
        click.echo(
            json.dumps({"pipeline": name, "topics": topics, "drills": drills, "notes": kept})
        )
    else:
        click.echo(f"Pipeline {safe_text(flow.config.name)} copies {names} again.", err=True)
    return ExitCode.OK


@command.command(help="Print the report of a drill, or verify it against the journal.")
@click.argument("drill_id", metavar="ID")
@site.files_or_directory
@click.option(
    "--verify", "verifies", is_flag=True, help="Verify the hashes against the journal instead."
)
@click.option(
    "--html",
    metavar="FILE",
    type=click.Path(path_type=Path),
    help="File to write the report to, as one HTML page, instead of printing it.",
)
@json_option
def report(
    drill_id: str,
    files: tuple[str, ...],
    directory: Path | None,
    verifies: bool,
    html: Path | None,
    as_json: bool,
) -> int:
    """Print, write or verify a report."""
    from k2ktui.drill.operations import read_report, verify_drill
    from k2ktui.drill.report_html import report_html

    if html is not None and (verifies or as_json):
        other = "--verify" if verifies else "--json"
        raise ConfigError(f"--html and {other} cannot be combined", unchanged="Nothing was done.")
    if site.is_site(files, directory):
        assert directory is not None
        if html is not None:
            write_html(html, site.read_page(drill_id, directory))
            return ExitCode.OK
        return site.print_report(drill_id, directory, verifies=verifies, as_json=as_json)
    flow = load_flow(files)
    if not verifies:
        drill, rehearsals = read_report(flow, drill_id)
        if html is not None:
            write_html(html, report_html(drill, rehearsals))
        elif as_json:
            click.echo(json.dumps(report_json(drill, rehearsals)))
        else:
            click.echo(report_markdown(drill, rehearsals), nl=False)
        return ExitCode.OK
    drill, problems = verify_drill(flow, drill_id)
    if as_json:
        click.echo(json.dumps({"id": drill.id, "problems": problems}))
    for problem in problems:
        click.echo(problem, err=True)
    if not problems and not as_json:
        click.echo("The report and the journal fit together.")
    return int(ExitCode.FINDINGS if problems else ExitCode.OK)
