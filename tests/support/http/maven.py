"""A Maven repository on loopback, for tests of what downloads from one."""

from __future__ import annotations

import hashlib
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.support.http.server import Handler, http_server


class Repository:
    """A Maven repository on loopback: path → content, and a count of what was asked for."""

    def __init__(self) -> None:
        self.files: dict[str, bytes] = {}
        self.asked: list[str] = []
        repository = self

        class Files(Handler):
            def do_GET(self) -> None:
                repository.asked.append(self.path)
                content = repository.files.get(self.path)
                self.reply(404 if content is None else 200, content or b"")

        self.handler = Files

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
    tls = None
    if key_store is not None:
        tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        tls.load_cert_chain(key_store)
    made = Repository()
    with http_server(made.handler, tls) as url:
        monkeypatch.setattr(_core, "DEFAULT_REMOTE_REPOS", {"test": url})
        yield made
