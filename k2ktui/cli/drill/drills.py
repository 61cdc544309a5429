"""The drills of one pipeline, and those of a directory: what a command does with either."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from k2ktui.cli.changes import ask_passphrase
from k2ktui.cli.drill.operators import ALL, TerminalOperator, describe_site_way_back
from k2ktui.cli.drill.options import DrillFlags, failback_options
from k2ktui.cli.terminal.files import access_to, load_flow, write_file
from k2ktui.cli.terminal.notes import StatusLine, print_note
from k2ktui.cli.terminal.tables import print_json, print_table
from k2ktui.drill.files import reverse_path, way_back_command
from k2ktui.drill.progress import CHOOSE, STOPPED, list_phases
from k2ktui.drill.report import (
    has_findings,
    is_unsigned,
    report_json,
    report_markdown,
    summarize,
)
from k2ktui.engine.drill.checks import DrillKind, DrillPhase
from k2ktui.engine.drill.hook_steps import hooks_of, keeps_effects
from k2ktui.engine.drill.hooks import Hook, HookRole, describe_hook, describe_record, hook_json
from k2ktui.engine.drill.model import (
    Drill,
    DrillOptions,
    DrillStatus,
    ResumeOptions,
    phases_of,
)
from k2ktui.engine.drill.site import MemberStatus, SiteDrill
from k2ktui.engine.drill.site_names import describe_name
from k2ktui.engine.drill.steps import (
    describe_next,
    describe_phase,
    describe_way_back,
    drill_command,
    needs_confirmation,
    waits_for_tail_choice,
)
from k2ktui.engine.name_pattern import pattern_of
from k2ktui.errors import ConfigError, ConnectionFailed, ExitCode, TimedOut
from k2ktui.present.drills import drill_columns
from k2ktui.present.formatting import WORDS
from k2ktui.present.site_drills import member_columns, site_columns
from k2ktui.site.report import (
    describe_member,
    name_rows,
    site_has_findings,
    site_json,
    site_markdown,
    summarize_site,
)
from k2ktui.text import counted, moment, safe_message, safe_text

if TYPE_CHECKING:
    from k2ktui.drill.ownership import Actor
    from k2ktui.drill.topics import DrillTopics
    from k2ktui.site.operations import SiteActor, SiteChoice

_ASKED = " Must be confirmed."
_NOTHING_DONE = "Nothing was done."


def open_drills(
    files: tuple[str, ...], directory: Path | None, flags: DrillFlags, **with_file: object
) -> PipelineDrills | DirectoryDrills:
    """Return the drills that a command is about: those of ``-f``, or those of ``-d``.

    Args:
        files: those of ``-f``.
        directory: that of ``-d``.
        flags: what else was given.
        with_file: the options that need ``-f``.

    Raises:
        ConfigError: neither or both were given, or an option that needs the other one.
    """
    if files and directory:
        raise ConfigError("-f and -d cannot be combined", unchanged=_NOTHING_DONE)
    if directory is None:
        if not files:
            raise ConfigError(
                "a pipeline file or a directory of them is required",
                unchanged=_NOTHING_DONE,
                hint="Give -f FILE, or -d DIR for all pipelines that leave one cluster.",
            )
        with_directory = {"from": flags.cluster, "only": flags.only, "leave-out": flags.left_out}
        for name in (name for name, value in with_directory.items() if value):
            raise ConfigError(f"--{name} needs -d DIR", unchanged=_NOTHING_DONE)
        return PipelineDrills(files, flags)
    for name in (name for name, value in with_file.items() if value):
        raise ConfigError(
            f"--{name.replace('_', '-')} cannot be combined with -d",
            unchanged=_NOTHING_DONE,
            hint="Move topics of one pipeline with -f FILE; --only chooses whole pipelines."
            if name == "topics"
            else "Files are found beside those of the directory.",
        )
    return DirectoryDrills(directory, flags)


@contextmanager
def open_operator(flags: DrillFlags) -> Iterator[TerminalOperator]:
    """Give a command that changes a drill the operator at this terminal."""
    with StatusLine() as line:
        operator = TerminalOperator(line, flags.yes_to, flags.left_out, quiet=flags.as_json)
        try:
            yield operator
        except (ConnectionFailed, TimedOut):  # errors of clusters do not know of the drill
            line.show("")
            operator.note_open()
            raise


class PipelineDrills:
    """The drills of one pipeline; what each method returns is the exit code."""

    def __init__(self, files: tuple[str, ...], flags: DrillFlags) -> None:
        self.flow, self._files, self._flags = load_flow(files), files, flags

    @contextmanager
    def open_actor(self) -> Iterator[Actor]:
        """Give a command who acts: the operator at this terminal, with the options' rights."""
        from k2ktui.drill.ownership import Actor

        may = access_to(self.flow.config, unlock=self._flags.unlock)
        with open_operator(self._flags) as operator:
            # Who confirms everything in advance may be a script with a terminal.
            asked = None if ALL in self._flags.yes_to else ask_passphrase()
            yield Actor(self.flow, self._files, may, operator, ask_secret=asked)

    def dry_run(self, kind: DrillKind, options: DrillOptions) -> int:
        """Print what a drill would do."""
        from k2ktui.drill.operations import require_redirect
        from k2ktui.drill.topics import read_topics, require_drillable

        require_drillable(self.flow)
        options = require_redirect(self.flow.config, kind, options)
        hooks = self.flow.config.drill.list_hooks(kind, options.topics or options.groups)
        topics = read_topics(self.flow, kind, options) if options.topics else None
        return _show_phases(kind, options, hooks, {}, topics, as_json=self._flags.as_json)

    def begin(self, kind: DrillKind, options: DrillOptions) -> int:
        """Begin a drill."""
        from k2ktui.drill.operations import start_drill

        with self.open_actor() as actor:
            drill = start_drill(actor, kind, options)
        return self._print_result(drill)

    def resume(self, drill_id: str, how: ResumeOptions) -> int:
        """Continue a drill."""
        from k2ktui.drill.operations import resume_drill

        with self.open_actor() as actor:
            drill = resume_drill(actor, drill_id, how)
        return self._print_result(drill)

    def abort(self, drill_id: str, forward: str | None) -> int:
        """Abort a drill."""
        from k2ktui.drill.operations import abort_drill

        own = failback_options(forward=forward)
        with self.open_actor() as actor:
            drill = abort_drill(actor, drill_id, take_over=self._flags.take_over, **own)
        return self._print_result(drill)

    def _print_result(self, drill: Drill) -> int:
        if self._flags.as_json:
            print_json(report_json(drill))
        else:
            for line in summarize(drill):
                click.echo(safe_message(line))
            if not drill.is_over:
                choice = " --tail CHOICE" if waits_for_tail_choice(drill) else ""
                again = drill_command(drill, drill.next_verb)
                click.echo(f"Continue it: {again}{choice}", err=True)
            click.echo(f"Report: k2ktui drill report {safe_text(drill.id)} -f FILE", err=True)
            if (signed := self._find_signed(drill)) is not None:
                click.echo(f"Signed report: {safe_text(signed)}", err=True)
            if command := self._way_back(drill):
                click.echo(f"The way back, when the source answers: {command}", err=True)
        if drill.status is DrillStatus.ABORTED:
            return _exit_code(keeps_effects(drill) or is_unsigned(drill))
        return _exit_code(not drill.is_over or has_findings(drill))

    def _find_signed(self, drill: Drill) -> Path | None:
        from k2ktui.drill.evidence.directory import find_signed
        from k2ktui.drill.signing import evidence_directory

        directory = evidence_directory(self.flow.config, self._files)
        return None if directory is None else find_signed(directory, drill.id)

    def _way_back(self, drill: Drill) -> str:
        """Return the command that leads back after a failover; "" if there is none."""
        moved = drill.is_over and drill.figures.opened_ms is not None
        if self.flow.pipeline is None or not moved or drill.kind is DrillKind.FAILBACK:
            return ""
        # Imported late: what reads clusters is loaded when a drill has ended.
        from k2ktui.drill.topics import name_targets

        written = drill.kind.is_switchover or reverse_path(self._files).exists()
        targets = name_targets(self.flow.pipeline, drill.topics)
        return way_back_command(self._files, written=written, targets=targets)

    def list(self) -> int:
        """Print the drills, the newest first."""
        from k2ktui.drill.operations import list_all

        name = self.flow.config.name
        drills, rehearsals = list_all(self.flow)
        if self._flags.as_json:
            columns = ("id", "kind", "status", "started_by", "topics")
            rows = [{column: getattr(drill, column) for column in columns} for drill in drills]
            trend = [rehearsal.as_json() for rehearsal in rehearsals]
            print_json({"pipeline": name, "drills": rows, "rehearsals": trend})
        else:
            print_table(f"Drills of {safe_text(name)}", drill_columns(WORDS), drills)
        return ExitCode.OK

    def show(self, drill_id: str) -> int:
        """Print one drill as it is now."""
        from k2ktui.drill.operations import read_drill
        from k2ktui.drill.ownership import is_acted_on

        drill = read_drill(self.flow, drill_id)
        acting = is_acted_on(drill)
        if self._flags.as_json:
            print_json({**asdict(drill), "acting": acting})
        else:
            print_drill(drill, acting=acting)
        return ExitCode.OK

    def report(self, drill_id: str, html: Path | None) -> int:
        """Print or write the report of a drill."""
        from k2ktui.drill.operations import read_report
        from k2ktui.drill.report_html import report_html

        pages = (report_html, report_json, report_markdown)
        return _print_report(html, self._flags, *pages, *read_report(self.flow, drill_id))

    def verify(self, drill_id: str) -> int:
        """Verify the report of a drill against the journal."""
        from k2ktui.drill.operations import verify_drill

        drill, problems = verify_drill(self.flow, drill_id)
        return _print_problems(drill.id, problems, "report and the journal", self._flags)


