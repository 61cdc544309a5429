"""A gate before a real registry: TLS with client certificates, and a login by header."""

from __future__ import annotations

import http.client
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from tests.support.clusters.kafka import TIMEOUT
from tests.support.http.server import Handler, http_server


@dataclass
class Gate:
    """What it lets through, and what came.

    Attributes:
        url: its address.
        needed: headers without which it answers with status 401.
        asked: the path and headers of each request that it let through.
    """

    url: str = ""
    needed: dict[str, str] = field(default_factory=dict)
    asked: list[tuple[str, dict[str, str]]] = field(default_factory=list)


@contextmanager
def gate_before(registry: str, tls: ssl.SSLContext | None = None) -> Iterator[Gate]:
    """Run a gate before the registry with a URL."""
    state, there = Gate(), urlsplit(registry)
    as_json = {"Content_Type": "application/json"}

    class Front(Handler):
        def do_GET(self) -> None:
            body = self.read_body()
            given = {name.lower(): text for name, text in self.headers.items()}
            if any(given.get(name) != text for name, text in state.needed.items()):
                self.reply(401, b'{"error_code":401,"message":"Unauthorized"}', **as_json)
                return
            state.asked.append((self.path, given))
            connection = http.client.HTTPConnection(there.netloc, timeout=TIMEOUT)
            headers = {"Content-Type": given.get("content-type", "application/json")}
            connection.request(self.command, self.path, body, headers)
            answer = connection.getresponse()
            self.reply(answer.status, answer.read(), **as_json)
            connection.close()

        do_PUT = do_POST = do_DELETE = do_GET

    with http_server(Front, tls) as url:
        state.url = f"{url}{there.path}"
        yield state
