"""A token endpoint that means harm, or is not one: bounded in time and size, never followed."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from time import monotonic

import pytest

from k2ktui.errors import ConnectionFailed
from k2ktui.kafka import oauth
from k2ktui.kafka.oauth import OauthClient, TokenProvider

SECRET = "hunter2"
Answer = Callable[[BaseHTTPRequestHandler], None]


@contextmanager
def endpoint(answer: Answer) -> Iterator[tuple[str, list[str]]]:
    """A server that answers every request so; its URL, and the paths that it was asked for."""
    asked: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            asked.append(self.path)
            # What is left unread would reset the connection when it is closed.
            self.rfile.read(int(self.headers.get("Content-Length", 0)))
            with suppress(OSError):
                answer(self)

        do_GET = do_POST

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/token", asked
    finally:
        server.shutdown()
        server.server_close()


def provider(url: str) -> TokenProvider:
    return TokenProvider(OauthClient(url, "id", SECRET))


def says(body: str) -> Answer:
    def answer(handler: BaseHTTPRequestHandler) -> None:
        handler.send_response(200)
        handler.end_headers()
        handler.wfile.write(body.encode())

    return answer


def test_a_token_is_asked_for_once() -> None:
    with endpoint(says('{"access_token": "abc.d-e_f~g+/==", "expires_in": "300"}')) as (url, asked):
        tokens = provider(url)
        assert tokens.token() == tokens.token() == "abc.d-e_f~g+/=="
        assert asked == ["/token"]


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_no_redirect_is_followed(status: int) -> None:
    def elsewhere(handler: BaseHTTPRequestHandler) -> None:
        handler.send_response(status)
        handler.send_header("Location", "/other?secret=abc")
        handler.end_headers()

    with endpoint(elsewhere) as (url, asked):
        with pytest.raises(
            ConnectionFailed, match=f"responded with {status}, a redirect"
        ) as caught:
            provider(url).token()
        assert asked == ["/token"]
    assert SECRET not in str(caught.value) and "secret=abc" not in str(caught.value)


def test_an_endless_answer() -> None:
    sent = []

    def endless(handler: BaseHTTPRequestHandler) -> None:
        handler.send_response(200)
        handler.end_headers()
        while True:
            handler.wfile.write(b" " * (1 << 16))
            sent.append(1 << 16)

    with endpoint(endless) as (url, _), pytest.raises(ConnectionFailed, match="no access_token"):
        provider(url).token()
    assert sum(sent) < 64 << 20


def slow_body(handler: BaseHTTPRequestHandler) -> None:
    handler.send_response(200)
    handler.end_headers()
    drip(handler)


def slow_headers(handler: BaseHTTPRequestHandler) -> None:
    handler.wfile.write(b"HTTP/1.1 200 OK\r\nX: ")
    drip(handler)


def drip(handler: BaseHTTPRequestHandler) -> None:
    while True:
        handler.wfile.write(b" ")
        handler.wfile.flush()
        threading.Event().wait(0.05)


@pytest.mark.parametrize("answer", [slow_body, slow_headers])
def test_an_answer_that_does_not_end(answer: Answer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(oauth, "_TIMEOUT_S", 0.4)
    began = monotonic()
    with endpoint(answer) as (url, _), pytest.raises(ConnectionFailed, match="in time"):
        provider(url).token()
    assert monotonic() - began < 5, "each byte is well within the time-out, the whole is not"


@pytest.mark.parametrize(
    "body",
    [
        "",
        "no JSON",
        "[]",
        "null",
        "[" * 100_000,
        '{"access_token": null}',
        '{"access_token": ["a"]}',
        '{"access_token": ""}',
        '{"access_token": "a\\u0001user=other"}',
        '{"access_token": "a b"}',
        '{"access_token": "a", "expires_in": NaN}',
        '{"access_token": "a", "expires_in": "soon"}',
        '{"access_token": "a", "expires_in": true}',
    ],
)
def test_no_token(body: str) -> None:
    with endpoint(says(body)) as (url, _), pytest.raises(ConnectionFailed, match="no access_token"):
        provider(url).token()


def test_no_http() -> None:
    def rude(handler: BaseHTTPRequestHandler) -> None:
        handler.wfile.write(b"SSH-2.0-OpenSSH_9.6\r\n")

    with endpoint(rude) as (url, _), pytest.raises(ConnectionFailed, match="no token from"):
        provider(url).token()


@pytest.mark.parametrize("life", ["1e999", "-5", "99999999999999999999"])
def test_a_life_without_bounds(life: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A token is requested again within a day."""
    with endpoint(says(f'{{"access_token": "a", "expires_in": {life}}}')) as (url, asked):
        tokens = provider(url)
        assert tokens.token() == "a"
        later = monotonic() + 24 * 3600
        monkeypatch.setattr("k2ktui.kafka.oauth.time.monotonic", lambda: later)
        assert tokens.token() == "a"
    assert len(asked) == 2