class DirectoryDrills:
    """The site drills of a directory; what each method returns is the exit code."""

    def __init__(self, directory: Path, flags: DrillFlags) -> None:
        from k2ktui.fleet.files import read_directory

        self._directory, self._flags = directory, flags
        self._only = pattern_of("--only", flags.only)
        self._files = read_directory(directory)

    @contextmanager
    def _open_actor(self) -> Iterator[SiteActor]:
        from k2ktui.site.operations import SiteActor

        with open_operator(self._flags) as operator:
            yield SiteActor(self._files, operator, self._flags.unlock)

    @property
    def _choice(self) -> SiteChoice:
        from k2ktui.site.operations import SiteChoice

        return SiteChoice(self._flags.cluster, self._only, frozenset(self._flags.left_out))

    def dry_run(self, kind: DrillKind, options: DrillOptions) -> int:
        """Print which pipelines a site drill would move, on stderr, and what it would do."""
        from k2ktui.engine.drill.site_selection import describe_unknown
        from k2ktui.site.directory import list_pipelines
        from k2ktui.site.operations import preview_site

        selected, site = preview_site(self._files, kind, options, self._choice)
        hooks = {
            one.file: one.flow.config.drill.list_hooks(kind) for one in list_pipelines(self._files)
        }
        count, cluster = counted(len(selected.members), "pipeline"), safe_text(selected.cluster)
        click.echo(f"{count} of {safe_text(selected.name)} (cluster {cluster}):", err=True)
        for member in selected.members:
            name, to = safe_text(member.pipeline), safe_text(member.target)
            click.echo(f"    {name} to {to} ({safe_text(member.file)})", err=True)
            for hook in hooks[member.file]:
                click.echo(f"        {describe_hook(hook)}", err=True)
        for shared in site.mark.names:
            click.echo(f"    {describe_name(site, shared)}", err=True)
        for file in selected.unknown:
            click.echo(f"    source not known: {describe_unknown(file)}", err=True)
        shown = {
            "site": selected.name,
            "cluster": selected.cluster,
            "pipelines": [member.pipeline for member in selected.members],
            "unknown": [file.file for file in selected.unknown],
            "names": name_rows(site),
            "hooks": {m.pipeline: [*map(hook_json, hooks[m.file])] for m in selected.members},
        }
        return _show_phases(kind, options, (), shown, None, as_json=self._flags.as_json)

    def begin(self, kind: DrillKind, options: DrillOptions) -> int:
        """Begin a site drill."""
        from k2ktui.site.operations import start_site

        with self._open_actor() as actor:
            site = start_site(actor, kind, options, self._choice)
        return self._print_result(site)

    def resume(self, drill_id: str, how: ResumeOptions) -> int:
        """Continue a site drill."""
        from k2ktui.site.operations import resume_site

        with self._open_actor() as actor:
            site = resume_site(actor, drill_id, how)
        return self._print_result(site)

    def abort(self, drill_id: str, forward: str | None) -> int:
        """Abort a site drill."""
        from k2ktui.site.operations import abort_site

        flags = self._flags
        with self._open_actor() as actor:
            site = abort_site(actor, drill_id, take_over=flags.take_over, left_out=flags.left_out)
        return self._print_result(site)

    def _print_result(self, site: SiteDrill) -> int:
        if self._flags.as_json:
            print_json(site_json(site))
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
        if site.status is DrillStatus.ABORTED:
            aborted = [drill for drill in site.drills if drill.status is DrillStatus.ABORTED]
            bad = any(keeps_effects(drill) or is_unsigned(drill) for drill in aborted)
            return _exit_code(bad or bool(site.mark.left_out))
        return _exit_code(site_has_findings(site))

    def list(self) -> int:
        """Print the site drills, the newest first; findings if a pipeline could not be read."""
        from k2ktui.site.operations import list_sites

        sites, errors = list_sites(self._files)
        if self._flags.as_json:
            rows = [
                {
                    "id": site.id,
                    "site": site.name,
                    "kind": site.kind,
                    "status": site.status,
                    "pipelines": [state.pipeline for state in site.members],
                }
                for site in sites
            ]
            print_json({"drills": rows, "unread": dict(errors)})
        else:
            title = f"Site drills of {safe_text(self._directory)}"
            print_table(title, site_columns(WORDS), sites)
        for name, why in errors.items():
            click.echo(f"{safe_text(name)} could not be read: {safe_message(why)}", err=True)
        return _exit_code(bool(errors))

    def show(self, drill_id: str) -> int:
        """Print one site drill as it is now."""
        from k2ktui.site.operations import read_site

        site = read_site(self._files, drill_id)
        if self._flags.as_json:
            print_json(site_json(site))
            return ExitCode.OK
        title = f"{safe_text(site.id)}  {site.kind} of {safe_text(site.name)}: {site.status}"
        print_table(title, member_columns(WORDS), site.members)
        for line in summarize_site(site):
            click.echo(safe_message(line))
        if not site.is_over:
            click.echo(describe_site_way_back(site))
        return ExitCode.OK

    def report(self, drill_id: str, html: Path | None) -> int:
        """Print or write the report of a site drill."""
        from k2ktui.drill.report_html import render_html
        from k2ktui.site.operations import read_site
        from k2ktui.site.report import make_site_report

        def site_html(site: SiteDrill) -> str:
            return render_html(make_site_report(site))

        pages = (site_html, site_json, site_markdown)
        return _print_report(html, self._flags, *pages, read_site(self._files, drill_id))

    def verify(self, drill_id: str) -> int:
        """Verify the reports of all members against their journals."""
        from k2ktui.site.operations import verify_site

        problems = verify_site(self._files, drill_id)
        return _print_problems(drill_id, problems, "reports and the journals", self._flags)


