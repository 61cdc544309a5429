"""Options that several commands share."""

from __future__ import annotations

from collections.abc import Callable, Collection
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from k2ktui.cli.terminal.notes import print_notes
from k2ktui.config.inputs import can_be_read_again
from k2ktui.config.mirror_files import is_mirror_file
from k2ktui.config.model import PipelineConfig
from k2ktui.engine.access import Access, access
from k2ktui.errors import ConfigError
from k2ktui.private_files import user_path

if TYPE_CHECKING:
    from k2ktui.sync.flow import Flow


F = TypeVar("F", bound=Callable[..., Any])


def file_option(function: F) -> F:
    """Add ``-f/--file``: one or more pipeline files, also separated by commas; the last wins."""
    return _file_option(required=True)(function)


def kept_file_option(function: F) -> F:
    """Add ``-f/--file`` to a command whose files others read later: no ``-`` and no pipe."""
    return _file_option(required=True, kept=True)(function)


def optional_file_option(function: F) -> F:
    """Add ``-f/--file`` to a command that can do without it."""
    return _file_option(required=False)(function)


def own_directory() -> Path:
    """Return the directory of the user's pipeline files; it may not exist."""
    return user_path("config") / "pipelines"


def choose_directory(
    files: Collection[str], replay: str | None, directory: str | None
) -> str | None:
    """Return the directory of pipelines to watch; None for a pipeline or a recording.

    Without any of the three it is the user's own, if it exists.

    Raises:
        ConfigError: none is given, or more than one.
    """
    if not (files or replay or directory) and own_directory().is_dir():
        return str(own_directory())
    if sum(map(bool, (files, replay, directory))) != 1:
        raise ConfigError(
            "give a pipeline with -f, a directory of pipelines with -d, or a recording with "
            "--replay"
        )
    return directory


def directory_option(function: F) -> F:
    """Add ``-d/--directory``: a directory of pipeline files, by default the user's own."""
    return click.option(
        "-d",
        "--directory",
        "directory",
        metavar="DIR",
        type=click.Path(path_type=Path),
        callback=lambda _context, _parameter, given: given or own_directory(),
        help="Directory of pipeline files.  [default: ~/.config/k2ktui/pipelines]",
    )(function)


def _require_kept(
    context: click.Context, parameter: click.Parameter, files: tuple[str, ...]
) -> tuple[str, ...]:
    if not can_be_read_again(files):
        raise ConfigError(
            f"{context.command_path} needs files that can be read again, not - or a pipe: other "
            "processes read them later",
            unchanged="Nothing was done.",
            hint="Write standard input to a file, and give its name with -f.",
        )
    return files


def _file_option(*, required: bool, kept: bool = False) -> Callable[[F], F]:
    return click.option(
        "-f",
        "--file",
        "files",
        multiple=True,
        required=required,
        metavar="FILE",
        callback=_require_kept if kept else None,
        help="Pipeline file; may be repeated, later files override earlier ones."
        + ("" if kept else " - is standard input."),
    )


def json_option(function: F) -> F:
    """Add ``--json``."""
    return click.option("--json", "as_json", is_flag=True, help="Print JSON.")(function)


def unlock_option(function: F) -> F:
    """Add ``--unlock``, for commands that change a cluster or a job."""
    return click.option(
        "--unlock",
        is_flag=True,
        help="Allow changes although the pipeline's environment is production.",
    )(function)


def access_to(config: PipelineConfig, *, unlock: bool) -> Access:
    """Return whether a command may change a pipeline, by its file and ``--unlock``."""
    return access(configured=config.read_only, environment=config.environment, unlocked=unlock)


def load_pipeline(files: tuple[str, ...], *, templates: bool = True) -> PipelineConfig:
    """Load the files of a pipeline, and print their notes to stderr.

    Args:
        files: the paths; later files override earlier ones.
        templates: whether ``${…}`` is filled in.

    Raises:
        ConfigError: all errors in the files, including those of client properties.
    """
    from k2ktui.kafka.properties.translation import load_checked

    if any(is_mirror_file(file) for file in files):
        from k2ktui.mm2.flow_files import mirror_file_error  # half a second that others do without

        raise mirror_file_error("")
    loaded = load_checked(files, templates=templates)
    print_notes(loaded.notes)
    return loaded.config


def load_flow(files: tuple[str, ...], *, templates: bool = True) -> Flow:
    """Load what can be watched and whose groups can be moved, and print the files' notes to stderr.

    Args and errors are those of :func:`load_flow_and_notes`.
    """
    return load_flow_and_notes(files, templates=templates)[0]


def load_flow_and_notes(
    files: tuple[str, ...], *, templates: bool = True
) -> tuple[Flow, tuple[str, ...]]:
    """Load what can be watched, print the files' notes to stderr, and return them, too.

    Args:
        files: those of a pipeline or of the mapping application, or one MirrorMaker 2 file:
            ``FILE[#A->B]``.
        templates: whether ``${…}`` in a pipeline's files is filled in.

    Raises:
        ConfigError: all errors in the files, including those of client properties.
    """
    from k2ktui.mm2.flow_files import read_flow

    flow, notes = read_flow(files, templates=templates)
    print_notes(notes)
    return flow, notes


def load_pipeline_flow(files: tuple[str, ...]) -> Flow:
    """Load a pipeline's file, or one of the mapping application; print their notes to stderr.

    Raises:
        ConfigError: all errors in the files, including those of client properties.
    """
    from k2ktui.mm2.flow_files import read_pipeline_flow

    flow, notes = read_pipeline_flow(files)
    print_notes(notes)
    return flow


T = TypeVar("T", int, float, float | None)

# Not imported from k2ktui.watch.feed, which loads numpy.
MIN_INTERVAL_S, _LONGEST_INTERVAL_S = 2.0, 3600.0
# Longer than anyone waits; clocks and waits overflow far beyond.
LONGEST_WAIT_S = 30 * 86_400.0


def range_check(
    low: float, high: float = _LONGEST_INTERVAL_S
) -> Callable[[click.Context, click.Parameter, T], T]:
    """Return a callback that refuses seconds below ``low`` or above ``high``; None passes."""

    def check(context: click.Context, option: click.Parameter, value: T) -> T:
        # "not (a <= b)", because a comparison with NaN is always false.
        if value is not None and not low <= value <= high:
            limits = f"{low:g} to {high:,.0f} seconds"
            raise click.BadParameter(f"{value:g} is not in the range of {limits}.")
        return value

    return check


def timeout_option(default: float, what: str) -> Callable[[F], F]:
    """Add ``--timeout``; ``what`` ends its help text: "Maximum time in seconds for …"."""
    return click.option(
        "--timeout",
        default=default,
        show_default=True,
        metavar="SECONDS",
        callback=range_check(0, LONGEST_WAIT_S),
        help=f"Maximum time in seconds for {what}.",
    )


INTERVAL: dict[str, Any] = {
    "default": 5.0,
    "show_default": True,
    "metavar": "SECONDS",
    "callback": range_check(MIN_INTERVAL_S),
    "help": f"Polling interval in seconds (minimum {MIN_INTERVAL_S:g}).",
}


def interval_option(function: F) -> F:
    """Add ``--interval``."""
    return click.option("--interval", **INTERVAL)(function)
