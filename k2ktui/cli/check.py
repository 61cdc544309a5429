"""``k2ktui check``: all checks that are possible before a start, without changing anything."""

from __future__ import annotations

import json
from dataclasses import asdict

import click

from k2ktui.cli.terminal.options import file_option, json_option, load_pipeline
from k2ktui.errors import fix_text
from k2ktui.replication.preflight.checks import Check, CheckOutcome, exit_code
from k2ktui.replication.preflight.suite import run_checks
from k2ktui.sync.drill.guard import check_fence
from k2ktui.sync.holds import check_holds
from k2ktui.sync.mapping.keeper import check_mappings
from k2ktui.sync.other_files import check_file
from k2ktui.text import counted, safe_message

_MARKS = {
    CheckOutcome.PASS: ("✓ pass", "green"),
    CheckOutcome.FAIL: ("✗ FAIL", "red"),
    CheckOutcome.WARN: ("! warning", "yellow"),
    CheckOutcome.UNKNOWN: ("? could not check", "yellow"),
}


@click.command(
    help="Check clusters, permissions, topics, Java and Spark, without changing anything."
)
@file_option
@json_option
def command(files: tuple[str, ...], as_json: bool) -> int:
    """Run the checks, print them, and return the exit code of :func:`exit_code`."""
    config = load_pipeline(files)
    checks = [check_fence(config), *run_checks(config)]
    if not any(check.unreachable for check in checks):
        checks += [check_file(config), check_holds(config), check_mappings(config)]
    code = exit_code(checks)
    if as_json:
        rows = [asdict(check) for check in checks]
        shown = {"pipeline": config.name, "exit_code": int(code), "checks": rows}
        click.echo(json.dumps(shown, indent=2))
        return code
    for check in checks:
        click.echo(check_text(check))
    counts = {verdict: sum(c.outcome is verdict for c in checks) for verdict in CheckOutcome}
    warnings = (
        f"{counted(counts[CheckOutcome.WARN], 'warning')}, " if counts[CheckOutcome.WARN] else ""
    )
    click.echo(
        f"{counts[CheckOutcome.PASS]} passed, {counts[CheckOutcome.FAIL]} failed, {warnings}"
        f"{counts[CheckOutcome.UNKNOWN]} could not be checked"
    )
    return code


def check_text(check: Check) -> str:
    """Return a check as lines for a terminal: mark, name, detail, and the fix below."""
    mark, colour = _MARKS[check.outcome]
    lines = [f"{click.style(mark, fg=colour)}  {check.name}: {_printable(check.detail)}"]
    lines += [f"      {line}" for line in _printable(fix_text(check.hint)).splitlines()]
    return "\n".join(lines)


def _printable(text: str) -> str:
    return "\n".join(safe_message(line) for line in text.splitlines())
