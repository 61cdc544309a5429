"""``k2ktui drill rehearse``, ``planned``, ``disaster`` and ``failback``: begin a drill."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping, Sequence
from functools import reduce
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, TypeVar

import click

from k2ktui.cli.drill import site
from k2ktui.cli.drill.operator import open_operator, print_result, read_phases
from k2ktui.cli.terminal.options import (
    LONGEST_WAIT_S,
    json_option,
    load_flow,
    range_check,
    unlock_option,
)
from k2ktui.engine.drill.checks import DrillKind
from k2ktui.engine.drill.hook_steps import hooks_of
from k2ktui.engine.drill.hooks import Hook, describe_hook, hook_json
from k2ktui.engine.drill.model import DrillOptions, Fence, phases_of
from k2ktui.engine.drill.steps import describe_phase, needs_confirmation
from k2ktui.engine.drill.tail import TailChoice
from k2ktui.engine.name_pattern import pattern_of
from k2ktui.errors import ConfigError, ExitCode
from k2ktui.text import safe_text

if TYPE_CHECKING:
    from k2ktui.drill.topics import DrillTopics

F = TypeVar("F", bound=Callable[..., Any])
_DEFAULTS = DrillOptions()
_ASKED = " Must be confirmed."


def _option(name: str, field: str, metavar: str, text: str) -> Callable[[F], F]:
    default = getattr(_DEFAULTS, field)
    return click.option(
        name,
        field,
        type=float if isinstance(default, float) else click.IntRange(min=0),
        callback=range_check(0, LONGEST_WAIT_S) if isinstance(default, float) else None,
        default=default,
        show_default=True,
        metavar=metavar,
        help=text,
    )


_GROUPS = click.option(
    "--groups", metavar="REGEX", help="Groups to move; the whole name must match."
)
_TOPICS = click.option(
    "--topics",
    metavar="REGEX",
    help="Source topics of the drill; the whole name must match. The pipeline goes on with the "
    "others. Default: the whole pipeline.",
)
YES_TO = click.option(
    "--yes-to",
    metavar="PHASES",
    help="Phases to confirm in advance, separated by commas, or all.",
)
ACCEPT = click.option(
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

_FENCE = click.option(
    "--fence",
    type=click.Choice([str(fence) for fence in Fence]),
    default=str(Fence.HAND),
    show_default=True,
    help="Way to keep producers from writing: by hand (you stop them), access rules or quotas.",
)
_MAX_LAG = _option(
    "--max-lag",
    "lag_records",
    "RECORDS",
    "Maximum lag in records, of all partitions, before fencing.",
)


@click.command(
    help="Try a failover without an effect on any application. Commits offsets of shadow groups "
    "on the target, and deletes these groups again."
)
@site.kept_files_or_directory
@site.selection_options
@_GROUPS
@_TOPICS
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
def rehearse(**chosen: Any) -> int:
    """Rehearse; findings if a failover now would not be safe."""
    return _begin(DrillKind.REHEARSE, **chosen)


def _switchover_options(command: F) -> F:
    """Add the options of drills that move groups while both clusters are up, in this order."""
    options = (_FENCE, _MAX_LAG, _FROZEN, _WAIT, _WATCH, ACCEPT, YES_TO, _DRY_RUN)
    return reduce(lambda decorated, option: option(decorated), reversed(options), command)


@click.command(help="Switch over while both clusters are up; no record is lost.")
@site.kept_files_or_directory
@site.selection_options
@_GROUPS
@_TOPICS
@_switchover_options
@unlock_option
@json_option
def planned(fence: str, **chosen: Any) -> int:
    """Begin a planned switchover."""
    return _begin(DrillKind.PLANNED, fence=Fence(fence), **chosen)


@click.command(help="Fail over while the source is down, from its last commits.")
@site.kept_files_or_directory
@site.selection_options
@_GROUPS
@_TOPICS
@_WATCH
@ACCEPT
@YES_TO
@_DRY_RUN
@unlock_option
@json_option
def disaster(**chosen: Any) -> int:
    """Begin a failover without the source."""
    return _begin(DrillKind.DISASTER, **chosen)


_TAIL_CHOICES = [str(choice) for choice in TailChoice if choice is not TailChoice.STOP]
TAIL = click.option(
    "--tail",
    type=click.Choice(_TAIL_CHOICES),
    help="Records of the old source that were never copied: copy them now, export them to files, "
    "or discard them. Without it, the drill lists them and stops.",
)
EXPORT_TO = click.option(
    "--export-to",
    metavar="DIR",
    help="Directory of exported records. Default: beside FILE, named after the drill.",
)
FORWARD = click.option(
    "--forward",
    metavar="FILE",
    help="File of the pipeline that was failed over. Default: the name of FILE without -reverse.",
)


@click.command(
    short_help="Move the groups back to the old source.",
    help="Move the groups back to the old source, with the reverse pipeline's file. Records that "
    "were never copied from there are listed; you choose what happens to them.",
)
@site.kept_files_or_directory
@site.selection_options
@_GROUPS
@_TOPICS
@TAIL
@click.option("--show-keys", is_flag=True, help="Show the first keys of these records.")
@EXPORT_TO
@FORWARD
@_switchover_options
@unlock_option
@json_option
def failback(
    fence: str, tail: str | None, export_to: str | None, forward: str | None, **chosen: Any
) -> int:
    """Begin a failback."""
    chosen |= failback_options(tail, export_to, forward)
    return _begin(DrillKind.FAILBACK, fence=Fence(fence), **chosen)


def failback_options(
    tail: str | None, export_to: str | None, forward: str | None
) -> dict[str, Any]:
    """Return the options of a failback that were given."""
    given = {
        "tail": TailChoice(tail) if tail else None,
        "export_to": os.path.abspath(export_to) if export_to else None,
        "forward": os.path.abspath(forward) if forward else None,
    }
    return {name: value for name, value in given.items() if value is not None}


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
    from k2ktui.drill.operations import start_drill
    from k2ktui.drill.topics import read_topics

    options = _options(**chosen)
    agreed = read_phases(yes_to)
    selection = {"from": from_cluster, "only": only, "leave_out": leave_out}
    if site.is_site(files, directory, **selection):
        assert directory is not None
        site.refuse_with_directory(
            forward=options.forward, export_to=options.export_to, topics=options.topics
        )
        if dry_run:
            chosen_pipelines = site.show_selection(directory, from_cluster, only, leave_out)
            return _show_phases(kind, options, as_json, (), chosen_pipelines)
        return site.begin(
            kind,
            options,
            directory,
            from_cluster=from_cluster,
            only=only,
            leave_out=leave_out,
            yes_to=agreed,
            unlock=unlock,
            as_json=as_json,
        )
    flow = load_flow(files)
    if dry_run:
        shown = read_topics(flow, kind, options) if options.topics else None
        return _show_phases(kind, options, as_json, flow.config.drill.hook_list, topics=shown)
    with open_operator(flow, agreed, unlock=unlock, quiet=as_json) as (may, operator):
        drill = start_drill(flow, kind, options, files, may, operator)
    return print_result(drill, as_json, flow, files)


def _options(
    groups: str | None, topics: str | None, accepted: str | None = None, **chosen: Any
) -> DrillOptions:
    pattern_of("--groups", groups)
    read_pattern("--topics", topics)
    accepted_ids = read_checks(accepted)
    return DrillOptions(groups=groups or "", topics=topics or "", accepted=accepted_ids, **chosen)


def read_pattern(option: str, pattern: str | None) -> str:
    """Return the pattern of an option; "" if it was not given.

    Raises:
        ConfigError: it is empty, as that of a variable that was not set, or no regular expression.
    """
    if pattern is not None and not pattern.strip():
        raise ConfigError(
            f"{option} is empty",
            unchanged="Nothing was done.",
            hint="Give a regular expression for whole names of source topics.",
        )
    pattern_of(option, pattern)
    return pattern or ""


def read_checks(text: str | None) -> tuple[str, ...]:
    """Return the ids of checks that ``--accept`` names.

    Raises:
        ConfigError: one of them is no check.
    """
    ids = tuple(part.strip() for part in (text or "").split(",") if part.strip())
    if not ids:
        return ()
    # Loads all checks, which the drill then runs: not before, as help must be quick.
    from k2ktui.drill.checks.catalog import CATALOG

    unknown = [check_id for check_id in ids if check_id not in CATALOG]
    if unknown:
        raise ConfigError(
            f"--accept: {safe_text(unknown[0])} is not a check",
            unchanged="Nothing was done.",
            hint=f"Use ids from {min(CATALOG)} to {max(CATALOG)}, separated by commas.",
        )
    return ids


def _list_hooks(kind: DrillKind, hooks: Sequence[Hook]) -> None:
    for hook in hooks:
        asked = " Never run in a rehearsal." if kind is DrillKind.REHEARSE else _ASKED
        click.echo(f"    {describe_hook(hook)}{asked}")


def _show_phases(
    kind: DrillKind,
    options: DrillOptions,
    as_json: bool,
    hooks: Sequence[Hook],
    selection: Mapping[str, Any] = MappingProxyType({}),
    topics: DrillTopics | None = None,
) -> int:
    order = phases_of(kind, () if topics is None else topics.names)
    phases = [
        {
            "phase": str(phase),
            "does": describe_phase(phase, options.fence, () if topics is None else topics.names),
            "confirmed": needs_confirmation(phase, options.fence),
        }
        for phase in order
    ]
    if as_json:
        shown = {"kind": str(kind), "phases": phases, "hooks": list(map(hook_json, hooks))}
        if topics is not None:
            shown |= {"topics": list(topics.names), "notes": list(topics.lines)}
        click.echo(json.dumps({**shown, **selection}))
        return ExitCode.OK
    for line in () if topics is None else topics.lines:
        click.echo(line)
    for number, (phase, row) in enumerate(zip(order, phases, strict=True), start=1):
        asked = _ASKED if row["confirmed"] else ""
        _list_hooks(kind, hooks_of(hooks, phase, after=False))
        click.echo(f"{number:>3} {phase}: {row['does']}{asked}")
        _list_hooks(kind, hooks_of(hooks, phase, after=True))
    others = [hook for hook in hooks if hook.phase not in order]
    for hook in others:
        click.echo(f"    not run, as a {kind.noun} has no such phase: {describe_hook(hook)}")
    click.echo("No drill was begun.", err=True)
    return ExitCode.OK
