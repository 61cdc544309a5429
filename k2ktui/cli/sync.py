"""``k2ktui sync``: translate committed offsets to the target continuously."""

from __future__ import annotations

import json
import signal
import sys
from collections.abc import Callable
from types import FrameType
from typing import TYPE_CHECKING

import click

from k2ktui.cli.terminal.notes import note_text
from k2ktui.cli.terminal.options import access_to, file_option, load_flow, unlock_option
from k2ktui.cli.terminal.program_options import ProgramOptions, program_options
from k2ktui.cli.terminal.streams import ending_signals
from k2ktui.engine.access import require
from k2ktui.engine.moves.plan import Rewind
from k2ktui.errors import ExitCode
from k2ktui.runtime.log_lines import RunLog

if TYPE_CHECKING:
    from k2ktui.sync.loop.poll import SyncPoll


@click.command(help="Translate and commit group offsets continuously, until SIGTERM or SIGINT.")
@file_option
@click.option("--once", is_flag=True, help="Poll once, then exit.")
@click.option(
    "--rewind",
    type=click.Choice([str(policy) for policy in Rewind]),
    default=str(Rewind.NEVER),
    show_default=True,
    help="Action where a group moved back on the source: never (keep the target's offset) or "
    "follow (commit the lower offset). Offsets that it committed on the target itself "
    "are kept.",
)
@click.option(
    "--log-format",
    type=click.Choice(["text", "json"]),
    default="text",
    show_default=True,
    help="Format: text (one line per poll) or json (one object per poll).",
)
@click.option("--json", "as_json", is_flag=True, help="The same as --log-format json.")
@click.option(
    "-t", "--telemetry", is_flag=True, help="Export metrics as the OTEL_* variables specify."
)
@unlock_option
@program_options
def command(
    files: tuple[str, ...],
    once: bool,
    rewind: str,
    log_format: str,
    as_json: bool,
    telemetry: bool,
    unlock: bool,
    options: ProgramOptions,
) -> int:
    """Run the loop; with ``--once``, findings if groups were left alone or not moved."""
    from k2ktui.parity.watcher import watch_parity
    from k2ktui.sync.loop.running import SyncReports, SyncRun

    flow = load_flow(files, templates=options.templates)
    require(access_to(flow.config, unlock=unlock), "translating continuously")
    log = RunLog()

    def report_note(note: str) -> None:
        log.print_error(note_text(note))

    printer = _make_poll_printer(log, as_json=as_json or log_format == "json")
    reports = SyncReports(report_note, printer)
    run, seen = (
        SyncRun(
            flow,
            Rewind(rewind),
            reports,
            telemetry=telemetry,
            http=options.http,
            beside=watch_parity(flow.config, report_note, is_pipeline=flow.pipeline is not None),
        ),
        [0],
    )

    def handle(number: int, frame: FrameType | None) -> None:
        if run.is_ending:
            sys.exit(ExitCode.INTERRUPTED)
        seen[0] = number
        run.stop()

    for number in ending_signals():
        signal.signal(number, handle)
    with log:
        findings = run.run(once=once)
    if seen[0]:
        # As for `start`: who ends it knows from the log what was left alone.
        return ExitCode.INTERRUPTED if seen[0] == signal.SIGINT else ExitCode.OK
    return ExitCode.FINDINGS if findings else ExitCode.OK


def _make_poll_printer(log: RunLog, *, as_json: bool) -> Callable[[SyncPoll, bool], None]:
    from k2ktui.sync.loop.poll_text import is_worth_reporting, poll_event, poll_lines

    def print_poll(turn: SyncPoll, always: bool) -> None:
        event = poll_event(turn)
        if as_json:
            log.print(json.dumps(event))
            return
        for note in turn.notes:
            log.print_error(note_text(note))
        for failure in turn.failed:
            log.print_error(f"NOT COMMITTED {failure}")
        if always or is_worth_reporting(turn):
            log.print("\n".join(poll_lines(event)))

    return print_poll
