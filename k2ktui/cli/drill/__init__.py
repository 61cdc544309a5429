"""``k2ktui drill``: rehearse and carry out a failover, step by step, with proof.

With ``-d DIR`` instead of ``-f``, a command is about the drills of all pipelines of a directory
that leave one cluster.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from k2ktui.cli.changes import Change, ChangeFlags, change_flags, run_change
from k2ktui.cli.check import marked_text, print_result
from k2ktui.cli.drill.drills import PipelineDrills, open_drills
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
    DrillFlags,
    begin_options,
    drill_options,
    failback_options,
    files_or_directory,
    kept_files_or_directory,
    number_option,
    read_ids,
    read_only,
    read_pattern,
    switchover_options,
    take_flags,
)
from k2ktui.cli.terminal import options
from k2ktui.cli.terminal.files import load_flow, load_pipeline_flow
from k2ktui.cli.terminal.notes import print_note
from k2ktui.drill.report import report_json
from k2ktui.engine.drill.checks import DrillKind
from k2ktui.engine.drill.model import Fence, ResumeOptions
from k2ktui.errors import ConfigError, ExitCode, TimedOut
from k2ktui.text import list_names, safe_message, safe_text

if TYPE_CHECKING:
    from k2ktui.engine.drill.checks import CheckResult

_LISTED = 20


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
    dry_run: bool,
    **chosen: Any,
) -> int:
    flags = take_flags(chosen)
    options = drill_options(**chosen)
    drills = open_drills(
        files,
        directory,
        flags,
        forward=options.forward,
        export_to=options.export_to,
        topics=options.topics,
    )
    return (drills.dry_run if dry_run else drills.begin)(kind, options)


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
    from k2ktui.drill.checks.context import CheckContext, DrillFacts
    from k2ktui.drill.checks.suite import run_checks
    from k2ktui.drill.topics import require_drillable
    from k2ktui.replication.preflight.clusters import SIDES

    flow = load_flow(files)
    require_drillable(flow)
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
    print_result(flow.config.name, code, [result.as_json() for result in results], as_json=as_json)
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
    return open_drills(files, directory, DrillFlags(as_json)).list()


@drill.command(
    short_help="Show a drill as it is now.",
    help="Show a drill as it is now. Safe while another operator acts on it.",
)
@click.argument("drill_id", metavar="ID")
@files_or_directory
@options.json
def show(drill_id: str, files: tuple[str, ...], directory: Path | None, as_json: bool) -> int:
    """Print one drill."""
    return open_drills(files, directory, DrillFlags(as_json)).show(drill_id)


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
    as_kind: str | None,
    from_fence: bool,
    accepted: str | None,
    tail: str | None,
    export_to: str | None,
    forward: str | None,
    **given: Any,
) -> int:
    """Resume a drill."""
    flags = take_flags(given)
    accept = read_ids(accepted)
    if as_kind and from_fence:
        raise ConfigError(
            "--as and --from-fence cannot be combined", unchanged="Nothing was changed."
        )
    drills = open_drills(files, directory, flags, forward=forward, export_to=export_to)
    how = ResumeOptions(
        take_over=flags.take_over,
        as_disaster=bool(as_kind),
        from_fence=from_fence,
        accept=accept,
        left_out=flags.left_out,
        chosen=failback_options(tail, export_to, forward),
    )
    return drills.resume(drill_id, how)


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
    forward: str | None,
    **given: Any,
) -> int:
    """Abort a drill."""
    flags = take_flags(given)
    return open_drills(files, directory, flags, forward=forward).abort(drill_id, forward)


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
    drills = PipelineDrills(files, DrillFlags(flags.as_json, flags.unlock))
    if drill_id is None:
        return _release_topics(drills, read_pattern("--topics", topics), flags)
    from k2ktui.drill.kept_fences import list_kept_fences
    from k2ktui.drill.operations import list_drills, release_replicator

    flow, name = drills.flow, drills.flow.config.name
    with drills.open_actor() as actor:
        kept = list_kept_fences(flow, [one for one in list_drills(flow) if one.id == drill_id])

        def apply() -> dict[str, Any]:
            released = release_replicator(actor, drill_id)
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


def _release_topics(drills: PipelineDrills, pattern: str, flags: ChangeFlags) -> int:
    from k2ktui.drill.operations import find_released, preview_release, release_moved

    flow, name = drills.flow, drills.flow.config.name
    with drills.open_actor() as actor:
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
            apply=lambda: release_moved(actor, moves),
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
    drills = open_drills(files, directory, DrillFlags(as_json))
    return drills.verify(drill_id) if verifies else drills.report(drill_id, html)
