"""``k2ktui sync``: translate committed offsets to the target continuously."""

from __future__ import annotations

import json
import signal
import sys
from collections.abc import Callable
from dataclasses import asdict, replace
from itertools import islice
from time import monotonic
from types import FrameType
from typing import TYPE_CHECKING

import click

from k2ktui.cli.ending import ending_signals
from k2ktui.cli.notes import print_note
from k2ktui.cli.options import access_to, file_option, load_flow, unlock_option
from k2ktui.config.model import PipelineConfig
from k2ktui.engine.access import require
from k2ktui.engine.plan import Rewind
from k2ktui.errors import ConnectionFailed, ExitCode, TimedOut
from k2ktui.runtime.stop_flag import StopFlag
from k2ktui.text import counted, safe_text

if TYPE_CHECKING:
    from k2ktui.sync.loop import SyncLoop, SyncPoll

# Number of groups whose reread bound is shown, the largest first.
_SHOWN = 10


@click.command(help="Translate and commit group offsets continuously, until SIGTERM or SIGINT.")
@file_option
@click.option("--once", is_flag=True, help="Poll once, then exit.")
@click.option(
    "--rewind",
    type=click.Choice([str(each) for each in Rewind]),
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
@click.option(
    "-t", "--telemetry", is_flag=True, help="Export metrics as the OTEL_* variables specify."
)
@unlock_option
def command(
    files: tuple[str, ...], once: bool, rewind: str, log_format: str, telemetry: bool, unlock: bool
) -> int:
    """Run the loop; findings if groups were left alone or offsets were not committed."""
    from k2ktui.kafka.clients import target_cluster
    from k2ktui.kafka.control import create_mapping_application_topics
    from k2ktui.sync.loop import SyncLoop
    from k2ktui.sync.metrics import measure_sync

    flow = load_flow(files)
    config = flow.config
    require(access_to(config, unlock=unlock), "translating continuously")
    if not (flow.is_mirror or config.replicates):
        for name in create_mapping_application_topics(config, target_cluster(config)):
            _note(f"topic {safe_text(name)} was created on the target cluster")
    loop = SyncLoop(flow, Rewind(rewind))
    over, seen = StopFlag(), [0]

    def handle(number: int, frame: FrameType | None) -> None:
        if over.is_set():
            sys.exit(ExitCode.INTERRUPTED)
        seen[0] = number
        over.set()

    for number in ending_signals():
        signal.signal(number, handle)
    try:
        with measure_sync(config, _note, wanted=telemetry) as report:
            print_poll = _make_poll_printer(report, as_json=log_format == "json")
            findings = _run(config, loop, over, print_poll, once=once)
    finally:
        loop.close()
    if findings:
        return ExitCode.FINDINGS
    return ExitCode.INTERRUPTED if seen[0] == signal.SIGINT else ExitCode.OK


def _run(
    config: PipelineConfig,
    loop: SyncLoop,
    over: StopFlag,
    print_poll: Callable[[SyncPoll, bool], None],
    *,
    once: bool,
) -> bool:
    """Poll until ``over`` is set; return whether there are findings."""
    findings, first = False, True
    while not over.is_set():
        began = monotonic()
        try:
            turn = loop.turn()
        except (ConnectionFailed, TimedOut) as error:
            if once or first:
                raise
            print_note(f"{error.message}; retrying")
        else:
            print_poll(replace(turn, duration_s=monotonic() - began), first or once)
            findings = bool(loop.stopped) or (once and bool(turn.failed))
            first = False
        if once:
            break
        over.wait(max(0.0, config.groups.poll_interval_s - (monotonic() - began)))
    return findings


def _note(text: str) -> None:
    print_note(text)


def _make_poll_printer(
    report: Callable[[SyncPoll], None], *, as_json: bool
) -> Callable[[SyncPoll, bool], None]:
    def print_poll(turn: SyncPoll, always: bool) -> None:
        report(turn)
        if as_json:
            click.echo(json.dumps({"event": "turn", **asdict(turn)}))
            sys.stdout.flush()
        else:
            _print_poll(turn, always=always)

    return print_poll


def _print_poll(turn: SyncPoll, *, always: bool) -> None:
    for note in turn.notes:
        _note(note)
    for failure in turn.failed:
        click.echo(f"NOT COMMITTED {failure}", err=True)
    if always or turn.applied or turn.failed:
        planned = ", ".join(f"{count:,} {action}" for action, count in sorted(turn.actions.items()))
        stopped = f", {len(turn.stopped):,} not written" if turn.stopped else ""
        bases = ", ".join(f"{count:,} {basis}" for basis, count in sorted(turn.bases.items()))
        click.echo(
            f"{counted(turn.groups, 'group')}: {planned or 'nothing to translate'}; "
            f"{turn.applied:,} committed{stopped}" + (f"; {bases}" if bases else "")
        )
        for group, count in islice(turn.rereads.items(), _SHOWN):
            click.echo(f"  {safe_text(group)} re-reads at most {counted(count, 'record')}")
        if (more := len(turn.rereads) - _SHOWN) > 0:
            click.echo(f"  and {counted(more, 'more group')} (k2ktui plan shows all)")
        sys.stdout.flush()
