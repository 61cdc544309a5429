"""The signals that end a long-running command."""

from __future__ import annotations

import signal


def ending_signals() -> tuple[signal.Signals, ...]:
    """Return SIGTERM, SIGINT and SIGHUP, but not SIGHUP if it is already ignored.

    ``nohup`` starts a command with SIGHUP ignored; a handler would undo that, and closing the
    terminal would end the command.
    """
    ending = (signal.SIGTERM, signal.SIGINT)
    if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
        return ending
    return (*ending, signal.SIGHUP)
