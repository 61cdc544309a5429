"""Errors for operators, and the exit codes of every command.

An error says what happened to which object, what was not changed, and what to do next. The command
line prints it as text, never as a traceback.
"""

from __future__ import annotations

import shlex
import sys
from enum import IntEnum
from importlib.util import find_spec

from k2ktui.secret_values import hide_secrets


class ExitCode(IntEnum):
    """Exit codes, the same for every command and stable for scripts."""

    OK = 0
    FINDINGS = 1
    USAGE = 2
    CONNECTION = 3
    TIMEOUT = 4
    REFUSED = 5
    PARTIAL = 6
    INTERNAL = 70
    INTERRUPTED = 130
    READER_GONE = 141


class K2kError(Exception):
    """Base of all errors that are shown to an operator.

    Args:
        message: what happened, and to which cluster, topic-partition or key.
        unchanged: what was therefore not changed; may be empty.
        hint: what to do next; may be empty.
    """

    exit_code: ExitCode = ExitCode.FINDINGS

    def __init__(self, message: str, *, unchanged: str = "", hint: str = "") -> None:
        # A library's error may quote a password.
        self.message = hide_secrets(message)
        super().__init__(self.message)
        self.unchanged = unchanged
        self.hint = hide_secrets(hint)

    def __reduce__(self) -> tuple[object, ...]:
        # Errors travel between processes by pickle; keyword arguments must survive.
        return (_rebuild, (type(self), self.message, self.unchanged, self.hint))

    def __str__(self) -> str:
        parts = [self.message, self.unchanged, fix_text(self.hint)]
        return "\n".join(part for part in parts if part)


def fix_text(hint: str) -> str:
    """Return a hint as every command and screen shows it; empty if there is none."""
    return f"Fix: {hint}" if hint else ""


def _rebuild(kind: type[K2kError], message: str, unchanged: str, hint: str) -> K2kError:
    return kind(message, unchanged=unchanged, hint=hint)


class ConfigError(K2kError):
    """The configuration or the command line is not usable."""

    exit_code = ExitCode.USAGE


class NotInstalled(K2kError):
    """A package that the command needs is not installed."""

    exit_code = ExitCode.USAGE


def pip_command(packages: str) -> str:
    """Return the shell command that installs packages for the running Python.

    A bare ``pip`` is another Python's where the environment is not active; Debian's refuses.
    """
    python = shlex.quote(sys.executable)
    if find_spec("pip") is None:  # uv's environments have none
        return f"uv pip install --python {python} {packages}"
    return f"{python} -m pip install {packages}"


def install_command(extra: str = "spark") -> str:
    """Return the shell command that installs an extra from a checkout, for the running Python."""
    return pip_command(f"'.[{extra}]'")


class OutputFailed(K2kError):
    """Standard output or standard error cannot be written."""

    exit_code = ExitCode.USAGE


class ConnectionFailed(K2kError):
    """A cluster did not respond, or rejected the credentials."""

    exit_code = ExitCode.CONNECTION


class LoginFailed(ConnectionFailed):
    """A cluster rejected the credentials, or its certificate is not trusted."""


class TimedOut(K2kError):
    """An operation did not complete within its time limit."""

    exit_code = ExitCode.TIMEOUT


class NoAnswer(ConnectionFailed, TimedOut):
    """A cluster neither refuses connections nor answers."""

    exit_code = ExitCode.TIMEOUT


class Refused(K2kError):
    """A precondition does not hold; nothing was changed."""

    exit_code = ExitCode.REFUSED


class Declined(Refused):
    """The operator did not confirm it, or stopped it: a decision, not a failure."""


class ClusterRefused(Refused):
    """A cluster answers and refuses, for want of a right or by one of its settings.

    It ends a start. A run that has copied stops what it concerns and tries again, as the refusal
    may be cured on the cluster.
    """


REFUSALS = (ClusterRefused, LoginFailed)
"""What a cluster answers again to the next attempt, until somebody changes something there."""


class InternalError(K2kError):
    """A bug in k2ktui."""

    exit_code = ExitCode.INTERNAL


class PartlyApplied(K2kError):
    """Only a part of the work was done; the message says which."""

    exit_code = ExitCode.PARTIAL
