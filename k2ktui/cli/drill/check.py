"""``k2ktui drill check``: the checks of a drill now, without changing anything."""

from __future__ import annotations

import json
from collections import Counter

import click

from k2ktui.cli.terminal.options import file_option, json_option, load_flow, load_pipeline_flow
from k2ktui.engine.drill.checks import CheckResult, DrillCheckOutcome, DrillKind
from k2ktui.errors import ConfigError, ExitCode, TimedOut
from k2ktui.text import safe_message, safe_text

_MARKS = {
    DrillCheckOutcome.PASS: ("✓ pass", "green"),
    DrillCheckOutcome.FAIL: ("✗ FAIL", "red"),
    DrillCheckOutcome.UNKNOWN: ("? could not check", "yellow"),
}


@click.command(help="Run the checks of a drill now; nothing is changed.")
@file_option
@json_option
@click.option(
    "--only",
    metavar="IDS",
    help="Checks to run, separated by commas, for example D06,D26. All are in "
    "docs/drill-checks.md.",
)
@click.option(
    "--kind",
    type=click.Choice([str(kind) for kind in DrillKind]),
    default=str(DrillKind.REHEARSE),
    show_default=True,
    help="Kind of drill whose checks to run.",
)
@click.option("--registry", default="", metavar="URL", help="Schema registry of the target.")
@click.option("--reverse", metavar="FILE", help="File of the reverse pipeline.")
def command(
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
    ids = _chosen(only) if only is not None else ids_asked(DrillKind(kind))
    facts = DrillFacts(kind=DrillKind(kind), registry=registry, reverse=back)
    results = []
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
        click.echo(json.dumps(shown, indent=2))
        return code
    counts = Counter(result.outcome for result in results)
    click.echo(
        f"{counts[DrillCheckOutcome.PASS]} passed, {counts[DrillCheckOutcome.FAIL]} failed, "
        f"{counts[DrillCheckOutcome.UNKNOWN]} could not be checked"
    )
    return code


def check_text(result: CheckResult) -> str:
    """Return a result as lines for a terminal: mark, id, title, evidence, and the fix below."""
    mark, colour = _MARKS[result.outcome]
    evidence = safe_message(result.evidence)
    lines = [f"{click.style(mark, fg=colour)}  {result.id} {result.title}: {evidence}"]
    hint = result.hint.splitlines()
    lines += [
        f"      {'Fix: ' if n == 0 else ''}{safe_message(line)}" for n, line in enumerate(hint)
    ]
    return "\n".join(lines)


def _chosen(only: str) -> list[str]:
    """Return the chosen ids in the order of the catalog.

    Raises:
        ConfigError: there is no check with such an id.
    """
    from k2ktui.drill.checks.catalog import CATALOG

    asked = {part.strip().upper() for part in only.split(",") if part.strip()}
    unknown = sorted(asked - CATALOG.keys())
    if unknown or not asked:
        names = ", ".join(safe_text(check_id) for check_id in unknown) or "no id"
        raise ConfigError(
            f"--only: expected ids from {min(CATALOG)} to {max(CATALOG)}, found {names}",
            unchanged="Nothing was checked.",
            hint="docs/drill-checks.md lists all checks.",
        )
    return [check_id for check_id in CATALOG if check_id in asked]
