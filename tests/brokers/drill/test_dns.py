"""A redirect by DNS: records of a real server move, and unmodified clients follow them."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import Executor
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from time import time
from types import SimpleNamespace
from typing import cast

import dns.message
import pytest

from k2ktui.config.drill_dns import DrillDns
from k2ktui.drill.dns_server import DnsError, move_records, prove_move, read_records
from k2ktui.drill.haproxy import ask_proxy
from k2ktui.drill.hook_process import CommandEnd
from k2ktui.drill.operations import abort_drill, resume_drill, verify_drill
from k2ktui.drill.ownership import Actor
from k2ktui.drill.report import report_json, report_markdown
from k2ktui.engine.drill.checks import DrillCheckOutcome, DrillKind, DrillPhase
from k2ktui.engine.drill.hooks import Hook, HookRole, HookStatus
from k2ktui.engine.drill.model import Drill, DrillStatus, PhaseStatus
from k2ktui.errors import Refused
from tests.brokers.drill.test_named_clients import (
    OPTIONS,
    SESSIONS,
    Lab,
    commits_on_source,
    print_gaps,
    prove,
)
from tests.brokers.drill.test_redirect import CUT_OFF, Followed, Writes, read_committed
from tests.support.clusters.haproxy import BY_DNS, Front, FrontedNode, fronted
from tests.support.clusters.kafka import eventually, read_all, unique_name
from tests.support.clusters.name_server import NameServer, name_server
from tests.support.clusters.resolver import own_resolver
from tests.support.drill.runs import MAY, Pair, Yes, check_of, kill_at, settled
from tests.support.named.fleet import require_compiler

_TTL_S = 10


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NameServer]:
    records = "other 5 A 127.0.0.2\n"
    with name_server(tmp_path_factory.mktemp("dns") / "server", records) as running:
        yield running


@pytest.fixture
def name(server: NameServer) -> str:
    """Return a name that leads to the source, which the drill's key may change."""
    name = f"{unique_name('n')}.own"
    server.set(name, _TTL_S, "A", "127.0.0.2")
    return name


def section(server: NameServer, name: str, **keys: object) -> dict[str, object]:
    """Return ``drill.redirect.dns`` of a name."""
    record = {
        "name": f"{name}.kafka.test",
        "type": "A",
        "source": ["127.0.0.2"],
        "target": ["127.0.0.3"],
    }
    return {**server.section, "records": [record], "ttl": "7 s", **keys}


def dns_of(server: NameServer, name: str, **keys: object) -> DrillDns:
    return DrillDns.model_validate(section(server, name, **keys))


def explain_move(dns: DrillDns) -> str:
    """Return why the records could not be moved now."""
    with pytest.raises(DnsError) as raised:
        prove_move(dns.move)
    return str(raised.value)


def move(dns: DrillDns) -> CommandEnd:
    return move_records(dns.move, 60.0, lambda _: None, nullcontext)


def test_records_move_once(server: NameServer, name: str) -> None:
    dns = dns_of(server, name)
    before = server.serial
    assert prove_move(dns.move) == _TTL_S
    assert (server.serial, server.ask(name)) == (before, [f"{_TTL_S} 127.0.0.2"]), (
        "it changes nothing"
    )
    end = move(dns)
    assert (end.code, end.output) == (
        0,
        f"read back: {name}.kafka.test A 127.0.0.3, TTL 7 s",
    )
    assert server.ask(name) == ["7 127.0.0.3"]
    after = f"DNS leads clients to the target already: {name}.kafka.test A"
    assert explain_move(dns) == after
    end = move(dns)
    assert end.code == 0, "an update whose work is done is refused, and reads as done"


@pytest.mark.parametrize("kind", ["A", "AAAA", "CNAME"])
def test_each_type(server: NameServer, kind: str) -> None:
    name = f"{unique_name('t')}.own"
    old, new = {
        "A": (["127.0.0.2", "127.0.0.12"], ["127.0.0.3"]),
        "AAAA": (["2001:DB8::1"], ["2001:db8::2", "2001:db8:0::3"]),
        "CNAME": (["East.kafka.test"], ["west.kafka.test."]),
    }[kind]
    at = f"{name}.kafka.test."
    server.change(
        *(f"update add {at} 5 {kind} {value.rstrip('.')}{'.' * (kind == 'CNAME')}" for value in old)
    )
    record = {"name": at, "type": kind, "source": old, "target": new}
    dns = dns_of(server, name, records=[record])
    assert prove_move(dns.move) == 5
    assert move(dns).code == 0
    assert len(server.ask(name, kind)) == len(new)


