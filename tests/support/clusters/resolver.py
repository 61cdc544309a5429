"""A resolver that caches, and threads for which it is the host's."""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import os
import socket
from collections.abc import Iterator
from concurrent.futures import Executor, ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.support.clusters.haproxy import end_process
from tests.support.clusters.name_server import ZONE, PortTaken, run_named

# BIND listens on addresses that an interface has.
_ADDRESS = "127.0.0.1"
# There is one port 53: other processes of tests on this host wait for theirs.
_TURN = Path("/tmp/k2ktui-tests-port-53.lock")
_CLONE_NEWNS, _MS_BIND, _MS_REC, _MS_PRIVATE = 0x20000, 4096, 16384, 1 << 18
_CONFIG = """\
options {{
  directory "{directory}"; managed-keys-directory "{directory}";
  pid-file none; session-keyfile none;
  listen-on port 53 {{ {address}; }}; listen-on-v6 {{ none; }};
  recursion yes; dnssec-validation no;
}};
controls {{}};
zone "{zone}" {{ type forward; forward only; forwarders {{ 127.0.0.1 port {port}; }}; }};
"""


@contextlib.contextmanager
def own_resolver(directory: Path, port: int) -> Iterator[Executor]:
    """Run BIND as a cache before a server, and a thread that asks it; skip where that cannot be.

    Threads and processes that this thread starts ask it, too, and no others of this host.

    Args:
        directory: its new directory.
        port: that of the server that has the zone, on 127.0.0.1.
    """
    if os.geteuid() != 0:
        pytest.skip("only root has a mount namespace and port 53")
    with _turn():
        with socket.socket() as probe:
            # Connections that were closed a moment ago do not matter: named has that option, too.
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind((_ADDRESS, 53))
            except OSError as error:
                pytest.skip(f"port 53 of {_ADDRESS}: {error.strerror}")
        with _resolving(directory, port) as threads:
            yield threads


@contextlib.contextmanager
def _turn() -> Iterator[None]:
    """Wait until no other process has port 53 for its tests, and keep them from it."""
    flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
    with os.fdopen(os.open(_TURN, flags, 0o600), "w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


@contextlib.contextmanager
def _resolving(directory: Path, port: int) -> Iterator[Executor]:
    directory.mkdir(mode=0o700)
    config = directory / "resolver.conf"
    config.write_text(_CONFIG.format(directory=directory, address=_ADDRESS, zone=ZONE, port=port))
    file = directory / "resolv.conf"
    file.write_text(f"nameserver {_ADDRESS}\n")
    with ThreadPoolExecutor(1, thread_name_prefix="resolves") as threads:
        try:
            threads.submit(_enter, file).result()
        except OSError as error:
            pytest.skip(f"no mount namespace: {error.strerror}")
        try:
            process = run_named(config)
        except PortTaken:
            pytest.skip(f"port 53 of {_ADDRESS} is taken")
        try:
            try:
                threads.submit(socket.gethostbyname, f"ns.{ZONE}").result()
            except OSError as error:
                pytest.skip(f"names of this host do not come from /etc/resolv.conf: {error}")
            yield threads
        finally:
            end_process(process)


def _enter(file: Path) -> None:
    """Give this thread a mount namespace in which a file is the resolver's configuration."""
    libc = ctypes.CDLL(None, use_errno=True)

    def call(result: int) -> None:
        if result:
            raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))

    call(libc.unshare(_CLONE_NEWNS))
    call(libc.mount(b"none", b"/", None, _MS_REC | _MS_PRIVATE, None))
    at = os.path.realpath("/etc/resolv.conf").encode()
    call(libc.mount(str(file).encode(), at, None, _MS_BIND, None))
