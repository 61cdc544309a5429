"""A schema registry (Apicurio Registry) on loopback, for the demo and for tests.

Example::

    with RegistryNode("source", Path("data/registry")) as registry:
        print(registry.url)  # Confluent's API

The registry keeps its port until it is closed, and its schemas in a file, so that
:meth:`RegistryNode.restart` keeps both. It cannot outlive this process (see
:mod:`k2ktui.runtime.child_process`).
"""

from __future__ import annotations

import http.client
import json
import os
import threading
import time
from pathlib import Path
from typing import Self

from k2ktui.engine.strict_json import integer, parse_object
from k2ktui.errors import Refused, TimedOut
from k2ktui.runtime import child_process
from k2ktui.runtime.artifacts import Progress
from k2ktui.runtime.java import find_java
from k2ktui.runtime.paths import write_atomically
from k2ktui.runtime.ports import LOOPBACK, HeldPort
from k2ktui.runtime.program_archive import ProgramArchive, unpack_program

APICURIO = ProgramArchive(
    title="Apicurio Registry",
    group="io.apicurio",
    artifact="apicurio-registry-app",
    version="3.3.3",
    classifier="all",
    sha256="8bc6751c76d963734224b01d5e7f84ccb3cb61c87d3bd77c36c35f10a5cbed63",
)
MINIMUM_JAVA = 21
CONFLUENT_API = "/apis/ccompat/v7"

_JVM_OPTIONS = (
    "-XX:TieredStopAtLevel=1",
    "-XX:+UseSerialGC",
    "-Xshare:auto",
    "-Xss512k",
    "-XX:MaxMetaspaceSize=192m",
    "-Djava.awt.headless=true",
)
_HEAP = "160m"
_API, _MANAGEMENT = "api", "management"
_ANSWER_SECONDS = 2.0
_POLL_SECONDS = 0.1
_ATTEMPTS = 3
_TAIL_LINES = 15
# The registry reads its settings from the environment: the user's own must not reach it.
_KEPT_VARIABLES = ("HOME", "LANG", "LC_ALL", "LD_LIBRARY_PATH", "PATH", "TMPDIR", "TZ")


