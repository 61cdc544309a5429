"""Loopback ports that stay reserved from the moment they are chosen."""

from __future__ import annotations

import contextlib
import socket
import sys

LOOPBACK = "127.0.0.1"
# On Linux, a bound socket that does not listen lets another socket with SO_REUSEADDR (such as
# Java's) bind the same port, and the kernel does not assign the port to other programs. On other
# systems the port must be released first.
_CAN_HOLD_WHILE_USED = sys.platform == "linux"


class HeldPort:
    """A free loopback port, reserved until :meth:`close`.

    Args:
        preferred: port to try first; 0 for any.
    """

    def __init__(self, preferred: int = 0) -> None:
        self._socket: socket.socket | None = None
        self.number = 0
        with contextlib.suppress(OSError):
            self._hold(preferred)
        if not self.number:
            self._hold(0)

    def _hold(self, number: int) -> None:
        held = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        try:
            held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            held.bind((LOOPBACK, number))
            if number and _is_listening(number):
                raise OSError(f"port {number} is in use")
        except OSError:
            held.close()
            raise
        self._socket = held
        self.number = held.getsockname()[1]

    @property
    def address(self) -> str:
        """The port's address as ``host:port``."""
        return f"{LOOPBACK}:{self.number}"

    def lend(self) -> None:
        """Allow another program to bind the port; call it right before that program starts."""
        if not _CAN_HOLD_WHILE_USED:
            self.close()

    def close(self) -> None:
        """Release the port; idempotent."""
        if self._socket is not None:
            self._socket.close()
            self._socket = None


def _is_listening(number: int) -> bool:
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.settimeout(1.0)
        return probe.connect_ex((LOOPBACK, number)) == 0
