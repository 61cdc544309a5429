"""Proxies of the environment: one rule for Kafka Connect, token endpoints and schema registries."""

from __future__ import annotations

import contextlib
import json
import socket
import ssl
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from k2ktui.errors import ConnectionFailed
from k2ktui.http_client import Limits, RequestFailed, send
from k2ktui.mm2.flows.connect import Connect
from k2ktui.mm2.flows.connect_settings import ConnectSettings, connect_settings
from k2ktui.registry.client import RegistryClient
from k2ktui.registry.settings import RegistrySettings
from tests.support.clusters.tls import certificate_pem, make_leaf, make_root
from tests.support.http.rest import serving
from tests.support.http.server import Handler, http_server

HOST = "worker.example.invalid"
URL = f"http://{HOST}:8083"


def ask_connect(url: str) -> None:
    Connect(ConnectSettings(url=url, timeout_s=60)).connectors()


def ask_as_for_tokens(url: str) -> None:
    send("GET", url + "/connectors?expand=info", Limits(99, 60))


def ask_registry(url: str) -> None:
    settings = RegistrySettings("source", (url,), max_retries=0)
    with RegistryClient(settings) as client:
        client.subjects()


ASKS = [ask_connect, ask_as_for_tokens, ask_registry]


@pytest.fixture(autouse=True)
def no_proxies(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http", "https", "all", "no"):
        monkeypatch.delenv(f"{name}_proxy", raising=False)
        monkeypatch.delenv(f"{name.upper()}_PROXY", raising=False)


def asked_through(monkeypatch: pytest.MonkeyPatch, ask: Callable[[str], None], **env: str) -> bool:
    """Whether a request comes to the proxy, which is PROXY in the values."""
    with serving() as proxy:
        proxy.answers |= {
            f"GET {URL}/connectors?expand=info": [(200, b"{}")],
            f"GET {URL}/subjects?deleted=false": [(200, b"[]")],
            f"GET {URL}/subjects": [(200, b"[]")],
        }
        for name, value in env.items():
            monkeypatch.setenv(name, value.replace("PROXY", proxy.url))
        with contextlib.suppress(RequestFailed, ConnectionFailed):
            ask(URL)
        return bool(proxy.asked)


@pytest.mark.parametrize("ask", ASKS)
def test_one_rule_for_all(monkeypatch: pytest.MonkeyPatch, ask: Callable[[str], None]) -> None:
    assert not asked_through(monkeypatch, ask)
    assert not asked_through(monkeypatch, ask, https_proxy="PROXY")
    assert asked_through(monkeypatch, ask, ALL_PROXY="PROXY")
    monkeypatch.delenv("ALL_PROXY")
    assert asked_through(monkeypatch, ask, HTTP_PROXY="PROXY")
    assert not asked_through(monkeypatch, ask, HTTP_PROXY="PROXY", NO_PROXY=f"other,{HOST}")
    assert not asked_through(monkeypatch, ask, HTTP_PROXY="PROXY", NO_PROXY="example.invalid")
    assert not asked_through(monkeypatch, ask, HTTP_PROXY="PROXY", NO_PROXY="*")
    assert asked_through(monkeypatch, ask, HTTP_PROXY="PROXY", NO_PROXY="other")


def test_connect_says_which_proxy_it_cannot_reach(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTP_PROXY", "http://me:geheim@localhost:1")
    with pytest.raises(ConnectionFailed) as reported:
        ask_connect(URL)
    assert "through the proxy localhost:1: Connection refused" in reported.value.message
    assert "NO_PROXY" in reported.value.hint and "geheim" not in str(reported.value)
    monkeypatch.setenv("HTTP_PROXY", "socks5://localhost:1")
    with pytest.raises(ConnectionFailed, match="proxies of type socks5 are not supported"):
        ask_connect(URL)


def test_connect_logs_in_at_a_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    logins = []

    class Proxy(Handler):
        def do_GET(self) -> None:
            logins.append((self.path, self.headers.get("Proxy-Authorization")))
            self.reply(200, b"{}")

    with http_server(Proxy) as url:
        monkeypatch.setenv("HTTP_PROXY", url.replace("://", "://me:p%40ss@"))
        ask_connect(URL)
    assert logins == [(f"{URL}/connectors?expand=info", "Basic bWU6cEBzcw==")]


def test_https_goes_through_a_tunnel(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The certificate is the worker's; the proxy sees only its name."""
    root, pem, ca = make_root(), tmp_path / "server.pem", tmp_path / "ca.pem"
    make_leaf(root, "connect", "localhost").pem_file(pem)
    ca.write_text(certificate_pem(root.certificate))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(pem)
    tunnels = []

    class Proxy(Handler):
        def do_CONNECT(self) -> None:
            tunnels.append(self.path)
            host, _, port = self.path.partition(":")
            with socket.create_connection((host, int(port))) as there:
                self.send_response(200)
                self.end_headers()
                back = threading.Thread(target=pump, args=(there, self.connection))
                back.start()
                pump(self.connection, there)
                back.join()

    with serving(context) as worker, http_server(Proxy) as proxy:
        worker.answers["GET /connectors?expand=info"] = [(200, json.dumps({}).encode())]
        monkeypatch.setenv("HTTPS_PROXY", proxy)
        file = tmp_path / "connect.yaml"
        file.write_text(f"url: {worker.url}\ntls: {{ca: ca.pem}}\n")
        assert Connect(connect_settings(file=str(file), env={})).connectors() == {}
        assert tunnels == [worker.url.removeprefix("https://")]


def pump(one: socket.socket, other: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while data := one.recv(1 << 16):
            other.sendall(data)
    with contextlib.suppress(OSError):
        other.shutdown(socket.SHUT_WR)
