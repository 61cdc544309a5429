"""``k2ktui check``, ``explain`` and ``config``: what a pipeline needs and does."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import click

from k2ktui.cli.terminal import options
from k2ktui.cli.terminal.files import load_pipeline
from k2ktui.cli.terminal.notes import print_note, print_notes
from k2ktui.cli.terminal.tables import print_json, print_table
from k2ktui.errors import ConfigError, ExitCode, fix_text
from k2ktui.present.columns import Column, text_column
from k2ktui.text import counted, safe_message, safe_text

if TYPE_CHECKING:
    from k2ktui.config.model import PipelineConfig
    from k2ktui.replication.preflight.checks import Check
    from k2ktui.replication.preflight.explain import Explanation

# By a check's outcome.
_MARKS = {
    "pass": ("✓ pass", "green"),
    "fail": ("✗ FAIL", "red"),
    "warning": ("! warning", "yellow"),
    "could-not-check": ("? could not check", "yellow"),
}


@click.command(
    help="Check clusters, permissions, topics, Java and Spark, without changing anything."
)
@options.reading
def check(files: tuple[str, ...], as_json: bool) -> int:
    """Run the checks, print them, and return the exit code of ``preflight.checks.exit_code``."""
    from k2ktui.replication.preflight.checks import exit_code

    config = load_pipeline(files)
    checks = run_every_check(config)
    code = exit_code(checks)
    if not as_json:
        for one in checks:
            click.echo(check_text(one))
    print_result(config.name, code, [asdict(one) for one in checks], as_json=as_json)
    return code


def run_every_check(config: PipelineConfig) -> list[Check]:
    """Run what ``check`` runs; failures are in the list."""
    from k2ktui.jobs.checks import check_releases
    from k2ktui.replication.preflight.suite import run_checks
    from k2ktui.sync.drill.guard import check_fence
    from k2ktui.sync.holds import check_holds
    from k2ktui.sync.mapping.keeper import check_mappings
    from k2ktui.sync.other_files import check_file

    checks = [check_fence(config), *run_checks(config)]
    if not any(one.unreachable for one in checks):
        checks += [check_file(config), check_holds(config), check_mappings(config)]
        checks.append(check_releases(config))
    return checks


def print_result(
    pipeline: str, code: ExitCode, checks: Sequence[Mapping[str, Any]], *, as_json: bool
) -> None:
    """Print how many checks had which outcome; as JSON, the checks themselves.

    Outcomes of drill checks have the values of ``CheckOutcome``.
    """
    if as_json:
        print_json({"pipeline": pipeline, "exit_code": int(code), "checks": checks}, indent=2)
        return
    from k2ktui.replication.preflight.checks import CheckOutcome

    counts = Counter(CheckOutcome(one["outcome"]) for one in checks)
    warned = counts[CheckOutcome.WARN]
    click.echo(
        f"{counts[CheckOutcome.PASS]} passed, {counts[CheckOutcome.FAIL]} failed, "
        f"{counted(warned, 'warning') + ', ' if warned else ''}"
        f"{counts[CheckOutcome.UNKNOWN]} could not be checked"
    )


def check_text(check: Check) -> str:
    """Return a check as lines for a terminal: mark, name, detail, and the fix below."""
    return marked_text(check.outcome, f"{check.name}: {printable(check.detail)}", check.hint)


def marked_text(outcome: str, text: str, hint: str) -> str:
    """Return lines for a terminal: the mark of an outcome, a text, and the fix below."""
    mark, colour = _MARKS[outcome]
    fix = [f"      {line}" for line in printable(fix_text(hint)).splitlines()]
    return "\n".join([f"{click.style(mark, fg=colour)}  {text}", *fix])


def printable(text: str) -> str:
    """Return lines whose names cannot control the terminal."""
    return "\n".join(safe_message(line) for line in text.splitlines())


@click.command(help="Show each topic's target and copy path (verbatim or record), with the reason.")
@options.reading
def explain(files: tuple[str, ...], as_json: bool) -> None:
    """Read both clusters and print; nothing is changed."""
    from k2ktui.log import core
    from k2ktui.replication.preflight.explain import explain_pipeline

    config = load_pipeline(files)
    rows = explain_pipeline(config)
    if reason := core.why_not():
        print_note(f"plain Python merges small batches, slower: {reason}")
    if as_json:
        topics = [asdict(row) for row in rows]
        print_json({"pipeline": config.name, "topics": topics}, indent=2)
    elif not rows:
        click.echo(f"No topic matches {safe_text(config.topics)} yet.")
    else:
        print_table(safe_text(config.name), _TOPICS, rows)


def _path(row: Explanation) -> str:
    if row.left_out:
        return "left out"
    return "moved" if row.moved_by else safe_text(row.path or "refused")


_TOPICS: tuple[Column[Explanation], ...] = (
    text_column("topic", lambda row: safe_text(row.topic), left=True),
    text_column("target", lambda row: safe_text(row.target), left=True),
    text_column("path", _path, left=True),
    text_column("reason", lambda row: safe_message(row.reason), left=True),
)


@click.group()
def config() -> None:
    """Validate, show and reverse pipeline files."""


@config.command()
@options.reading
def validate(files: tuple[str, ...], as_json: bool) -> int:
    """Report all errors in pipeline files with their locations.

    The exit code is 2 if there are any.
    """
    from k2ktui.kafka.properties.translation import load_checked

    try:
        loaded = load_checked(files, need_replication=False)
    except ConfigError as error:
        if not as_json:
            raise
        errors = [line.strip() for line in error.message.splitlines()[1:]] or [error.message]
        print_json({"ok": False, "errors": errors}, indent=2)
        return ExitCode.USAGE
    if as_json:
        shown = {"ok": True, "pipeline": loaded.config.name, "notes": list(loaded.notes)}
        print_json(shown, indent=2)
    else:
        print_notes(loaded.notes)
        click.echo(f"OK: pipeline {safe_text(loaded.config.name)}")
    return ExitCode.OK


@config.command()
@options.reading
@options.flag("--sources", "Show the file and line that set each key.")
def show(files: tuple[str, ...], as_json: bool, sources: bool) -> None:
    """Print the effective configuration, with secrets redacted.

    Defaults are included.
    """
    from k2ktui.config.load import load
    from k2ktui.config.show import to_json, to_yaml

    loaded = load(files, need_replication=False)
    if as_json:
        click.echo(to_json(loaded, with_sources=sources))
    else:
        print_notes(loaded.notes)
        click.echo(to_yaml(loaded, with_sources=sources), nl=False)


@config.command()
@options.reading
def reverse(files: tuple[str, ...], as_json: bool) -> None:
    """Print the file of the opposite pipeline, from the target to the source.

    Source and target are swapped, the topic mapping is inverted, and
    features.bidirectionalReplication is enabled. What needs attention is printed on standard error.
    """
    from k2ktui.config.reverse import reverse_file

    made = reverse_file(files)
    if as_json:
        print_json({"text": made.text, "notes": list(made.notes)}, indent=2)
    else:
        print_notes(made.notes)
        click.echo(made.text, nl=False)


@config.command()
def schema() -> None:
    """Print the JSON schema of pipeline files for editors."""
    from k2ktui.config.editor_schema import editor_schema

    print_json(editor_schema(), indent=2)
