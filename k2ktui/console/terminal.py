"""Terminal capabilities and preferences: colors, the mouse, and hang-ups.

Textual is not imported here: the clusters are read while it is.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import termios
import threading
from collections.abc import Callable, Iterator, Mapping, MutableMapping

from k2ktui.errors import ConfigError

# Names of the theme that is shown by default, and of the one without colors.
DEFAULT, MONO = "k2k-dark", "k2k-mono"
_GONE_S = 3.0
_COLORS = "TEXTUAL_COLOR_SYSTEM"
_COLOR_SYSTEMS = ("auto", "standard", "256", "truecolor")
# Textual takes another value of these for its default.
_OPERATORS_CHOICES = (
    _COLORS,
    "TEXTUAL_ANIMATIONS",
    "TEXTUAL_DISABLE_KITTY_KEY",
    "TEXTUAL_FPS",
    "TEXTUAL_SMOOTH_SCROLL",
)
_ESC, _PASS, _TMUX_S = "\x1b", "allow-passthrough", 2.0
_COERCED = ("C.UTF-8", "C.utf8")


def check() -> None:
    """Check that there is a terminal to draw on.

    Raises:
        ConfigError: there is none; the text names an alternative.
    """
    # Textual draws on standard error.
    if not (sys.stdin.isatty() and sys.stderr.isatty()) or os.environ.get("TERM") == "dumb":
        raise ConfigError(
            "the console needs a terminal",
            hint="Use k2ktui watch -f FILE: the same figures as lines, with --json as JSON.",
        )


def wants_mouse(chosen: bool | None, environ: Mapping[str, str] = os.environ) -> bool:
    """Return whether to capture the mouse; by default not over SSH, where it prevents selection."""
    return not environ.get("SSH_CONNECTION") if chosen is None else chosen


def has_braille(environ: Mapping[str, str] = os.environ) -> bool:
    """Return whether the terminal's font can have braille: that of the Linux console cannot."""
    return environ.get("TERM") != "linux"


def wants_ascii(chosen: bool | None, environ: Mapping[str, str] = os.environ) -> bool:
    """Return whether to draw with ASCII characters; by default if the locale is not UTF-8."""
    if chosen is not None:
        return chosen
    own = {name: environ.get(name, "") for name in ("LC_ALL", "LC_CTYPE", "LANG")}
    if own["LC_CTYPE"] in _COERCED and not own["LC_ALL"] and own["LANG"] in ("", "C", "POSIX"):
        own["LC_CTYPE"] = ""  # set by Python itself in place of the C locale (PEP 538)
    locale_name = next((value for value in own.values() if value), "C")
    return "utf8" not in locale_name.lower().replace("-", "")


def theme_for(chosen: str | None, environ: Mapping[str, str] = os.environ) -> str | None:
    """Return the initial theme; ``NO_COLOR`` (no-color.org) selects the theme without colors.

    None if nothing says which: then it is the one of the user's last session.
    """
    if chosen:
        return chosen
    return MONO if environ.get("NO_COLOR") else environ.get("TEXTUAL_THEME") or None


def prepare(chosen: str | None, environ: MutableMapping[str, str] = os.environ) -> str | None:
    """Set the environment variables that Textual reads on import, unless the operator has set them.

    Args:
        chosen: the theme from the command line.
        environ: the environment to change.

    Returns:
        The initial theme; None if nothing says which.
    """
    theme = theme_for(chosen, environ)
    # Textual would render gray with full color codes; our theme without colors writes none.
    environ.pop("NO_COLOR", None)
    # They are for Textual's developers: they press keys, take screenshots or write logs, and a
    # value that is wrong ends the console. Of the theme, Textual would not know ours yet.
    for name in [name for name in environ if name.startswith("TEXTUAL")]:
        if name not in _OPERATORS_CHOICES:
            del environ[name]
    if environ.get(_COLORS) not in _COLOR_SYSTEMS:
        environ.pop(_COLORS, None)
    if _is_gnu_screen(environ):
        # It has no full colors and takes their codes for others; the terminal around it had them.
        environ.pop("COLORTERM", None)
    # Over a slow line, the escape sequence of a key may arrive in pieces.
    environ.setdefault("ESCDELAY", "200" if environ.get("SSH_CONNECTION") else "100")
    # Every animation step is a repaint.
    environ.setdefault("TEXTUAL_ANIMATIONS", "none")
    return theme


