"""Responses of a registry that are too large, or become so, are an error, not memory."""

from __future__ import annotations

import gzip
import json
import tracemalloc
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from k2ktui.errors import ConnectionFailed
from k2ktui.registry import _confluent
from k2ktui.registry.client import RegistryClient
from k2ktui.registry.settings import RegistrySettings
from tests.support.http.rest import serving
from tests.support.http.server import Handler, http_server

pytest.importorskip("authlib")
_PART = b"x" * (1 << 20)


@contextmanager
def client_of(url: str) -> Iterator[RegistryClient]:
    with RegistryClient(RegistrySettings("source", (url,), max_retries=0)) as client:
        yield client


def test_a_response_without_an_end() -> None:
    sent = 0

    class Endless(Handler):
        def do_GET(self) -> None:
            nonlocal sent
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.end_headers()  # no length: the body ends with the connection
            try:
                while sent < 1 << 30:
                    sent += self.wfile.write(_PART)
            except OSError:
                self.close_connection = True

    tracemalloc.start()
    try:
        with (
            http_server(Endless) as url,
            client_of(url) as client,
            pytest.raises(ConnectionFailed, match=r"list subjects: .* larger than 67,108,864 byt"),
        ):
            client.subjects()
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert sent < 128 << 20 and peak < 256 << 20


def test_the_largest_response(monkeypatch: pytest.MonkeyPatch) -> None:
    body = json.dumps(["a" * 100]).encode()
    with serving() as server:
        server.answers["GET /schemas/types"] = [(200, body)]
        monkeypatch.setattr(_confluent, "LARGEST_RESPONSE", len(body))
        with client_of(server.url) as client:
            assert client.types() == {"a" * 100}
        monkeypatch.setattr(_confluent, "LARGEST_RESPONSE", len(body) - 1)
        with client_of(server.url) as client, pytest.raises(ConnectionFailed, match="it is larger"):
            client.types()


def test_a_compressed_response() -> None:
    asked: list[str] = []

    class Compressing(Handler):
        def do_GET(self) -> None:
            asked.append(self.headers["Accept-Encoding"])
            self.reply(200, gzip.compress(b'["a"]'), Content_Encoding="gzip")

    with (
        http_server(Compressing) as url,
        client_of(url) as client,
        pytest.raises(ConnectionFailed, match="it is compressed, which was not asked for"),
    ):
        client.subjects()
    assert asked == ["identity"]
