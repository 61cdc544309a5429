"""``--interval SECONDS``: how often clusters are polled; ranges of seconds, for every command."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

F = TypeVar("F", bound=Callable[..., Any])
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
