"""``k2ktui bug-report``: one archive with what a maintainer needs, and no secret."""

from __future__ import annotations

import time
from pathlib import Path

import click

from k2ktui.cli.bug_report_parts import Part, collect_parts, write_archive
from k2ktui.cli.terminal.options import optional_file_option
from k2ktui.errors import ConfigError, ExitCode
from k2ktui.progress import long_step
from k2ktui.text import safe_text


@click.command(help="Write versions, redacted configuration, logs, crashes and checks to a file.")
@optional_file_option
@click.option(
    "-o",
    "--output",
    metavar="ARCHIVE",
    help="New archive to write.  [default: k2ktui-bug-report-TIME.tar.gz]",
)
@click.option("--no-check", is_flag=True, help="Do not contact the clusters.")
def command(files: tuple[str, ...], output: str | None, no_check: bool) -> int:
    """Collect what can be collected, and say what could not."""
    moment = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime())
    path = Path(output or f"k2ktui-bug-report-{moment}.tar.gz")
    if path.exists():
        raise ConfigError(
            f"{safe_text(path)} already exists",
            unchanged="Nothing was written.",
            hint="Choose another file name with -o.",
        )
    parts: list[Part] = []
    with long_step("parts of the bug report collected") as advance:
        for part in collect_parts(files, checks=not no_check):
            parts.append(part)
            advance(len(parts))
    write_archive(path, parts)
    for part in parts:
        click.echo(f"{part.name}: {part.missing or 'collected'}", err=True)
    click.echo(safe_text(path))
    click.echo("Read it before you send it: names of topics and groups are in it.", err=True)
    return ExitCode.OK
