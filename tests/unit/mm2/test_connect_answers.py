"""Kafka Connect's REST client against answers that no healthy Connect gives."""

from __future__ import annotations

import contextlib
import json
import socket
import ssl
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from k2ktui.errors import ConfigError, ConnectionFailed, K2kError, Refused, TimedOut
from k2ktui.mm2.flows.connect import Connect, ConnectorState, SourceOffset
from k2ktui.mm2.flows.connect_settings import ConnectSettings, connect_settings
from k2ktui.mm2.offsets.positions_rest import RestPositions
from tests.support.clusters.tls import certificate_pem, make_leaf, make_root
from tests.support.http.rest import Server, serving
from tests.support.http.server import count_time_from_request

OFFSETS = "GET /connectors/c/offsets"
PATCH = "PATCH /connectors/c/offsets"
PLACE = {"cluster": "a", "partition": 0, "topic": "t"}
FOUND = json.dumps({"offsets": [{"partition": PLACE, "offset": {"offset": 7}}]}).encode()
BUSY = 409, b'{"error_code":409,"message":"Cannot complete request due to rebalance"}'


@pytest.fixture
def server() -> Iterator[Server]:
    with serving() as server:
        yield server


def client(server: Server, timeout: float = 60.0) -> Connect:
    return Connect(ConnectSettings(url=server.url, timeout_s=timeout))


def test_a_rebalance_is_waited_for(server: Server) -> None:
    server.answers[OFFSETS] = [BUSY, BUSY, (200, FOUND)]
    assert client(server).offsets("c") == [SourceOffset(PLACE, {"offset": 7})]
    assert len(server.asked) == 3


@pytest.mark.parametrize(
    "message",
    [
        "Request timed out. The worker is currently performing multi-worker rebalance",
        "IO Error trying to forward REST request: java.net.ConnectException: Connection refused",
        "Cannot complete request momentarily due to no known leader URL, likely because a "
        "rebalance was underway.",
    ],
)
def test_a_500_of_a_rebalance_is_waited_for(server: Server, message: str) -> None:
    """Workers that leave, join or lead since a moment ago."""
    busy = 500, json.dumps({"error_code": 500, "message": message}).encode()
    server.answers[OFFSETS] = [busy, (200, FOUND)]
    assert client(server).offsets("c") == [SourceOffset(PLACE, {"offset": 7})]
    stop = "PUT /connectors/c/stop"
    server.answers[stop] = [busy, (204, b"")]
    client(server).stop("c")
    assert [name for name, _ in server.asked] == [OFFSETS, OFFSETS, stop, stop]
    server.answers[OFFSETS] = [(500, b'{"error_code":500,"message":"NullPointerException"}')]
    with pytest.raises(K2kError, match="NullPointerException"):
        client(server).offsets("c")


def test_a_rebalance_that_does_not_end_is_reported(server: Server) -> None:
    server.answers[PATCH] = [BUSY]
    with pytest.raises(TimedOut, match="rebalancing for more than") as reported:
        client(server, 2.0).alter_offsets("c", [SourceOffset(PLACE, None)])
    assert reported.value.unchanged == "No offset was changed."


@pytest.mark.parametrize("status", [401, 403])
def test_a_refused_login_is_reported_without_the_password(server: Server, status: int) -> None:
    server.answers[OFFSETS] = [(status, b"<html>who are you</html>")]
    settings = ConnectSettings(url=server.url, user="me", password="geheim")
    with pytest.raises(ConnectionFailed, match="denied access") as reported:
        Connect(settings).offsets("c")
    assert server.asked[0][1] == "Basic bWU6Z2VoZWlt"
    assert "geheim" not in f"{reported.value}{settings!r}"


def test_an_unknown_connector_is_reported(server: Server) -> None:
    with pytest.raises(ConfigError, match=r"has no connector a/b\\x1b"):
        client(server).config("a/b\x1b")
    assert server.asked[0][0] == "GET /connectors/a%2Fb%1B/config"


