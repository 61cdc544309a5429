"""What a start waits for, and what keeps a pipeline from starting."""

from __future__ import annotations

from collections.abc import Callable

from k2ktui.config.model import PipelineConfig
from k2ktui.errors import ConnectionFailed, K2kError
from k2ktui.kafka.unreachable import await_open
from k2ktui.replication.preflight.checks import Check, CheckOutcome, before_start, error_of
from k2ktui.replication.preflight.suite import run_checks
from k2ktui.replication.reports.events import Event
from k2ktui.replication.reports.notes import ThrottledNotifier
from k2ktui.runtime.stop_flag import StopFlag

_RECONNECT_S = 1.0


def wait_for_clusters(
    config: PipelineConfig, stopping: StopFlag, report: Callable[[Event], None]
) -> None:
    """Wait without a limit until both clusters accept connections.

    Raises:
        K2kError: a stop was requested first.
    """
    troubles = ThrottledNotifier(report)
    for label, side in (("source", config.source), ("target", config.target)):
        subject = f"waiting for the {label} cluster"
        while not stopping.is_set():
            try:
                await_open(label, side.bootstrap_servers)
                break
            except ConnectionFailed as error:
                troubles.report(subject, error.message)
                stopping.wait(_RECONNECT_S)
        troubles.over(subject)
    if stopping.is_set():
        raise K2kError("stopped before the clusters could be reached")


def require_startable(config: PipelineConfig, show_check: Callable[[Check], None]) -> None:
    """Run the preflight checks before anything is written; fail if nothing could be copied.

    Args:
        config: the pipeline.
        show_check: called with every check that did not pass.

    Raises:
        ConnectionFailed, TimedOut: a cluster is unreachable.
        Refused: another fatal check failed.
    """
    fatal = []
    for check in map(before_start, run_checks(config)):
        if check.outcome is not CheckOutcome.PASS:
            show_check(check)
        if check.fatal and check.outcome is CheckOutcome.FAIL:
            fatal.append(check)
    if fatal:
        names = ", ".join(check.name for check in fatal)
        raise error_of(fatal)(
            f"not started: {names} failed",
            unchanged="Nothing was written.",
            hint="Correct what failed; k2ktui check shows every line again.",
        )