def test_what_another_hand_has_changed_stays(server: NameServer, name: str) -> None:
    dns = dns_of(server, name)
    server.set(name, 5, "A", "127.0.0.2", "127.0.0.9")
    stands = f"{name}.kafka.test A is 127.0.0.2 and 127.0.0.9; the file has 127.0.0.2"
    assert explain_move(dns) == stands
    end = move(dns)
    assert end.code == 1
    assert end.output == (
        f"another hand has changed a record of the zone kafka.test (NXRRSET), and nothing was "
        f"overwritten: {stands}"
    )
    assert server.ask(name) == ["5 127.0.0.2", "5 127.0.0.9"]


def test_who_may_not_move_them(
    server: NameServer, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    wrong = server.add_key("mover", "wrong")
    before = server.serial
    stranger = dns_of(server, name, keyFile=str(server.keys["stranger"]))
    assert "does not know the key stranger with hmac-sha256 (BADKEY)" in explain_move(stranger)
    assert "(BADKEY)" in move(stranger).output
    forged = dns_of(server, name, keyFile=str(wrong))
    assert "knows the key mover with another secret (BADSIG)" in explain_move(forged)
    other = dns_of(server, "other")
    assert read_records(other.move), "it may be read"
    refused = "refuses the update (REFUSED): the key mover may not change other.kafka.test A"
    assert refused in explain_move(other) and refused in move(other).output
    zone = dns_of(server, name, zone=f"{name}.kafka.test")
    assert "is not authoritative for the zone" in explain_move(zone)
    with monkeypatch.context() as patch:
        patch.setattr(dns.message, "time", SimpleNamespace(time=lambda: time() - 1000))
        late = explain_move(dns_of(server, name))
    assert "differ by more than 300 s (BADTIME)" in late
    assert (server.serial, server.ask(name)) == (before, [f"{_TTL_S} 127.0.0.2"])


def test_by_hand_it_is_the_same(server: NameServer, name: str) -> None:
    moves = dns_of(server, name).move
    hook = Hook(
        DrillPhase.REDIRECT, False, "a", moves.script, 60.0, (), HookRole.REDIRECT, "", moves
    )
    assert server.secret() not in hook.shown_command
    run_shell(hook.shown_command)
    assert server.ask(name) == ["7 127.0.0.3"]
    with pytest.raises(DnsError, match="leads clients to the target already"):
        prove_move(moves)
    with pytest.raises(subprocess.CalledProcessError):
        run_shell(hook.shown_command)


def run_shell(text: str) -> None:
    subprocess.run(["/bin/bash", "-c", f"set -o pipefail; {text}"], check=True, timeout=60)


# With clusters

# They wait until other processes of tests are done with port 53.
_TURN_S = 1800


@pytest.fixture(scope="module")
def resolves(tmp_path_factory: pytest.TempPathFactory, server: NameServer) -> Iterator[Executor]:
    with own_resolver(tmp_path_factory.mktemp("cache") / "resolver", server.port) as thread:
        yield thread


@pytest.fixture(scope="module")
def lab(
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[tuple[FrontedNode, FrontedNode, Front]]:
    with fronted(tmp_path_factory.mktemp("fronted"), BY_DNS) as running:
        yield running


class NamedFront:
    """HAProxy that only cuts off, behind a name of DNS; a test may take it for a ``Front``."""

    def __init__(self, front: Front, server: NameServer, name: str) -> None:
        self._front, self._server, self._record = front, server, name
        for server_name in front.SOURCE:
            ask_proxy(str(front.socket), f"set server {server_name} state ready")
        self.host, self.secret = f"{name}.kafka.test", server.secret()
        self.name = SimpleNamespace(address=f"{self.host}:{front.name.number}")

    def _command(self, state: str) -> list[str]:
        lines = [f"set server {server} state {state}" for server in self._front.SOURCE]
        lines += [f"shutdown sessions server {server}" for server in self._front.SOURCE]
        code = "from k2ktui.drill.haproxy import ask_proxy\n" + "\n".join(
            f"ask_proxy({str(self._front.socket)!r}, {line!r})" for line in lines
        )
        return [sys.executable, "-c", code]

    @property
    def section(self) -> dict[str, object]:
        """``drill.redirect`` of a pipeline from east to west."""
        return {
            "name": self.name.address,
            "cut": self._command("maint"),
            "restore": self._command("ready"),
            "dns": section(self._server, self._record),
        }


@pytest.fixture
def front(lab: tuple[FrontedNode, FrontedNode, Front], server: NameServer, name: str) -> NamedFront:
    return NamedFront(lab[2], server, name)


@pytest.mark.slow
@pytest.mark.timeout(_TURN_S)
def test_clients_follow_records(
    tmp_path: Path,
    lab: tuple[FrontedNode, FrontedNode, Front],
    front: NamedFront,
    resolves: Executor,
) -> None:
    """They ask a resolver that caches, as the drill does: both follow once the TTL is over."""
    east, west, _ = lab

    def follow() -> None:
        pair = Followed(tmp_path, east, west, front=cast(Front, front))
        running, group = pair.clients, pair.groups[0]
        try:
            running.consume()
            eventually(
                lambda: read_committed(pair).get((pair.topics[0], 0)) == 40,
                "the group has read and committed all on the source",
            )
            operator = Writes(clients=running)
            drill = pair.start(DrillKind.PLANNED, CUT_OFF, operator)
            assert drill.status is DrillStatus.DONE, drill
            running.flush()
            eventually(lambda: len(running.read) == 60, f"the group {group} has read all")
        finally:
            running.close()
        assert (running.acknowledged, running.failed, running.fatal) == (60, [], [])
        assert set(running.read.values()) == {1}, "nothing was read again"
        asked = dict(operator.asked)
        stands = f"{front.host} A 127.0.0.2, TTL {_TTL_S} s; the key may move them."
        assert stands in asked["open-target"]
        assert "| nsupdate -v -k " in asked["redirect"]
        for check_id in ("D51", "D52", "D53"):
            assert check_of(drill, check_id).outcome is DrillCheckOutcome.PASS
        assert [hook.status for hook in drill.hooks] == [HookStatus.DONE] * 2
        redirect = drill.hooks[1]
        assert redirect.ttl_s == _TTL_S
        assert redirect.output == f"read back: {front.host} A 127.0.0.3, TTL 7 s"
        shown = [live for phase, live in operator.shown if phase is DrillPhase.REDIRECT]
        assert any("caches may have the former ones for" in live for live in shown), shown
        texts = [event.text for event in drill.events]
        over = f"no cache has the former records any more: their TTL of {_TTL_S} s is over"
        (ended,) = [event.at_ms for event in drill.events if event.text == over]
        assert redirect.ended_ms is not None and ended - redirect.ended_ms >= 1000 * _TTL_S
        live = drill.record(DrillPhase.REDIRECT).live
        assert live.endswith(f"all of its 2 addresses answer as cluster {west.cluster_id}")
        assert verify_drill(settled(pair.flow), drill.id)[1] == []
        whole = f"{texts}{report_json(drill)}{report_markdown(drill)}{drill}"
        assert front.secret not in whole and redirect.digest in repr(drill)

    resolves.submit(follow).result()


def begin_up_to(
    step: str, directory: Path, east: FrontedNode, west: FrontedNode, front: NamedFront
) -> tuple[Pair, Actor, Drill]:
    """Begin a drill that redirects by DNS, and do not confirm a step; return what is open."""
    pair = Pair(directory, east, west, {"drill": {"redirect": front.section}}, letters="a")
    with pytest.raises(Refused, match=f"{step} was not confirmed"):
        pair.start(DrillKind.PLANNED, CUT_OFF, Yes(frozenset({step})))
    (drill,) = pair.drills()
    return pair, Actor(pair.flow, [str(pair.file)], MAY, Yes()), drill


@pytest.mark.slow
@pytest.mark.timeout(_TURN_S)
def test_a_redirect_goes_on_after_a_kill(
    tmp_path: Path,
    lab: tuple[FrontedNode, FrontedNode, Front],
    server: NameServer,
    name: str,
    front: NamedFront,
    resolves: Executor,
) -> None:
    """Killed with its update sent and not recorded: it is looked at, and the TTL waited for."""
    east, west, _ = lab

    def go_on() -> None:
        pair, actor, drill = begin_up_to("redirect", tmp_path, east, west, front)
        server.set(name, _TTL_S, "A", "127.0.0.9")
        drill = resume_drill(actor, drill.id)
        record = drill.record(DrillPhase.REDIRECT)
        assert record.status is PhaseStatus.FAILED
        assert record.live == f"{front.host} A is 127.0.0.9; the file has 127.0.0.2"
        assert record.findings[-1].startswith("By hand: printf '%s\\n' 'server 127.0.0.1 ")
        assert server.ask(name) == [f"{_TTL_S} 127.0.0.9"], "not overwritten"
        server.set(name, _TTL_S, "A", "127.0.0.2")
        arguments = "drill", "resume", drill.id, "-f", pair.file, "--yes-to", "all"
        # With a variable more, this thread starts the command: it has its resolver.
        kill_at("drill-hook-ended", tmp_path / "1", *arguments, environment={"PYTHONHASHSEED": "1"})
        assert server.ask(name) == ["7 127.0.0.3"]
        operator = Yes()
        serial = server.serial
        drill = resume_drill(replace(actor, operator=operator), drill.id)
        assert drill.status is DrillStatus.DONE
        assert server.serial == serial, "no other update"
        (hook,) = [hook for hook in drill.hooks if hook.role is HookRole.REDIRECT]
        assert (hook.attempts, hook.ttl_s) == (1, _TTL_S)
        assert hook.result == "not run: its records lead to the target"
        assert any("caches may have the former ones" in live for _, live in operator.shown)

    resolves.submit(go_on).result()


@pytest.mark.slow
@pytest.mark.timeout(_TURN_S)
def test_what_could_not_be_moved_leaves_the_target_closed(
    tmp_path: Path,
    lab: tuple[FrontedNode, FrontedNode, Front],
    server: NameServer,
    name: str,
    front: NamedFront,
    resolves: Executor,
) -> None:
    """The rights and the records are proven as the last act before the question."""
    east, west, _ = lab

    def stay() -> None:
        _, actor, drill = begin_up_to("open-target", tmp_path, east, west, front)
        server.set(name, _TTL_S, "A", "127.0.0.9")
        operator = Yes()
        drill = resume_drill(replace(actor, operator=operator), drill.id)
        record = drill.record(DrillPhase.OPEN_TARGET)
        assert record.status is PhaseStatus.FAILED and not operator.asked
        assert record.findings == (f"{front.host} A is 127.0.0.9; the file has 127.0.0.2",)
        assert server.ask(name) == [f"{_TTL_S} 127.0.0.9"]
        server.set(name, _TTL_S, "A", "127.0.0.2")
        assert abort_drill(actor, drill.id).status is DrillStatus.ABORTED

    resolves.submit(stay).result()


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_clients_of_both_libraries_follow_records(
    tmp_path: Path, server: NameServer, name: str, resolves: Executor
) -> None:
    """Java keeps addresses for 30 seconds by default, whatever their TTL is."""
    require_compiler()

    def follow() -> None:
        with fronted(tmp_path / "fronted", BY_DNS, SESSIONS) as (east, west, running):
            lab = Lab(tmp_path, east, west, cast(Front, NamedFront(running, server, name)))
            try:
                lab.begin()
                drill = lab.start(DrillKind.PLANNED, OPTIONS, Yes())
                assert drill.status is DrillStatus.DONE, drill
                print_gaps(drill)
                prove(lab, drill, commits_on_source(lab), read_all(lab.source, lab.topic))
            finally:
                lab.close()

    resolves.submit(follow).result()