@pytest.mark.parametrize(
    "body",
    [b"<html>\x1b[31mGateway</html>", b"[]", b'{"offsets":{}}', b'{"offsets":[1]}', b"\xff", b""],
)
def test_an_answer_that_is_not_connects_is_reported(server: Server, body: bytes) -> None:
    server.answers[OFFSETS] = [(200, body)]
    with pytest.raises(
        K2kError, match="returned a response that is not from Kafka Connect"
    ) as reported:
        client(server).offsets("c")
    assert "\x1b" not in str(reported.value)


@pytest.mark.parametrize(
    "body",
    [
        b"{}",
        b'{"connector":1}',
        b'{"connector":{"state":"STOPPED"}}',
        b'{"connector":{},"tasks":3}',
        b'{"connector":{},"tasks":{}}',
        b'{"connector":{},"tasks":[3]}',
    ],
)
def test_a_state_that_is_not_connects_is_reported(server: Server, body: bytes) -> None:
    server.answers["GET /connectors/c/status"] = [(200, body)]
    with pytest.raises(K2kError, match="not from Kafka Connect"):
        client(server).state("c")


@pytest.mark.parametrize("body", [b"[]", b'{"c":1}', b'{"c":{"info":1}}', b'{"c":{"info":{}}}'])
def test_a_list_of_connectors_that_is_not_connects_is_reported(server: Server, body: bytes) -> None:
    server.answers["GET /connectors?expand=info"] = [(200, body)]
    with pytest.raises(K2kError, match="not from Kafka Connect"):
        client(server).connectors()


def test_a_redirect_is_not_followed_with_the_login(server: Server) -> None:
    server.answers[OFFSETS] = [(302, b"")]
    with pytest.raises(K2kError, match="redirects to another address \\(302: http://elsewhere/\\)"):
        client(server).offsets("c")


def test_a_time_out_of_a_change_says_that_the_outcome_is_unknown(server: Server) -> None:
    server.hang = {OFFSETS, PATCH}
    with pytest.raises(TimedOut) as reported:
        client(server, 1.0).offsets("c")
    assert reported.value.unchanged == "Nothing was changed."
    with pytest.raises(TimedOut) as reported:
        client(server, 1.0).alter_offsets("c", [SourceOffset(PLACE, {"offset": 1})])
    assert "unknown whether the change was made" in reported.value.unchanged


def test_what_connect_refuses_is_reported_in_its_words(server: Server) -> None:
    server.answers[PATCH] = [(400, b'{"error_code":400,"message":"must be in the STOPPED state"}')]
    with pytest.raises(Refused, match="must be in the STOPPED state") as reported:
        client(server).alter_offsets("c", [SourceOffset(PLACE, None)])
    assert reported.value.unchanged == "No offset was changed."


def test_a_fault_of_connect_leaves_a_change_unknown(server: Server) -> None:
    server.answers[PATCH] = [(500, b'{"error_code":500,"message":"Request timed out"}')]
    with pytest.raises(K2kError, match=r"failed \(500\): Request timed out") as reported:
        client(server).alter_offsets("c", [SourceOffset(PLACE, None)])
    assert "unknown whether" in reported.value.unchanged


def test_an_old_connect_is_refused(server: Server) -> None:
    server.answers["GET /"] = [(200, b'{"version":"3.5.2-ccs"}')]
    client(server).require("stop")
    with pytest.raises(Refused, match=r"is of version 3.5.2; version 3.6"):
        client(server).require("alter")


def test_a_connector_that_does_not_stop_is_reported(server: Server) -> None:
    status = {"connector": {"state": "RUNNING"}, "tasks": [{"state": "FAILED", "trace": "x\ny"}]}
    server.answers["GET /connectors/c/status"] = [(200, json.dumps(status).encode())]
    assert client(server).state("c") == ConnectorState("RUNNING", ("FAILED",), "x")
    with pytest.raises(TimedOut, match="it is RUNNING with 1 tasks"):
        client(server, 2.0).await_stopped("c")


