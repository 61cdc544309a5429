"""``k2ktui drill``: rehearse and carry out a failover, step by step, with proof.

With ``-d DIR`` instead of ``-f``, a command is about the drills of all pipelines of a directory
that leave one cluster.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from k2ktui.cli.changes import Change, ChangeFlags, change_flags, run_change
from k2ktui.cli.check import marked_text
from k2ktui.cli.drill.operators import (
    open_operator,
    open_site,
    print_drill,
    print_result,
    print_site,
    print_site_result,
    write_html,
)
from k2ktui.cli.drill.options import (
    ACCEPT,
    DRY_RUN,
    EXPORT_TO,
    FORWARD,
    LEAVE_OUT,
    TAIL,
    TAKE_OVER,
    WATCH,
    YES_TO,
    YES_TO_HOOKS,
    begin_options,
    drill_options,
    failback_options,
    files_or_directory,
    kept_files_or_directory,
    number_option,
    read_ids,
    read_only,
    read_pattern,
    read_phases,
    refuse_with_directory,
    site_directory,
    switchover_options,
)
from k2ktui.cli.terminal import options
from k2ktui.cli.terminal.files import load_flow, load_pipeline_flow
from k2ktui.cli.terminal.notes import print_note
from k2ktui.cli.terminal.tables import print_json, print_table
from k2ktui.drill.report import report_json, report_markdown
from k2ktui.engine.drill.checks import DrillCheckOutcome, DrillKind, DrillPhase
from k2ktui.engine.drill.hook_steps import hooks_of
from k2ktui.engine.drill.hooks import Hook, describe_hook, hook_json
from k2ktui.engine.drill.model import DrillOptions, Fence, phases_of
from k2ktui.engine.drill.steps import describe_phase, needs_confirmation
from k2ktui.engine.name_pattern import pattern_of
from k2ktui.errors import ConfigError, ExitCode, TimedOut
from k2ktui.present.drills import drill_columns
from k2ktui.present.formatting import WORDS
from k2ktui.present.site_drills import site_columns
from k2ktui.site.report import site_json, site_markdown
from k2ktui.text import counted, list_names, safe_message, safe_text

if TYPE_CHECKING:
    from k2ktui.drill.topics import DrillTopics
    from k2ktui.engine.drill.checks import CheckResult
    from k2ktui.fleet.files import PipelineFile
    from k2ktui.site.operations import SiteChoice
    from k2ktui.sync.flow import Flow

_LISTED = 20
_ASKED = " Must be confirmed."


@click.group(help="Rehearse and carry out a failover, step by step, with proof.")
def drill() -> None:
    """Failover drills."""


@drill.command(
    short_help="Try a failover without an effect on any application.",
    help="Try a failover without an effect on any application. Commits offsets of shadow groups "
    "on the target, and deletes these groups again.",
)
@begin_options
@number_option(
    "--shadow-groups", "shadow_groups", "N", "Maximum number of groups to try as shadow groups."
)
@number_option(
    "--records", "shadow_records", "N", "Number of records that a shadow group reads per partition."
)
@number_option(
    "--content-rows",
    "content_rows",
    "N",
    "Number of planned rows above which only a sample is compared.",
)
@DRY_RUN
@options.unlock
@options.json
def rehearse(**chosen: Any) -> int:
    """Rehearse; findings if a failover now would not be safe."""
    return _begin(DrillKind.REHEARSE, **chosen)


@drill.command(help="Switch over while both clusters are up; no record is lost.")
@begin_options
@switchover_options
@options.unlock
@options.json
def planned(fence: str, **chosen: Any) -> int:
    """Begin a planned switchover."""
    return _begin(DrillKind.PLANNED, fence=Fence(fence), **chosen)


@drill.command(help="Fail over while the source is down, from its last commits.")
@begin_options
@WATCH
@ACCEPT
@YES_TO
@DRY_RUN
@options.unlock
@options.json
def disaster(**chosen: Any) -> int:
    """Begin a failover without the source."""
    return _begin(DrillKind.DISASTER, **chosen)


@drill.command(
    short_help="Move the groups back to the old source.",
    help="Move the groups back to the old source, with the reverse pipeline's file. Records that "
    "were never copied from there are listed; you choose what happens to them.",
)
@begin_options
@TAIL
@options.flag("--show-keys", "Show the first keys of these records.")
@EXPORT_TO
@FORWARD
@switchover_options
@options.unlock
@options.json
def failback(
    fence: str, tail: str | None, export_to: str | None, forward: str | None, **chosen: Any
) -> int:
    """Begin a failback."""
    chosen |= failback_options(tail, export_to, forward)
    return _begin(DrillKind.FAILBACK, fence=Fence(fence), **chosen)


def _begin(
    kind: DrillKind,
    *,
    files: tuple[str, ...],
    directory: Path | None,
    from_cluster: str | None,
    only: str | None,
    leave_out: tuple[str, ...],
    dry_run: bool,
    unlock: bool,
    as_json: bool,
    yes_to: str | None = None,
    **chosen: Any,
) -> int:
    options = drill_options(**chosen)
    agreed = read_phases(yes_to)
    selection = {"from": from_cluster, "only": only, "leave_out": leave_out}
    if site := site_directory(files, directory, **selection):
        from k2ktui.site.operations import SiteChoice, start_site

        refuse_with_directory(
            forward=options.forward, export_to=options.export_to, topics=options.topics
        )
        choice = SiteChoice(from_cluster or "", pattern_of("--only", only), frozenset(leave_out))
        with open_site(site, agreed, leave_out, quiet=as_json) as (pipelines, operator):
            if dry_run:
                return _show_phases(kind, options, as_json, (), _show_members(pipelines, choice))
            begun = start_site(pipelines, kind, options, choice, operator, unlock=unlock)
        return print_site_result(begun, as_json)
    from k2ktui.drill.operations import start_drill
    from k2ktui.drill.topics import read_topics

    flow = load_flow(files)
    if dry_run:
        shown = read_topics(flow, kind, options) if options.topics else None
        return _show_phases(kind, options, as_json, flow.config.drill.hook_list, topics=shown)
    with open_operator(flow, agreed, unlock=unlock, quiet=as_json) as (may, person):
        made = start_drill(flow, kind, options, files, may, person)
    return print_result(made, as_json, flow, files)


def _show_members(files: Sequence[PipelineFile], choice: SiteChoice) -> dict[str, Any]:
    """Print which pipelines a site drill would move, on stderr; return it as JSON, too."""
    from k2ktui.engine.drill.site_selection import describe_unknown
    from k2ktui.site.directory import list_pipelines
    from k2ktui.site.operations import select_members

    selection = select_members(files, choice)
    hooks = {one.file: one.flow.config.drill.hook_list for one in list_pipelines(files)}
    cluster = safe_text(selection.cluster)
    count = counted(len(selection.members), "pipeline")
    click.echo(f"{count} of {safe_text(selection.name)} (cluster {cluster}):", err=True)
    for member in selection.members:
        name, to = safe_text(member.pipeline), safe_text(member.target)
        click.echo(f"    {name} to {to} ({safe_text(member.file)})", err=True)
        for hook in hooks[member.file]:
            click.echo(f"        {describe_hook(hook)}", err=True)
    for file in selection.unknown:
        click.echo(f"    source not known: {describe_unknown(file)}", err=True)
    return {
        "site": selection.name,
        "cluster": selection.cluster,
        "pipelines": [member.pipeline for member in selection.members],
        "unknown": [file.file for file in selection.unknown],
        "hooks": {
            member.pipeline: list(map(hook_json, hooks[member.file]))
            for member in selection.members
        },
    }


def _show_phases(
    kind: DrillKind,
    options: DrillOptions,
    as_json: bool,
    hooks: Sequence[Hook],
    selection: Mapping[str, Any] | None = None,
    topics: DrillTopics | None = None,
) -> int:
    names, lines = (topics.names, topics.lines) if topics else ((), ())
    order = phases_of(kind, names)
    phases = [
        {
            "phase": str(phase),
            "does": describe_phase(phase, options.fence, names),
            "confirmed": needs_confirmation(phase, options.fence),
        }
        for phase in order
    ]
    if as_json:
        shown = {"kind": str(kind), "phases": phases, "hooks": list(map(hook_json, hooks))}
        if topics is not None:
            shown |= {"topics": list(names), "notes": list(lines)}
        print_json({**shown, **(selection or {})})
        return ExitCode.OK

    def list_hooks(phase: DrillPhase, *, after: bool) -> None:
        asked = " Never run in a rehearsal." if kind is DrillKind.REHEARSE else _ASKED
        for hook in hooks_of(hooks, phase, after=after):
            click.echo(f"    {describe_hook(hook)}{asked}")

    for line in lines:
        click.echo(line)
    for number, (phase, row) in enumerate(zip(order, phases, strict=True), start=1):
        list_hooks(phase, after=False)
        click.echo(f"{number:>3} {phase}: {row['does']}{_ASKED if row['confirmed'] else ''}")
        list_hooks(phase, after=True)
    for hook in (hook for hook in hooks if hook.phase not in order):
        click.echo(f"    not run, as a {kind.noun} has no such phase: {describe_hook(hook)}")
    click.echo("No drill was begun.", err=True)
    return ExitCode.OK


@drill.command(help="Run the checks of a drill now; nothing is changed.")
@options.reading
@options.value(
    "--only",
    "IDS",
    "Checks to run, separated by commas, for example D06,D26. All are in docs/drill-checks.md.",
)
@options.choice("--kind", DrillKind, "Kind of drill whose checks to run.", DrillKind.REHEARSE)
@options.value("--registry", "URL", "Schema registry of the target.", default="")
@options.value("--reverse", "FILE", "File of the reverse pipeline.")
def check(
    files: tuple[str, ...],
    as_json: bool,
    only: str | None,
    kind: str,
    registry: str,
    reverse: str | None,
) -> int:
    """Run the checks and print each as soon as it is known.

    Returns 3 or 4 if neither cluster answers, else 1 if a check failed, else 0.
    """
    from k2ktui.drill.checks.catalog import ids_asked
    from k2ktui.drill.checks.context import SIDES, CheckContext, DrillFacts
    from k2ktui.drill.checks.suite import run_checks

    flow = load_flow(files)
    back = load_pipeline_flow((reverse,)).config if reverse else None
    ids = read_only(only) if only is not None else ids_asked(DrillKind(kind))
    results = []
    facts = DrillFacts(kind=DrillKind(kind), registry=registry, reverse=back)
    with CheckContext(flow, facts) as context:
        for result in run_checks(context, ids):
            results.append(result)
            if not as_json:
                click.echo(check_text(result))
        down = [error for side in SIDES if (error := context.down(side))]
    code = ExitCode.OK
    if len(down) == len(SIDES):
        silent = all(isinstance(error, TimedOut) for error in down)
        code = ExitCode.TIMEOUT if silent else ExitCode.CONNECTION
    elif any(result.failed for result in results):
        code = ExitCode.FINDINGS
    if as_json:
        rows = [result.as_json() for result in results]
        shown = {"pipeline": flow.config.name, "exit_code": int(code), "checks": rows}
        print_json(shown, indent=2)
        return code
    counts = Counter(result.outcome for result in results)
    click.echo(
        f"{counts[DrillCheckOutcome.PASS]} passed, {counts[DrillCheckOutcome.FAIL]} failed, "
        f"{counts[DrillCheckOutcome.UNKNOWN]} could not be checked"
    )
    return code


def check_text(result: CheckResult) -> str:
    """Return a result as lines for a terminal: mark, id, title, evidence, and the fix below."""
    text = f"{result.id} {result.title}: {safe_message(result.evidence)}"
    return marked_text(result.outcome, text, result.hint)


@drill.command("list", help="List a pipeline's drills, or the site drills of a directory.")
@files_or_directory
@options.json
def list_(files: tuple[str, ...], directory: Path | None, as_json: bool) -> int:
    """Print the drills, the newest first; findings if a pipeline could not be read."""
    if site := site_directory(files, directory):
        return _list_sites(site, as_json)
    from k2ktui.drill.operations import list_all

    flow = load_flow(files)
    drills, rehearsals = list_all(flow)
    if not as_json:
        title = f"Drills of {safe_text(flow.config.name)}"
        print_table(title, drill_columns(WORDS), drills)
        return ExitCode.OK
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
    print_json({"pipeline": flow.config.name, "drills": rows, "rehearsals": trend})
    return ExitCode.OK


def _list_sites(directory: Path, as_json: bool) -> int:
    from k2ktui.fleet.files import read_directory
    from k2ktui.site.operations import list_sites

    sites, errors = list_sites(read_directory(directory))
    if as_json:
        rows = [
            {
                "id": site.id,
                "site": site.name,
                "kind": str(site.kind),
                "status": str(site.status),
                "pipelines": [state.pipeline for state in site.members],
            }
            for site in sites
        ]
        print_json({"drills": rows, "unread": dict(errors)})
    else:
        print_table(f"Site drills of {safe_text(directory)}", site_columns(WORDS), sites)
    for name, why in errors.items():
        click.echo(f"{safe_text(name)} could not be read: {safe_message(why)}", err=True)
    return int(ExitCode.FINDINGS if errors else ExitCode.OK)


@drill.command(
    short_help="Show a drill as it is now.",
    help="Show a drill as it is now. Safe while another operator acts on it.",
)
@click.argument("drill_id", metavar="ID")
@files_or_directory
@options.json
def show(drill_id: str, files: tuple[str, ...], directory: Path | None, as_json: bool) -> None:
    """Print one drill."""
    if directory := site_directory(files, directory):
        from k2ktui.fleet.files import read_directory
        from k2ktui.site.operations import read_site

        site = read_site(read_directory(directory), drill_id)
        if as_json:
            print_json(site_json(site))
        else:
            print_site(site)
        return
    from k2ktui.drill.operations import read_drill
    from k2ktui.drill.ownership import is_acted_on

    one = read_drill(load_flow(files), drill_id)
    acting = is_acted_on(one)
    if as_json:
        print_json({**asdict(one), "acting": acting})
    else:
        print_drill(one, acting=acting)


@drill.command(help="Continue a drill on this host.")
@click.argument("drill_id", metavar="ID")
@kept_files_or_directory
@LEAVE_OUT
@YES_TO
@TAKE_OVER
@options.choice(
    "--as as_kind",
    [str(DrillKind.DISASTER)],
    "Continue a planned drill or a failback without its source.",
)
@options.flag("--from-fence", "Repeat the drill from fence-producers on.")
@ACCEPT
@TAIL
@EXPORT_TO
@FORWARD
@options.unlock
@options.json
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
    agreed, accept = read_phases(yes_to), read_ids(accepted)
    if as_kind and from_fence:
        raise ConfigError(
            "--as and --from-fence cannot be combined", unchanged="Nothing was changed."
        )
    how: dict[str, Any] = {
        "as_disaster": bool(as_kind),
        "from_fence": from_fence,
        "accept": accept,
        "chosen": failback_options(tail, export_to, forward),
    }
    if directory := site_directory(files, directory, leave_out=leave_out):
        from k2ktui.site.operations import resume_site

        refuse_with_directory(forward=forward, export_to=export_to)
        with open_site(directory, agreed, leave_out, quiet=as_json) as (pipelines, operator):
            site = resume_site(
                pipelines,
                drill_id,
                operator,
                unlock=unlock,
                take_over=take_over,
                left_out=frozenset(leave_out),
                **how,
            )
        return print_site_result(site, as_json)
    from k2ktui.drill.operations import resume_drill

    flow = load_flow(files)
    with open_operator(flow, agreed, unlock=unlock, quiet=as_json) as (may, person):
        made = resume_drill(
            flow,
            drill_id,
            files,
            may,
            person,
            take_over=(lambda _: True) if take_over else person.confirm_take_over,
            **how,
        )
    return print_result(made, as_json, flow, files)


@drill.command(help="Restore what a drill changed, until the target is opened.")
@click.argument("drill_id", metavar="ID")
@kept_files_or_directory
@LEAVE_OUT
@YES_TO_HOOKS
@TAKE_OVER
@FORWARD
@options.unlock
@options.json
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
    agreed = read_phases(yes_to)
    if directory := site_directory(files, directory, leave_out=leave_out):
        from k2ktui.site.operations import abort_site

        refuse_with_directory(forward=forward)
        with open_site(directory, agreed, leave_out, quiet=as_json) as (pipelines, operator):
            site = abort_site(
                pipelines,
                drill_id,
                operator,
                unlock=unlock,
                take_over=take_over,
                left_out=frozenset(leave_out),
            )
        return print_site_result(site, as_json)
    from k2ktui.drill.operations import abort_drill

    flow = load_flow(files)
    back = failback_options(forward=forward)
    with open_operator(flow, agreed, unlock=unlock, quiet=as_json) as (may, person):
        made = abort_drill(
            flow,
            drill_id,
            files,
            may,
            person,
            take_over=(lambda _: True) if take_over else person.confirm_take_over,
            **back,
        )
    return print_result(made, as_json, flow, files)


@drill.command(
    short_help="Allow a pipeline to start, or topics to be copied again.",
    help="Allow a pipeline to start again after drill ID fenced it; or, with --topics, let topics "
    "be copied again that drills have moved.",
)
@click.argument("drill_id", metavar="[ID]", required=False)
@options.kept_file
@options.value("--topics", "REGEX", "Moved topics to copy again; the whole name must match.")
@options.yes
@options.unlock
@options.json
@change_flags
def release(
    drill_id: str | None, files: tuple[str, ...], topics: str | None, flags: ChangeFlags
) -> int:
    """Release a pipeline, or topics."""
    if (drill_id is None) is (topics is None):
        raise ConfigError(
            "either the ID of a drill or --topics is required, and not both",
            unchanged="Nothing was done.",
            hint="ID lets a pipeline start again that this drill has fenced; --topics REGEX lets "
            "topics be copied again that drills have moved.",
        )
    flow = load_flow(files)
    if drill_id is None:
        return _release_topics(flow, read_pattern("--topics", topics), files, flags)
    from k2ktui.drill.kept_fences import list_kept_fences
    from k2ktui.drill.operations import list_drills, release_replicator

    name = flow.config.name
    with open_operator(flow, (), unlock=flags.unlock, quiet=flags.as_json) as (may, operator):
        kept = list_kept_fences(flow, [one for one in list_drills(flow) if one.id == drill_id])

        def apply() -> dict[str, Any]:
            released = release_replicator(flow, drill_id, files, may, operator)
            lost = {"id": drill_id, "pipeline": name}  # its record is
            return lost if released is None else report_json(released)

        change: Change[dict[str, Any]] = Change(
            name,
            "let this pipeline copy to the target again",
            show=lambda: None,
            check=lambda: _print_kept(kept),
            apply=apply,
            report=lambda _: click.echo(f"Pipeline {safe_text(name)} may start again.", err=True),
            as_json=lambda done: done,
        )
        return run_change(change, flags)


def _release_topics(flow: Flow, pattern: str, files: tuple[str, ...], flags: ChangeFlags) -> int:
    from k2ktui.drill.operations import find_released, preview_release, release_moved

    name = flow.config.name
    with open_operator(flow, (), unlock=flags.unlock, quiet=flags.as_json) as (may, operator):
        moves = find_released(flow, pattern)
        topics = list_names([move.topic for move in moves], _LISTED)
        kept = preview_release(flow, moves)

        def check() -> None:
            for move in moves[:_LISTED]:
                print_note(f"{safe_text(move.topic)}: {safe_message(move.describe())}")
            _print_kept(kept)

        change: Change[list[str]] = Change(
            name,
            f"let this pipeline copy {topics} to the target again; the others stop for seconds",
            show=lambda: None,
            check=check,
            apply=lambda: release_moved(flow, moves, files, may, operator),
            report=lambda _: click.echo(
                f"Pipeline {safe_text(name)} copies {topics} again.", err=True
            ),
            as_json=lambda drills: {
                "pipeline": name,
                "topics": [move.topic for move in moves],
                "drills": drills,
                "notes": kept,
            },
        )
        return run_change(change, flags)


def _print_kept(lines: Sequence[str]) -> None:
    for line in lines:
        click.echo(line, err=True)


@drill.command(help="Print the report of a drill, or verify it against the journal.")
@click.argument("drill_id", metavar="ID")
@files_or_directory
@options.flag("--verify verifies", "Verify the hashes against the journal instead.")
@options.value(
    "--html",
    "FILE",
    "File to write the report to, as one HTML page, instead of printing it.",
    type=click.Path(path_type=Path),
)
@options.json
def report(
    drill_id: str,
    files: tuple[str, ...],
    directory: Path | None,
    verifies: bool,
    html: Path | None,
    as_json: bool,
) -> int:
    """Print, write or verify a report."""
    if html is not None and (verifies or as_json):
        other = "--verify" if verifies else "--json"
        raise ConfigError(f"--html and {other} cannot be combined", unchanged="Nothing was done.")
    if directory := site_directory(files, directory):
        from k2ktui.drill.report_html import render_html
        from k2ktui.fleet.files import read_directory
        from k2ktui.site.operations import read_site, verify_site
        from k2ktui.site.report import make_site_report

        pipelines = read_directory(directory)
        if verifies:
            return _print_problems(
                drill_id, verify_site(pipelines, drill_id), "reports and the journals", as_json
            )
        site = read_site(pipelines, drill_id)
        if html is not None:
            write_html(html, render_html(make_site_report(site)))
        else:
            click.echo(json.dumps(site_json(site)) if as_json else site_markdown(site), nl=as_json)
        return ExitCode.OK
    from k2ktui.drill.operations import read_report, verify_drill
    from k2ktui.drill.report_html import report_html

    flow = load_flow(files)
    if verifies:
        one, problems = verify_drill(flow, drill_id)
        return _print_problems(one.id, problems, "report and the journal", as_json)
    one, rehearsals = read_report(flow, drill_id)
    if html is not None:
        write_html(html, report_html(one, rehearsals))
    elif as_json:
        print_json(report_json(one, rehearsals))
    else:
        click.echo(report_markdown(one, rehearsals), nl=False)
    return ExitCode.OK


def _print_problems(drill_id: str, problems: Sequence[str], what: str, as_json: bool) -> int:
    if as_json:
        print_json({"id": drill_id, "problems": problems})
    for problem in problems:
        click.echo(problem, err=True)
    if not problems and not as_json:
        click.echo(f"The {what} fit together.")
    return int(ExitCode.FINDINGS if problems else ExitCode.OK)
