"""What a drill does about the clients' name on a host whose file or whose answers are others."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from k2ktui.config.drill import DrillRedirect, DrillSettings
from k2ktui.config.model import PipelineConfig
from k2ktui.drill import hooks
from k2ktui.drill.checks import clients
from k2ktui.drill.checks.context import DrillFacts
from k2ktui.drill.client_name import ask_name
from k2ktui.drill.dns_server import DnsError, NoAnswer, Unreachable
from k2ktui.drill.hook_process import CommandEnd
from k2ktui.drill.hooks import list_kept_hooks, undo_hook
from k2ktui.drill.peers import ALONE, Peers
from k2ktui.drill.phases import dns_records, group_protocols, redirect
from k2ktui.engine.drill.checks import DrillCheckOutcome, DrillKind, DrillPhase
from k2ktui.engine.drill.dns import Standing
from k2ktui.engine.drill.hook_steps import find_hook, put_hook, with_file_hooks
from k2ktui.engine.drill.hooks import HookRecord, HookStatus, new_record
from k2ktui.engine.drill.model import Drill, Fence, PhaseStatus, new_phases
from k2ktui.engine.drill.redirects import NameAnswer
from k2ktui.engine.drill.site_names import NameTurn, Turn
from k2ktui.kafka.admin.active_producers import _producer
from k2ktui.sync.mapping.source import NothingCopied
from tests.support.drill.made_drills import new_drill
from tests.unit.config.files import MINIMAL, Files

PLANNED, DISASTER = DrillKind.PLANNED, DrillKind.DISASTER


def section_of(**keys: object) -> DrillRedirect:
    return DrillRedirect.model_validate({"name": "kafka:1", "command": ["true"], **keys})


BOTH, MOVE = section_of(cut=["true"], restore=["true"]), section_of()


class FakeHost:
    """A session of a host, without clusters."""

    files = ("orders.yaml",)
    peers = ALONE
    unproven_move = ""

    def __init__(self, section: DrillRedirect | None, kind: DrillKind = PLANNED) -> None:
        self.set(section)
        drill = new_drill(kind, fence=Fence.CUT_OFF)
        parts = BOTH.hooks(kind)
        records = tuple(replace(new_record(part), attempts=1) for part in parts)
        records = (replace(records[0], addresses=("old:1",)), records[1])
        phases = new_phases(kind, redirects=True)
        self.drill: Drill = replace(drill, phases=phases, hooks=records)
        self.asked: list[str] = []
        self.agrees = False

    def set(self, section: DrillRedirect | None) -> None:
        source = SimpleNamespace(bootstrap_servers="s:1")
        settings = DrillSettings(redirect=section)
        self.config = SimpleNamespace(drill=settings, source=source, target=source)

    def change_drill(self, change: Any) -> None:
        self.drill = change(self.drill)

    def agree(self, _: object, lines: Iterable[str]) -> bool:
        self.asked += lines
        return self.agrees

    def confirm(self, *_: object, **__: object) -> None:
        pass

    write = count_waiting = confirm


def host_of(section: DrillRedirect | None, kind: DrillKind = PLANNED) -> Any:
    return FakeHost(section, kind)


@pytest.fixture
def answers(monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """Addresses at which a cluster answers; the name is asked, others are only reached."""
    clusters: dict[str, str] = {}
    name = "kafka:1"
    monkeypatch.setattr(
        redirect, "ask_name", lambda *_: [NameAnswer(name, clusters.get(name, ""), "no")]
    )
    for module in (redirect, hooks):
        monkeypatch.setattr(
            module, "find_reached", lambda _, __, at: [a for a in at if a in clusters]
        )
    return clusters


def test_a_file_without_the_section_neither_opens_the_target_nor_ends_the_redirect(
    answers: dict[str, str],
) -> None:
    assert not redirect.find_unable(host_of(BOTH))
    for section in (None, MOVE):
        assert "no drill.redirect any more" in redirect.find_unable(host_of(section))[0]
    result = redirect.run_redirect(host_of(None))
    assert result.status is PhaseStatus.FAILED


def test_addresses_of_a_cut_off_of_another_file_still_count(answers: dict[str, str]) -> None:
    host = host_of(section_of(cut=["x"], restore=["true"]))
    answers["old:1"] = host.drill.source_cluster
    assert "clients still reach old:1" in redirect.find_unable(host)[0]
    host.drill = replace(host.drill, hooks=())
    held = redirect.cut_off(host)
    assert held is not None and "are not known" in held.live


def test_a_person_agrees_to_a_redirect_while_an_old_address_answers(
    answers: dict[str, str],
) -> None:
    host = host_of(BOTH)
    answers |= {"kafka:1": host.drill.target_cluster, "old:1": "any"}
    held = redirect.run_redirect(host)
    assert held.status is PhaseStatus.FAILED and "clients still reach old:1" in held.live
    assert "may write to the old cluster" in host.asked[0]
    host.agrees = True
    assert redirect.run_redirect(host).status is PhaseStatus.DONE
    host.agrees = False
    del answers["old:1"]
    assert redirect.run_redirect(host).status is PhaseStatus.DONE


@pytest.mark.parametrize("section", [BOTH, MOVE])
def test_this_host_may_still_reach_the_old_cluster_in_a_disaster(
    answers: dict[str, str], monkeypatch: pytest.MonkeyPatch, section: DrillRedirect
) -> None:
    host = host_of(section, DISASTER)
    host.agrees = True
    monkeypatch.setattr(redirect, "run_part", lambda *_: ["was run"])
    answers["kafka:1"] = host.drill.source_cluster
    assert redirect.run_redirect(host).live == "was run"
    assert "this host: " in host.asked[-1]


def test_a_person_agrees_to_groups_whose_members_would_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    host = host_of(BOTH)
    monkeypatch.setattr(group_protocols, "prepare_groups", lambda _: ["billing: no right"])
    held = group_protocols.ask_about_groups(host)
    assert held is not None
    assert held.status is PhaseStatus.FAILED and held.findings == ("billing: no right",)
    assert "have to be restarted" in host.asked[0] and "billing" in host.asked[1]
    host.agrees = True
    assert group_protocols.ask_about_groups(host) is None
    monkeypatch.setattr(group_protocols, "prepare_groups", lambda _: [])
    host.agrees = False
    assert group_protocols.ask_about_groups(host) is None, "nobody is asked"


def undo(host: Any, monkeypatch: pytest.MonkeyPatch) -> HookRecord:
    monkeypatch.setattr(hooks, "_run", lambda *_, **__: CommandEnd(0, 0.1, ""))
    undo_hook(host, host.drill.hooks[0])
    record: HookRecord = host.drill.hooks[0]
    return record


def test_a_cut_off_of_another_file_is_restored_and_proven_at_each_address(
    answers: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    other = section_of(cut=["true"], restore=["false"], timeout="10 ms")
    host = host_of(other)
    answers["kafka:1"] = "S"
    assert undo(host, monkeypatch).status is HookStatus.FAILED
    assert "nothing answers at old:1" in host.asked[0]
    host.agrees = True
    assert undo(host, monkeypatch).status is HookStatus.UNDONE
    host = host_of(other)
    answers["old:1"] = "S"
    assert undo(host, monkeypatch).status is HookStatus.UNDONE and not host.asked
    host = host_of(None)
    assert undo(host, monkeypatch).status is HookStatus.KEPT
    assert list_kept_hooks(host)[0].endswith(": true")


class Sharing(Peers):
    """The peers of a member whose name another one has, too."""

    kept = ""

    def fencing(self) -> AbstractContextManager[None]:
        return nullcontext()

    def describe_sharing(self) -> str:
        return "Shared with search"

    def explain_kept_cut(self) -> str:
        return self.kept


def test_a_shared_cut_off_is_undone_by_the_first_that_goes_back(
    answers: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It stays where the target of another one is open: its clients would leave that again."""
    host = host_of(BOTH)
    host.peers = Sharing()
    answers.update({"kafka:1": "s", "old:1": "s"})
    assert undo(host, monkeypatch).undo_result == "not run: clients reach the source again"
    host = host_of(BOTH)
    host.peers = Sharing()
    del answers["old:1"]
    monkeypatch.setattr(hooks, "_explain_not_restored", lambda *_: "")
    assert undo(host, monkeypatch).undo_result == "exit code 0"
    host = host_of(BOTH)
    host.peers = Sharing()
    host.peers.kept = "search shares the name, and its target is open"
    record = undo(host, monkeypatch)
    assert record.status is HookStatus.UNDONE
    assert record.undo_result.startswith("not run, so clients stay cut off: search")


