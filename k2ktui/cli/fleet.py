"""``k2ktui fleet``: the pipelines of a directory, the worst first."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from k2ktui.cli.terminal.options import directory_option, json_option
from k2ktui.cli.terminal.tables import print_table
from k2ktui.engine.severity import Severity
from k2ktui.errors import ExitCode
from k2ktui.present.fleet import fleet_columns
from k2ktui.present.formatting import WORDS, moment

if TYPE_CHECKING:
    from k2ktui.fleet.files import PipelineFile
    from k2ktui.fleet.model import FleetRow

# Rows that were not read by then are printed as unknown.
READ_S = 120.0


@click.command(help="Show the pipelines of a directory of pipeline files, the worst first.")
@directory_option
@json_option
def command(directory: Path, as_json: bool) -> int:
    """Read every pipeline once and print a row for each; findings if one is serious."""
    from k2ktui.fleet.files import read_directory

    return print_once(read_directory(directory), as_json=as_json)


def print_once(files: Sequence[PipelineFile], *, as_json: bool) -> int:
    """Read every pipeline once and print a row for each; findings if one is serious."""
    from k2ktui.fleet.feed import read_fleet

    rows = read_fleet(files, READ_S)
    print_fleet(rows, as_json=as_json)
    is_serious = any(row.severity in (Severity.BAD, Severity.UNKNOWN) for row in rows)
    return ExitCode.FINDINGS if is_serious else ExitCode.OK


def print_fleet(rows: Sequence[FleetRow], *, as_json: bool) -> None:
    """Print the rows, the worst first: a table, or one line of JSON."""
    from k2ktui.fleet.model import worst_first

    rows, now = worst_first(rows), time.time()
    if as_json:
        click.echo(json.dumps({"pipelines": [row.as_json() for row in rows]}))
    else:
        print_table(f"Pipelines at {moment(now)}", fleet_columns(WORDS, lambda: now), rows)
    sys.stdout.flush()
