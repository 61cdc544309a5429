"""Records of DNS: how they must stand, which keys are taken, and what an answer means."""

from __future__ import annotations

import socket
import struct
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import dns.flags
import dns.message
import dns.query
import dns.rcode
import dns.rrset
import dns.tsig
import dns.tsigkeyring
import dns.update
import pytest

from k2ktui.config.drill_dns import _MOST_RECORDS
from k2ktui.drill import dns_server
from k2ktui.drill.dns_server import (
    DnsError,
    NoAnswer,
    Unreachable,
    move_records,
    prove_move,
    read_records,
)
from k2ktui.drill.hook_process import explain_unsafe_command
from k2ktui.drill.tsig_key import UnusableKey, read_key
from k2ktui.engine.drill.checks import DrillPhase
from k2ktui.engine.drill.dns import (
    DnsMove,
    DnsRecord,
    Standing,
    describe_move,
    explain_answer,
    explain_not_source,
    has_moved,
    longest_ttl,
)
from k2ktui.engine.drill.hooks import Hook, HookRole
from k2ktui.secret_values import hide_secrets

A = DnsRecord("n.z", "A", ("192.0.2.1",), ("192.0.2.8", "192.0.2.9"))
ALIAS = DnsRecord("m.z", "CNAME", ("east.x",), ("west.x",))
SECRET = "c2VjcmV0LW9mLWRucw=="
KEY = f'key "mover" {{\n\talgorithm hmac-sha256;\n\tsecret "{SECRET}";\n}};\n'


def move_of(key_file: object = "/k", port: int = 53) -> DnsMove:
    return DnsMove("127.0.0.1", port, "z", (A, ALIAS), 30, str(key_file))


def test_how_records_stand() -> None:
    move = move_of()
    stand = {A: Standing(A.source, 300), ALIAS: Standing(ALIAS.source, 60)}
    assert explain_not_source(move, stand) == "" and not has_moved(move, stand)
    assert longest_ttl(stand) == 300 and longest_ttl({}) == 0
    assert describe_move(move, 300).startswith(
        "At the DNS server 127.0.0.1:53: n.z A 192.0.2.1; m.z CNAME east.x., TTL 300 s; the key may"
    )
    moved = {A: Standing(A.target), ALIAS: Standing(ALIAS.target)}
    assert has_moved(move, moved)
    assert explain_not_source(move, moved) == (
        "DNS leads clients to the target already: n.z A, m.z CNAME"
    )
    half = {**stand, A: Standing(A.target)}
    assert explain_not_source(move, half) == (
        "n.z A is 192.0.2.8 and 192.0.2.9; the file has 192.0.2.1"
    )
    more = {**stand, A: Standing((*A.source, "192.0.2.2")), ALIAS: Standing(())}
    assert explain_not_source(move, more) == (
        "n.z A is 192.0.2.1 and 192.0.2.2; the file has 192.0.2.1; "
        "m.z CNAME is not there; the file has east.x."
    )
    assert replace(move, host="::1").server == "the DNS server [::1]:53"


@pytest.mark.parametrize(
    ("code", "text"),
    [
        ("REFUSED", "the key k may not change n.z A, m.z CNAME. Allow it there"),
        ("NOTAUTH", "not authoritative for the zone z (it answers NOTAUTH)"),
        ("NOTZONE", "not authoritative for the zone z (it answers NOTZONE)"),
        ("NXRRSET", "another hand has changed a record of the zone z (NXRRSET), and nothing was"),
        ("NOTIMP", "does not take updates"),
        ("SERVFAIL", "could not carry out the update (SERVFAIL): see its log"),
    ],
)
def test_what_an_answer_means(code: str, text: str) -> None:
    assert text in explain_answer(move_of(), "k", code)
    assert explain_answer(move_of(), "k", "NOERROR") == ""


def key_file(directory: Path, text: str = KEY) -> Path:
    directory.chmod(0o700)
    path = directory / "dns.key"
    path.touch(0o600)
    path.write_text(text)
    return path


def test_the_key_of_a_file(tmp_path: Path) -> None:
    path = key_file(tmp_path, f"# ours\n{KEY}")
    key = read_key(str(path))
    assert (key.name, key.algorithm, key.secret) == ("mover", "hmac-sha256", b"secret-of-dns")
    assert "secret-of-dns" not in repr(key)
    assert SECRET not in hide_secrets(f"a hook printed {SECRET}")


