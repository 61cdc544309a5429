"""An event that a signal handler may set."""

from __future__ import annotations

from time import monotonic, sleep

# The longest time between a request to stop and its notice.
_SLICE_S = 0.05


class StopFlag:
    """As ``threading.Event``, but safe to set in a signal handler; takes no lock.

    ``Event.set`` takes the event's lock. A handler that interrupts ``Event.wait`` of the same
    thread while that holds the lock waits forever. ``SimpleQueue``, whose ``put`` is reentrant, was
    tried: a ``get`` with a time-out that a signal interrupts can block forever (CPython 3.11).
    """

    def __init__(self) -> None:
        self._set = False
        self._moved_at = monotonic()

    def set(self) -> None:
        """Set the flag; waiters return within 50 ms."""
        self._set = True

    def idle_s(self) -> float:
        """Return the seconds since the flag was last looked at, or its loop said that it moves."""
        return monotonic() - self._moved_at

    def moves(self) -> None:
        """Say that the loop moves, within a long turn."""
        self._moved_at = monotonic()

    def is_set(self) -> bool:
        """Return whether the flag is set."""
        self.moves()
        return self._set

    def wait(self, timeout: float) -> bool:
        """Wait up to ``timeout`` seconds; return whether the flag is set."""
        end = monotonic() + timeout
        while not self._set and (left := end - monotonic()) > 0:
            sleep(min(left, _SLICE_S))
            self.moves()
        self.moves()
        return self._set
