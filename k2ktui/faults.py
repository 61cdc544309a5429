"""Report a bug in k2ktui to the operator, and keep its trace in a file."""

from __future__ import annotations

import logging
import os
import platform
import shlex
import sys
import time
from contextlib import suppress
from pathlib import Path

from k2ktui import diagnostics
from k2ktui.errors import InternalError
from k2ktui.private_files import private_directory, user_path, write_private
from k2ktui.secret_values import redact
from k2ktui.version import __version__

log = logging.getLogger(__name__)

KEPT_CRASHES = 10
_MARK = "_k2ktui_fault"


def fault(error: BaseException) -> InternalError:
    """Return the error to show for an unexpected exception.

    The trace, its causes and the last lines of the log are written to a file in the user's state
    directory: without local values, and without what a library's text may quote, because these may
    contain secrets and records. A second call for one exception writes no second file.
    """
    reported = getattr(error, _MARK, None)
    if isinstance(reported, InternalError):
        return reported
    name = type(error).__name__
    path = _new_path()
    log.error("internal error: %s, see %s", name, path, exc_info=error)
    try:
        private_directory(path.parent)
        write_private(path, _report(error).encode(errors="backslashreplace"))
        _remove_old()
        hint = f"Report it, with {path} or what k2ktui bug-report writes."
    except OSError as failed:
        why = f"{path}: {failed.strerror}"
        hint = f"Report it. The trace could not be saved ({why}); XDG_STATE_HOME names its folder."
    reported_error = InternalError(f"internal error in k2ktui ({name}).", hint=hint)
    with suppress(AttributeError):  # an exception with slots
        setattr(error, _MARK, reported_error)
    return reported_error


def crash_files() -> list[Path]:
    """Return the files of crashes, the newest first."""
    return sorted(user_path("state").glob("crash-*.txt"), reverse=True)


def _new_path() -> Path:
    now = time.time_ns()
    moment = time.strftime("%Y%m%dT%H%M%S", time.gmtime(now // 10**9))
    # Two processes may crash at once, for one reason.
    name = f"crash-{moment}.{now // 1000 % 10**6:06}Z-{os.getpid()}.txt"
    return user_path("state") / name


def _report(error: BaseException) -> str:
    lines = diagnostics.set_up().recent()
    parts = [
        f"k2ktui {__version__}, Python {platform.python_version()}, {platform.platform()}",
        f"Command: {command_line()}",
        "",
        diagnostics.trace_text(error, brief=True),
        "",
        "Last lines of the log:",
        *(lines or ["none"]),
        "",
    ]
    return "\n".join(parts)


def command_line() -> str:
    """Return the command line of this process without secrets."""
    return redact(shlex.join(["k2ktui", *sys.argv[1:]]))


def _remove_old() -> None:
    for path in crash_files()[KEPT_CRASHES:]:
        with suppress(OSError):
            path.unlink()
