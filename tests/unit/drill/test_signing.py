"""When a drill ends: what it signs, and what becomes of a report that it cannot sign."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest
from click import termui

from k2ktui.cli import changes
from k2ktui.cli.drill.drills import PipelineDrills
from k2ktui.cli.drill.options import DrillFlags
from k2ktui.config.load import load
from k2ktui.drill import operations, ownership
from k2ktui.drill.authorship import Owners
from k2ktui.drill.changes import failback
from k2ktui.drill.evidence.keys import SigningKey
from k2ktui.drill.evidence.verification import verify_files
from k2ktui.drill.ownership import Actor
from k2ktui.drill.report import (
    has_findings,
    is_unsigned,
    report_markdown,
    summarize,
    verify_report,
)
from k2ktui.drill.session import Session, Signing
from k2ktui.drill.signing import (
    end_drill,
    evidence_directory,
    explain_unsigned,
    prepare_signing,
    require_signing,
)
from k2ktui.drill.store import DrillStore
from k2ktui.engine.access import Access
from k2ktui.engine.drill.checks import DrillKind, DrillPhase
from k2ktui.engine.drill.format import chain_event
from k2ktui.engine.drill.model import Drill, DrillEvent, DrillStatus
from k2ktui.errors import ConfigError, ConnectionFailed, TimedOut
from k2ktui.sync.flow import Flow
from tests.support.drill.made_drills import new_drill, switched_over, through
from tests.support.drill.runs import Yes
from tests.support.drill.signed import READS, make_key, write_key
from tests.unit.config.files import MINIMAL


class KeptDrill:
    """The store of one drill, in memory."""

    def __init__(self) -> None:
        self.digests: list[str] = []

    def write(self, drill: Drill, events: Sequence[DrillEvent] = ()) -> Drill:
        for event in events:
            drill = chain_event(drill, event)
            self.digests.append(drill.events[-1].digest)
        return drill

    def read_digests(self, _: Drill) -> list[str]:
        return self.digests


def session_of(
    signing: Signing | None,
    kind: DrillKind = DrillKind.REHEARSE,
    store: KeptDrill | None = None,
) -> Session:
    """Return a session whose drill has gone through all phases."""
    drill = replace(through(new_drill(kind), DrillPhase.REPORT), events=())
    session = Session(
        cast(Flow, None),
        drill,
        cast(DrillStore, store or KeptDrill()),
        Yes(),
        Access(True),
        signing=signing,
    )
    session.reads = READS
    session.write("begun", phase="owner")
    return session


@pytest.fixture
def signing(tmp_path: Path) -> Signing:
    return Signing(tmp_path / "evidence", make_key(tmp_path), has_begun=True)


def signed_reports(signing: Signing) -> list[Path]:
    return sorted(signing.directory.glob("*.json"))


@pytest.mark.parametrize("status", [DrillStatus.DONE, DrillStatus.ABORTED])
def test_the_report_is_signed_as_the_drill_has_ended(status: DrillStatus, signing: Signing) -> None:
    session = session_of(signing)
    end_drill(session, status)
    (path,) = signed_reports(signing)
    (one,) = verify_files([path], [make_key(path.parents[1]).public]).evidence
    assert one.status is status and one.signed.describe().endswith("ran all of it")
    assert one.report["events"][-1]["text"] == session.drill.events[-1].text
    assert not has_findings(session.drill)


def test_without_a_key_nothing_is_signed(tmp_path: Path) -> None:
    end_drill(session_of(None), DrillStatus.DONE)
    assert list(tmp_path.iterdir()) == []


def test_a_report_that_cannot_be_signed_is_a_finding_and_fails_nothing(signing: Signing) -> None:
    session = session_of(signing)
    signing.directory.write_text("no directory")
    end_drill(session, DrillStatus.DONE)
    drill = session.drill
    assert drill.status is DrillStatus.DONE
    (finding,) = drill.record(DrillPhase.REPORT).findings
    assert finding.startswith("the report was not signed at the drill's end: ")
    assert f"k2ktui evidence sign {drill.id} -f FILE" in finding
    assert has_findings(drill) and drill.blockers == ()
    assert summarize(drill)[0] == "A failover now would move every group to its exact position."
    digests = session.store.read_digests(drill)
    assert verify_report(drill, digests) == [], "the report is as its last event says"


def test_an_aborted_drill_that_cannot_be_signed_says_so(signing: Signing) -> None:
    session = session_of(replace(signing, key=ConfigError("no key")))
    end_drill(session, DrillStatus.ABORTED)
    (finding,) = session.drill.blockers
    assert finding.startswith("the report was not signed at the drill's end: no key; correct it")
    assert is_unsigned(session.drill)


class LostTarget(KeptDrill):
    """A store whose target goes away after the drill's end was written."""

    def write(self, drill: Drill, events: Sequence[DrillEvent] = ()) -> Drill:
        if self.digests and drill.record(DrillPhase.REPORT).findings:
            raise ConnectionFailed("the target is away")
        return super().write(drill, events)


