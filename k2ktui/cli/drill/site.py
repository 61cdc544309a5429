"""``k2ktui drill … -d DIR``: the drills of all pipelines of a directory that leave one cluster."""

from __future__ import annotations

import json
import sys
import threading
from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from k2ktui.cli.terminal.notes import StatusLine, print_progress
from k2ktui.cli.terminal.tables import print_table
from k2ktui.config.inputs import can_be_read_again
from k2ktui.engine.drill.checks import DrillKind
from k2ktui.engine.drill.hook_steps import keeps_effects
from k2ktui.engine.drill.hooks import describe_hook, hook_json
from k2ktui.engine.drill.model import DrillOptions, PhaseStatus
from k2ktui.engine.drill.site import MemberState, MemberStatus, SiteDrill, can_all_go_back
from k2ktui.engine.name_pattern import pattern_of
from k2ktui.errors import ConfigError, ExitCode, Refused
from k2ktui.present.formatting import WORDS
from k2ktui.present.site_drills import member_columns, site_columns
from k2ktui.site.operator import SiteQuestion, SiteQuestionKind
from k2ktui.site.report import (
    describe_member,
    site_has_findings,
    site_json,
    site_markdown,
    summarize_site,
)
from k2ktui.text import counted, safe_message, safe_text

if TYPE_CHECKING:
    from k2ktui.fleet.files import PipelineFile
    from k2ktui.site.operations import SiteChoice

F = TypeVar("F", bound=Callable[..., Any])
ALL = "all"

_DIRECTORY = click.option(
    "-d",
    "--directory",
    "directory",
    metavar="DIR",
    type=click.Path(path_type=Path),
    help="Directory of pipeline files instead of -f: a drill of all that leave one cluster.",
)
_FROM = click.option(
    "--from",
    "from_cluster",
    metavar="CLUSTER",
    help="With -d: the cluster that is left, by its name in the files or by its id.",
)
_ONLY = click.option(
    "--only",
    metavar="REGEX",
    help="With -d: pipelines in the selection; the whole name must match.",
)
LEAVE_OUT = click.option(
    "--leave-out",
    "leave_out",
    multiple=True,
    metavar="NAME",
    help="With -d: pipeline to leave out, because its source is not known or it has failed; may "
    "be repeated.",
)


def _file(*, kept: bool) -> Callable[[F], F]:
    def check(
        context: click.Context, parameter: click.Parameter, files: tuple[str, ...]
    ) -> tuple[str, ...]:
        if kept and not can_be_read_again(files):
            raise ConfigError(
                f"{context.command_path} needs files that can be read again, not - or a pipe: "
                "other processes read them later",
                unchanged="Nothing was done.",
                hint="Write standard input to a file, and give its name with -f.",
            )
        return files

    return click.option(
        "-f",
        "--file",
        "files",
        multiple=True,
        metavar="FILE",
        callback=check,
        help="Pipeline file; may be repeated, later files override earlier ones.",
    )


def files_or_directory(function: F) -> F:
    """Add ``-f`` and ``-d`` to a command that reads; one of them has to be given."""
    return _file(kept=False)(_DIRECTORY(function))


def kept_files_or_directory(function: F) -> F:
    """Add ``-f`` and ``-d`` to a command whose files others read later."""
    return _file(kept=True)(_DIRECTORY(function))


def selection_options(function: F) -> F:
    """Add the options that say which pipelines of a directory leave a cluster."""
    return _FROM(_ONLY(LEAVE_OUT(function)))


