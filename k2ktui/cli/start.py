"""``k2ktui start``: run a pipeline until it is stopped or has caught up."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import TYPE_CHECKING

import click

from k2ktui.cli.accept import accept_clusters, accept_options
from k2ktui.cli.terminal.notes import print_note
from k2ktui.cli.terminal.options import access_to, file_option, load_pipeline, unlock_option
from k2ktui.cli.terminal.program_options import ProgramOptions, program_options
from k2ktui.cli.terminal.streams import ending_signals
from k2ktui.engine.access import require
from k2ktui.runtime.log_lines import RunLog
from k2ktui.starting import run_pipeline

if TYPE_CHECKING:
    from k2ktui.replication.preflight.checks import Check
    from k2ktui.replication.reports.events import Report


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
@click.option(
    "--take-over",
    is_flag=True,
    help="Fence the other runs of the pipeline instead of waiting for one that copies alone; with "
    "coordination.mode: shared, those that share it get a part again.",
)
@accept_options
@unlock_option
@program_options
def command(
    files: tuple[str, ...],
    until_caught_up: bool,
    log_format: str,
    telemetry: bool,
    take_over: bool,
    accepted: tuple[str, ...],
    yes: bool,
    unlock: bool,
    options: ProgramOptions,
) -> int:
    """Run the pipeline, and return the exit code."""
    config = load_pipeline(files, templates=options.templates)
    allowed = access_to(config, unlock=unlock)
    require(allowed, "starting the pipeline")
    accept_clusters(config, accepted, allowed, yes=yes)
    if take_over and config.coordination.mode == "exclusive":
        print_note(
            "--take-over changes nothing: with coordination.mode: exclusive, every start "
            "fences the run that copies"
        )
    describe = _json_line if log_format == "json" else _text_line
    with RunLog(_describe_lost(describe)) as log:
        return run_pipeline(
            config,
            lambda report: log.print(describe(report)),
            lambda check: log.print_error(_check_lines(check)),
            until_caught_up=until_caught_up,
            telemetry=telemetry,
            take_over=take_over,
            ending=ending_signals(),
            http=options.http,
        )


def _describe_lost(describe: Callable[[Report], str]) -> Callable[[str], str]:
    """Return what makes a line of the log of a sentence."""

    def describe_note(text: str) -> str:
        from k2ktui.replication.reports.events import Note

        return describe(Note(text))

    return describe_note


def _check_lines(check: Check) -> str:
    # Deferred imports, here and below: the run loads them, while Java starts.
    from k2ktui.cli.check import check_text

    return check_text(check)


def _json_line(report: Report) -> str:
    from k2ktui.replication.reports.event_text import report_event

    return json.dumps(report_event(report))


def _text_line(report: Report) -> str:
    from k2ktui.replication.reports.event_text import report_text

    return report_text(report)