def test_a_finding_that_cannot_be_written_fails_no_drill(
    signing: Signing, caplog: pytest.LogCaptureFixture
) -> None:
    session = session_of(replace(signing, key=ConfigError("no key")), store=LostTarget())
    end_drill(session, DrillStatus.DONE)
    drill = session.drill
    assert drill.status is DrillStatus.DONE and "the target is away" in caplog.text
    assert verify_report(drill, session.store.read_digests(drill)) == []


class ForwardDrill(KeptDrill):
    """The store of a forward pipeline's drill, which others may have written."""

    def __init__(self, drill: Drill) -> None:
        super().__init__()
        self.drill = drill

    def own(self, _: str) -> None:
        """Take it."""

    def read_settled(self, _: str) -> Drill:
        return self.drill

    def write(self, drill: Drill, events: Sequence[DrillEvent] = ()) -> Drill:
        self.drill = super().write(drill, events)
        return self.drill

    def close(self) -> None:
        """Disconnect."""


@pytest.mark.parametrize("doubt", ["", "its record was not written by it", "unreachable"])
def test_a_failback_proves_no_record_that_it_rewrites(
    doubt: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    over = replace(switched_over(), events=())
    store = ForwardDrill(over)

    def find_doubt(*_: object) -> str:
        if doubt == "unreachable":
            raise TimedOut(doubt)
        return doubt

    monkeypatch.setattr(failback, "DrillStore", lambda *_: store)
    monkeypatch.setattr(failback, "read_owners", lambda *_: Owners((1,)))
    monkeypatch.setattr(failback, "find_doubt", find_doubt)
    forward = SimpleNamespace(config=None, target=None, flow=None, files=())
    session = SimpleNamespace(
        forward=forward, may=Access(True), drill=new_drill(DrillKind.FAILBACK)
    )
    failback.rewrite_drill(cast(Session, session), over, "led back", lambda drill: drill)
    assert store.drill.doubt == doubt
    assert verify_report(store.drill, store.digests) == []


def test_a_late_change_of_a_drill_that_is_over_is_doubted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Somebody writes between the record that was examined and the one that is owned."""
    over = replace(switched_over(), events=())
    store = ForwardDrill(replace(over, version="forged"))
    doubts = iter(("", "its record was not written by it"))
    monkeypatch.setattr(store, "read", lambda _: over, raising=False)
    monkeypatch.setattr(ownership, "DrillStore", lambda *_: store)
    monkeypatch.setattr(ownership, "target_cluster", lambda _: None)
    monkeypatch.setattr(ownership, "read_owners", lambda *_: Owners((1,)))
    monkeypatch.setattr(ownership, "find_doubt", lambda *_: next(doubts))
    actor = actor_of(tmp_path, "")
    owned = ownership.own_drill(
        actor, over.id, "released", take_over=None, preview=lambda _: (), also_over=True
    )
    with owned as session:
        assert session.drill.doubt == "its record was not written by it"


def test_an_unsigned_abort_ends_with_findings(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = session_of(Signing(tmp_path, ConfigError("no key")))
    end_drill(session, DrillStatus.ABORTED)
    unsigned = session.drill
    actor_of(tmp_path, "")
    drills = PipelineDrills((str(tmp_path / "orders.yaml"),), DrillFlags(as_json=True))
    for drill, code in ((unsigned, 1), (replace(unsigned, blockers=("preflight",)), 0)):
        monkeypatch.setattr(operations, "abort_drill", lambda *_, aborted=drill, **__: aborted)
        assert drills.abort(drill.id, None) == code


def test_the_report_says_that_its_writer_is_not_proven() -> None:
    said = "Not proven who wrote its record: its record is gone"
    assert said in report_markdown(replace(switched_over(), doubt="its record is gone"))
    assert "Not proven" not in report_markdown(switched_over())


def test_what_others_may_have_written_is_not_signed(signing: Signing) -> None:
    resumed = replace(signing, has_begun=False)
    session = session_of(resumed)
    session.change_drill(lambda drill: replace(drill, doubt="its record is gone"))
    end_drill(session, DrillStatus.DONE)
    (finding,) = session.drill.record(DrillPhase.REPORT).findings
    assert "not proven that a drill wrote its record: its record is gone" in finding
    assert "evidence sign" not in finding, "it is refused, too"
    session = session_of(resumed)
    session.store.read_digests(session.drill).clear()
    end_drill(session, DrillStatus.DONE)
    (finding,) = session.drill.record(DrillPhase.REPORT).findings
    assert "does not fit to its journal" in finding
    assert signed_reports(signing) == []


def test_a_resumed_drill_is_signed_as_one(signing: Signing) -> None:
    end_drill(session_of(replace(signing, has_begun=False)), DrillStatus.DONE)
    (path,) = signed_reports(signing)
    assert b'"signed": "resumed"' in path.read_bytes()


# Before it begins.


def actor_of(tmp_path: Path, sign: str) -> Actor:
    file = tmp_path / "orders.yaml"
    file.write_text(f"{MINIMAL}\ndrill: {{sign: {sign}}}\n" if sign else MINIMAL)
    flow = Flow(load((str(file),)).config)
    return Actor(flow, [str(file)], Access(True), Yes())


def test_a_drill_that_could_not_be_signed_does_not_begin(tmp_path: Path) -> None:
    actor = actor_of(tmp_path, f"{{key: {tmp_path}/none.pem}}")
    for kind in DrillKind:
        if kind is DrillKind.DISASTER:
            continue
        with pytest.raises(ConfigError, match="could not be signed") as caught:
            require_signing(actor, kind)
        assert caught.value.unchanged == "No drill was begun."


def test_a_failover_without_the_source_begins_and_says_it_in_its_preflight(tmp_path: Path) -> None:
    actor = actor_of(tmp_path, f"{{key: {tmp_path}/none.pem}}")
    signing = require_signing(actor, DrillKind.DISASTER)
    (said,) = explain_unsigned(session_of(signing, DrillKind.DISASTER))
    assert said.startswith("the report cannot be signed: the key")


def test_no_path_stops_a_failover_without_the_source(tmp_path: Path) -> None:
    key = write_key(tmp_path / "sign.pem")
    loop = tmp_path / "loop"
    loop.symlink_to(loop)
    long = f"{tmp_path}/{'x' * 300}"
    for sign in (
        f"{{key: {key}, directory: {long}/y}}",
        f"{{key: {key}, directory: {loop}}}",
        f"{{key: {loop}}}",
        f"{{key: {long}}}",
        f"{{key: {key}, passphraseFile: {loop}}}",
    ):
        signing = require_signing(actor_of(tmp_path, sign), DrillKind.DISASTER)
        assert signing is not None and isinstance(signing.key, ConfigError), sign
        assert signing.key.message, sign


def test_an_empty_passphrase_leaves_the_report_unsigned(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(changes, "can_ask", lambda: True)
    monkeypatch.setattr(termui, "hidden_prompt_func", lambda _: "")
    key = write_key(tmp_path / "sign.pem", "two words")
    asking = replace(actor_of(tmp_path, f"{{key: {key}}}"), ask_secret=changes.ask_passphrase())
    signing = require_signing(asking, DrillKind.DISASTER)
    assert signing is not None and isinstance(signing.key, ConfigError)
    assert "is empty" in signing.key.message


def test_who_confirms_all_in_advance_is_not_asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(changes, "can_ask", lambda: True)
    actor_of(tmp_path, "")
    for yes_to, asks in ((frozenset[str](), True), (frozenset({"all"}), False)):
        flags = DrillFlags(as_json=True, yes_to=yes_to)
        with PipelineDrills((str(tmp_path / "orders.yaml"),), flags).open_actor() as actor:
            assert (actor.ask_secret is not None) is asks


def test_the_passphrase_of_the_file_is_used(tmp_path: Path) -> None:
    key = write_key(tmp_path / "sign.pem", "two words")
    file = tmp_path / "passphrase"
    file.write_text("two words\n")
    file.chmod(0o600)
    actor = actor_of(tmp_path, f"{{key: {key}, passphraseFile: {file}}}")
    signing = require_signing(actor, DrillKind.REHEARSE)
    assert signing is not None and isinstance(signing.key, SigningKey)
    with pytest.raises(ConfigError, match="nobody can be asked"):
        require_signing(actor_of(tmp_path, f"{{key: {key}}}"), DrillKind.REHEARSE)
    asking = replace(actor_of(tmp_path, f"{{key: {key}}}"), ask_secret=lambda _: "two words")
    assert require_signing(asking, DrillKind.REHEARSE) is not None


def test_the_directory_is_beside_the_file_unless_it_is_named(tmp_path: Path) -> None:
    key = write_key(tmp_path / "sign.pem")
    actor = actor_of(tmp_path, f"{{key: {key}}}")
    assert evidence_directory(actor.flow.config, actor.files) == tmp_path / "evidence"
    signing = prepare_signing(actor)
    assert signing is not None and not signing.has_begun
    assert not signing.directory.exists(), "looking makes nothing"
    actor = actor_of(tmp_path, f"{{key: {key}, directory: {tmp_path}/a/b}}")
    with pytest.raises(ConfigError, match="does not exist, nor does its folder"):
        require_signing(actor, DrillKind.REHEARSE)
    actor = actor_of(tmp_path, "")
    assert evidence_directory(actor.flow.config, actor.files) is None
    assert require_signing(actor, DrillKind.REHEARSE) is None