def test_what_is_not_safe_was_not_begun(monkeypatch: pytest.MonkeyPatch) -> None:
    host = host_of(BOTH)
    host.drill = put_hook(host.drill, replace(host.drill.hooks[0], status=HookStatus.DONE))
    monkeypatch.setattr(hooks, "explain_unsafe_command", lambda *_: "not safe")
    assert undo(host, monkeypatch).status is HookStatus.DONE


def test_a_drill_that_moves_no_name_asks_nothing_about_clients() -> None:
    context: Any = SimpleNamespace(
        config=SimpleNamespace(drill=DrillSettings(redirect=BOTH)),
        facts=DrillFacts(PLANNED, redirects=False),
    )
    for check in (clients.check_name, clients.check_outsiders, clients.check_producer_ids):
        finding = check(context)
        assert finding.outcome is DrillCheckOutcome.PASS
        assert finding.evidence == "the drill moves no name"


def test_groups_that_a_broker_did_not_list_are_unknown(tmp_path: Path) -> None:
    config: PipelineConfig = (
        Files(tmp_path).load(f"{MINIMAL}drill: {{redirect: {{name: 'k:1', command: [/m]}}}}").config
    )
    context: Any = SimpleNamespace(
        config=config,
        facts=DrillFacts(PLANNED),
        limits=SimpleNamespace(sample_s=0.0),
        cluster=lambda _: None,
        read=lambda *_: ([], ([], ["broker 2 is silent"])),
    )
    finding = clients.check_outsiders(context)
    assert finding.outcome is DrillCheckOutcome.UNKNOWN and "broker 2" in finding.evidence


