"""HAProxy between clients and two clusters of one broker each: a name, and each broker's way.

The name's servers and each broker's own frontend have a server of the cluster in their backend.
"""

from __future__ import annotations

import contextlib
import shutil
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import pytest

from k2ktui.drill.haproxy import ProxyError, ask_proxy, read_servers
from k2ktui.runtime.child_process import ChildProcess, spawn
from k2ktui.runtime.node import KafkaNode
from k2ktui.runtime.ports import HeldPort
from tests.support.clusters.kafka import START_S, eventually

LISTENER = "FRONTED"
_CONFIG = """\
global
  stats socket {socket} mode 600 level admin
defaults
  mode tcp
  timeout connect 5s
  timeout client 1h
  timeout server 1h
listen name
  bind {name}
  server east {east}
  server west {west} disabled
listen east-1
  bind {east_way}
  server east {east}
listen west-1
  bind {west_way}
  server west {west} disabled
"""
# A name leads to a cluster by its address, on the same port.
BY_DNS = """\
global
  stats socket {socket} mode 600 level admin
defaults
  mode tcp
  timeout connect 5s
  timeout client 1h
  timeout server 1h
listen name
  bind 127.0.0.2:{port}
  server east {east}
listen name-west
  bind 127.0.0.3:{port}
  server west {west}
listen east-1
  bind {east_way}
  server east {east}
listen west-1
  bind {west_way}
  server west {west}
"""


class FrontedNode(KafkaNode):
    """A node with a second listener, which advertises the address of a frontend."""

    def __init__(
        self,
        name: str,
        data_dir: Path,
        properties: Mapping[str, str] = {},
        protocol: str = "PLAINTEXT",
    ) -> None:
        super().__init__(name, data_dir, properties)
        self._protocols[LISTENER] = protocol
        self.way = HeldPort()

    def _settings(self) -> dict[str, str]:
        settings = super()._settings()
        settings["advertised.listeners"] = settings["advertised.listeners"].replace(
            self.address(LISTENER), self.way.address
        )
        return settings


class Front:
    """HAProxy in front of two nodes; at first, the name leads to ``east``."""

    SOURCE, TARGET = ("name/east", "east-1/east"), ("name/west", "west-1/west")

    def __init__(
        self, directory: Path, east: FrontedNode, west: FrontedNode, config: str = _CONFIG
    ) -> None:
        with contextlib.ExitStack() as stack:
            self._start(stack, directory, east, west, config)
            self._running = stack.pop_all()

    def _start(
        self,
        stack: contextlib.ExitStack,
        directory: Path,
        east: FrontedNode,
        west: FrontedNode,
        config: str,
    ) -> None:
        """Start it, and let ``stack`` end all that was started."""
        directory.mkdir(mode=0o700)
        self.name = HeldPort()
        stack.callback(self.name.close)
        # HAProxy refuses sockets with longer paths than 97 characters.
        short = stack.enter_context(tempfile.TemporaryDirectory(prefix="k2ktui-", dir="/tmp"))
        self.socket = Path(short, "admin.sock")
        ports = {"name": self.name, "east_way": east.way, "west_way": west.way}
        file = directory / "haproxy.cfg"
        file.write_text(
            config.format(
                port=self.name.number,
                socket=self.socket,
                east=east.address(LISTENER),
                west=west.address(LISTENER),
                **{key: port.address for key, port in ports.items()},
            )
        )
        for port in ports.values():
            port.lend()
        command = [str(shutil.which("haproxy")), "-db", "-f", str(file)]
        log = directory / "haproxy.log"
        process = spawn(command, log_path=log)
        stack.callback(end_process, process)
        eventually(lambda: process.poll() is not None or self._is_up(), log.read_text)
        assert process.poll() is None, log.read_text()

    def _is_up(self) -> bool:
        with contextlib.suppress(ProxyError):
            return bool(self.states)
        return False

    @property
    def states(self) -> dict[str, str]:
        """The state of each server."""
        return read_servers(str(self.socket))

    def reset(self) -> None:
        """Let the name lead to ``east`` again."""
        for servers, state in ((self.SOURCE, "ready"), (self.TARGET, "maint")):
            for server in servers:
                ask_proxy(str(self.socket), f"set server {server} state {state}")
                ask_proxy(str(self.socket), f"shutdown sessions server {server}")

    @property
    def section(self) -> dict[str, object]:
        """``drill.redirect`` of a pipeline from east to west."""
        return self._section(self.SOURCE, self.TARGET)

    @property
    def section_back(self) -> dict[str, object]:
        """``drill.redirect`` of a pipeline from west to east."""
        return self._section(self.TARGET, self.SOURCE)

    def _section(self, source: Sequence[str], target: Sequence[str]) -> dict[str, object]:
        proxy = {"socket": str(self.socket), "source": list(source), "target": list(target)}
        return {"name": self.name.address, "haproxy": proxy}

    @property
    def commands(self) -> tuple[dict[str, object], dict[str, object]]:
        """The sections of both directions with commands instead of ``haproxy``."""
        return self._by_commands(self.SOURCE, self.TARGET), self._by_commands(
            self.TARGET, self.SOURCE
        )

    def _by_commands(self, source: Sequence[str], target: Sequence[str]) -> dict[str, object]:
        return {
            "name": self.name.address,
            "command": self.send(*target, state="ready"),
            "cut": self.send(*source, state="maint"),
            "restore": self.send(*source, state="ready"),
        }

    def send(self, *servers: str, state: str) -> list[str]:
        """Return a command that sets servers to a state, and ends their sessions."""
        lines = [f"set server {server} state {state}" for server in servers]
        lines += [f"shutdown sessions server {server}" for server in servers]
        code = "from k2ktui.drill.haproxy import ask_proxy\n" + "\n".join(
            f"ask_proxy({str(self.socket)!r}, {line!r})" for line in lines
        )
        return [sys.executable, "-c", code]

    def close(self) -> None:
        """End HAProxy."""
        self._running.close()


def end_process(process: ChildProcess) -> None:
    """End it at once."""
    process.kill()
    process.wait(10.0)
    process.release()


@contextlib.contextmanager
def fronted(
    directory: Path,
    config: str = _CONFIG,
    properties: Mapping[str, str] = {},
    protocol: str = "PLAINTEXT",
) -> Iterator[tuple[FrontedNode, FrontedNode, Front]]:
    """Run two clusters behind HAProxy; skip the test where it is not installed.

    Args:
        directory: for their files.
        config: HAProxy's.
        properties: of both brokers.
        protocol: of the listener for clients.
    """
    if shutil.which("haproxy") is None:
        pytest.skip("haproxy is not installed (Debian: haproxy)")
    with contextlib.ExitStack() as stack:
        nodes = [
            FrontedNode(name, directory / name, properties, protocol) for name in ("east", "west")
        ]
        for node in nodes:
            stack.callback(node.way.close)
            stack.callback(node.close)
            node.start(START_S)
        front = Front(directory / "front", nodes[0], nodes[1], config)
        stack.callback(front.close)
        yield nodes[0], nodes[1], front
