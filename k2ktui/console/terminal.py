"""What the terminal can and wants: colours, the mouse, and its sudden end."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import termios
import threading
from collections.abc import Callable, Iterator, Mapping, MutableMapping
from typing import ClassVar

from textual.geometry import Size
from textual.scrollbar import ScrollBarRender

from k2ktui.console.themes import DEFAULT, MONO
from k2ktui.errors import ConfigError

_GONE_S = 3.0


class PlainBar(ScrollBarRender):
    """A scroll bar of blanks only, for terminals that have no other sign for it."""

    VERTICAL_BARS: ClassVar[list[str]] = [" "] * 8
    HORIZONTAL_BARS: ClassVar[list[str]] = [" "] * 8


def check() -> None:
    """Return if there is a terminal to draw on.

    Raises:
        ConfigError: there is none; the text says what to use instead.
    """
    # Textual draws on standard error.
    if not (sys.stdin.isatty() and sys.stderr.isatty()) or os.environ.get("TERM") == "dumb":
        raise ConfigError(
            "the console needs a terminal",
            mend="k2ktui watch -f FILE prints the same figures as lines, with --json as JSON.",
        )


def wants_mouse(chosen: bool | None, environ: Mapping[str, str] = os.environ) -> bool:
    """Whether to take the mouse: as chosen, else not over ssh, where it would stop selecting."""
    return not environ.get("SSH_CONNECTION") if chosen is None else chosen


def theme_for(chosen: str | None, environ: Mapping[str, str] = os.environ) -> str:
    """Return the theme to begin with; no-color.org's variable wants none at all."""
    if chosen:
        return chosen
    return MONO if environ.get("NO_COLOR") else environ.get("TEXTUAL_THEME") or DEFAULT


def prepare(chosen: str | None, environ: MutableMapping[str, str] = os.environ) -> str:
    """Set what Textual reads when it is loaded, unless the operator has.

    Args:
        chosen: the theme that was asked for on the command line.
        environ: the environment that is changed.

    Returns:
        The theme to begin with.
    """
    theme = theme_for(chosen, environ)
    # Textual makes grey of it, in full colour codes; our theme without colours writes none.
    environ.pop("NO_COLOR", None)
    # Textual takes it before our themes are known to it.
    environ.pop("TEXTUAL_THEME", None)
    # A key's escape sequence may come in pieces over a slow line.
    environ.setdefault("ESCDELAY", "200" if environ.get("SSH_CONNECTION") else "100")
    # Every step of an animation is a repaint.
    environ.setdefault("TEXTUAL_ANIMATIONS", "none")
    return theme


def size() -> Size | None:
    """Return the terminal's size in cells, None if it cannot be asked or does not know."""
    try:
        found = Size(*os.get_terminal_size(sys.__stderr__.fileno() if sys.__stderr__ else 2))
    except (OSError, ValueError):
        return None
    return found if found.area else None


def is_gone() -> bool:
    """Whether the terminal has been hung up; a read or write of one fails."""
    try:
        termios.tcgetattr(sys.__stdin__.fileno() if sys.__stdin__ else 0)
    except (termios.error, OSError, ValueError):
        return True
    return False


@contextlib.contextmanager
def on_hang_up(end: Callable[[int], None]) -> Iterator[None]:
    """Within it, a hang-up, SIGTERM or SIGINT calls ``end`` with the signal's number.

    A process that cannot end by itself then (its terminal is gone, and every write fails) is ended.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    numbers = (signal.SIGHUP, signal.SIGTERM, signal.SIGINT)
    timers: list[threading.Timer] = []

    def handle(number: int, frame: object) -> None:
        if number == signal.SIGHUP:
            timer = threading.Timer(_GONE_S, _end_at_once)
            timer.daemon = True
            timer.start()
            timers.append(timer)
        end(number)

    before = {number: signal.signal(number, handle) for number in numbers}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        for timer in timers:
            timer.cancel()


def forget() -> None:
    """Let what is still written to a terminal that is gone go nowhere, rather than fail."""
    if is_gone():
        nowhere = os.open(os.devnull, os.O_RDWR)
        for stream in (0, 1, 2):
            os.dup2(nowhere, stream)


def _end_at_once() -> None:
    if is_gone():
        os._exit(0)
