"""Options that several verbs share."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, TypeVar

import click

from k2ktui.cli.console import COMPARE_HELP
from k2ktui.config.model import PipelineConfig
from k2ktui.config.topics import compile_pattern
from k2ktui.engine.access import Access, access
from k2ktui.engine.chosen import NamePattern
from k2ktui.errors import ConfigError
from k2ktui.text import safe_text

if TYPE_CHECKING:
    from k2ktui.mm2.pipeline import MirrorPipeline

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


def compare_option(function: F) -> F:
    """Add ``--compare``."""
    return click.option("--compare", metavar="FILE", help=COMPARE_HELP)(function)


def unlock_option(function: F) -> F:
    """Add ``--unlock``, for whatever changes a cluster or a job."""
    return click.option(
        "--unlock", is_flag=True, help="Go on where the environment is production."
    )(function)


def access_to(config: PipelineConfig, *, unlock: bool) -> Access:
    """Return what a command may change of a pipeline, by its file and ``--unlock``."""
    return access(configured=config.read_only, environment=config.environment, unlocked=unlock)


def load_pipeline(files: tuple[str, ...], *, mirror: bool = False) -> PipelineConfig:
    """Load the files, telling their notes on stderr.

    Args:
        files: pipeline files.
        mirror: take a MirrorMaker 2 file too, ``FILE.properties[#A->B]``, as a pipeline that can
            be looked at and whose groups can be moved.

    Raises:
        ConfigError: every error found in them, those of client properties among them.
    """
    from k2ktui.kafka.properties import load_checked
    from k2ktui.mm2.pipeline import is_mirror_file, load_mirror

    if any(is_mirror_file(file) for file in files):
        if not mirror or len(files) > 1:
            raise ConfigError(
                "a MirrorMaker 2 file cannot be used here"
                + (", together with others" if mirror else ""),
                mend="It can be looked at, and its groups can be moved. To replicate: "
                "k2ktui mm2 import FILE -o pipeline.yaml.",
            )
        pipeline, notes = load_mirror(files[0])
        _tell(notes)
        return pipeline
    loaded = load_checked(files)
    _tell(loaded.notes)
    return loaded.config


def load_compared(file: str | None, config: PipelineConfig) -> MirrorPipeline | None:
    """Load the flow of MirrorMaker 2 that ``--compare`` names; None if it was not given.

    Raises:
        ConfigError: it is none, or ``config`` is one itself.
    """
    from k2ktui.mm2.pipeline import MirrorPipeline, is_mirror_file, load_mirror

    if file is None:
        return None
    if isinstance(config, MirrorPipeline):
        raise ConfigError("a flow of MirrorMaker 2 is compared with k2ktui without --compare")
    if not is_mirror_file(file):
        raise ConfigError(
            f"--compare: {safe_text(file)} is no FILE.properties",
            mend="Give MirrorMaker 2's own file; FILE.properties#A->B for one of its flows.",
        )
    compared, notes = load_mirror(file)
    _tell(notes)
    return compared


def _tell(notes: Iterable[str]) -> None:
    for note in notes:
        click.echo(f"note: {note}", err=True)


def matcher(option: str, pattern: str | None) -> Callable[[str], bool]:
    """Return whether a whole name matches what an option was given; None matches all.

    Raises:
        ConfigError: it is no regular expression.
    """
    if pattern is None:
        return lambda _: True
    try:
        compiled = compile_pattern(pattern)
    except ValueError as error:
        raise ConfigError(
            f"{option}: expected {safe_text(error)}, found {safe_text(pattern)}",
            unchanged="Nothing was done.",
            mend="The whole name must match; .* stands for anything.",
        ) from None
    return NamePattern(option, pattern, compiled)
