"""Options that several verbs share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

from k2ktui.config.model import PipelineConfig

F = TypeVar("F", bound=Callable[..., Any])


def file_option(function: F) -> F:
    """Add ``-f/--file``: one or more pipeline files, also separated by commas; later override."""
    return click.option(
        "-f",
        "--file",
        "files",
        multiple=True,
        required=True,
        metavar="FILE",
        help="Pipeline file; several are layered, later ones override.",
    )(function)


def json_option(function: F) -> F:
    """Add ``--json``."""
    return click.option("--json", "as_json", is_flag=True, help="Print JSON.")(function)


def load_pipeline(files: tuple[str, ...]) -> PipelineConfig:
    """Load the files, telling their notes on stderr.

    Raises:
        ConfigError: every error found in them, those of client properties among them.
    """
    from k2ktui.kafka.properties import load_checked

    loaded = load_checked(files)
    for note in loaded.notes:
        click.echo(f"note: {note}", err=True)
    return loaded.config
