"""What HAProxy's runtime socket is told, what it answers, and who may write to it."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path

import pytest

from k2ktui.config.drill import DrillHaproxy, DrillRedirect
from k2ktui.drill import client_name
from k2ktui.drill.client_name import find_many_hosts, is_answered
from k2ktui.drill.haproxy import explain_servers, read_servers, run_commands
from k2ktui.drill.hook_process import explain_unsafe_command
from k2ktui.engine.drill.checks import DrillPhase
from k2ktui.engine.drill.hooks import Hook, HookRole

# As HAProxy 2.6 answers; be/west is in maint by its configuration, which "ready" takes back.
_HEAD = "1\n# be_id be_name srv_id srv_name srv_addr srv_op_state srv_admin_state srv_uweight\n"
_STAT = "# pxname,svname,qcur,qmax,scur,smax,status,\n"


class FakeProxy:
    """Answers on a runtime socket: servers' admin states, and sessions of be/east."""

    def __init__(self, path: Path, ignores: str = "") -> None:
        self.path, self.ignores = str(path), ignores
        self.admin, self.sessions = {"east": 0, "west": 5}, 2
        self.asked: list[str] = []
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(self.path)
        self._listener.listen()
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            with connection:
                line = connection.recv(1 << 16).decode().strip()
                self.asked.append(line)
                connection.sendall(self._answer(line).encode())

    def _answer(self, line: str) -> str:
        if line == "show servers state":
            rows = (f"3 be 1 {name} 127.0.0.1 2 {n} 1\n" for name, n in self.admin.items())
            return f"{_HEAD}{''.join(rows)}\n"
        if line.startswith("show stat"):
            return f"{_STAT}be,east,0,0,{self.sessions},3,UP,\nbe,BACKEND,0,0,,3,UP,\n\n"
        words = line.split()
        name = words[-1 if words[0] == "shutdown" else 2].partition("/")[2]
        if name not in self.admin:
            return "No such server.\n\n"
        if self.ignores and self.ignores in line:
            return "\n"
        if words[0] == "shutdown":
            self.sessions = max(0, self.sessions - 1)  # one comes meanwhile
        else:
            self.admin[name] = 1 if words[-1] == "maint" else self.admin[name] & 4
        return "\n"

    def close(self) -> None:
        """Answer no more."""
        self._listener.close()


@contextmanager
def proxy(directory: Path, ignores: str = "") -> Iterator[FakeProxy]:
    fake = FakeProxy(directory / "h.sock", ignores)
    try:
        yield fake
    finally:
        fake.close()


def section(path: str, source: str = "be/east", target: str = "be/west") -> DrillHaproxy:
    return DrillHaproxy(socket=path, source=(source,), target=(target,))


def test_commands_are_read_back(tmp_path: Path) -> None:
    with proxy(tmp_path) as fake:
        settings = section(fake.path)
        assert explain_servers(settings) == ""
        end = run_commands(fake.path, settings.cut, 60.0, lambda _: None, nullcontext)
        assert (end.code, end.output) == (0, "read back: be/east maint; no sessions on be/east")
        assert fake.asked[1] == "set server be/east state maint"
        assert fake.asked.count("shutdown sessions server be/east") == 2, "until none is left"
        assert read_servers(fake.path) == {"be/east": "maint", "be/west": "maint"}
        end = run_commands(fake.path, settings.move, 60.0, lambda _: None, nullcontext)
        assert end.code == 0
        assert read_servers(fake.path) == {"be/east": "maint", "be/west": "ready"}
        assert explain_servers(settings) == "HAProxy leads clients to the target already: be/west"
        end = run_commands(fake.path, settings.restore, 60.0, lambda _: None, nullcontext)
        assert read_servers(fake.path)["be/east"] == "ready"


