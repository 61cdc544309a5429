"""An HTTP server that answers as a test sets it up: the answers no real server gives on demand."""

from __future__ import annotations

import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from tests.support.http.server import Handler, http_server

Answer = tuple[int, bytes]


@dataclass
class Server:
    """What it will answer, per method and path, in order; the last answer stays.

    ``hang`` is what it says nothing to; ``asked`` are the requests so far, with their logins.
    """

    url: str = ""
    answers: dict[str, list[Answer]] = field(default_factory=dict)
    hang: set[str] = field(default_factory=set)
    asked: list[tuple[str, str]] = field(default_factory=list)
    released: threading.Event = field(default_factory=threading.Event)


@contextmanager
def serving(tls: ssl.SSLContext | None = None) -> Iterator[Server]:
    """Run one on a port of its own."""
    state = Server()

    class Planned(Handler):
        def do_GET(self) -> None:
            name = f"{self.command} {self.path}"
            self.read_body()
            state.asked.append((name, self.headers.get("Authorization", "")))
            if name in state.hang:
                state.released.wait()
                return
            planned = state.answers.get(name, [(404, b'{"error_code":404,"message":"none"}')])
            status, body = planned.pop(0) if len(planned) > 1 else planned[0]
            self.reply(status, body, Location="http://elsewhere/")

        do_PUT = do_POST = do_PATCH = do_GET

    with http_server(Planned, tls) as state.url:
        try:
            yield state
        finally:
            state.released.set()
