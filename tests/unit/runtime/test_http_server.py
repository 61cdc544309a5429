"""The HTTP server of a run: what it answers, and what a hostile client cannot do."""

from __future__ import annotations

import socket
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack

import click
import pytest

from k2ktui.cli.start import ProgramOptions, program_options
from k2ktui.runtime.http_server import MOST_CONNECTIONS, PAGES, HttpServer, Request, Response
from k2ktui.runtime.probes import STUCK_S, Readiness, serve_probes
from k2ktui.runtime.stop_flag import StopFlag
from tests.support.clusters.kafka import TIMEOUT, eventually

LOCAL = ("127.0.0.1", 0)


class Probed:
    """A server with probes of which a test sets the answers."""

    def __init__(self) -> None:
        self.notes: list[str] = []
        self.idle_s = 0.0
        self.readiness = Readiness(False, "starting")
        self.server = HttpServer(LOCAL, self.notes.append)
        serve_probes(self.server, lambda: self.idle_s, lambda: self.readiness)
        self.server.start(announce=PAGES)

    def get(self, path: str, method: str = "GET") -> tuple[int, str]:
        port = eventually(lambda: self.server.port, "it listens")
        request = urllib.request.Request(f"http://127.0.0.1:{port}{path}", method=method)
        try:
            with urllib.request.urlopen(request, timeout=TIMEOUT) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode()


@pytest.fixture
def probed() -> Iterator[Probed]:
    probed = Probed()
    yield probed
    probed.server.close()


def test_a_run_that_is_not_stuck_is_alive(probed: Probed) -> None:
    assert probed.get("/livez") == (200, "alive\n")
    probed.idle_s = STUCK_S - 1
    assert probed.get("/livez") == (200, "alive\n")
    probed.idle_s = STUCK_S + 1
    assert probed.get("/livez") == (503, "stuck: nothing has moved for 15 m 1 s\n")


def test_readiness_says_why(probed: Probed) -> None:
    assert probed.get("/readyz") == (503, "starting\n")
    probed.readiness = Readiness(True, "standby: no slots\nproblem: \x1b[2J")
    assert probed.get("/readyz?verbose") == (200, "standby: no slots\nproblem: \\x1b[2J\n")
    assert probed.get("/readyz", "HEAD") == (200, "")


def test_other_paths_and_methods(probed: Probed) -> None:
    assert probed.get("/metrics") == (404, "/livez, /readyz\n"), "no metrics are on"
    assert probed.get("/")[0] == 404
    assert probed.get("/livez", "POST")[0] == 501
    assert eventually(lambda: probed.notes, "where it listens") == [
        f"serving /livez, /readyz and /metrics at http://127.0.0.1:{probed.server.port}"
    ]


def test_a_page_that_fails_fails_alone(probed: Probed, capfd: pytest.CaptureFixture[str]) -> None:
    def broken(_: Request) -> Response:
        raise ValueError

    probed.server.pages["/broken"] = broken
    with pytest.raises(OSError):
        probed.get("/broken")
    assert probed.get("/livez")[0] == 200
    assert capfd.readouterr().err == ""


def test_connections_that_say_nothing_are_bounded(
    probed: Probed, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So many threads wait at most, and not for long."""
    monkeypatch.setattr("k2ktui.runtime.http_server._Handler.timeout", 0.5)
    port = eventually(lambda: probed.server.port, "it listens")
    with ExitStack() as stack:
        for _ in range(3 * MOST_CONNECTIONS):
            stack.enter_context(socket.create_connection(("127.0.0.1", port), TIMEOUT))
        eventually(lambda: _answers(probed), "the silent ones are given up")


def _answers(probed: Probed) -> bool:
    try:
        return probed.get("/livez")[0] == 200
    except OSError:
        return False


def test_a_loop_that_asks_its_flag_moves(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [1000.0]
    monkeypatch.setattr("k2ktui.runtime.stop_flag.monotonic", lambda: now[0])
    flag = StopFlag()
    for ask in (flag.is_set, lambda: flag.wait(0.0), flag.moves):
        now[0] += 50.0
        assert flag.idle_s() == 50.0
        ask()
        assert flag.idle_s() == 0.0


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("8080", ("127.0.0.1", 8080)),
        ("0.0.0.0:8080", ("0.0.0.0", 8080)),
        ("[::]:0", ("::", 0)),
        ("localhost:9464", ("localhost", 9464)),
        (":8080", None),
        ("8080/tcp", None),
        ("65536", None),
        ("", None),
    ],
)
def test_addresses(text: str, address: tuple[str, int] | None) -> None:
    seen = []

    @click.command
    @program_options
    def command(options: ProgramOptions) -> None:
        seen.append(options.http)

    arguments = ["--http", text, "-w", "disabled"]
    if address is None:
        with pytest.raises(click.UsageError, match="is no address"):
            command.main(arguments, standalone_mode=False)
    else:
        command.main(arguments, standalone_mode=False)
        assert seen == [address]
