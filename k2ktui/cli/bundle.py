"""``k2ktui bundle``: one archive with everything that a host without internet needs."""

from __future__ import annotations

from pathlib import Path

import click

from k2ktui.cli.status_line import StatusLine
from k2ktui.demo import mirrormaker
from k2ktui.progress import ProgressTexts
from k2ktui.runtime import artifacts
from k2ktui.runtime.offline_archive import find_wheels, read_archive, write_archive
from k2ktui.runtime.spark_extra import require_demo_packages
from k2ktui.text import counted, safe_text


@click.group(help="Pack everything for a host without internet; use it there.")
def command() -> None:
    """Docs: ``docs/deployment.md``."""


@command.command("create", help="Download Kafka's jars and pack them with wheels into a tar file.")
@click.option(
    "--wheels",
    required=True,
    metavar="DIR",
    type=click.Path(path_type=Path),
    help="Directory of the wheels that pip wheel -w DIR '.[spark]' wrote.",
)
@click.option(
    "-o",
    "--output",
    required=True,
    metavar="FILE",
    type=click.Path(path_type=Path),
    help="Tar file to write; must not exist.",
)
def create(wheels: Path, output: Path) -> None:
    """Write the archive."""
    find_wheels(wheels)  # before the download
    require_demo_packages("k2ktui bundle create")
    with StatusLine() as line:
        show = ProgressTexts(line.show)
        jars = (
            artifacts.classpath(artifacts.SERVER, artifacts.LOGGING, progress=show),
            mirrormaker.jars(show),
        )
    content = write_archive(output, wheels, jars)
    size = output.stat().st_size / 1e6
    click.echo(
        f"{safe_text(output)}: {counted(content.wheels, 'wheel')}, {counted(content.jars, 'jar')}, "
        f"{size:,.0f} MB",
        err=True,
    )


@command.command("load", help="Add the demo's jars from an extracted archive to this user's cache.")
@click.argument("directory", metavar="DIR", type=click.Path(path_type=Path))
def load(directory: Path) -> None:
    """Copy the jars."""
    click.echo(f"{counted(read_archive(directory), 'jar')} in the cache", err=True)
