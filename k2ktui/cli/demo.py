"""``k2ktui demo``: two local clusters, traffic, and a pipeline between them."""

from __future__ import annotations

import click

from k2ktui.demo.app import DemoOptions, end, run


@click.command(help="Start two local clusters with traffic and a pipeline between them.")
@click.option("--fresh", is_flag=True, help="Delete the data of earlier demos first.")
@click.option("--keep", is_flag=True, help="Keep the data for the next demo to continue.")
@click.option("--headless", is_flag=True, help="Show a live table instead of the console.")
@click.option("--stop", is_flag=True, help="Stop the running demo.")
@click.option(
    "--seconds",
    type=click.FloatRange(min=0),
    help="Run time in seconds, counted from the first figures.",
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
def command(
    fresh: bool,
    keep: bool,
    headless: bool,
    stop: bool,
    seconds: float | None,
    rate: float,
    with_mirrormaker: bool,
) -> int:
    """Start, resume or stop the demo, and return the exit code."""
    if stop:
        return end()
    options = DemoOptions(
        fresh=fresh,
        keep=keep,
        headless=headless,
        seconds=seconds,
        rate=rate,
        with_mirrormaker=with_mirrormaker,
    )
    return run(options)
