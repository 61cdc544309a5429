"""The signals that end a command which would otherwise run on."""

from __future__ import annotations

import signal


def ending_signals() -> tuple[signal.Signals, ...]:
    """Return SIGTERM, SIGINT and SIGHUP; not SIGHUP where it is ignored already.

    ``nohup`` starts a command with SIGHUP ignored. A handler would undo that, and the closed
    terminal would end what was to outlive it.
    """
    ending = (signal.SIGTERM, signal.SIGINT)
    if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
        return ending
    return (*ending, signal.SIGHUP)