def test_a_key_may_have_any_name_of_dns(tmp_path: Path) -> None:
    name = ".".join(["mover", "dr", "east", "kafka", "example", "com"])
    longest = ".".join(["m" * 63] * 3 + ["m" * 61])
    for text in (name, f"{name}.", longest):
        path = key_file(tmp_path, KEY.replace("mover", text))
        assert read_key(str(path)).name == text.removesuffix(".")


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("", "is not one key as tsig-keygen prints it"),
        (KEY * 2, "is not one key"),
        (KEY.replace("sha256", "md5"), "has the algorithm hmac-md5: one of hmac-sha224, "),
        (KEY.replace(SECRET, "c2Vjc"), "has a secret that is not base64"),
        (KEY.replace("mover", "mo ver"), "is not one key"),
        (KEY.replace("mover", "mo..ver"), "is not one key"),
        (KEY.replace("mover", "m" * 64), "is not one key"),
        (KEY.replace("mover", ".".join(["m" * 63] * 4)), "is not one key"),
    ],
)
def test_a_file_without_a_key(tmp_path: Path, text: str, error: str) -> None:
    path = key_file(tmp_path, text)
    with pytest.raises(UnusableKey, match=error) as raised:
        read_key(str(path))
    assert SECRET not in str(raised.value) and "c2Vjc" not in str(raised.value)


def test_only_a_key_of_this_user_is_taken(tmp_path: Path) -> None:
    path = key_file(tmp_path)
    move = move_of(path)
    hook = Hook(DrillPhase.REDIRECT, False, "a", move.script, 60.0, (), HookRole.REDIRECT, "", move)
    assert explain_unsafe_command(hook) == ""
    path.chmod(0o640)
    assert "can be read by others: it has mode 640, not 600" in explain_unsafe_command(hook)
    with pytest.raises(DnsError, match="has mode 640, not 600"):
        read_records(move)
    path.chmod(0o622)
    assert "can be written by everybody" in explain_unsafe_command(hook)
    path.unlink()
    assert "it cannot be looked at (No such file" in explain_unsafe_command(hook)


def test_without_the_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dns_server, "find_spec", lambda _: None)
    with pytest.raises(DnsError, match=r"needs the Python package dnspython.*'\.\[dns\]'"):
        read_records(move_of(key_file(tmp_path)))


# Answers that BIND does not give.

_Answer = Callable[[dns.message.Message], bytes]
RING = dns.tsigkeyring.from_text({"mover.": ("hmac-sha256.", SECRET)})


class Fake:
    """Answers each message over TCP, as long as it has answers; an empty one hangs up."""

    def __init__(self, *answers: _Answer) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        self._answers, self.asked = list(answers), list[dns.message.Message]()
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def _serve(self) -> None:
        for answer in self._answers:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            with connection, connection.makefile("rb") as stream:
                (length,) = struct.unpack("!H", stream.read(2))
                asked = dns.message.from_wire(stream.read(length), keyring=RING)
                self.asked.append(asked)
                if wire := answer(asked):
                    connection.sendall(struct.pack("!H", len(wire)) + wire)

    def close(self) -> None:
        """End it."""
        self._listener.close()


@contextmanager
def fake(*answers: _Answer) -> Iterator[Fake]:
    server = Fake(*answers)
    try:
        yield server
    finally:
        server.close()


def signed(*lines: str, code: str = "NOERROR") -> _Answer:
    """Return an authoritative answer with records, signed with the key."""

    def answer(asked: dns.message.Message) -> bytes:
        return _answer(asked, lines, code).to_wire()

    return answer


def unsigned(*lines: str, code: str = "NOERROR") -> _Answer:
    """Return the same without a signature."""

    def answer(asked: dns.message.Message) -> bytes:
        made = _answer(asked, lines, code)
        made.tsig, made.keyring = None, None
        return made.to_wire()

    return answer


def altered(*lines: str) -> _Answer:
    """Return the same with another value than the signed one."""

    def answer(asked: dns.message.Message) -> bytes:
        return signed(*lines)(asked).replace(b"\xc0\x00\x02\x01", b"\xc0\x00\x02\x08")

    return answer


def _answer(asked: dns.message.Message, lines: tuple[str, ...], code: str) -> dns.message.Message:
    made = dns.message.make_response(asked)
    made.flags |= dns.flags.AA
    made.set_rcode(dns.rcode.from_text(code))
    for line in lines:
        name, ttl, kind, value = line.split()
        made.answer.append(dns.rrset.from_text(name, int(ttl), "IN", kind, value))
    return made


OLD = signed("n.z. 300 A 192.0.2.1"), signed("M.z. 60 CNAME East.x.")
NEW = signed("n.z. 30 A 192.0.2.9", "n.z. 30 A 192.0.2.8"), signed("m.z. 30 CNAME west.x.")


def test_the_proof_changes_nothing(tmp_path: Path) -> None:
    with fake(*OLD, signed()) as server:
        assert prove_move(move_of(key_file(tmp_path), server.port)) == 300
    update = server.asked[-1]
    assert isinstance(update, dns.update.UpdateMessage)
    assert [str(part) for part in update.prerequisite] == [
        "n.z. 0 IN A 192.0.2.1",
        "m.z. 0 IN CNAME east.x.",
    ]
    assert [str(part) for part in update.update] == [
        "n.z. 0 NONE A 192.0.2.8",
        "m.z. 0 NONE CNAME west.x.",
    ]


