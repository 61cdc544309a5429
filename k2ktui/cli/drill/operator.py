"""The operator of a drill at a terminal, or phases that were confirmed in advance."""

from __future__ import annotations

import json
import sys
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click

from k2ktui.cli.terminal.notes import StatusLine, print_note, print_progress
from k2ktui.cli.terminal.options import access_to
from k2ktui.cli.terminal.tables import print_table
from k2ktui.drill.files import reverse_path, way_back_command
from k2ktui.drill.progress import CHOOSE, STOPPED, list_phases
from k2ktui.drill.report import has_findings, report_json, summarize
from k2ktui.engine.access import Access
from k2ktui.engine.drill.checks import DrillKind, DrillPhase
from k2ktui.engine.drill.hook_steps import keeps_effects
from k2ktui.engine.drill.hooks import describe_record, find_phase
from k2ktui.engine.drill.model import Drill, DrillStatus, PhaseStatus
from k2ktui.engine.drill.steps import (
    can_go_back,
    describe_next,
    describe_way_back,
    drill_command,
    next_verb,
    waits_for_tail_choice,
)
from k2ktui.engine.drill.topics import TOPICS_STEP, UNCHANGED
from k2ktui.errors import ConfigError, ConnectionFailed, ExitCode, Refused, TimedOut
from k2ktui.present.drills import drill_columns
from k2ktui.present.formatting import WORDS
from k2ktui.private_files import write_private
from k2ktui.text import moment, safe_message, safe_text

if TYPE_CHECKING:
    from k2ktui.sync.flow import Flow

ALL = "all"


def read_phases(text: str | None) -> frozenset[str]:
    """Return the phases that ``--yes-to`` names.

    Raises:
        ConfigError: one of them is no phase.
    """
    names = frozenset(part.strip() for part in (text or "").split(",") if part.strip())
    known = {ALL, TOPICS_STEP}
    unknown = sorted(name for name in names if name not in known and find_phase(name) is None)
    if unknown:
        raise ConfigError(
            f"--yes-to: {safe_text(unknown[0])} is not a phase",
            unchanged="Nothing was done.",
            hint=f"Use {ALL} or phases, separated by commas: {', '.join(sorted(DrillPhase))}; for "
            f"the hooks of a phase before-PHASE or after-PHASE; {TOPICS_STEP} for --topics.",
        )
    return names


class TerminalOperator:
    """Shows phases as lines on stderr and asks for typed confirmations.

    Args:
        line: the status line.
        yes_to: phases that are confirmed in advance, or ``all``.
        quiet: whether only errors are shown.
    """

    def __init__(self, line: StatusLine, yes_to: Collection[str], *, quiet: bool = False) -> None:
        self._line, self._yes_to, self._quiet = line, yes_to, quiet
        self._shown: set[str] = set()
        self._drill: Drill | None = None

    def show(self, drill: Drill) -> None:
        """Print each phase once it has ended; the running one is on the status line."""
        self._drill = drill
        if self._quiet:
            return
        for number, record in enumerate(drill.phases, start=1):
            if record.status in (PhaseStatus.WAITING, PhaseStatus.RUNNING):
                self._shown = {name for name in self._shown if not name.startswith(f"{number} ")}
                continue
            asks = record.status is PhaseStatus.FAILED and waits_for_tail_choice(drill)
            status = CHOOSE if asks else record.status
            text = f"{number} {record.phase}: {status}: {safe_message(record.live)}"
            if text in self._shown:
                continue
            self._shown.add(text)
            self._line.show("")
            print_progress(text)
            for finding in record.findings:
                print_progress(f"    {safe_message(finding)}")
        running = [record for record in drill.phases if record.status is PhaseStatus.RUNNING]
        if running:
            number = drill.phases.index(running[0]) + 1
            self._line.show(f"{number} {running[0].phase} ● {safe_message(running[0].live)}")

    def note_open(self) -> None:
        """Name the drill that an error leaves open, and the command that continues it."""
        drill = self._drill
        if drill is not None and not drill.is_over:
            again = drill_command(drill, next_verb(drill))
            print_note(f"drill {safe_text(drill.id)} is {drill.status}; continue it: {again}")

    def confirm(self, drill: Drill, step: str, effect: str) -> bool:
        """Ask for the name of the phase or hook, unless it was confirmed in advance."""
        if str(step) in self._yes_to or ALL in self._yes_to:
            return True
        aborts = drill.status is DrillStatus.ABORTING
        if not sys.stdin.isatty():
            name, verb = safe_text(drill.id), next_verb(drill)
            if not drill.session:  # it has not begun
                raise Refused(
                    f"{step} must be confirmed, and standard input is not a terminal. {effect}",
                    unchanged=UNCHANGED,
                    hint=f"Add --yes-to {step}.",
                )
            raise Refused(
                f"{step} must be confirmed, and standard input is not a terminal. {effect}",
                unchanged="The drill stays where it is.",
                hint=f"Run k2ktui drill {verb} {name} -f FILE --yes-to {step}.",
            )
        self._line.show("")
        first, *more = map(safe_message, effect.splitlines())
        click.echo("\n".join([f"{step}: {first}", *more]), err=True)
        if can_go_back(drill) and not aborts and drill.session:
            click.echo(describe_way_back(drill), err=True)
        typed = click.prompt(f"Type {step} to continue", default="", show_default=False, err=True)
        return bool(typed.strip() == str(step))

    def agree(self, drill: Drill, lines: Sequence[str]) -> bool:
        """Show these lines and ask for the drill's id; never confirmed in advance."""
        if not sys.stdin.isatty():
            return False
        self._line.show("")
        for line in lines:
            click.echo(line, err=True)
        name = safe_text(drill.id)
        typed = click.prompt(f"Type {name} to continue", default="", show_default=False, err=True)
        return bool(typed.strip() == name)

    def confirm_take_over(self, drill: Drill) -> bool:
        """Ask whether to take a drill over from the operator who acts on it."""
        if not sys.stdin.isatty():
            return False
        since = moment(drill.beat_ms / 1000)
        owner = safe_text(drill.owner)
        click.echo(f"{owner} acts on this drill, last seen {since}.", err=True)
        typed = click.prompt(
            f"Type {owner} to take it over", default="", show_default=False, err=True
        )
        return bool(typed.strip() == drill.owner)


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


def print_drills(pipeline: str, drills: Sequence[Drill]) -> None:
    """Print a list of drills, in the columns of the console."""
    print_table(f"Drills of {safe_text(pipeline)}", drill_columns(WORDS), drills)


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
        click.echo(json.dumps(report_json(drill)))
    else:
        for line in summarize(drill):
            click.echo(safe_message(line))
        name = safe_text(drill.id)
        if not drill.is_over:
            choice = " --tail CHOICE" if waits_for_tail_choice(drill) else ""
            again = drill_command(drill, next_verb(drill))
            click.echo(f"Continue it: {again}{choice}", err=True)
        click.echo(f"Report: k2ktui drill report {name} -f FILE", err=True)
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