class RegistryNode:
    """One schema registry as a child process.

    Args:
        name: name of the registry in messages.
        data_dir: directory of its files: ``registry.mv.db`` with the schemas, and ``registry.log``.
            An existing directory is reused, with its previous port if that is still free.
    """

    def __init__(self, name: str, data_dir: Path) -> None:
        self.name = name
        self.data_dir = data_dir.resolve()
        self.log_path = self.data_dir / "registry.log"
        self._ports: dict[str, HeldPort] = {}
        self._process: child_process.ChildProcess | None = None
        self._served = False
        self._log_start = 0
        self._life = threading.RLock()

    @property
    def url(self) -> str:
        """Address of Confluent's API, as for ``schema.registry.url``; unchanged by restarts."""
        with self._life:
            if not self._ports:
                self._take_ports()
            return f"http://{self._ports[_API].address}{CONFLUENT_API}"

    @property
    def pid(self) -> int:
        """Process id of the Java process; 0 if it is not running."""
        return self._process.pid if self._process and self.running else 0

    @property
    def running(self) -> bool:
        """Whether the Java process exists, even if suspended."""
        return self._process is not None and self._process.poll() is None

    def start(self, timeout: float = 90.0, *, progress: Progress | None = None) -> Self:
        """Start the registry and return when it serves clients.

        Args:
            timeout: seconds, excluding the download on a first start.
            progress: called during a download.

        Raises:
            ConnectionFailed: the registry could not be downloaded.
            Refused: no usable Java, or the registry exited; the error includes its last log lines.
            TimedOut: the registry did not serve clients in time; it was stopped.
        """
        with self._life:
            if self.running:
                return self
            program = self._program(progress)
            for attempt in range(_ATTEMPTS):
                self._launch(program)
                try:
                    self._await_service(timeout)
                except _PortTaken:
                    if attempt + 1 == _ATTEMPTS or self._served:
                        raise
                    self._give_ports_back()
                    continue
                self._served = True
                break
            return self

    def stop(self, timeout: float = 20.0) -> None:
        """Shut the registry down (SIGTERM), with SIGKILL after ``timeout`` seconds."""
        with self._life:
            if self._process:
                self._process.stop(timeout)

    def kill(self) -> None:
        """Kill the registry (SIGKILL) and wait until it has exited."""
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

    def restart(self, timeout: float = 90.0) -> Self:
        """Stop the registry if it runs, then start it with the same address and schemas."""
        with self._life:
            self.stop()
            return self.start(timeout)

    def close(self) -> None:
        """Stop the registry and release its ports; keep its data."""
        with self._life:
            self.stop()
            self._give_ports_back()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.close()

    def is_serving(self) -> bool:
        """Whether the registry answers, and with its schemas' database."""
        address = self._ports[_API].address
        connection = http.client.HTTPConnection(address, timeout=_ANSWER_SECONDS)
        try:
            connection.request("GET", f"{CONFLUENT_API}/subjects")
            return connection.getresponse().status == http.client.OK
        except (OSError, http.client.HTTPException):
            return False
        finally:
            connection.close()

    def _program(self, progress: Progress | None) -> Path:
        """Return the directory of the registry's program."""
        return unpack_program(APICURIO, progress)

    def _take_ports(self) -> None:
        noted: dict[str, int] = {}
        try:
            content = parse_object((self.data_dir / "ports.json").read_bytes())
            noted = {str(name): integer(number) for name, number in content.items()}
        except (OSError, ValueError):
            pass
        self._ports = {name: HeldPort(noted.get(name, 0)) for name in (_API, _MANAGEMENT)}

    def _give_ports_back(self) -> None:
        for port in self._ports.values():
            port.close()
        self._ports = {}

    def _launch(self, program: Path) -> None:
        java = find_java(MINIMUM_JAVA)
        if not self._ports:
            self._take_ports()
        numbers = {name: port.number for name, port in self._ports.items()}
        write_atomically(self.data_dir / "ports.json", json.dumps(numbers).encode())
        for port in self._ports.values():
            port.lend()
        self._log_start = self.log_path.stat().st_size if self.log_path.exists() else 0
        self._process = child_process.spawn(
            [
                str(java.executable),
                *_JVM_OPTIONS,
                f"-Xmx{_HEAP}",
                "-jar",
                str(program / "quarkus-run.jar"),
            ],
            log_path=self.log_path,
            env=self._environment(),
            cwd=self.data_dir,
        )

    def _environment(self) -> dict[str, str]:
        kept = {name: os.environ[name] for name in _KEPT_VARIABLES if name in os.environ}
        return kept | {
            "QUARKUS_HTTP_HOST": LOOPBACK,
            "QUARKUS_HTTP_PORT": str(self._ports[_API].number),
            # Health and metrics: on a port of their own, which would be 9000 on every interface.
            "QUARKUS_MANAGEMENT_HOST": LOOPBACK,
            "QUARKUS_MANAGEMENT_PORT": str(self._ports[_MANAGEMENT].number),
            "QUARKUS_HTTP_ACCESS_LOG_ENABLED": "false",
            "QUARKUS_BANNER_ENABLED": "false",
            # Without a delay of writes, a registry that is killed keeps what it has acknowledged.
            "APICURIO_DATASOURCE_URL": f"jdbc:h2:file:{self.data_dir / 'registry'};WRITE_DELAY=0",
            "APICURIO_DATASOURCE_JDBC_INITIAL_SIZE": "2",
            "APICURIO_DATASOURCE_JDBC_MIN_SIZE": "2",
            "APICURIO_DATASOURCE_JDBC_MAX_SIZE": "10",
        }

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
                    f"The {self.name} registry did not accept clients within {timeout:g} s.",
                    unchanged=f"It was stopped. Its log {self.log_path} ends with:\n{self._tail()}",
                    hint="On an overloaded machine, try again; otherwise see the log for the "
                    "cause.",
                )
            time.sleep(_POLL_SECONDS)

    def _start_error(self, code: int) -> Refused:
        tail = self._tail()
        kind = _PortTaken if "already in use" in tail or "already bound" in tail else Refused
        return kind(
            f"The {self.name} registry ended while starting (exit {code}).",
            unchanged=f"Its log {self.log_path} ends with:\n{tail}",
            hint="If the log names damaged data, start over with --fresh.",
        )

    def _tail(self) -> str:
        """Return the last lines of the log that belong to the current start."""
        try:
            with self.log_path.open("rb") as file:
                file.seek(max(self._log_start, self.log_path.stat().st_size - 16384))
                return "\n".join(file.read().decode(errors="replace").splitlines()[-_TAIL_LINES:])
        except OSError:
            return ""


class _PortTaken(Refused):
    """Another program took a port between its selection and the registry's start."""