def test_tasks_of_a_stopped_connector_are_waited_for(server: Server) -> None:
    ending = json.dumps({"connector": {"state": "STOPPED"}, "tasks": [{"state": "RUNNING"}]})
    ended = json.dumps({"connector": {"state": "STOPPED"}, "tasks": []})
    status = "GET /connectors/c/status"
    server.answers[status] = [(200, ending.encode()), (200, ending.encode()), (200, ended.encode())]
    RestPositions(client(server), "c").require_stopped("Nothing was written.")
    assert len(server.asked) == 3
    server.answers[status] = [(200, ending.encode())]
    with pytest.raises(TimedOut, match="it is STOPPED with 1 tasks") as reported:
        RestPositions(client(server, 2.0), "c").require_stopped("Nothing was written.")
    assert reported.value.unchanged == "Nothing was written."


def test_the_next_worker_is_asked_where_one_is_down(server: Server) -> None:
    server.answers[OFFSETS] = [(200, FOUND)]
    settings = ConnectSettings(url=f"http://localhost:1, {server.url}")
    connect = Connect(settings)
    assert len(connect.offsets("c")) == 1
    assert connect.address == server.url


def test_a_missing_server_is_reported() -> None:
    with pytest.raises(ConnectionFailed, match="http://localhost:1: Connection refused"):
        Connect(ConnectSettings(url="http://localhost:1")).version()


def test_https_asks_for_a_trusted_certificate(tmp_path: Path) -> None:
    root = make_root()
    pem, ca = tmp_path / "server.pem", tmp_path / "ca.pem"
    make_leaf(root, "connect", "localhost").pem_file(pem)
    ca.write_text(certificate_pem(root.certificate))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(pem)
    file = tmp_path / "connect.yaml"
    with serving(context) as server:
        server.answers[OFFSETS] = [(200, FOUND)]
        with pytest.raises(ConnectionFailed, match="its certificate is not trusted"):
            client(server).offsets("c")
        file.write_text(
            f"url: {server.url}\nuser: me\npassword: ${{env:string:PW}}\ntls: {{ca: ca.pem}}\n"
        )
        settings = connect_settings(file=str(file), env={"PW": "secret"})
        assert len(Connect(settings).offsets("c")) == 1
        assert server.asked[-1][1] == "Basic bWU6c2VjcmV0"


@pytest.mark.parametrize(
    ("text", "reported"),
    [
        ("user: me\n", "url: missing"),
        ("url: ftp://x\n", "URLs such as"),
        ("url: 'http://[x'\n", "URLs such as"),
        ("url: http://me:geheim@x\n", "a URL without a user"),
        ("url: http://x\npassword: ${env:string:NOT_SET}\n", "NOT_SET is not set"),
        ("url: http://x\npasword: geheim\n", "pasword: unknown key"),
        ("url: http://x\ntls: {key: x.pem}\n", "both tls.certificate and tls.key"),
        ("url: http://x\ntimeout: soon\n", "a duration"),
    ],
)
def test_a_wrong_file_is_reported(tmp_path: Path, text: str, reported: str) -> None:
    file = tmp_path / "connect.yaml"
    file.write_text(text)
    with pytest.raises(ConfigError) as error:
        connect_settings(file=str(file), env={})
    assert reported in str(error.value)
    assert "geheim" not in str(error.value)


def test_tls_files_that_cannot_be_used_are_reported(tmp_path: Path) -> None:
    (tmp_path / "ca.pem").write_text("nothing")
    file = tmp_path / "connect.yaml"
    file.write_text("url: https://x\ntls: {ca: ca.pem}\n")
    with pytest.raises(ConfigError, match="cannot be used"):
        Connect(connect_settings(file=str(file)))


def test_an_answer_that_never_ends_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each byte comes in time, and the whole does not."""
    asked, over = threading.Event(), threading.Event()
    count_time_from_request(monkeypatch, asked.is_set)
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def drip() -> None:
            connection, _ = listener.accept()
            with connection, contextlib.suppress(OSError):
                connection.recv(1)
                asked.set()
                connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n")
                while not over.wait(0.05):
                    connection.sendall(b" ")

        thread = threading.Thread(target=drip)
        thread.start()
        settings = ConnectSettings(
            url=f"http://127.0.0.1:{listener.getsockname()[1]}", timeout_s=0.5
        )
        try:
            with pytest.raises(TimedOut, match=r"within 0\.5 s"):
                Connect(settings).offsets("c")
        finally:
            over.set()
            thread.join()
