"""A Maven repository on loopback, for tests of what downloads from one."""

from __future__ import annotations

import hashlib
import http.server
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest


class Repository:
    """A Maven repository on loopback: path → content, and a count of what was asked for."""

    def __init__(self) -> None:
        self.files: dict[str, bytes] = {}
        self.asked: list[str] = []
        repository = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                repository.asked.append(self.path)
                content = repository.files.get(self.path)
                self.send_response(404 if content is None else 200)
                self.end_headers()
                self.wfile.write(content or b"")

            def log_message(self, *_: object) -> None:
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}"

    def use_tls(self, key_store: Path) -> None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(key_store)
        self.server.socket = context.wrap_socket(self.server.socket, server_side=True)
        self.url = self.url.replace("http:", "https:")

    def add(self, coordinate: str, jar: bytes, needs: str = "") -> str:
        group, artifact, version = coordinate.split(":")
        stem = f"/{group.replace('.', '/')}/{artifact}/{version}/{artifact}-{version}"
        self.files[f"{stem}.pom"] = _pom(coordinate, needs)
        self.files[f"{stem}.jar"] = jar
        digest = hashlib.sha1(jar).hexdigest()
        self.files[f"{stem}.jar.sha1"] = f"{digest}  {artifact}.jar".encode()
        return f"{stem}.jar"


def _pom(coordinate: str, needs: str) -> bytes:
    def fields(text: str) -> str:
        names = ("groupId", "artifactId", "version")
        return "".join(
            f"<{name}>{value}</{name}>" for name, value in zip(names, text.split(":"), strict=True)
        )

    inner = f"<dependency>{fields(needs)}</dependency>" if needs else ""
    return (
        f"<project><modelVersion>4.0.0</modelVersion>{fields(coordinate)}"
        f"<dependencies>{inner}</dependencies></project>"
    ).encode()


@contextmanager
def only_repository(
    monkeypatch: pytest.MonkeyPatch, cache: Path, key_store: Path | None = None
) -> Iterator[Repository]:
    """A repository that is the only one that is asked, and another directory for the cache.

    With a key store it is reached by TLS.
    """
    from jgo.maven import _core

    monkeypatch.setenv("XDG_CACHE_HOME", str(cache))
    made = Repository()
    if key_store is not None:
        made.use_tls(key_store)
    monkeypatch.setattr(_core, "DEFAULT_REMOTE_REPOS", {"test": made.url})
    thread = threading.Thread(target=made.server.serve_forever, daemon=True)
    thread.start()
    try:
        yield made
    finally:
        made.server.shutdown()
        made.server.server_close()