def test_properties_that_cannot_be_used_are_a_problem_of_the_answer(tmp_path: Path) -> None:
    config = Files(tmp_path).load(MINIMAL).config
    section = section_of(config={"security.protocol": "NOPE"})
    (answer,) = ask_name(config, section)
    assert "security.protocol" in answer.problem


class WaitingHost(FakeHost):
    """A session that notes for how many seconds caches are waited for, and waits for nothing."""

    def __init__(self, section: DrillRedirect, kind: DrillKind = PLANNED) -> None:
        super().__init__(section, kind)
        (part,) = section.hooks(kind)
        self.hook = new_record(part)
        self.drill = replace(self.drill, hooks=(self.hook,))
        self.waits: list[tuple[str, float | None]] = []

    def wait(self, _: object, look: Any, *, hint: str, timeout: float | None = None) -> None:
        self.waits.append((look()[1], timeout))

    @property
    def record(self) -> HookRecord:
        return self.drill.hooks[0]

    def put(self, **fields: Any) -> None:
        self.drill = put_hook(self.drill, replace(self.record, **fields))


DNS_KEYS = {
    "server": "ns1",
    "zone": "z",
    "records": [{"name": "n.z", "type": "A", "source": ["10.0.0.1"], "target": ["10.0.0.2"]}],
    "key_file": "/k",
}
BY_DNS = section_of(command=None, dns=DNS_KEYS)
NOW_MS = 1_700_000_000_000


