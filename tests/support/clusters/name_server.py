"""BIND with one zone that a TSIG key may update, and tools beside it."""

from __future__ import annotations

import contextlib
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from k2ktui.runtime.child_process import ChildProcess, spawn
from k2ktui.runtime.ports import HeldPort
from tests.support.clusters.haproxy import end_process
from tests.support.clusters.kafka import eventually

ZONE, KEY = "kafka.test", "mover"
_PORTS = 10
_PATH = "/usr/bin:/usr/sbin:/bin:/sbin"
_CONFIG = """\
options {{
  directory "{directory}"; managed-keys-directory "{directory}";
  pid-file none; session-keyfile none;
  listen-on port {port} {{ 127.0.0.1; }}; listen-on-v6 {{ none; }};
  recursion no; dnssec-validation no; allow-transfer {{ none; }};
}};
controls {{}};
{keys}
zone "{zone}" {{
  type primary; file "{directory}/zone";
  update-policy {{
    grant {key} subdomain own.{zone} A AAAA CNAME;
    grant hand subdomain {zone} ANY;
  }};
}};
"""
_ZONE = """\
$TTL 1
@ SOA ns hostmaster 1 3600 600 86400 1
@ NS ns
ns A 127.0.0.1
"""


class PortTaken(Exception):
    """A name server cannot have its port: another program has it."""


class NameServer:
    """BIND: the key ``mover`` may update names below ``own.kafka.test``, and ``hand`` all."""

    def __init__(self, directory: Path, records: str) -> None:
        directory.mkdir(mode=0o700)
        self.directory = directory
        self.keys = {name: self.add_key(name) for name in (KEY, "hand", "stranger")}
        known = "\n".join(self.keys[name].read_text() for name in (KEY, "hand"))
        (directory / "zone").write_text(f"{_ZONE}{records}")
        for attempt in range(_PORTS):
            with contextlib.suppress(PortTaken):
                self._start(directory / f"named-{attempt}.conf", known)
                return
        raise PortTaken(f"{_PORTS} ports one after the other")

    def _start(self, config: Path, keys: str) -> None:
        """Run it on a port; only TCP's is held, and it needs UDP's of that number, too."""
        with contextlib.ExitStack() as stack:
            port = HeldPort()
            stack.callback(port.close)
            config.touch(0o600)
            config.write_text(
                _CONFIG.format(
                    directory=self.directory, port=port.number, keys=keys, zone=ZONE, key=KEY
                )
            )
            port.lend()
            stack.callback(end_process, run_named(config))
            self._port, self._running = port, stack.pop_all()

    def add_key(self, name: str, file: str = "") -> Path:
        """Write a new key to a file of mode 600."""
        path = self.directory / f"{file or name}.key"
        path.touch(0o600)
        made = subprocess.run(
            [_find("tsig-keygen"), name], capture_output=True, text=True, check=True
        )
        path.write_text(made.stdout)
        return path

    def secret(self, name: str = KEY) -> str:
        """The secret of a key."""
        return self.keys[name].read_text().split('"')[3]

    @property
    def port(self) -> int:
        """Its port on 127.0.0.1."""
        return self._port.number

    @property
    def serial(self) -> str:
        """The zone's serial number, which each change raises."""
        return self._dig(ZONE, "SOA")[0].split()[6]

    @property
    def address(self) -> str:
        """Its ``HOST:PORT``."""
        return self._port.address

    @property
    def section(self) -> dict[str, object]:
        """``drill.redirect.dns`` without its records."""
        return {
            "server": self.address,
            "zone": ZONE,
            "keyFile": str(self.keys[KEY]),
        }

    def change(self, *lines: str) -> None:
        """Change the zone by another hand."""
        script = [f"server 127.0.0.1 {self._port.number}", f"zone {ZONE}", *lines, "send", ""]
        command = [_find("nsupdate"), "-v", "-k", str(self.keys["hand"])]
        subprocess.run(command, input="\n".join(script), text=True, check=True, timeout=60)

    def set(self, name: str, ttl: int, kind: str, *values: str) -> None:
        """Replace all records of a name and type by another hand."""
        at = f"{name}.{ZONE}."
        adds = [f"update add {at} {ttl} {kind} {value}" for value in values]
        self.change(f"update delete {at} {kind}", *adds)

    def ask(self, name: str, kind: str = "A") -> list[str]:
        """Return TTL and value of each record, such as ``30 127.0.0.3``."""
        rows = (line.split() for line in self._dig(f"{name}.{ZONE}", kind))
        return sorted(f"{row[1]} {row[4]}" for row in rows if row[3] == kind)

    def _dig(self, name: str, kind: str) -> list[str]:
        options = ["@127.0.0.1", "-p", str(self.port), "+tcp", "+noall", "+answer"]
        command = [_find("dig"), *options, name, kind]
        done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
        return done.stdout.splitlines()

    def close(self) -> None:
        """End it."""
        self._running.close()


def run_named(config: Path) -> ChildProcess:
    """Run BIND with a new configuration until it answers; skip the test where it is confined.

    Raises:
        PortTaken: another program has its port.
    """
    log = config.with_suffix(".log")
    process = spawn([_find("named"), "-g", "-n", "1", "-c", str(config)], log_path=log)
    with contextlib.ExitStack() as stack:
        stack.callback(end_process, process)
        eventually(
            lambda: process.poll() is not None or "running\n" in log.read_text(), log.read_text
        )
        if process.poll() is not None:
            said = log.read_text()
            if "unable to listen on any configured interfaces" in said:
                raise PortTaken(said)
            if "permission denied" in said.lower():  # its profile of AppArmor, or the like
                pytest.skip(f"named may not read its files: {said.splitlines()[-1]}")
            raise AssertionError(said)
        stack.pop_all()
    return process


def _find(program: str) -> str:
    path = shutil.which(program, path=_PATH)
    if path is None:
        pytest.skip(f"{program} is not installed (Debian: bind9, bind9-dnsutils)")
    return path


@contextlib.contextmanager
def name_server(directory: Path, records: str) -> Iterator[NameServer]:
    """Run BIND; skip the test where it is not installed."""
    for program in ("named", "nsupdate", "dig", "tsig-keygen"):
        _find(program)
    server = NameServer(directory, records)
    try:
        yield server
    finally:
        server.close()
