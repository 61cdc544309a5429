"""Who answers for a drill, or for those of a site, at a terminal; and how drills are printed."""

from __future__ import annotations

import threading
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click

from k2ktui.cli.changes import ask, can_ask
from k2ktui.cli.terminal.files import access_to
from k2ktui.cli.terminal.notes import StatusLine, print_note, print_progress
from k2ktui.cli.terminal.tables import print_json, print_table
from k2ktui.drill.files import reverse_path, way_back_command
from k2ktui.drill.progress import CHOOSE, STOPPED, list_phases
from k2ktui.drill.report import has_findings, report_json, summarize
from k2ktui.engine.access import Access
from k2ktui.engine.drill.checks import DrillKind
from k2ktui.engine.drill.hook_steps import keeps_effects
from k2ktui.engine.drill.hooks import describe_record
from k2ktui.engine.drill.model import Drill, DrillStatus, PhaseRecord, PhaseStatus
from k2ktui.engine.drill.site import MemberStatus, SiteDrill, can_all_go_back
from k2ktui.engine.drill.steps import (
    can_go_back,
    describe_next,
    describe_way_back,
    drill_command,
    next_verb,
    waits_for_tail_choice,
)
from k2ktui.engine.drill.topics import UNCHANGED
from k2ktui.errors import ConfigError, ConnectionFailed, ExitCode, Refused, TimedOut
from k2ktui.present.formatting import WORDS
from k2ktui.present.site_drills import member_columns
from k2ktui.private_files import write_private
from k2ktui.site.operator import SiteQuestion, SiteQuestionKind
from k2ktui.site.report import describe_member, site_has_findings, site_json, summarize_site
from k2ktui.text import moment, safe_message, safe_text

if TYPE_CHECKING:
    from k2ktui.fleet.files import PipelineFile
    from k2ktui.sync.flow import Flow

ALL = "all"


class _Terminal:
    """Shows phases as lines on stderr, each once.

    Args:
        line: the status line.
        yes_to: phases that are confirmed in advance, or ``all``.
        quiet: whether only errors are shown.
    """

    def __init__(self, line: StatusLine, yes_to: Collection[str], *, quiet: bool = False) -> None:
        self._line, self._yes_to, self._quiet = line, yes_to, quiet
        self._shown: set[str] = set()

    def _print_phases(self, drill: Drill, prefix: str = "") -> None:
        """Print each phase that has ended; one that runs again is printed again."""
        for number, record in enumerate(drill.phases, start=1):
            place = f"{prefix}{number} "
            if record.status in (PhaseStatus.WAITING, PhaseStatus.RUNNING):
                self._shown = {text for text in self._shown if not text.startswith(place)}
                continue
            status = self._status(drill, record)
            text = f"{place}{record.phase}: {status}: {safe_message(record.live)}"
            self._print_once(text, map(safe_message, record.findings))

    def _status(self, drill: Drill, record: PhaseRecord) -> str:
        return record.status

    def _print_once(self, text: str, findings: Iterable[str] = ()) -> None:
        if text not in self._shown:
            self._shown.add(text)
            self._line.show("")
            print_progress(text)
            for finding in findings:
                print_progress(f"    {finding}")

    def _has_agreed(self, step: str) -> bool:
        return step in self._yes_to or ALL in self._yes_to


