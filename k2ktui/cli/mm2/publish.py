"""``k2ktui mm2 publish``: a pipeline's state in the format that MirrorMaker 2's tools expect."""

from __future__ import annotations

import json
import signal
import sys
from dataclasses import asdict
from types import FrameType

import click

from k2ktui.cli.terminal.notes import print_note
from k2ktui.cli.terminal.options import (
    access_to,
    file_option,
    json_option,
    load_flow,
    range_check,
    unlock_option,
)
from k2ktui.cli.terminal.streams import ending_signals
from k2ktui.engine.access import require
from k2ktui.errors import REFUSALS, ClusterRefused, ConnectionFailed, ExitCode, K2kError, TimedOut
from k2ktui.mm2.publish import MirrorNames, Publisher
from k2ktui.runtime.stop_flag import StopFlag
from k2ktui.text import counted

_MIN_INTERVAL_S = 0.5
_REFUSED_PAUSE_S = 30.0
_OUTAGES: tuple[type[K2kError], ...] = (ConnectionFailed, TimedOut)


@click.command(
    help="Publish checkpoints, heartbeats and offset-syncs in MirrorMaker 2's format on the "
    "target, until SIGTERM or SIGINT."
)
@file_option
@click.option("--source-alias", help="Alias of the source cluster.  [default: mm2.sourceAlias]")
@click.option("--target-alias", help="Alias of the target cluster.  [default: mm2.targetAlias]")
@click.option(
    "--separator",
    help="Separator in remote topic names "
    "(replication.policy.separator).  [default: mm2.separator]",
)
@click.option(
    "--interval",
    type=float,
    callback=range_check(_MIN_INTERVAL_S),
    metavar="SECONDS",
    help=f"Publishing interval in seconds (minimum {_MIN_INTERVAL_S:g}).  [default: mm2.interval]",
)
@click.option("--once", is_flag=True, help="Publish once, then exit.")
@click.option(
    "--force",
    is_flag=True,
    help="Write even if MirrorMaker 2's topics of this alias exist on the target.",
)
@click.option("--even-so", "force", is_flag=True, hidden=True)
@unlock_option
@json_option
def command(
    files: tuple[str, ...],
    source_alias: str | None,
    target_alias: str | None,
    separator: str | None,
    interval: float | None,
    once: bool,
    force: bool,
    unlock: bool,
    as_json: bool,
) -> int:
    """Publish repeatedly until a signal, or once."""
    over = StopFlag()
    seen: list[int] = []

    def handle(number: int, frame: FrameType | None) -> None:
        if over.is_set():
            sys.exit(ExitCode.INTERRUPTED)
        seen.append(number)
        over.set()

    flow = load_flow(files)
    config = flow.config
    require(access_to(config, unlock=unlock), "publishing")
    chosen = config.mm2
    names = MirrorNames(
        source_alias or chosen.source_alias,
        target_alias or chosen.target_alias,
        chosen.separator if separator is None else separator,
    )
    publisher = Publisher(flow, names, force=force or chosen.force)
    for number in ending_signals():
        signal.signal(number, handle)
    forgiven = () if once else _OUTAGES
    try:
        while not over.is_set():
            pause_s = interval or chosen.interval_s
            try:
                _publish_once(publisher, as_json=as_json)
            except forgiven as error:
                print_note(f"{error.message}; retrying")
                if isinstance(error, REFUSALS):
                    pause_s = max(pause_s, _REFUSED_PAUSE_S)
            else:
                # From now on, a right may be taken away for a while.
                forgiven = () if once else (*_OUTAGES, ClusterRefused)
            if once:
                break
            over.wait(pause_s)
    finally:
        publisher.close()
    return ExitCode.INTERRUPTED if seen[:1] == [signal.SIGINT] else ExitCode.OK


def _publish_once(publisher: Publisher, *, as_json: bool) -> None:
    done = publisher.turn()
    if as_json:
        click.echo(json.dumps(asdict(done)))
    elif done.checkpoints or done.offset_syncs:
        left = f"; {done.left_out} group-partitions have no position" if done.left_out else ""
        syncs = counted(done.offset_syncs, "offset-sync")
        click.echo(f"{counted(done.checkpoints, 'checkpoint')}, {syncs}{left}")