def is_site(files: Sequence[str], directory: Path | None, **only_with_d: object) -> bool:
    """Return whether a command is about a directory.

    Args:
        files: those of ``-f``.
        directory: that of ``-d``.
        only_with_d: options that need ``-d``, by name.

    Raises:
        ConfigError: neither or both were given, or an option that needs ``-d``.
    """
    unchanged = "Nothing was done."
    if files and directory:
        raise ConfigError("-f and -d cannot be combined", unchanged=unchanged)
    if not files and directory is None:
        raise ConfigError(
            "a pipeline file or a directory of them is required",
            unchanged=unchanged,
            hint="Give -f FILE, or -d DIR for all pipelines that leave one cluster.",
        )
    given = [name for name, value in only_with_d.items() if value]
    if directory is None and given:
        raise ConfigError(f"--{given[0].replace('_', '-')} needs -d DIR", unchanged=unchanged)
    return directory is not None


def refuse_with_directory(**options: object) -> None:
    """Refuse options that are for one pipeline; raises ConfigError."""
    given = [name for name, value in options.items() if value]
    if given:
        hint = "Files are found beside those of the directory."
        if given[0] == "topics":
            hint = "Move topics of one pipeline with -f FILE; --only chooses whole pipelines."
        raise ConfigError(
            f"--{given[0].replace('_', '-')} cannot be combined with -d",
            unchanged="Nothing was done.",
            hint=hint,
        )


class TerminalSiteOperator:
    """Shows the members' phases as lines on stderr, and asks once for all of them.

    Args:
        line: the status line.
        yes_to: phases that are confirmed in advance, or ``all``.
        left_out: pipelines that are left out in advance.
        quiet: whether only errors are shown.
    """

    def __init__(
        self,
        line: StatusLine,
        yes_to: Collection[str],
        left_out: Collection[str] = (),
        *,
        quiet: bool = False,
    ) -> None:
        self._line, self._yes_to, self._left_out, self._quiet = line, yes_to, left_out, quiet
        self._shown: set[str] = set()
        self._asks = threading.Event()

    def show(self, site: SiteDrill) -> None:
        """Print each phase of a member once it has ended; how many members act is the last line."""
        if self._quiet or self._asks.is_set():
            return
        for state in site.members:
            self._show_member(state)
        counts = [
            f"{count} {status}"
            for status in MemberStatus
            if (count := sum(state.status is status for state in site.members))
        ]
        self._line.show(f"{safe_text(site.name)}: {', '.join(counts)}")

    def _show_member(self, state: MemberState) -> None:
        name = safe_text(state.pipeline)
        lines = []
        for number, record in enumerate(state.drill.phases if state.drill else (), start=1):
            if record.status in (PhaseStatus.WAITING, PhaseStatus.RUNNING):
                self._shown = {x for x in self._shown if not x.startswith(f"{name}: {number} ")}
                continue
            text = f"{name}: {number} {record.phase}: {record.status}: {safe_message(record.live)}"
            lines.append((text, [safe_message(finding) for finding in record.findings]))
        if state.error:
            lines.append((f"{name}: {state.status}: {safe_message(state.error)}", []))
        for text, findings in lines:
            if text not in self._shown:
                self._shown.add(text)
                self._line.show("")
                print_progress(text)
                for finding in findings:
                    print_progress(f"    {finding}")

    def confirm(self, site: SiteDrill | None, question: SiteQuestion) -> bool:
        """Ask for what has to be typed, unless it was confirmed in advance."""
        if self._is_agreed(question):
            return True
        if not sys.stdin.isatty():
            listed = "".join(f"\n    {line}" for line in question.lines)
            raise Refused(
                f"a person must confirm, and standard input is not a terminal. "
                f"{question.text}:{listed}",
                unchanged="No drill was begun."
                if site is None
                else "The site drill stays where it is.",
                hint=_hint(site, question),
            )
        self._asks.set()
        try:
            self._line.show("")
            click.echo(f"{question.text}:", err=True)
            for line in question.lines:
                click.echo(f"    {line}", err=True)
            if site is not None:
                click.echo(describe_way_back(site), err=True)
            typed = click.prompt(
                f"Type {safe_text(question.answer)} to continue",
                default="",
                show_default=False,
                err=True,
            )
            return bool(typed.strip() == question.answer)
        finally:
            self._asks.clear()

    def _is_agreed(self, question: SiteQuestion) -> bool:
        if question.kind is SiteQuestionKind.PHASE:
            return question.step in self._yes_to or ALL in self._yes_to
        leaves_out = (SiteQuestionKind.LEAVE_OUT, SiteQuestionKind.UNKNOWN_FILES)
        return question.kind in leaves_out and set(question.pipelines) <= set(self._left_out)