class TerminalOperator(_Terminal):
    """The operator of one drill, who types confirmations; arguments as for all of them."""

    _drill: Drill | None = None

    def show(self, drill: Drill) -> None:
        """Print each phase once it has ended; the running one is on the status line."""
        self._drill = drill
        if self._quiet:
            return
        self._print_phases(drill)
        running = [record for record in drill.phases if record.status is PhaseStatus.RUNNING]
        if running:
            number = drill.phases.index(running[0]) + 1
            self._line.show(f"{number} {running[0].phase} ● {safe_message(running[0].live)}")

    def _status(self, drill: Drill, record: PhaseRecord) -> str:
        asks = record.status is PhaseStatus.FAILED and waits_for_tail_choice(drill)
        return CHOOSE if asks else record.status

    def note_open(self) -> None:
        """Name the drill that an error leaves open, and the command that continues it."""
        drill = self._drill
        if drill is not None and not drill.is_over:
            again = drill_command(drill, next_verb(drill))
            print_note(f"drill {safe_text(drill.id)} is {drill.status}; continue it: {again}")

    def confirm(self, drill: Drill, step: str, effect: str) -> bool:
        """Ask for the name of the phase or hook, unless it was confirmed in advance."""
        if self._has_agreed(str(step)):
            return True
        if not can_ask():
            unchanged, hint = UNCHANGED, f"Add --yes-to {step}."
            if drill.session:  # it has begun
                unchanged = "The drill stays where it is."
                verb, name = next_verb(drill), safe_text(drill.id)
                hint = f"Run k2ktui drill {verb} {name} -f FILE --yes-to {step}."
            raise Refused(
                f"{step} must be confirmed, and standard input is not a terminal. {effect}",
                unchanged=unchanged,
                hint=hint,
            )
        self._line.show("")
        first, *more = map(safe_message, effect.splitlines())
        click.echo("\n".join([f"{step}: {first}", *more]), err=True)
        if can_go_back(drill) and drill.status is not DrillStatus.ABORTING and drill.session:
            click.echo(describe_way_back(drill), err=True)
        return ask(str(step))

    def agree(self, drill: Drill, lines: Sequence[str]) -> bool:
        """Show these lines and ask for the drill's id; never confirmed in advance."""
        if not can_ask():
            return False
        self._line.show("")
        for line in lines:
            click.echo(line, err=True)
        return ask(drill.id)

    def confirm_take_over(self, drill: Drill) -> bool:
        """Ask whether to take a drill over from the operator who acts on it."""
        if not can_ask():
            return False
        since = moment(drill.beat_ms / 1000)
        click.echo(f"{safe_text(drill.owner)} acts on this drill, last seen {since}.", err=True)
        return ask(drill.owner, "take it over")


class TerminalSiteOperator(_Terminal):
    """The operator of a site drill, who is asked once for all members.

    Args:
        line, yes_to, quiet: as for all operators.
        left_out: pipelines that are left out in advance.
    """

    def __init__(
        self,
        line: StatusLine,
        yes_to: Collection[str],
        left_out: Collection[str] = (),
        *,
        quiet: bool = False,
    ) -> None:
        super().__init__(line, yes_to, quiet=quiet)
        self._left_out = left_out
        self._asks = threading.Event()

    def show(self, site: SiteDrill) -> None:
        """Print each phase of a member once it has ended; how many members act is the last line."""
        if self._quiet or self._asks.is_set():
            return
        for state in site.members:
            name = safe_text(state.pipeline)
            if state.drill:
                self._print_phases(state.drill, f"{name}: ")
            if state.error:
                self._print_once(f"{name}: {state.status}: {safe_message(state.error)}")
        counts = [
            f"{count} {status}"
            for status in MemberStatus
            if (count := sum(state.status is status for state in site.members))
        ]
        self._line.show(f"{safe_text(site.name)}: {', '.join(counts)}")

    def confirm(self, site: SiteDrill | None, question: SiteQuestion) -> bool:
        """Ask for what has to be typed, unless it was confirmed in advance."""
        leaves_out = (SiteQuestionKind.LEAVE_OUT, SiteQuestionKind.UNKNOWN_FILES)
        if question.kind is SiteQuestionKind.PHASE and self._has_agreed(question.step):
            return True
        if question.kind in leaves_out and set(question.pipelines) <= set(self._left_out):
            return True
        if not can_ask():
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
                click.echo(describe_site_way_back(site), err=True)
            return ask(question.answer)
        finally:
            self._asks.clear()


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


@contextmanager
def open_operator(
    flow: Flow, yes_to: Collection[str], *, unlock: bool, quiet: bool
) -> Iterator[tuple[Access, TerminalOperator]]:
    """Give a command that changes a drill its access rights and the operator at this terminal.

    Arguments as for :class:`TerminalOperator`, and ``--unlock``.
    """
    may = access_to(flow.config, unlock=unlock)
    with StatusLine() as line:
        operator = TerminalOperator(line, yes_to, quiet=quiet)
        try:
            yield may, operator
        except (ConnectionFailed, TimedOut):  # errors of clusters do not know of the drill
            line.show("")
            operator.note_open()
            raise


