"""``k2ktui demo``: two local clusters, traffic, and a pipeline between them."""

from __future__ import annotations

import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from k2ktui.cli.console import ConsoleArguments, open_pipeline
from k2ktui.cli.terminal import options
from k2ktui.cli.terminal.notes import StatusLine
from k2ktui.demo.app import Demo, DemoOptions, Tour, end, fetch_jars
from k2ktui.demo.running import DemoAction, request
from k2ktui.demo.screen import Screen
from k2ktui.errors import ConfigError, ExitCode
from k2ktui.progress import ProgressTexts

_DETACHED = (
    "the demo keeps running for up to an hour without a console. k2ktui demo opens the console "
    "again, k2ktui demo --stop ends it."
)


@click.command(help="Start two local clusters with traffic and a pipeline between them.")
@options.flag("--fresh", "Delete the data of earlier demos first.")
@options.flag("--keep", "Keep the data for the next demo to continue.")
@options.flag("--headless", "Print what k2ktui watch prints instead of the console.")
@options.flag("--stop", "Stop the running demo.")
@options.flag(
    "--jars", "Download the jars of Kafka and MirrorMaker 2, and print their folder; start nothing."
)
@options.choice(
    "--do action",
    DemoAction,
    "Act on the applications or the source of the running demo, as screen 8 does with C; "
    "show prints what runs.",
)
@click.option(
    "--seconds",
    type=click.FloatRange(min=0),
    help="Run time in seconds, counted from the first figures, or from the end of --drill.",
)
@click.option(
    "--rate",
    type=click.FloatRange(min=0, max=100),
    default=1.0,
    show_default=True,
    help="Factor of the traffic (1 is about 600 records/s).",
)
@options.flag(
    "--with-mirrormaker",
    "Run MirrorMaker 2 beside the pipeline; the Groups screen compares their re-reads.",
)
@options.flag(
    "--with-schemas",
    "Start two schema registries, and map the schema ids of a topic of Avro records.",
)
@options.choice(
    "--drill",
    Tour,
    "Fail over and back, with new data: planned (default, after a rehearsal), or disaster, "
    "which kills the source; pauses to read on a terminal.",
    is_flag=False,
    flag_value=str(Tour.PLANNED),
)
@click.option(
    "--pause",
    type=click.FloatRange(min=0, max=600),
    help="Pause between two phases of --drill in seconds (default: 4 on a terminal, else none).",
)
def demo(stop: bool, jars: bool, action: str | None, drill: str | None, **chosen: Any) -> int:
    """Start, resume or stop the demo, act on it or fetch its jars; return the exit code."""
    if stop:
        return end(Screen())
    if jars:
        with StatusLine() as line:
            folder = fetch_jars(ProgressTexts(line.show))
        click.echo(folder)
        return ExitCode.OK
    if action:
        click.echo(request(DemoAction(action)))
        return ExitCode.OK
    if drill and any(map(chosen.get, ("fresh", "keep", "with_mirrormaker", "with_schemas"))):
        raise ConfigError(
            "--drill cannot be combined with --fresh, --keep, --with-mirrormaker or --with-schemas",
            unchanged="Nothing was started.",
            hint="The drill always has new data of its own, and deletes it at the end.",
        )
    if chosen["pause"] is not None and not drill:
        raise ConfigError(
            "--pause is only for the phases of --drill",
            unchanged="Nothing was started.",
            hint="Add --drill, or leave out --pause.",
        )
    with StatusLine() as line:
        demo_options = DemoOptions(drill=Tour(drill) if drill else None, **chosen)
        return Demo(demo_options, Screen(line.show), open_console).run()


def open_console(config: Path, compare: Path | None, watchdog: Callable[[], str]) -> int:
    """Open the console on the demo's pipeline; see :data:`k2ktui.demo.app.OpenConsole`."""
    from k2ktui.console import terminal
    from k2ktui.console.session import LeaveChoice

    choices = (
        LeaveChoice("e", "End", "the pipeline and both clusters are stopped.", 0),
        LeaveChoice("d", "Detach", _DETACHED, int(signal.SIGHUP)),
    )
    mirrormaker = str(compare) if compare else None
    given = ConsoleArguments(files=(str(config),), mirrormaker=mirrormaker)
    number = open_pipeline(given, choices, watchdog)
    return int(signal.SIGHUP) if terminal.is_gone() else number
