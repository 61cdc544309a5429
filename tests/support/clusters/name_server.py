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
from tests.support.clusters.kafka import eventually

ZONE, KEY = "kafka.test", "mover"
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


class NameServer:
    """BIND: the key ``mover`` may update names below ``own.kafka.test``, and ``hand`` all."""

    def __init__(self, directory: Path, records: str) -> None:
        directory.mkdir(mode=0o700)
        self.directory, self._port = directory, HeldPort()
        self.keys = {name: self.add_key(name) for name in (KEY, "hand", "stranger")}
        known = "\n".join(self.keys[name].read_text() for name in (KEY, "hand"))
        (directory / "zone").write_text(f"{_ZONE}{records}")
        config = directory / "named.conf"
        config.write_text(
            _CONFIG.format(
                directory=directory, port=self._port.number, keys=known, zone=ZONE, key=KEY
            )
        )
        config.chmod(0o600)
        self._port.lend()
        self._process = run_named(config)

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
        end_named(self._process)
        self._port.close()


def run_named(config: Path) -> ChildProcess:
    """Run BIND with a configuration until it answers."""
    log = config.with_suffix(".log")
    process = spawn([_find("named"), "-g", "-n", "1", "-c", str(config)], log_path=log)
    eventually(
        lambda: log.exists() and "running\n" in log.read_text(),
        lambda: log.read_text() if log.exists() else "no log",
    )
    return process


def end_named(process: ChildProcess) -> None:
    """End it."""
    process.kill()
    process.wait(10.0)
    process.release()


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