def _hint(site: SiteDrill | None, question: SiteQuestion) -> str:
    again = f"k2ktui drill {question.verb} {safe_text(site.id)} -d DIR" if site is not None else ""
    out = " ".join(f"--leave-out {safe_text(name)}" for name in question.pipelines)
    match question.kind:
        case SiteQuestionKind.PHASE:
            return f"Run {again} --yes-to {question.step}."
        case SiteQuestionKind.LEAVE_OUT:
            verb = question.verb
            return f"Correct what is wrong and {verb} again, or leave them out: {again} {out}"
        case SiteQuestionKind.UNKNOWN_FILES:
            return f"Correct these files, or add {out}."
        case SiteQuestionKind.TAKE_OVER:
            return f"Run {again} --take-over."
        case _:
            return "Repeat the command at a terminal."


def describe_way_back(site: SiteDrill) -> str:
    """Return whether and how the operator can still go back."""
    if can_all_go_back(site):
        return f"You can still go back: k2ktui drill abort {safe_text(site.id)} -d DIR"
    return "You cannot go back: targets were opened, and records may exist only there."


def _read(directory: Path) -> Sequence[PipelineFile]:
    from k2ktui.fleet.files import read_directory

    return read_directory(directory)


def _choice(from_cluster: str | None, only: str | None, leave_out: Collection[str]) -> SiteChoice:
    from k2ktui.site.operations import SiteChoice

    return SiteChoice(from_cluster or "", pattern_of("--only", only), frozenset(leave_out))


def begin(
    kind: DrillKind,
    options: DrillOptions,
    directory: Path,
    *,
    from_cluster: str | None,
    only: str | None,
    leave_out: Collection[str],
    yes_to: Collection[str],
    unlock: bool,
    as_json: bool,
) -> int:
    """Begin a site drill; return the exit code."""
    from k2ktui.site.operations import start_site

    choice = _choice(from_cluster, only, leave_out)
    files = _read(directory)
    with StatusLine() as line:
        operator = TerminalSiteOperator(line, yes_to, leave_out, quiet=as_json)
        site = start_site(files, kind, options, choice, operator, unlock=unlock)
    return print_site_result(site, as_json)


def show_selection(
    directory: Path, from_cluster: str | None, only: str | None, leave_out: Collection[str]
) -> dict[str, Any]:
    """Print which pipelines a site drill would move, on stderr; return it as JSON, too."""
    from k2ktui.engine.drill.site_selection import describe_unknown
    from k2ktui.site.directory import list_pipelines
    from k2ktui.site.operations import select_members

    files = _read(directory)
    selection = select_members(files, _choice(from_cluster, only, leave_out))
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


def resume(
    site_id: str,
    directory: Path,
    *,
    yes_to: Collection[str],
    leave_out: Collection[str],
    unlock: bool,
    as_json: bool,
    **options: Any,
) -> int:
    """Resume a site drill; ``options`` as for ``resume_site``. Return the exit code."""
    from k2ktui.site.operations import resume_site

    files = _read(directory)
    with StatusLine() as line:
        operator = TerminalSiteOperator(line, yes_to, leave_out, quiet=as_json)
        site = resume_site(
            files, site_id, operator, unlock=unlock, left_out=frozenset(leave_out), **options
        )
    return print_site_result(site, as_json)


