"""A Kerberos realm on loopback, from MIT's programs (Debian's krb5-kdc), for tests."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from k2ktui.runtime.ports import HeldPort
from tests.support.clusters.kafka import TIMEOUT, eventually

REALM = "K2K.TEST"
PROGRAMS = ("krb5kdc", "kdb5_util", "kadmin.local")
_SYSTEM = os.pathsep.join((os.environ.get("PATH", ""), "/usr/sbin"))


def missing_programs() -> list[str]:
    """Return the programs of a KDC that this host does not have."""
    return [name for name in PROGRAMS if shutil.which(name, path=_SYSTEM) is None]


@dataclass(frozen=True)
class Realm:
    """A running realm; ``environment`` makes programs use it."""

    directory: Path
    environment: dict[str, str]

    @property
    def config(self) -> Path:
        """Its krb5.conf."""
        return self.directory / "krb5.conf"

    def keytab(self, principal: str) -> Path:
        """Create a principal and return a keytab with its key."""
        path = self.directory / f"{principal.replace('/', '_')}.keytab"
        self.admin(f"addprinc -randkey {principal}")
        self.admin(f"ktadd -k {path} {principal}")
        return path

    def admin(self, command: str) -> None:
        """Run a command of kadmin."""
        self.run("kadmin.local", "-q", command)

    def run(self, program: str, *arguments: object) -> None:
        """Run a program in this realm."""
        command = [_path(program), *map(str, arguments)]
        env = {**os.environ, **self.environment}
        subprocess.run(command, check=True, capture_output=True, env=env, timeout=TIMEOUT)


@contextmanager
def running_realm(directory: Path) -> Iterator[Realm]:
    """Start a KDC for :data:`REALM`."""
    directory.mkdir(parents=True, exist_ok=True)
    held = HeldPort()  # until the end: another program would take a port that is only free
    port = held.number
    realm = Realm(
        directory,
        {
            "KRB5_CONFIG": str(directory / "krb5.conf"),
            "KRB5_KDC_PROFILE": str(directory / "kdc.conf"),
        },
    )
    realm.config.write_text(
        f"""[libdefaults]
 default_realm = {REALM}
 dns_lookup_kdc = false
 dns_canonicalize_hostname = false
 rdns = false
 udp_preference_limit = 1
[realms]
 {REALM} = {{
  kdc = 127.0.0.1:{port}
 }}
[domain_realm]
 127.0.0.1 = {REALM}
[dbmodules]
 db_module_dir = {_plugins()}
"""
    )
    (directory / "kdc.conf").write_text(
        f"""[kdcdefaults]
 kdc_listen = 127.0.0.1:{port}
 kdc_tcp_listen = 127.0.0.1:{port}
[realms]
 {REALM} = {{
  database_name = {directory}/principal
  key_stash_file = {directory}/stash
  acl_file = {directory}/acl
 }}
"""
    )
    realm.run("kdb5_util", "create", "-s", "-r", REALM, "-P", "master", "-W")
    env = {**os.environ, **realm.environment}
    log = (directory / "kdc.log").open("wb")
    held.lend()
    kdc = subprocess.Popen([_path("krb5kdc"), "-n"], env=env, stdout=log, stderr=log)
    try:
        eventually(lambda: _listens(port), "the KDC listens")
        yield realm
    finally:
        kdc.terminate()
        kdc.wait(TIMEOUT)
        held.close()
        log.close()


def _path(program: str) -> str:
    path = shutil.which(program, path=_SYSTEM)
    assert path is not None
    return path


def _plugins() -> str:
    """Return the directory of the KDC's database modules, beside the program."""
    root = Path(_path("krb5kdc")).parents[1]
    return str(next(root.glob("lib/*/krb5/plugins/kdb"), root / "lib/krb5/plugins/kdb"))


def _listens(port: int) -> bool:
    with socket.socket() as client:
        return client.connect_ex(("127.0.0.1", port)) == 0