@pytest.mark.parametrize(
    ("known_s", "value", "ttl_s", "kept_s", "record", "left"),
    [
        (0, "10.0.0.1", 300, 300, {}, "5 m 0 s"),
        # What was read before the target was opened, and made shorter since.
        (600, "10.0.0.1", 30, 600, {}, "10 m 0 s"),
        # Moved by an attempt that was killed, by one that has ended a minute ago, by another hand.
        (300, "10.0.0.2", 30, 300, {"status": HookStatus.RUNNING}, "5 m 0 s"),
        (
            300,
            "10.0.0.2",
            30,
            300,
            {"status": HookStatus.DONE, "ended_ms": NOW_MS - 60_000},
            "4 m 0 s",
        ),
        (0, "10.0.0.2", 30, 30, {}, "30 s"),
        # By a host whose clock is ahead.
        (300, "10.0.0.2", 30, 300, {"status": HookStatus.DONE, "ended_ms": NOW_MS * 2}, "5 m 0 s"),
    ],
)
def test_caches_are_waited_for(
    answers: dict[str, str],
    monkeypatch: pytest.MonkeyPatch,
    known_s: int,
    value: str,
    ttl_s: int,
    kept_s: int,
    record: dict[str, Any],
    left: str,
) -> None:
    assert BY_DNS.dns is not None
    host: Any = WaitingHost(BY_DNS)
    host.put(ttl_s=known_s, **record)
    answers["kafka:1"] = host.drill.target_cluster
    for module in (dns_records, hooks):
        monkeypatch.setattr(module, "time", lambda: NOW_MS / 1000)
    (moved,) = BY_DNS.dns.move.records
    monkeypatch.setattr(dns_records, "read_records", lambda _: {moved: Standing((value,), ttl_s)})
    ran: list[object] = []

    def run(*_: object) -> list[str]:
        ran.append(1)
        host.put(status=HookStatus.DONE, ended_ms=NOW_MS)
        return []

    monkeypatch.setattr(redirect, "run_part", run)
    redirect.run_redirect(host)
    assert len(ran) == (value == "10.0.0.1")
    assert (host.record.ttl_s, host.record.status) == (kept_s, HookStatus.DONE)
    (text, limit), *_ = host.waits
    assert f"the former ones for {left}" in text and f"(TTL {kept_s:,} s)" in text
    assert limit is not None and limit > kept_s


