"""A resolver that caches, and threads for which it is the host's."""

from __future__ import annotations

import contextlib
import ctypes
import os
import socket
from collections.abc import Iterator
from concurrent.futures import Executor, ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.support.clusters.name_server import ZONE, end_named, run_named

# BIND listens on addresses that an interface has.
_ADDRESS = "127.0.0.1"
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
    with socket.socket() as probe:
        try:
            probe.bind((_ADDRESS, 53))
        except OSError as error:
            pytest.skip(f"port 53 of {_ADDRESS}: {error.strerror}")
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
        process = run_named(config)
        try:
            yield threads
        finally:
            end_named(process)


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