@pytest.mark.parametrize(
    ("answer", "text"),
    [
        (
            unsigned("n.z. 300 A 192.0.2.1"),
            "is not signed with the key mover",
        ),
        (altered("n.z. 300 A 192.0.2.1"), "is not signed with the key mover"),
        (unsigned(code="REFUSED"), "is not signed with the key mover"),
        (lambda _: b"", "has closed the connection without an answer"),
        (lambda _: b"x" * 40, "or malformed: it does not count"),
        (signed(code="SERVFAIL"), r"not authoritative for the zone z \(it answers SERVFAIL\)"),
    ],
)
def test_an_answer_that_does_not_count(tmp_path: Path, answer: _Answer, text: str) -> None:
    with fake(answer) as server, pytest.raises(DnsError, match=text):
        read_records(move_of(key_file(tmp_path), server.port))


def test_a_server_that_is_silent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dns_server, "_ANSWER_S", 0.1)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        with pytest.raises(DnsError, match=r"has not answered within 0\.1 s"):
            read_records(move_of(key_file(tmp_path), port))
    with pytest.raises(Unreachable, match="cannot be reached over TCP: Connection refused"):
        read_records(move_of(key_file(tmp_path), port))


def moved(tmp_path: Path, *answers: _Answer, timeout_s: float = 60.0) -> tuple[int | None, str]:
    with fake(*answers) as server:
        move = move_of(key_file(tmp_path), server.port)
        end = move_records(move, timeout_s, lambda _: None, nullcontext)
        return end.code, end.output


def test_a_lost_answer_is_looked_at(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dns_server, "_POLL_S", 0.0)
    lost: _Answer = lambda _: b""  # noqa: E731
    done = 0, "read back: n.z A 192.0.2.8 and 192.0.2.9; m.z CNAME west.x., TTL 30 s"
    assert moved(tmp_path, lost, *NEW) == done
    assert moved(tmp_path, lost, *OLD, lost, *NEW) == done, "it is carried out later"
    code, output = moved(tmp_path, lost, *OLD, *OLD, timeout_s=0.0)
    assert code == 1 and "has closed the connection without an answer" in output


def test_what_is_not_read_back_has_failed(tmp_path: Path) -> None:
    code, output = moved(tmp_path, signed(), *OLD, *OLD, *OLD, timeout_s=0.0)
    assert (code, output) == (1, "the update has no effect: the records stand as before")
    other = signed("n.z. 300 A 192.0.2.7"), OLD[1]
    code, output = moved(tmp_path, signed(code="NXRRSET"), *other)
    assert code == 1 and output.endswith(
        "(NXRRSET), and nothing was overwritten: n.z A is 192.0.2.7; the file has 192.0.2.1"
    )


def test_the_largest_move_of_a_file_fits_one_message(tmp_path: Path) -> None:
    def values(kind: int, number: int) -> tuple[str, ...]:
        return tuple(f"2001:db8:{kind}:{number:x}::{value:x}" for value in range(1, 21))

    def name(number: int) -> str:
        return ".".join([f"{number:02}" + "n" * 61, "n" * 63, "n" * 63, "n" * 59, "z"])

    records = tuple(
        DnsRecord(name(number), "AAAA", values(1, number), values(2, number))
        for number in range(100)
    )
    assert len(records[0].name) == 253
    move = replace(move_of(key_file(tmp_path)), records=records)
    hangs_up: _Answer = lambda _: b""  # noqa: E731
    with fake(signed(), hangs_up) as server:
        largest = replace(move, port=server.port, records=records[:_MOST_RECORDS])
        end = move_records(largest, 0.0, lambda _: None, nullcontext)
    assert "closed the connection" in end.output, "of the reading: the update was answered"
    update = server.asked[0]
    assert isinstance(update, dns.update.UpdateMessage)
    assert sum(len(part) for part in update.update) == _MOST_RECORDS * 20
    end = move_records(replace(move, port=server.port), 60.0, lambda _: None, nullcontext)
    assert end.code == 1
    assert end.output.startswith("the update does not fit into one message of DNS")


def test_records_are_read_in_time_while_others_work(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A server that answers slowly does not hold a drill for each of its records."""
    monkeypatch.setattr(dns_server, "_READ_S", -1.0)
    with fake(*OLD) as server, pytest.raises(NoAnswer, match="1 of 2 records were read in time"):
        read_records(move_of(key_file(tmp_path), server.port))
    assert len(server.asked) == 1
    idles = list[bool]()
    asked_meanwhile = list[bool]()

    @contextmanager
    def idle() -> Iterator[None]:
        idles.append(True)
        yield
        idles.pop()

    ask = dns.query.tcp

    def look(*arguments: Any, **options: Any) -> dns.message.Message:
        asked_meanwhile.append(bool(idles))
        return ask(*arguments, **options)

    monkeypatch.setattr(dns.query, "tcp", look)
    with fake(signed(), *NEW) as server:
        move = move_of(key_file(tmp_path), server.port)
        assert move_records(move, 60.0, lambda _: None, idle).code == 0
    assert asked_meanwhile == [True] * 3