def test_records_of_another_hand_are_not_moved(
    answers: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert BY_DNS.dns is not None
    host: Any = WaitingHost(BY_DNS)
    (moved,) = BY_DNS.dns.move.records
    monkeypatch.setattr(dns_records, "read_records", lambda _: {moved: Standing(("10.0.0.7",), 30)})
    monkeypatch.setattr(redirect, "run_part", lambda *_: pytest.fail("was run"))
    result = redirect.run_redirect(host)
    assert result.status is PhaseStatus.FAILED
    assert result.live == "n.z A is 10.0.0.7; the file has 10.0.0.1"
    assert result.findings[0].endswith(" send | nsupdate -v -k /k")


def test_another_file_does_not_shorten_how_long_caches_are_waited_for(
    answers: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The TTL belongs to what caches got before, not to the hook that was agreed to since."""
    assert BY_DNS.dns is not None
    host: Any = WaitingHost(BY_DNS)
    host.put(ttl_s=3600)
    (moved,) = BY_DNS.dns.move.records
    other = section_of(command=None, timeout="2 m", dns=DNS_KEYS)
    assert other.dns is not None
    host.set(other)
    monkeypatch.setattr(redirect, "explain_unsafe_command", lambda *_: "")
    (part,) = other.hooks(PLANNED)
    assert find_hook(host.drill, part.digest) is None
    host.drill = with_file_hooks(host.drill, [part])
    monkeypatch.setattr(dns_records, "prove_move", lambda _: 30)
    monkeypatch.setattr(redirect, "_list_transactional", lambda _: [])
    assert redirect.find_unable(host) == []
    assert any("TTL 3,600 s" in line for line in redirect.describe_redirect(host))
    answers["kafka:1"] = host.drill.target_cluster
    monkeypatch.setattr(dns_records, "read_records", lambda _: {moved: Standing(("10.0.0.2",), 30)})
    redirect.run_redirect(host)
    (text, _), *_ = host.waits
    assert "(TTL 3,600 s)" in text
    assert host.record.ttl_s == 3600


@pytest.mark.parametrize("error", [Unreachable("refused"), NoAnswer("silent")])
def test_a_lost_server_of_dns_does_not_hold_the_target_in_a_disaster(
    answers: dict[str, str], monkeypatch: pytest.MonkeyPatch, error: DnsError
) -> None:
    def ask(_: object) -> None:
        raise error

    monkeypatch.setattr(redirect, "explain_unsafe_command", lambda *_: "")
    monkeypatch.setattr(dns_records, "prove_move", ask)
    monkeypatch.setattr(dns_records, "read_records", ask)
    host: Any = WaitingHost(BY_DNS)
    assert redirect.find_unable(host) == [str(error)], "not in a switchover"
    host = WaitingHost(BY_DNS, DISASTER)
    assert redirect.find_unable(host) == []
    remark = next(line for line in redirect.describe_redirect(host) if str(error) in line)
    assert remark.startswith("It is not proven that the records can be moved: ")
    result = redirect.run_redirect(host)
    assert result.status is PhaseStatus.FAILED and result.live == str(error)
    assert "another one in drill.redirect.dns, or command" in result.findings[0]
    assert result.findings[1].startswith("By hand: ")
    monkeypatch.setattr(dns_records, "prove_move", lambda _: 30)
    assert redirect.find_unable(host) == []
    assert any("the key may move them" in line for line in redirect.describe_redirect(host))
    error = DnsError("refuses the update")
    monkeypatch.setattr(dns_records, "prove_move", ask)
    assert redirect.find_unable(host) == ["refuses the update"], "a server that is there is asked"


class Following(Sharing):
    """The peers of a member whose leader has moved the name."""

    def find_turn(self, phase: DrillPhase) -> NameTurn:
        return NameTurn(Turn.FOLLOW, "search has run it, which shares the name", leads=False)


@pytest.mark.parametrize(
    ("value", "live"),
    [
        ("10.0.0.1", "the records lead to the source, although search has run it"),
        ("10.0.0.7", "n.z A is 10.0.0.7; the file has 10.0.0.1, although search has run it"),
    ],
)
def test_a_member_that_follows_looks_at_the_records(
    answers: dict[str, str], monkeypatch: pytest.MonkeyPatch, value: str, live: str
) -> None:
    assert BY_DNS.dns is not None
    host: Any = WaitingHost(BY_DNS)
    host.peers = Following()
    (moved,) = BY_DNS.dns.move.records
    reads = iter(["10.0.0.1", value])  # when it comes, and once the other one has moved them
    monkeypatch.setattr(
        dns_records, "read_records", lambda _: {moved: Standing((next(reads),), 300)}
    )
    result = redirect.run_redirect(host)
    assert result.status is PhaseStatus.FAILED and result.live.startswith(live)
    assert result.findings[0].startswith("By hand: ") and not host.waits


def test_what_only_informs_does_not_keep_the_target_closed() -> None:
    def topics() -> list[str]:
        raise NothingCopied("nothing was replicated")

    host = host_of(BOTH)
    host.source = None
    host.open_logs = lambda: SimpleNamespace(topics=topics, close=lambda: None)
    assert any("which ones is not known" in line for line in redirect.describe_redirect(host))


def test_the_check_says_how_long_caches_have_the_records(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = Files(tmp_path).load(MINIMAL).config
    settings = SimpleNamespace(redirect=BY_DNS)
    context: Any = SimpleNamespace(
        config=SimpleNamespace(drill=settings, source=config.source, target=config.target),
        facts=DrillFacts(PLANNED),
        expects_source=True,
        cluster_id=lambda _: "S",
    )
    monkeypatch.setattr(clients, "explain_unsafe_command", lambda *_: "")
    monkeypatch.setattr(clients, "ask_name", lambda *_: [NameAnswer("kafka:1", "S")])
    monkeypatch.setattr(clients, "find_many_hosts", lambda _: [])
    monkeypatch.setattr(clients, "find_shared", lambda *_: [])
    monkeypatch.setattr(clients, "prove_move", lambda _: 3600)
    finding = clients.check_name(context)
    assert finding.outcome is DrillCheckOutcome.PASS
    assert finding.evidence.endswith("answer as the source; TTL of its records: 3,600 s")


def test_a_producer_is_transactional_before_its_first_transaction_ends() -> None:
    def told(coordinator_epoch: int, start: int) -> bool:
        return _producer(
            SimpleNamespace(
                producer_id=1,
                producer_epoch=0,
                last_timestamp=-1,
                current_txn_start_offset=start,
                coordinator_epoch=coordinator_epoch,
            )
        ).is_transactional

    assert told(0, -1) and told(-1, 0) and told(0, 5)
    assert not told(-1, -1)
