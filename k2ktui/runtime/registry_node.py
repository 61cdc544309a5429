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
import os
from collections.abc import Iterable
from pathlib import Path

from k2ktui.progress import Progress
from k2ktui.runtime import child_process
from k2ktui.runtime.java import find_java
from k2ktui.runtime.java_server import JavaServer
from k2ktui.runtime.ports import LOOPBACK
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
# The registry reads its settings from the environment: the user's own must not reach it.
_KEPT_VARIABLES = ("HOME", "LANG", "LC_ALL", "LD_LIBRARY_PATH", "PATH", "TMPDIR", "TZ")


class RegistryNode(JavaServer[Path]):
    """One schema registry as a child process.

    Args:
        name: name of the registry in messages.
        data_dir: directory of its files: ``registry.mv.db`` with the schemas, and ``registry.log``.
            An existing directory is reused, with its previous port if that is still free.
    """

    KIND = "registry"
    START_SECONDS = 90.0
    PORT_TAKEN = ("already in use", "already bound")

    def __init__(self, name: str, data_dir: Path) -> None:
        super().__init__(name, data_dir, "registry.log")

    @property
    def url(self) -> str:
        """Address of Confluent's API, as for ``schema.registry.url``; unchanged by restarts."""
        return f"http://{self.address(_API)}{CONFLUENT_API}"

    def is_serving(self) -> bool:
        """Whether the registry answers, and with its schemas' database."""
        connection = http.client.HTTPConnection(self.address(_API), timeout=_ANSWER_SECONDS)
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

    def _port_names(self) -> Iterable[str]:
        return _API, _MANAGEMENT

    def _spawn(self, program: Path) -> child_process.ChildProcess:
        java = find_java(MINIMUM_JAVA)
        self._lend_ports()
        return child_process.spawn(
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
