"""``k2ktui mm2 import``: convert a file of MirrorMaker 2 to a pipeline file."""

from __future__ import annotations

import json
import os
from pathlib import Path

import click

from k2ktui.cli.terminal.notes import print_notes
from k2ktui.errors import ConfigError, Refused
from k2ktui.mm2.flows.settings import load_settings
from k2ktui.mm2.importing.pipeline_file import import_flow
from k2ktui.text import safe_text


@click.command(
    help="Convert mm2.properties, a Strimzi resource or a connector's JSON to a pipeline file; "
    "notes name the counterparts of settings that are not carried over."
)
@click.argument("file", metavar="FILE[#A->B]", default="")
@click.option("-f", "--file", "named", default="", metavar="FILE", help="The same as FILE.")
@click.option("-o", "--output", metavar="FILE", help="File to write to (default: standard output).")
@click.option("--json", "as_json", is_flag=True, help="Print the file and the notes as JSON.")
def command(file: str, named: str, output: str | None, as_json: bool) -> None:
    """Read the file, print or write the pipeline, and print notes to stderr."""
    if bool(file) == bool(named):
        raise ConfigError(
            "give one file of MirrorMaker 2" + (", not two" if file else ""),
            unchanged="Nothing was done.",
            hint="k2ktui mm2 import FILE, or -f FILE; FILE#A->B selects one flow.",
        )
    path, _, flow = (file or named).partition("#")
    settings = load_settings(path, filled=False)
    imported = import_flow(settings.flow(flow))
    notes = [*settings.notes, *imported.notes]
    if output is not None:
        _write(Path(output), imported.text)
    if as_json:
        click.echo(json.dumps({"file": output, "text": imported.text, "notes": notes}))
        return
    print_notes(notes)
    if output is None:
        click.echo(imported.text, nl=False)
    else:
        name = safe_text(output)
        click.echo(f"{name} was written. Next: k2ktui config validate -f {name}", err=True)


def _write(path: Path, text: str) -> None:
    try:
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError as error:
        raise Refused(
            f"{safe_text(path)} already exists",
            unchanged="Nothing was written.",
            hint="Choose another file name.",
        ) from error
    except OSError as error:
        raise ConfigError(
            f"{safe_text(path)} cannot be written: {error.strerror}",
            unchanged="Nothing was written.",
        ) from error
    with os.fdopen(handle, "w", encoding="utf-8") as file:
        file.write(text)
