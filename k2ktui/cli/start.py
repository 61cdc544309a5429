"""``k2ktui start``: run a pipeline until it is stopped, or until it has caught up."""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
from collections.abc import Callable
from dataclasses import asdict
from types import FrameType
from typing import NoReturn

import click

from k2ktui.cli.check import check_text
from k2ktui.cli.options import file_option, load_pipeline
from k2ktui.config.model import PipelineConfig
from k2ktui.errors import ConnectionFailed, ExitCode, Refused
from k2ktui.replication.pipeline import Pipeline
from k2ktui.replication.preflight.checks import Verdict
from k2ktui.replication.preflight.suite import run_checks
from k2ktui.replication.reports import (
    Finished,
    FirstRecord,
    Note,
    Progress,
    Report,
    Resumed,
    Started,
    Stopped,
)
from k2ktui.replication.telemetry.session import observed
from k2ktui.sync.keeper import KeeperThread
from k2ktui.text import safe_text

_GRACE_S = 4.5


@click.command(help="Run a pipeline until SIGTERM or SIGINT, or until it has caught up.")
@file_option
@click.option(
    "--until-caught-up",
    is_flag=True,
    help="End when every partition has reached the end offset seen at the start.",
)
@click.option(
    "--log-format",
    type=click.Choice(["text", "json"]),
    default="text",
    show_default=True,
    help="One line a lap, or a JSON object an event.",
)
@click.option(
    "-t",
    "--telemetry",
    is_flag=True,
    help="Export metrics, as the OTEL_* variables say; OTEL_METRICS_EXPORTER alone does so too.",
)
def command(files: tuple[str, ...], until_caught_up: bool, log_format: str, telemetry: bool) -> int:
    """Run it, and return the exit code."""
    config = load_pipeline(files)
    tell = _tell_json if log_format == "json" else _tell_text
    keeper = KeeperThread(config, lambda text: tell(Note(text)))

    def ready() -> None:
        _preflight(config)
        keeper.start()

    with observed(config, tell, wanted=telemetry) as report:
        pipeline = Pipeline(config, report, until_caught_up=until_caught_up, preflight=ready)
        stopped = _on_signals(pipeline)
        try:
            finished = pipeline.run()
        finally:
            keeper.stop()
    if stopped():
        return ExitCode.INTERRUPTED if stopped() == signal.SIGINT else ExitCode.OK
    return ExitCode.FINDINGS if finished.faults else ExitCode.OK


def _preflight(config: PipelineConfig) -> None:
    """Tell what is wrong before anything is written; end where nothing could be copied at all.

    Raises:
        ConnectionFailed: a cluster does not answer.
        Refused: another check that everything depends on failed.
    """
    fatal = []
    for check in run_checks(config):
        if check.outcome is not Verdict.PASS:
            click.echo(check_text(check), err=True)
        if check.fatal and check.outcome is Verdict.FAIL:
            fatal.append(check)
    if fatal:
        kind = ConnectionFailed if any(check.unreachable for check in fatal) else Refused
        names = ", ".join(check.name for check in fatal)
        raise kind(
            f"not started: {names} failed",
            unchanged="Nothing was written.",
            mend="k2ktui check shows every line again.",
        )


def _on_signals(pipeline: Pipeline) -> Callable[[], int]:
    """Stop gracefully at the first SIGTERM, SIGINT or SIGHUP, at once at the second.

    What is not over by then ends after ``_GRACE_S``: stopping is never worse than crashing, and a
    crash loses nothing.
    """
    seen: list[int] = []

    def handle(number: int, frame: FrameType | None) -> None:
        if seen:
            _at_once(pipeline, ExitCode.INTERRUPTED)
        seen.append(number)
        pipeline.stop()
        code = ExitCode.INTERRUPTED if number == signal.SIGINT else ExitCode.OK
        timer = threading.Timer(_GRACE_S, _at_once, (pipeline, code))
        timer.daemon = True
        timer.start()

    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, handle)
    return lambda: seen[0] if seen else 0


def _at_once(pipeline: Pipeline, code: int) -> NoReturn:
    pipeline.abandon()
    # Spark's JVM ends when its standard input closes, the workers with it.
    os._exit(code)


def _tell_json(report: Report) -> None:
    click.echo(json.dumps({"event": type(report).__name__.lower(), **asdict(report)}))
    sys.stdout.flush()


def _tell_text(report: Report) -> None:
    click.echo(_line(report))
    sys.stdout.flush()


def _line(report: Report) -> str:
    match report:
        case Started():
            return (
                f"{safe_text(report.pipeline)}: term {report.term}, {report.partitions} partitions "
                f"in {report.slots} slots, ready after {report.seconds:.1f} s"
            )
        case FirstRecord():
            return f"first records visible on the target after {report.seconds:.1f} s"
        case Progress():
            return _progress(report)
        case Stopped():
            fault = report.fault
            return (
                f"STOPPED {safe_text(fault.source)} ({fault.kind}): {safe_text(fault.what)}\n"
                f"  {safe_text(fault.mend)}"
            )
        case Resumed():
            return f"RESUMED {safe_text(report.topic)}-{report.partition}"
        case Note():
            return f"note: {safe_text(report.text)}"
        case Finished():
            return _finished(report)


def _progress(report: Progress) -> str:
    rate = report.records / report.seconds if report.seconds else 0.0
    megabytes = report.written_bytes / 1e6 / report.seconds if report.seconds else 0.0
    lag = "…" if report.lag_records is None else f"{report.lag_records:,}"
    stopped = f", {report.stopped} stopped" if report.stopped else ""
    return (
        f"lap {report.lap}: {report.records:,} records, {rate:,.0f}/s, {megabytes:.1f} MB/s, "
        f"{report.transactions} transactions, lag {lag}, {report.partitions} partitions{stopped}"
    )


def _finished(report: Finished) -> str:
    end = "caught up" if report.caught_up else "ended"
    line = f"{end}: {report.records:,} records in {report.seconds:.1f} s"
    if report.faults:
        names = ", ".join(safe_text(fault.source) for fault in report.faults[:20])
        line += f"; {len(report.faults)} partitions are stopped: {names}"
    return line