def _is_gnu_screen(environ: Mapping[str, str]) -> bool:
    """Return whether this is GNU screen; tmux may have the same TERM."""
    is_named_so = environ.get("TERM", "").startswith("screen") and not environ.get("TMUX")
    return is_named_so or bool(environ.get("STY") and not environ.get("TMUX"))


def notify(text: str, environ: Mapping[str, str] = os.environ) -> str:
    """Return what makes the terminal show a notification (OSC 9); "" where it would not pass.

    tmux passes it on only where it is told to, and is asked; call it on a thread.

    Args:
        text: without control characters; it is written in ASCII, because a terminal that does not
            read UTF-8 may take a part of a letter for the end of the sequence.
        environ: of this process.
    """
    line = text.replace("…", "...").encode("ascii", "backslashreplace").decode()
    shown = f"\x1b]9;{''.join(filter(str.isprintable, line))}\x07"
    if environ.get("TMUX"):
        return f"\x1bPtmux;{shown.replace(_ESC, _ESC * 2)}{_ESC}\\" if _passes_tmux(environ) else ""
    is_within = environ.get("TERM", "").startswith(("screen", "tmux")) or environ.get("STY")
    return "" if is_within or environ.get("TERM") == "linux" else shown


def _passes_tmux(environ: Mapping[str, str]) -> bool:
    """Return whether tmux passes sequences on to its terminal; before 3.3, it always does."""
    command = ["tmux", "show-options", "-Apv", "-t", environ.get("TMUX_PANE", ""), _PASS]
    try:
        asked = subprocess.run(
            command, capture_output=True, text=True, timeout=_TMUX_S, check=False
        )
    except (OSError, subprocess.SubprocessError):
        return False
    return asked.stdout.strip() in ("on", "all", "1") or f"option: {_PASS}" in asked.stderr


def size() -> tuple[int, int] | None:
    """Return the terminal's width and height in cells; None if they are unknown."""
    try:
        width, height = os.get_terminal_size(sys.__stderr__.fileno() if sys.__stderr__ else 2)
    except (OSError, ValueError):
        return None
    return (width, height) if width and height else None


def is_gone() -> bool:
    """Return whether the terminal was hung up, so that reads and writes fail."""
    try:
        termios.tcgetattr(sys.__stdin__.fileno() if sys.__stdin__ else 0)
    except (termios.error, OSError, ValueError):
        return True
    return False


@contextlib.contextmanager
def on_hang_up(end: Callable[[int], None]) -> Iterator[None]:
    """Within the context, a hang-up, SIGTERM or SIGINT calls ``end`` with the signal's number.

    A process that does not exit after a hang-up, because every write fails, is ended after 3 s.
    At the end, the handlers of these signals and of job control are those from before.
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

    # Textual's driver leaves its handlers of these behind. Its handler of SIGCONT, which a shell
    # sends to its jobs when the terminal closes, would fail without an app and end the process.
    before = {number: signal.getsignal(number) for number in (signal.SIGCONT, signal.SIGTSTP)}
    before |= {number: signal.signal(number, handle) for number in numbers}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        for timer in timers:
            timer.cancel()


def forget() -> None:
    """Redirect the standard streams to /dev/null if the terminal is gone: writes would fail."""
    if is_gone():
        nowhere = os.open(os.devnull, os.O_RDWR)
        for stream in (0, 1, 2):
            os.dup2(nowhere, stream)


def _end_at_once() -> None:
    if is_gone():
        os._exit(0)
