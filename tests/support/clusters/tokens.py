"""A token endpoint on loopback: the client credentials grant, over HTTPS."""

from __future__ import annotations

import base64
import json
import ssl
import threading
import time
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Self
from urllib.parse import parse_qs

from confluent_kafka import KafkaException, Producer

from tests.support.clusters.kafka import TIMEOUT


class Clock:
    """In place of the module ``time``: stands still until a test moves it."""

    def __init__(self) -> None:
        self.now = 1_000_000.0

    def time(self) -> float:
        """Seconds since 1970."""
        return self.now

    def monotonic(self) -> float:
        """Seconds."""
        return self.now


class TokenEndpoint:
    """Issues unsigned tokens, which a broker without a validator of its own accepts.

    Args:
        certificate: PEM file with the server's key and certificate.
        client_id: who may ask; with ``secret`` by HTTP Basic.
        life: seconds that a token lives; may be changed.
    """

    def __init__(self, certificate: Path, client_id: str, secret: str, life: float = 300) -> None:
        self.requests: list[dict[str, str]] = []
        self._login = base64.b64encode(f"{client_id}:{secret}".encode()).decode()
        self._client_id = client_id
        self.life = life
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate)
        self._server.socket = context.wrap_socket(self._server.socket, server_side=True)
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)

    @property
    def url(self) -> str:
        """Where tokens are asked for."""
        return f"https://localhost:{self._server.server_port}/token"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()

    def answer(self, authorization: str, form: dict[str, str]) -> tuple[int, dict[str, Any]]:
        """Return the HTTP status and body for a request."""
        self.requests.append(form)
        if authorization != f"Basic {self._login}":
            return 401, {"error": "invalid_client"}
        if form.get("grant_type") != "client_credentials":
            return 400, {"error": "unsupported_grant_type"}
        token = unsigned_token(self._client_id, form.get("scope", ""), self.life)
        return 200, {"access_token": token, "token_type": "Bearer", "expires_in": self.life}

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        endpoint = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"])).decode()
                form = {name: values[0] for name, values in parse_qs(body).items()}
                status, answer = endpoint.answer(self.headers.get("Authorization", ""), form)
                sent = json.dumps(answer).encode()
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(sent)))
                self.end_headers()
                self.wfile.write(sent)

            def log_message(self, *_: object) -> None:
                pass

        return Handler


def errors_until(settings: dict[str, Any], enough: Callable[[], bool]) -> list[Any]:
    """Keep a producer connected until then, without polling it, and return what it reports."""
    errors: list[Any] = []
    producer = Producer({**settings, "error_cb": errors.append, "log_level": 0})
    try:
        producer.list_topics(timeout=TIMEOUT)
        while not enough():  # the test's own time-out bounds it
            time.sleep(0.01)
        producer.list_topics(timeout=TIMEOUT)
    except KafkaException as error:
        errors.append(error)
    producer.poll(0)
    return errors


def unsigned_token(subject: str, scope: str, life: float) -> str:
    """Return a JWT without a signature."""
    now = time.time()
    claims = {"sub": subject, "scope": scope, "iat": int(now), "exp": int(now + life)}
    parts = ({"alg": "none", "typ": "JWT"}, claims)
    coded = (base64.urlsafe_b64encode(json.dumps(part).encode()).rstrip(b"=") for part in parts)
    return b".".join(coded).decode() + "."
