"""``k2ktui start``: run a pipeline until it is stopped or has caught up."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import sys
import threading
from collections.abc import Callable, Collection
from types import FrameType
from typing import NoReturn

import click

from k2ktui.cli.check import check_text
from k2ktui.cli.ending import ending_signals
from k2ktui.cli.options import access_to, file_option, load_pipeline, unlock_option
from k2ktui.config.model import PipelineConfig
from k2ktui.engine.access import require
from k2ktui.errors import ConnectionFailed, ExitCode, K2kError, Refused
from k2ktui.kafka.unreachable import await_open
from k2ktui.mm2.publish import PublisherThread
from k2ktui.replication.event_text import report_event, report_text
from k2ktui.replication.events import Note, Report
from k2ktui.replication.pipeline import Pipeline
from k2ktui.replication.preflight.checks import Check, CheckOutcome
from k2ktui.replication.preflight.suite import run_checks
from k2ktui.replication.telemetry.session import measure_run
from k2ktui.sync.commit_snapshots import CommitSnapshotRunner

_GRACE_S = 4.5
# Time for publishing the last checkpoints.
_LAST_TURN_S = 20.0


def _print_check(check: Check) -> None:
    click.echo(check_text(check), err=True)


@click.command(help="Run a pipeline until SIGTERM or SIGINT, or until it has caught up.")
@file_option
@click.option(
    "--until-caught-up",
    is_flag=True,
    help="Exit when every partition has reached the end offset read at startup.",
)
@click.option(
    "--log-format",
    type=click.Choice(["text", "json"]),
    default="text",
    show_default=True,
    help="Format: text (one line per lap) or json (one object per event).",
)
@click.option(
    "-t",
    "--telemetry",
    is_flag=True,
    help="Export metrics as the OTEL_* variables specify (implied by OTEL_METRICS_EXPORTER).",
)
@unlock_option
def command(
    files: tuple[str, ...], until_caught_up: bool, log_format: str, telemetry: bool, unlock: bool
) -> int:
    """Run the pipeline, and return the exit code."""
    config = load_pipeline(files)
    require(access_to(config, unlock=unlock), "starting the pipeline")
    report_to = _print_json if log_format == "json" else _print_text
    return run(config, report_to, until_caught_up=until_caught_up, telemetry=telemetry)


def run(
    config: PipelineConfig,
    report_to: Callable[[Report], None],
    *,
    say: Callable[[Check], None] = _print_check,
    until_caught_up: bool = False,
    telemetry: bool = False,
    ending: Collection[signal.Signals] | None = None,
    last_words: Callable[[int], None] = lambda code: None,
) -> int:
    """Run a pipeline and return the exit code.

    Args:
        config: the pipeline.
        report_to: called with every report.
        say: called with every check that did not pass.
        until_caught_up: end when every partition has reached the end offset seen at the start.
        telemetry: export metrics.
        ending: signals that end it; by default :func:`ending_signals`.
        last_words: called with the exit code before an immediate exit.

    Raises:
        K2kError: the pipeline could not start, or had to stop.
    """
    # Fail early: starting Spark takes seconds.
    for label, side in (("source", config.source), ("target", config.target)):
        await_open(label, side.bootstrap_servers)
    keeper = CommitSnapshotRunner(config, lambda text: report_to(Note(text)))
    publisher = PublisherThread(config, lambda text: report_to(Note(text)))

    def ready() -> None:
        _preflight(config, say)
        keeper.start()
        if config.mm2.publish:
            publisher.start()

    with measure_run(config, report_to, wanted=telemetry) as report:
        pipeline = Pipeline(config, report, until_caught_up=until_caught_up, preflight=ready)
        stopped = _on_signals(pipeline, ending or ending_signals(), last_words)
        try:
            finished = pipeline.run()
        except K2kError as error:
            if not stopped():
                raise
            report_to(Note(error.message))  # it was being stopped anyway
        finally:
            keeper.stop()
            publisher.stop(0.0 if stopped() else _LAST_TURN_S)
    if stopped():
        return ExitCode.INTERRUPTED if stopped() == signal.SIGINT else ExitCode.OK
    return ExitCode.FINDINGS if finished.faults else ExitCode.OK


def _preflight(config: PipelineConfig, say: Callable[[Check], None]) -> None:
    """Report problems before anything is written; fail if nothing could be copied.

    Raises:
        ConnectionFailed: a cluster is unreachable.
        Refused: another fatal check failed.
    """
    fatal = []
    for check in run_checks(config):
        if check.outcome is not CheckOutcome.PASS:
            say(check)
        if check.fatal and check.outcome is CheckOutcome.FAIL:
            fatal.append(check)
    if fatal:
        kind = ConnectionFailed if any(check.unreachable for check in fatal) else Refused
        names = ", ".join(check.name for check in fatal)
        raise kind(
            f"not started: {names} failed",
            unchanged="Nothing was written.",
            hint="Fix the failed checks; k2ktui check -f FILE repeats them.",
        )


def _on_signals(
    pipeline: Pipeline, ending: Collection[signal.Signals], last_words: Callable[[int], None]
) -> Callable[[], int]:
    """Stop gracefully on the first of these signals, immediately on the second.

    A graceful stop that takes longer than ``_GRACE_S`` ends in an immediate exit: that equals a
    crash, and a crash loses nothing.
    """
    seen: list[int] = []

    def handle(number: int, frame: FrameType | None) -> None:
        if seen:
            at_once(ExitCode.INTERRUPTED)
        seen.append(number)
        pipeline.stop()
        code = ExitCode.INTERRUPTED if number == signal.SIGINT else ExitCode.OK
        timer = threading.Timer(_GRACE_S, at_once, (code,))
        timer.daemon = True
        timer.start()

    def at_once(code: int) -> NoReturn:
        pipeline.abandon()
        with contextlib.suppress(Exception):
            last_words(code)
        # Spark's JVM and its workers end when its standard input closes.
        os._exit(code)

    for number in ending:
        signal.signal(number, handle)
    return lambda: seen[0] if seen else 0


def _print_json(report: Report) -> None:
    click.echo(json.dumps(report_event(report)))
    sys.stdout.flush()


def _print_text(report: Report) -> None:
    click.echo(report_text(report))
    sys.stdout.flush()