@contextmanager
def open_site(
    directory: Path, yes_to: Collection[str], leave_out: Collection[str], *, quiet: bool
) -> Iterator[tuple[Sequence[PipelineFile], TerminalSiteOperator]]:
    """Give a command that changes a site drill the pipelines' files and the operator."""
    from k2ktui.fleet.files import read_directory

    files = read_directory(directory)
    with StatusLine() as line:
        yield files, TerminalSiteOperator(line, yes_to, leave_out, quiet=quiet)


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
            f"Continue it: {drill_command(drill, next_verb(drill))}"
        )
    for line in summarize(drill):
        click.echo(line)
    if not drill.is_over:
        click.echo(safe_message(describe_next(drill, acting=acting)))
        click.echo(safe_message(describe_way_back(drill)))


def print_site(site: SiteDrill) -> None:
    """Print one site drill as it is now."""
    title = f"{safe_text(site.id)}  {site.kind} of {safe_text(site.name)}: {site.status}"
    print_table(title, member_columns(WORDS), site.members)
    for line in summarize_site(site):
        click.echo(safe_message(line))
    if not site.is_over:
        click.echo(describe_site_way_back(site))


def describe_site_way_back(site: SiteDrill) -> str:
    """Return whether and how the operator can still go back."""
    if can_all_go_back(site):
        return f"You can still go back: k2ktui drill abort {safe_text(site.id)} -d DIR"
    return "You cannot go back: targets were opened, and records may exist only there."


def write_html(path: Path, page: str) -> None:
    """Write a report to a file that only its owner can read.

    Raises:
        ConfigError: the file cannot be written.
    """
    try:
        write_private(path, page.encode())
    except OSError as error:
        raise ConfigError(
            f"the report could not be written to {safe_text(path)}: {error.strerror}",
            unchanged="Nothing was written.",
        ) from error
    print_note(f"The report is in {safe_text(path)}.")


def print_result(drill: Drill, as_json: bool, flow: Flow, files: Sequence[str]) -> int:
    """Print the result of a command that acted on a drill; return its exit code.

    Args:
        drill: the drill.
        as_json: whether it is printed as JSON.
        flow, files: what is failed over, for the command that leads back.
    """
    if as_json:
        print_json(report_json(drill))
    else:
        for line in summarize(drill):
            click.echo(safe_message(line))
        if not drill.is_over:
            choice = " --tail CHOICE" if waits_for_tail_choice(drill) else ""
            again = drill_command(drill, next_verb(drill))
            click.echo(f"Continue it: {again}{choice}", err=True)
        click.echo(f"Report: k2ktui drill report {safe_text(drill.id)} -f FILE", err=True)
        moved = drill.is_over and drill.figures.opened_ms is not None
        if flow.pipeline is not None and moved and drill.kind is not DrillKind.FAILBACK:
            written = drill.kind.is_switchover or reverse_path(files).exists()
            # Imported late: what reads clusters is loaded when a drill has ended.
            from k2ktui.drill.topics import name_targets

            targets = name_targets(flow.pipeline, drill.topics)
            command = way_back_command(files, written=written, targets=targets)
            click.echo(f"The way back, when the source answers: {command}", err=True)
    if drill.status is DrillStatus.ABORTED:
        bad = keeps_effects(drill)
    else:
        bad = not drill.is_over or has_findings(drill)
    return int(ExitCode.FINDINGS if bad else ExitCode.OK)


def print_site_result(site: SiteDrill, as_json: bool) -> int:
    """Print the result of a command that acted on a site drill; return its exit code."""
    if as_json:
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
    aborted = [drill for drill in site.drills if drill.status == "aborted"]
    if site.status == "aborted":
        kept = any(keeps_effects(drill) for drill in aborted)
        return int(ExitCode.FINDINGS if kept or site.mark.left_out else ExitCode.OK)
    return int(ExitCode.FINDINGS if site_has_findings(site) else ExitCode.OK)
