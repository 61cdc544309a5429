"""Options that several commands share, and groups of commands."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, TypeVar

import click

from k2ktui.cli.terminal.files import own_directory
from k2ktui.config.inputs import can_be_read_again
from k2ktui.errors import ConfigError

F = TypeVar("F", bound=Callable[..., Any])
T = TypeVar("T", int, float, float | None)

# Not imported from k2ktui.watch.feed, which loads numpy.
MIN_INTERVAL_S, _LONGEST_INTERVAL_S = 2.0, 3600.0
# Longer than anyone waits; clocks and waits overflow far beyond.
LONGEST_WAIT_S = 30 * 86_400.0


class Group(click.Group):
    """Commands; those that are spelled like an unknown one are named."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """As Click, but older versions of Click name none."""
        try:
            return super().resolve_command(ctx, args)
        except click.UsageError as error:
            near = difflib.get_close_matches(args[0], self.list_commands(ctx), n=3)
            if not near:
                raise
            text = f"{error.message} Did you mean {' or '.join(near)}?"
            raise click.UsageError(text, ctx) from error


def value(names: str, metavar: str, text: str, **more: Any) -> Callable[[F], F]:
    """Return an option with a value; ``names`` are those of Click, separated by blanks."""
    return click.option(*names.split(), metavar=metavar, help=text, **more)


def flag(names: str, text: str, **more: Any) -> Callable[[F], F]:
    """Return an option without a value; ``names`` are those of Click, separated by blanks."""
    return click.option(*names.split(), is_flag=True, help=text, **more)


def choice(
    names: str, values: Iterable[str], text: str, default: str | None = None, **more: Any
) -> Callable[[F], F]:
    """Return an option with one of these values; ``names`` as for :func:`value`."""
    kind = click.Choice([str(one) for one in values])
    if default is not None:
        more |= {"default": str(default), "show_default": True}
    return click.option(*names.split(), type=kind, help=text, **more)


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


def seconds(names: str, default: float, text: str, **more: Any) -> Callable[[F], F]:
    """Return an option of a time in seconds, from none to as long as anyone waits."""
    shown = {"default": default, "show_default": True}
    return value(names, "SECONDS", text, callback=range_check(0, LONGEST_WAIT_S), **shown, **more)


def number(
    names: str, metavar: str, least: int, default: int, text: str, most: int | None = None
) -> Callable[[F], F]:
    """Return an option of a whole number; ``names`` as for :func:`value`."""
    kind = click.IntRange(least, most)
    return value(names, metavar, text, type=kind, default=default, show_default=True)


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


def files(*, required: bool, kept: bool = False, stdin: bool = True) -> Callable[[F], F]:
    """Return ``-f/--file``: one or more pipeline files, also separated by commas; the last wins.

    Args:
        required: whether the command cannot do without it.
        kept: whether others read the files later: no ``-`` and no pipe.
        stdin: whether the help names ``-``.
    """
    return value(
        "-f --file files",
        "FILE",
        "Pipeline file; may be repeated, later files override earlier ones."
        + (" - is standard input." if stdin and not kept else ""),
        multiple=True,
        required=required,
        callback=_require_kept if kept else None,
    )


file = files(required=True)
kept_file = files(required=True, kept=True)
optional_file = files(required=False)
directory = value(
    "-d --directory directory",
    "DIR",
    "Directory of pipeline files.  [default: ~/.config/k2ktui/pipelines]",
    type=click.Path(path_type=Path),
    callback=lambda _context, _parameter, given: given or own_directory(),
)
json = flag("--json as_json", "Print JSON.")
# For commands that change a cluster or a job.
unlock = flag("--unlock", "Allow changes although the pipeline's environment is production.")
yes = flag("--yes", "Skip the confirmation.")
group = value("--group", "REGEX", "Groups to include; the whole name must match.")
topic = value("--topic", "REGEX", "Source topics to include; the whole name must match.")
valid = seconds("--valid", 900, "Plan lifetime in seconds.", type=int)
telemetry = flag("-t --telemetry", "Export metrics as the OTEL_* variables specify.")
# For commands that start a pipeline.
_yes_to_accept = flag("--yes", "Skip the confirmation of --accept-cluster.")
_accept_cluster = value(
    "--accept-cluster accepted",
    "ID",
    "Id that a cluster has now which was restored from a backup: its former id becomes an "
    "alias. Partitions that are not shown to be the same stop.",
    multiple=True,
)
INTERVAL: dict[str, Any] = {
    "default": 5.0,
    "show_default": True,
    "metavar": "SECONDS",
    "callback": range_check(MIN_INTERVAL_S),
    "help": f"Polling interval in seconds (minimum {MIN_INTERVAL_S:g}).",
}
interval = click.option("--interval", **INTERVAL)


def reading(function: F) -> F:
    """Add ``-f`` and ``--json``, for commands that read a pipeline and print."""
    return file(json(function))


def accept(function: F) -> F:
    """Add ``--accept-cluster`` and ``--yes``, for commands that start a pipeline."""
    return _accept_cluster(_yes_to_accept(function))