def _show_phases(
    kind: DrillKind,
    options: DrillOptions,
    hooks: Sequence[Hook],
    selection: Mapping[str, Any],
    topics: DrillTopics | None,
    *,
    as_json: bool,
) -> int:
    names, lines = (topics.names, topics.lines) if topics else ((), ())
    parts = {hook.phase: hook for hook in hooks if hook.role is not HookRole.HOOK}
    order = phases_of(kind, names, redirects=bool(parts or selection.get("names")))
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
        print_json({**shown, **selection})
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
        if phase in parts:
            click.echo(f"    {describe_hook(parts[phase])}")
        list_hooks(phase, after=True)
    for hook in (hook for hook in hooks if hook.phase not in order):
        click.echo(f"    not run, as a {kind.noun} has no such phase: {describe_hook(hook)}")
    click.echo("No drill was begun.", err=True)
    return ExitCode.OK


def print_drill(drill: Drill, *, acting: bool) -> None:
    """Print a drill as it is: phases, result so far, the next step and the way back.

    Args:
        drill: the drill.
        acting: whether a process acts on it.
    """
    name, owner = safe_text(drill.id), safe_text(drill.owner)
    click.echo(f"{name}  {drill.kind} of {safe_text(drill.pipeline)}: {drill.status}")
    for row in list_phases(drill, acting=acting):
        record = row.record
        live = f"  {safe_message(record.live)}" if record.live else ""
        status = CHOOSE if row.asks else STOPPED if row.is_interrupted else record.status
        click.echo(f"{row.number:>3} {record.phase:<17} {status:<8}{live}")
        for finding in record.findings:
            click.echo(f"      {safe_message(finding)}")
    for hook in drill.hooks:
        click.echo(f"    {safe_message(describe_record(hook))}")
    seen = moment(drill.beat_ms / 1000)
    if acting:
        click.echo(f"{owner} acts on it, last seen {seen}.")
    elif not drill.is_over:
        click.echo(
            f"No process acts on it; that of {owner} was last seen {seen}. "
            f"Continue it: {drill_command(drill, drill.next_verb)}"
        )
    for line in summarize(drill):
        click.echo(line)
    if not drill.is_over:
        click.echo(safe_message(describe_next(drill, acting=acting)))
        click.echo(safe_message(describe_way_back(drill)))


def _exit_code(bad: bool) -> int:
    return int(ExitCode.FINDINGS if bad else ExitCode.OK)


def _print_report(
    path: Path | None,
    flags: DrillFlags,
    as_html: Callable[..., str],
    as_json: Callable[..., object],
    as_markdown: Callable[..., str],
    *read: object,
) -> int:
    """Print a report of what was read, or write it to a file that only its owner can read.

    Raises:
        ConfigError: the file cannot be written.
    """
    if path is None and flags.as_json:
        print_json(as_json(*read))
    elif path is None:
        click.echo(as_markdown(*read), nl=False)
    else:
        failed = "the report could not be written to {path}: {why}"
        write_file(path, as_html(*read).encode(), failed)
        print_note(f"The report is in {safe_text(path)}.")
    return ExitCode.OK


def _print_problems(drill_id: str, problems: Sequence[str], what: str, flags: DrillFlags) -> int:
    if flags.as_json:
        print_json({"id": drill_id, "problems": problems})
    for problem in problems:
        click.echo(problem, err=True)
    if not problems and not flags.as_json:
        click.echo(f"The {what} fit together.")
    return _exit_code(bool(problems))