def abort(
    site_id: str,
    directory: Path,
    *,
    yes_to: Collection[str],
    leave_out: Collection[str],
    take_over: bool,
    unlock: bool,
    as_json: bool,
) -> int:
    """Abort a site drill; return the exit code."""
    from k2ktui.site.operations import abort_site

    files = _read(directory)
    with StatusLine() as line:
        operator = TerminalSiteOperator(line, yes_to, leave_out, quiet=as_json)
        site = abort_site(
            files,
            site_id,
            operator,
            unlock=unlock,
            take_over=take_over,
            left_out=frozenset(leave_out),
        )
    return print_site_result(site, as_json)


def print_sites(directory: Path, as_json: bool) -> int:
    """Print the site drills of a directory; findings if a pipeline could not be read."""
    from k2ktui.site.operations import list_sites

    sites, errors = list_sites(_read(directory))
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
        click.echo(json.dumps({"drills": rows, "unread": dict(errors)}))
    else:
        print_table(f"Site drills of {safe_text(directory)}", site_columns(WORDS), sites)
    for name, why in errors.items():
        click.echo(f"{safe_text(name)} could not be read: {safe_message(why)}", err=True)
    return int(ExitCode.FINDINGS if errors else ExitCode.OK)


def print_site(site_id: str, directory: Path, as_json: bool) -> int:
    """Print one site drill as it is now."""
    from k2ktui.site.operations import read_site

    site = read_site(_read(directory), site_id)
    if as_json:
        click.echo(json.dumps(site_json(site)))
        return ExitCode.OK
    title = f"{safe_text(site.id)}  {site.kind} of {safe_text(site.name)}: {site.status}"
    print_table(title, member_columns(WORDS), site.members)
    for line in summarize_site(site):
        click.echo(safe_message(line))
    if not site.is_over:
        click.echo(describe_way_back(site))
    return ExitCode.OK


def read_page(site_id: str, directory: Path) -> str:
    """Return the report of a site drill as an HTML page."""
    from k2ktui.site.operations import read_site
    from k2ktui.site.report_html import site_html

    return site_html(read_site(_read(directory), site_id))


def print_report(site_id: str, directory: Path, *, verifies: bool, as_json: bool) -> int:
    """Print the report of a site drill, or verify those of its members."""
    from k2ktui.site.operations import read_site, verify_site

    files = _read(directory)
    if not verifies:
        site = read_site(files, site_id)
        click.echo(json.dumps(site_json(site)) if as_json else site_markdown(site), nl=as_json)
        return ExitCode.OK
    problems = verify_site(files, site_id)
    if as_json:
        click.echo(json.dumps({"id": site_id, "problems": problems}))
    for problem in problems:
        click.echo(problem, err=True)
    if not problems and not as_json:
        click.echo("The reports and the journals fit together.")
    return int(ExitCode.FINDINGS if problems else ExitCode.OK)


def print_site_result(site: SiteDrill, as_json: bool) -> int:
    """Print the result of a command that acted on a site drill; return its exit code."""
    if as_json:
        click.echo(json.dumps(site_json(site)))
    else:
        for line in summarize_site(site):
            click.echo(safe_message(line))
        for state in site.moving:
            if state.status is MemberStatus.HELD:
                name = safe_text(state.pipeline)
                click.echo(f"{name} is held: {describe_member(state)}", err=True)
        name = safe_text(site.id)
        if not site.is_over:
            click.echo(f"Continue it: k2ktui drill {site.next_verb} {name} -d DIR", err=True)
        click.echo(f"Report: k2ktui drill report {name} -d DIR", err=True)
    aborted = [drill for drill in site.drills if drill.status == "aborted"]
    if site.status == "aborted":
        kept = any(keeps_effects(drill) for drill in aborted)
        return int(ExitCode.FINDINGS if kept or site.mark.left_out else ExitCode.OK)
    return int(ExitCode.FINDINGS if site_has_findings(site) else ExitCode.OK)
