"""``--interval SECONDS``: how often clusters are polled; for the console and ``watch``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

F = TypeVar("F", bound=Callable[..., Any])

# Not imported from k2ktui.watch.feed, which loads numpy.
MIN_INTERVAL_S, _LONGEST_INTERVAL_S = 2.0, 3600.0


def _checked_interval(context: click.Context, option: click.Parameter, value: float) -> float:
    # "not (a <= b)", because a comparison with NaN is always false.
    if not MIN_INTERVAL_S <= value <= _LONGEST_INTERVAL_S:
        limits = f"{MIN_INTERVAL_S:g} to {_LONGEST_INTERVAL_S:,.0f} seconds"
        raise click.BadParameter(f"{value:g} is not in the range of {limits}.")
    return value


INTERVAL: dict[str, Any] = {
    "default": 5.0,
    "show_default": True,
    "metavar": "SECONDS",
    "callback": _checked_interval,
    "help": f"Polling interval in seconds (minimum {MIN_INTERVAL_S:g}).",
}


def interval_option(function: F) -> F:
    """Add ``--interval``."""
    return click.option("--interval", **INTERVAL)(function)
