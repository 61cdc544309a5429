"""A server in Java as a child process: its life, its ports and its log."""

from __future__ import annotations

import json
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Iterable
from pathlib import Path
from typing import ClassVar, Generic, Self, TypeVar

from k2ktui.engine.strict_json import integer, parse_object
from k2ktui.errors import Refused, TimedOut
from k2ktui.progress import Progress
from k2ktui.runtime import child_process
from k2ktui.runtime.paths import write_atomically
from k2ktui.runtime.ports import HeldPort

_ATTEMPTS = 3
_POLL_SECONDS = 0.05
_TAIL_LINES = 15

Program = TypeVar("Program")


class JavaServer(ABC, Generic[Program]):
    """One server on loopback; it keeps its ports until it is closed.

    It cannot outlive this process (see :mod:`k2ktui.runtime.child_process`).

    Args:
        name: its name in messages.
        data_dir: directory of its files. An existing directory is reused, with its previous ports
            if they are still free.
        log_name: file name of its log there.

    Attributes:
        KIND: what it is in messages, for example ``cluster``.
        START_SECONDS: default time limit of a start.
        PORT_TAKEN: texts of its log if another program has one of its ports.
    """

    KIND: ClassVar[str]
    START_SECONDS: ClassVar[float]
    PORT_TAKEN: ClassVar[tuple[str, ...]]

    def __init__(self, name: str, data_dir: Path, log_name: str) -> None:
        self.name = name
        self.data_dir = data_dir.resolve()
        self.log_path = self.data_dir / log_name
        self._ports: dict[str, HeldPort] = {}
        self._process: child_process.ChildProcess | None = None
        self._served = False
        self._log_start = 0
        self._life = threading.RLock()

    @abstractmethod
    def is_serving(self) -> bool:
        """Whether it answers clients."""

    @abstractmethod
    def _port_names(self) -> Iterable[str]:
        """Return the names of its ports."""

    @abstractmethod
    def _program(self, progress: Progress | None) -> Program:
        """Return what is started; a first start downloads it."""

    @abstractmethod
    def _spawn(self, program: Program) -> child_process.ChildProcess:
        """Start the Java process; its ports are free for it."""

    def _after_start(self, program: Program) -> None:
        """Do what follows once it serves."""

    def address(self, port: str) -> str:
        """Return the ``host:port`` of a port, by the port's name.

        Raises:
            KeyError: there is no such port.
        """
        with self._life:
            if not self._ports:
                self._take_ports()
            return self._ports[port].address

    @property
    def pid(self) -> int:
        """Process id of the Java process; 0 if it is not running."""
        return self._process.pid if self._process and self.running else 0

    @property
    def running(self) -> bool:
        """Whether the Java process exists, even if suspended."""
        return self._process is not None and self._process.poll() is None

    def start(self, timeout: float | None = None, *, progress: Progress | None = None) -> Self:
        """Start it and return when it serves clients.

        Args:
            timeout: seconds, excluding the download on a first start; None for the default.
            progress: called during a download.

        Raises:
            ConnectionFailed: its program could not be downloaded.
            Refused: no usable Java, or it exited; the error includes its last log lines.
            TimedOut: it did not serve clients in time; it was stopped.
        """
        with self._life:
            if self.running:
                return self
            program = self._program(progress)
            for attempt in range(_ATTEMPTS):
                self._launch(program)
                try:
                    self._await_service(self.START_SECONDS if timeout is None else timeout)
                except _PortTaken:
                    if attempt + 1 == _ATTEMPTS or self._served:
                        raise
                    self._give_ports_back()
                    continue
                self._served = True
                self._after_start(program)
                break
            return self

    def stop(self, timeout: float = 20.0) -> None:
        """Shut it down (SIGTERM), with SIGKILL after ``timeout`` seconds."""
        with self._life:
            if self._process:
                self._process.stop(timeout)

    def kill(self) -> None:
        """Kill it (SIGKILL) and wait until it has exited."""
        with self._life:
            if self._process:
                self._process.kill()
                self._process.wait(10.0)

    def suspend(self) -> None:
        """Send SIGSTOP: connections stay open, but requests get no response."""
        if self._process:
            self._process.suspend()

    def resume(self) -> None:
        """Send SIGCONT after :meth:`suspend`."""
        if self._process:
            self._process.resume()

    def restart(self, timeout: float | None = None) -> Self:
        """Stop it if it runs, then start it with the same addresses and data."""
        with self._life:
            self.stop()
            return self.start(timeout)

    def close(self) -> None:
        """Stop it and release its ports; keep its data."""
        with self._life:
            self.stop()
            self._give_ports_back()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.close()

    def tail(self, lines: int = _TAIL_LINES) -> str:
        """Return the last lines of its log."""
        return self._last_lines(lines, 0)

    def _last_lines(self, lines: int, start: int) -> str:
        """Return the last lines of the log, without those before byte ``start``."""
        try:
            with self.log_path.open("rb") as file:
                file.seek(max(start, self.log_path.stat().st_size - 16384))
                return "\n".join(file.read().decode(errors="replace").splitlines()[-lines:])
        except OSError:
            return ""

    def _take_ports(self) -> None:
        noted = self._noted_ports()
        self._ports = {name: HeldPort(noted.get(name, 0)) for name in self._port_names()}

    def _noted_ports(self) -> dict[str, int]:
        try:
            noted = parse_object((self.data_dir / "ports.json").read_bytes())
            return {str(name): integer(number) for name, number in noted.items()}
        except (OSError, ValueError):
            return {}

    def _give_ports_back(self) -> None:
        for port in self._ports.values():
            port.close()
        self._ports = {}

    def _lend_ports(self) -> None:
        """Let the process bind the ports, and note them for the next start."""
        numbers = {name: port.number for name, port in self._ports.items()}
        write_atomically(self.data_dir / "ports.json", json.dumps(numbers).encode())
        for port in self._ports.values():
            port.lend()

    def _launch(self, program: Program) -> None:
        if not self._ports:
            self._take_ports()
        # The log also has the lines of earlier starts, which may have failed for another reason.
        self._log_start = self.log_path.stat().st_size if self.log_path.exists() else 0
        self._process = self._spawn(program)

    def _await_service(self, timeout: float) -> None:
        assert self._process is not None
        deadline = time.monotonic() + timeout
        while not self.is_serving():
            code = self._process.poll()
            if code is not None:
                raise self._start_error(code)
            if time.monotonic() >= deadline:
                self._process.stop(5.0)
                raise TimedOut(
                    f"The {self.name} {self.KIND} did not accept clients within {timeout:g} s.",
                    unchanged=f"It was stopped. Its log {self.log_path} ends with:\n"
                    f"{self._last_lines(_TAIL_LINES, self._log_start)}",
                    hint="On an overloaded machine, try again; otherwise see the log for the "
                    "cause.",
                )
            time.sleep(_POLL_SECONDS)

    def _start_error(self, code: int) -> Refused:
        tail = self._last_lines(_TAIL_LINES, self._log_start)
        kind = _PortTaken if any(text in tail for text in self.PORT_TAKEN) else Refused
        return kind(
            f"The {self.name} {self.KIND} ended while starting (exit {code}).",
            unchanged=f"Its log {self.log_path} ends with:\n{tail}",
            hint="If the log names damaged data, start over with --fresh.",
        )


class _PortTaken(Refused):
    """Another program took a port between its selection and the start."""
