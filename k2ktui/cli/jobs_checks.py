"""The checks before ``k2ktui jobs start`` and ``restart``, printed one by one."""

from __future__ import annotations

import click

from k2ktui.cli.check import check_text
from k2ktui.config.model import PipelineConfig
from k2ktui.engine.moves.journal import RunKind
from k2ktui.jobs.checks import NAME, start_checks
from k2ktui.replication.preflight.checks import Check, CheckOutcome, error_of


def run_checks(
    config: PipelineConfig,
    kind: RunKind,
    *,
    force: bool,
    take_over: bool,
    restart: bool = False,
) -> list[Check]:
    """Run the checks and print each one as it completes.

    Raises:
        ConnectionFailed, TimedOut: a cluster is unreachable.
        Refused: another check failed that no given option overrides.
    """
    checks = []
    for check in start_checks(config, restart=restart, kind=kind):
        click.echo(check_text(check), err=True)
        checks.append(check)
    failed = [check for check in checks if check.outcome is CheckOutcome.FAIL]
    left = [
        check for check in failed if check.fatal or not (take_over if check.name == NAME else force)
    ]
    if left:
        hard = any(check.fatal for check in left)
        raise error_of(left)(
            f"not started: {', '.join(check.name for check in left)} failed",
            unchanged="Nothing was started or stopped.",
            hint=""
            if hard
            else "Correct what failed, or repeat with --force (--take-over if it runs elsewhere).",
        )
    return checks
