"""``k2ktui demo``: two local clusters, traffic, and a pipeline between them."""

from __future__ import annotations

import click

from k2ktui.cli.terminal.notes import StatusLine
from k2ktui.demo.app import DemoOptions, Tour, act, end, fetch_jars, run
from k2ktui.demo.running import DemoAction
from k2ktui.errors import ConfigError, ExitCode
from k2ktui.progress import ProgressTexts


@click.command(help="Start two local clusters with traffic and a pipeline between them.")
@click.option("--fresh", is_flag=True, help="Delete the data of earlier demos first.")
@click.option("--keep", is_flag=True, help="Keep the data for the next demo to continue.")
@click.option("--headless", is_flag=True, help="Show a live table instead of the console.")
@click.option("--stop", is_flag=True, help="Stop the running demo.")
@click.option(
    "--jars",
    is_flag=True,
    help="Download the jars of Kafka and MirrorMaker 2, and print their folder; start nothing.",
)
@click.option(
    "--do",
    "action",
    type=click.Choice([str(action) for action in DemoAction]),
    help="Act on the applications or the source of the running demo, as screen 8 does with C; "
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
@click.option(
    "--with-mirrormaker",
    is_flag=True,
    help="Run MirrorMaker 2 beside the pipeline; the Groups screen compares their re-reads.",
)
@click.option(
    "--with-schemas",
    is_flag=True,
    help="Start two schema registries, and map the schema ids of a topic of Avro records.",
)
@click.option(
    "--drill",
    type=click.Choice([str(tour) for tour in Tour]),
    is_flag=False,
    flag_value=str(Tour.PLANNED),
    help="Fail over and back, with new data: planned (default, after a rehearsal), or disaster, "
    "which kills the source; pauses to read on a terminal.",
)
@click.option(
    "--pause",
    type=click.FloatRange(min=0, max=600),
    help="Pause between two phases of --drill in seconds (default: 4 on a terminal, else none).",
)
def command(
    fresh: bool,
    keep: bool,
    headless: bool,
    stop: bool,
    jars: bool,
    action: str | None,
    seconds: float | None,
    rate: float,
    with_mirrormaker: bool,
    with_schemas: bool,
    drill: str | None,
    pause: float | None,
) -> int:
    """Start, resume or stop the demo, act on it or fetch its jars; return the exit code."""
    if stop:
        return end()
    if jars:
        with StatusLine() as line:
            folder = fetch_jars(ProgressTexts(line.show))
        click.echo(folder)
        return ExitCode.OK
    if action:
        click.echo(act(DemoAction(action)))
        return ExitCode.OK
    if drill and (fresh or keep or with_mirrormaker or with_schemas):
        raise ConfigError(
            "--drill cannot be combined with --fresh, --keep, --with-mirrormaker or --with-schemas",
            unchanged="Nothing was started.",
            hint="The drill always has new data of its own, and deletes it at the end.",
        )
    if pause is not None and not drill:
        raise ConfigError(
            "--pause is only for the phases of --drill",
            unchanged="Nothing was started.",
            hint="Add --drill, or leave out --pause.",
        )
    options = DemoOptions(
        fresh=fresh,
        keep=keep,
        headless=headless,
        seconds=seconds,
        rate=rate,
        with_mirrormaker=with_mirrormaker,
        with_schemas=with_schemas,
        drill=Tour(drill) if drill else None,
        pause=pause,
    )
    return run(options)
