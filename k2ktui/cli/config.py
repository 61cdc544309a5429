"""``k2ktui config``: validate, show and reverse pipeline files."""

from __future__ import annotations

import json

import click

from k2ktui.cli.terminal.notes import print_notes
from k2ktui.cli.terminal.options import file_option, json_option
from k2ktui.config.editor_schema import editor_schema
from k2ktui.config.load import Loaded, load
from k2ktui.config.reverse import reverse_file
from k2ktui.config.show import to_json, to_yaml
from k2ktui.errors import ConfigError, ExitCode
from k2ktui.text import safe_text


@click.group()
def command() -> None:
    """Validate, show and reverse pipeline files."""


@command.command()
@file_option
@json_option
def validate(files: tuple[str, ...], as_json: bool) -> int:
    """Report all errors in pipeline files with their locations.

    The exit code is 2 if there are any.
    """
    try:
        loaded = _load(files)
    except ConfigError as error:
        if not as_json:
            raise
        errors = [line.strip() for line in error.message.splitlines()[1:]] or [error.message]
        click.echo(json.dumps({"ok": False, "errors": errors}, indent=2))
        return ExitCode.USAGE
    if as_json:
        shown = {"ok": True, "pipeline": loaded.config.name, "notes": list(loaded.notes)}
        click.echo(json.dumps(shown, indent=2))
        return ExitCode.OK
    _print_notes(loaded)
    click.echo(f"OK: pipeline {safe_text(loaded.config.name)}")
    return ExitCode.OK


@command.command()
@file_option
@json_option
@click.option("--sources", is_flag=True, help="Show the file and line that set each key.")
def show(files: tuple[str, ...], as_json: bool, sources: bool) -> int:
    """Print the effective configuration, with secrets redacted.

    Defaults are included.
    """
    loaded = load(files, need_replication=False)
    if as_json:
        click.echo(to_json(loaded, with_sources=sources))
        return ExitCode.OK
    _print_notes(loaded)
    click.echo(to_yaml(loaded, with_sources=sources), nl=False)
    return ExitCode.OK


@command.command()
@file_option
@json_option
def reverse(files: tuple[str, ...], as_json: bool) -> int:
    """Print the file of the opposite pipeline, from the target to the source.

    Source and target are swapped, the topic mapping is inverted, and
    features.bidirectionalReplication is enabled. What needs attention is printed on standard error.
    """
    reversed_file = reverse_file(files)
    if as_json:
        click.echo(
            json.dumps({"text": reversed_file.text, "notes": list(reversed_file.notes)}, indent=2)
        )
        return ExitCode.OK
    print_notes(reversed_file.notes)
    click.echo(reversed_file.text, nl=False)
    return ExitCode.OK


@command.command()
def schema() -> int:
    """Print the JSON schema of pipeline files for editors."""
    click.echo(json.dumps(editor_schema(), indent=2))
    return ExitCode.OK


def _load(files: tuple[str, ...]) -> Loaded:
    # Only validate needs the client libraries.
    from k2ktui.kafka.properties.translation import load_checked

    return load_checked(files, need_replication=False)


def _print_notes(loaded: Loaded) -> None:
    print_notes(loaded.notes)
