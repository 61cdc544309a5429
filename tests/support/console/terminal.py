"""A program on a terminal of its own: a pty whose other end is the test."""

from __future__ import annotations

import contextlib
import fcntl
import itertools
import os
import pty
import select
import signal
import struct
import subprocess
import termios
import time
from collections.abc import Mapping
from typing import Self

_DRAWN_AGAIN_S = 10.0


class Terminal:
    """Runs a command as the leader of a session whose terminal this is.

    Attributes:
        process: the command.
        output: all that it has written so far.
    """

    def __init__(
        self,
        command: list[str],
        *,
        size: tuple[int, int] = (80, 24),
        env: Mapping[str, str] | None = None,
        cwd: str | os.PathLike[str] | None = None,
    ) -> None:
        self._master, self._slave = pty.openpty()
        self._size = size
        self.resize(*size)
        self.attributes = termios.tcgetattr(self._slave)
        own = {"TERM": "xterm-256color", "PATH": os.environ["PATH"], "HOME": os.environ["HOME"]}
        self.process = subprocess.Popen(
            ["setsid", "--ctty", *command],
            stdin=self._slave,
            stdout=self._slave,
            stderr=self._slave,
            env={**own, **(env or {})},
            cwd=cwd,
        )
        self.output = b""

    def resize(self, width: int, height: int) -> None:
        """Give it a size, in cells; the kernel signals that to the process that runs on it."""
        self._size = width, height
        self._tell_size(width, height)

    def _tell_size(self, width: int, height: int) -> None:
        fcntl.ioctl(self._slave, termios.TIOCSWINSZ, struct.pack("HHHH", height, width, 0, 0))

    def send(self, text: str | bytes) -> None:
        """Type; bytes are sent as they are."""
        os.write(self._master, text.encode() if isinstance(text, str) else text)

    def read(self, seconds: float) -> bytes:
        """Return what is written until nothing more comes for so long."""
        data = b""
        while select.select([self._master], [], [], seconds)[0]:
            try:
                part = os.read(self._master, 1 << 16)
            except OSError:
                break
            if not part:
                break
            data += part
        self.output += data
        return data

    def quiet(self, seconds: float) -> None:
        """Take in what is written for so long."""
        until = time.monotonic() + seconds
        while (left := until - time.monotonic()) > 0:
            self.first(left)

    def first(self, timeout: float) -> bytes:
        """Return what is written first, empty if nothing is in time."""
        if not select.select([self._master], [], [], timeout)[0]:
            return b""
        data = os.read(self._master, 1 << 16)
        self.output += data
        return data

    def await_text(self, text: str, timeout: float = 180.0) -> None:
        """Wait until a text was written, from now on.

        A program draws only the cells that change, so a text can come in pieces. If it does not
        come as a whole, the terminal gets a line more, and later one less: all is drawn again.
        """
        width, height = self._size
        heights = itertools.cycle((height + 1, height))
        data, begun = b"", time.monotonic()
        drawn = begun
        while text.encode() not in data:
            has_ended = self.process.poll() is not None
            part = self.read(0.05)
            data += part
            now = time.monotonic()
            may_come = (part or not has_ended) and now < begun + timeout
            assert may_come, f"{text!r} was not written: {data[-2000:]!r}"
            if now > drawn + _DRAWN_AGAIN_S:
                drawn = now
                self._tell_size(width, next(heights))
        self._tell_size(width, height)

    def now(self) -> list[object]:
        """Return the terminal's attributes."""
        return termios.tcgetattr(self._slave)

    def hang_up(self) -> None:
        """Close the terminal, as a connection that breaks does."""
        os.close(self._slave)
        os.close(self._master)
        self._master = self._slave = -1

    def wait(self, timeout: float = 180.0) -> int:
        """Return the exit code."""
        until = time.monotonic() + timeout
        while self.process.poll() is None and time.monotonic() < until:
            if self._master >= 0:
                self.read(0.05)  # who cannot write does not end
            else:
                with contextlib.suppress(subprocess.TimeoutExpired):
                    self.process.wait(0.1)
        return self.process.wait(0.1)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGKILL)
            self.process.wait(60)
        if self._master >= 0:
            self.hang_up()