def test_what_has_no_effect_has_failed(tmp_path: Path) -> None:
    with proxy(tmp_path, ignores="set server") as fake:
        end = run_commands(fake.path, section(fake.path).cut, 0.0, lambda _: None, nullcontext)
        assert end.code == 1 and "be/east is ready" in end.output
    (tmp_path / "h.sock").unlink()
    with proxy(tmp_path, ignores="shutdown") as fake:
        end = run_commands(fake.path, section(fake.path).cut, 0.0, lambda _: None, nullcontext)
        assert (end.code, end.output) == (1, "be/east has 2 sessions")
        other = section(fake.path, "be/nope")
        end = run_commands(fake.path, other.cut, 60.0, lambda _: None, nullcontext)
        assert end.output == "set server be/nope state maint: No such server."
        assert explain_servers(other) == "HAProxy has no server be/nope"


def test_a_socket_that_nobody_answers(tmp_path: Path) -> None:
    settings = section(str(tmp_path / "none"))
    end = run_commands(settings.socket, settings.cut, 60.0, lambda _: None, nullcontext)
    assert end.code == 1 and "No such file or directory" in end.output
    assert "No such file" in explain_servers(settings)


def part(command: tuple[str, ...], path: str = "") -> Hook:
    phase = DrillPhase.REDIRECT
    return Hook(phase, False, "a", command, 60.0, (), HookRole.REDIRECT, path)


def test_only_a_socket_of_this_user_is_used(tmp_path: Path) -> None:
    tmp_path.chmod(0o700)
    with proxy(tmp_path) as fake:
        path = Path(fake.path)
        path.chmod(0o600)
        assert explain_unsafe_command(part(("x",), fake.path)) == ""
        path.chmod(0o666)
        assert "can be written by everybody" in explain_unsafe_command(part(("x",), fake.path))
    file = tmp_path / "file"
    file.touch(0o600)
    assert "it is not a socket" in explain_unsafe_command(part(("x",), str(file)))


def test_only_a_program_of_this_user_is_run(tmp_path: Path) -> None:
    tmp_path.chmod(0o700)
    program = tmp_path / "move"
    assert "is not there" in explain_unsafe_command(part((str(program),)))
    program.write_text("#!/bin/sh\n")
    program.chmod(0o700)
    assert explain_unsafe_command(part((str(program),))) == ""
    program.chmod(0o722)
    assert "can be written by" in explain_unsafe_command(part((str(program),)))
    assert explain_unsafe_command(part(("sh",))) == ""


@pytest.mark.parametrize(("said", "answers"), [(b"", False), (b"\0", True)])
def test_a_proxy_that_hangs_up_is_no_answer(said: bytes, answers: bool) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            connection, _ = listener.accept()
            with connection:
                if said:
                    connection.recv(100)
                    connection.sendall(said)

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        address = f"127.0.0.1:{listener.getsockname()[1]}"
        assert is_answered(address, has_tls=False) is answers
        thread.join(10.0)
    assert not is_answered(address, has_tls=False), "a port that is closed"
    assert not is_answered("no-port", has_tls=False)


@pytest.mark.parametrize("has_tls", [True, False])
def test_a_server_that_is_silent_may_only_be_slow(
    monkeypatch: pytest.MonkeyPatch, has_tls: bool
) -> None:
    monkeypatch.setattr(client_name, "_KNOCK_S", 0.1)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        assert is_answered(f"127.0.0.1:{listener.getsockname()[1]}", has_tls=has_tls)


def test_each_ip_of_a_name_is_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client_name, "_KNOCK_S", 0.1)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        kinds = socket.AF_INET, socket.SOCK_STREAM, 6, ""
        found = [(*kinds, (ip, port)) for ip in ("127.0.0.2", "127.0.0.1")]
        monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: found)
        assert is_answered(f"kafka.example:{port}", has_tls=False)
        many = DrillRedirect(name=f"kafka.example:{port}", command=("/m",))
        assert find_many_hosts(many) == [f"kafka.example:{port}"]
        del found[0]
        assert not find_many_hosts(many)


def test_the_knock_names_the_host() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        said = []

        def serve() -> None:
            connection, _ = listener.accept()
            with connection:
                said.append(connection.recv(4096))

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        assert not is_answered(f"localhost:{listener.getsockname()[1]}", has_tls=True)
        thread.join(10.0)
    assert b"localhost" in said[0]
