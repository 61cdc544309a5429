"""A change as every command makes it: planned, shown, confirmed, made, reported.

A command plans a :class:`Change`, which says of one kind how it is shown, asked, made and reported;
:func:`run_change` does the rest, the same for all of them.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterable, Sequence
from contextlib import nullcontext, redirect_stdout
from dataclasses import dataclass
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

import click

from k2ktui.cli.terminal import options
from k2ktui.cli.terminal.files import write_file
from k2ktui.cli.terminal.notes import print_note
from k2ktui.cli.terminal.tables import MOST, print_table
from k2ktui.config.model import PipelineConfig
from k2ktui.errors import ExitCode, Refused
from k2ktui.present.columns import Column
from k2ktui.text import safe_text

if TYPE_CHECKING:
    from k2ktui.engine.moves.apply import WriteOutcome

Done = TypeVar("Done")
Row = TypeVar("Row")
_UNCHANGED = "Nothing was changed."


@dataclass(frozen=True, slots=True)
class ChangeFlags:
    """The flags of a command that changes something.

    Attributes:
        dry_run: show the change only.
        yes: skip the confirmation.
        unlock: also in production.
        as_json: print JSON.
    """

    dry_run: bool = False
    yes: bool = False
    unlock: bool = False
    as_json: bool = False


def change_flags(function: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command its ``--dry-run``, ``--yes``, ``--unlock`` and ``--json`` as ``flags``."""

    @wraps(function)
    def command(**given: Any) -> Any:
        names = [name for name in ChangeFlags.__dataclass_fields__ if name in given]
        return function(flags=ChangeFlags(**{name: given.pop(name) for name in names}), **given)

    return command


