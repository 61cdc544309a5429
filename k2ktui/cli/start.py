"""``k2ktui start``: run a pipeline until it is stopped, or until it has caught up."""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Callable
from dataclasses import asdict
from types import FrameType
from typing import NoReturn

import click

from k2ktui.cli.options import file_option, load_pipeline
from k2ktui.errors import ExitCode
from k2ktui.replication.pipeline import Pipeline
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
from k2ktui.replication.telemetry import observed
from k2ktui.text import safe_text


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
    with observed(config, tell, wanted=telemetry) as report:
        pipeline = Pipeline(config, report, until_caught_up=until_caught_up)
        stopped = _on_signals(pipeline.stop)
        finished = pipeline.run()
    if stopped():
        return ExitCode.INTERRUPTED if stopped() == signal.SIGINT else ExitCode.OK
    return ExitCode.FINDINGS if finished.faults else ExitCode.OK


def _on_signals(stop: Callable[[], None]) -> Callable[[], int]:
    """Stop gracefully at the first SIGTERM, SIGINT or SIGHUP, at once at the second."""
    seen: list[int] = []

    def handle(number: int, frame: FrameType | None) -> None:
        if seen:
            _at_once()
        seen.append(number)
        stop()

    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, handle)
    return lambda: seen[0] if seen else 0


def _at_once() -> NoReturn:
    # Spark's JVM ends when its standard input closes, the workers with it.
    os._exit(ExitCode.INTERRUPTED)


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