def change_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add ``-f`` and the flags of a change; the command gets these as ``flags``."""
    dry_run = options.flag("--dry-run", "Show the change without making it.")
    flags = dry_run(options.yes(change_flags(function)))
    return options.file(options.json(options.unlock(flags)))


@dataclass(frozen=True, slots=True)
class Change(Generic[Done]):
    """A change of one kind.

    Attributes:
        name: what is changed, a pipeline, flow or connector: the name to type.
        effect: what is done, as the end of the sentence "Type … to"; empty if nothing is.
        show: prints the plan on standard output, which is standard error beside JSON.
        apply: makes the change.
        report: prints for people what was done.
        undo: returns the command that undoes it; empty if there is none, or the report names it.
        as_json: returns what ``--json`` prints; of None, what was not done.
        finish: prints the last notes, and returns the exit code.
        check: what is noted, or refused, after the plan was shown.
        allow: refuses what may not be changed, before it is asked.
        side: the cluster that is changed; on the ``source`` ``--yes`` skips nothing.
        nothing: what is said if there is nothing to do.
        notes_nothing: whether that is said with ``--json``, too.
        not_done: what is said of ``--dry-run``.
    """

    name: str
    effect: str
    show: Callable[[], object]
    apply: Callable[[], Done]
    report: Callable[[Done], object]
    as_json: Callable[[Done | None], object]
    undo: Callable[[Done], str] = lambda _: ""
    finish: Callable[[Done | None], int] = lambda _: ExitCode.OK
    check: Callable[[], object] = lambda: None
    allow: Callable[[], object] = lambda: None
    side: str = "target"
    nothing: str = "Nothing to change."
    notes_nothing: bool = False
    not_done: str = ""


def run_change(change: Change[Done], flags: ChangeFlags) -> int:
    """Show a change, ask for confirmation, make it and report it; return the exit code.

    With ``--json``, standard output is one document at the end. Whoever has to confirm sees the
    plan before, on standard error.

    Raises:
        Refused: it was not confirmed, or may not be made.
    """
    if not flags.as_json or (change.effect and not (flags.yes or flags.dry_run)):
        with redirect_stdout(sys.stderr) if flags.as_json else nullcontext():
            change.show()
    change.check()
    done = None
    if change.effect and not flags.dry_run:
        change.allow()
        confirm(change.name, change.effect, yes=flags.yes, side=change.side)
        done = change.apply()
    if flags.as_json:
        if not change.effect and change.notes_nothing:
            click.echo(change.nothing, err=True)
        printed = change.as_json(done)
        click.echo(printed if isinstance(printed, str) else json.dumps(printed))
    elif done is not None:
        change.report(done)
        if again := change.undo(done):
            click.echo(f"To undo: {again}", err=True)
    elif said := change.not_done if change.effect else change.nothing:
        click.echo(said, err=True)
    return int(change.finish(done))


def confirm(name: str, what: str, *, yes: bool, side: str = "target") -> None:
    """Require that the operator types the name of what is changed.

    Args:
        name, what, side: as the fields of :class:`Change`.
        yes: whether ``--yes`` was given, which skips the question.

    Raises:
        Refused: the operator typed another text, standard input is not a terminal, or ``--yes`` was
            given for the source.
    """
    if yes and side == "source":
        raise Refused(
            "--yes does not confirm a change on the source",
            unchanged=_UNCHANGED,
            hint="Repeat without --yes, and type the name that it asks for.",
        )
    if yes:
        return
    if not can_ask():
        raise Refused(
            "confirmation is required, and standard input is not a terminal",
            unchanged=_UNCHANGED,
            hint="Review the output above, then repeat with --yes."
            if side == "target"
            else "Run it in a terminal.",
        )
    if not ask(name, what):
        raise Refused("the confirmation did not match", unchanged=_UNCHANGED)


def can_ask() -> bool:
    """Whether a person can answer: standard input is a terminal."""
    return sys.stdin.isatty()


def ask(name: str, what: str = "continue") -> bool:
    """Ask for a name to be typed, and return whether it was; Enter alone refuses."""
    question = f"Type {safe_text(name)} to {what}"
    typed: str = click.prompt(question, default="", show_default=False, err=True)
    return typed.strip() == name


def ask_passphrase() -> Callable[[str], str] | None:
    """Return what asks once for the passphrase of a key, given its name; None without a terminal.

    Enter alone is an empty one.
    """

    def prompt(key: str) -> str:
        question = f"Passphrase of {key} (Enter alone: the report is not signed)"
        typed: str = click.prompt(
            question, hide_input=True, default="", show_default=False, err=True
        )
        return typed

    return prompt if can_ask() else None


class JournaledWrites(Protocol):
    """What was written, with its entry in the journal."""

    @property
    def id(self) -> str: ...
    @property
    def counts(self) -> dict[str, int]: ...
    @property
    def complete(self) -> bool: ...


def written_code(done: JournaledWrites | None) -> int:
    """Return 0 if everything was applied, otherwise the code of a partial result."""
    return ExitCode.OK if done is None or done.complete else ExitCode.PARTIAL


def written_object(
    pipeline: str, done: JournaledWrites | None, rows: Iterable[dict[str, Any]]
) -> dict[str, Any]:
    """Return what ``--json`` prints; without an entry, the plan changed nothing."""
    id_, counts = (done.id, done.counts) if done else (None, {})
    return {"pipeline": pipeline, "id": id_, "counts": counts, "rows": list(rows)}


def show_written(
    done: JournaledWrites,
    columns: Sequence[Column[Row]],
    rows: Iterable[Row],
    outcome: Callable[[Row], WriteOutcome],
) -> None:
    """Print the rows, those that were not applied first."""
    from k2ktui.engine.moves.apply import WriteOutcome, results_text

    first = sorted(rows, key=lambda row: outcome(row) is WriteOutcome.APPLIED)
    print_table(f"Journal entry {done.id}", columns, first, most=MOST)
    click.echo(f"{results_text(done.counts)}.")


def show_connections(files: Sequence[str], config: PipelineConfig) -> None:
    """Print which files a plan has chosen, if it has, and the addresses that get their logins."""
    if not files:
        return
    names = ", ".join(map(safe_text, files))
    click.echo(f"note: pipeline file (from the plan): {names}", err=True)
    for side, cluster in (("source", config.source), ("target", config.target)):
        click.echo(f"note: {side}: {safe_text(cluster.bootstrap_servers)}", err=True)


def note_undone(by: str) -> None:
    """Note that an entry was undone before, if one has done so."""
    if by:
        print_note(f"entry {safe_text(by)} has already undone it")


def write_plan(path: str, text: str) -> None:
    """Write a plan to a file that only its owner can read.

    Raises:
        ConfigError: the file cannot be written.
    """
    failed = "the plan could not be written to {path}: {why}"
    write_file(Path(path), text.encode(), failed, _UNCHANGED)
