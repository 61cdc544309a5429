"""When a drill ends: what it signs, and what becomes of a report that it cannot sign."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import cast

import pytest

from k2ktui.config.load import load
from k2ktui.drill.evidence.keys import SigningKey
from k2ktui.drill.evidence.verification import verify_files
from k2ktui.drill.ownership import Actor
from k2ktui.drill.report import has_findings, summarize, verify_report
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
from k2ktui.errors import ConfigError
from k2ktui.sync.flow import Flow
from tests.support.drill.made_drills import new_drill, through
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


def session_of(signing: Signing | None, kind: DrillKind = DrillKind.REHEARSE) -> Session:
    """Return a session whose drill has gone through all phases."""
    drill = replace(through(new_drill(kind), DrillPhase.REPORT), events=())
    store = KeptDrill()
    session = Session(
        cast(Flow, None), drill, cast(DrillStore, store), Yes(), Access(True), signing=signing
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
    assert finding.startswith("the report was not signed: ")
    assert f"k2ktui evidence sign {drill.id} -f FILE" in finding
    assert has_findings(drill) and drill.blockers == ()
    assert summarize(drill)[0] == "A failover now would move every group to its exact position."
    digests = session.store.read_digests(drill)
    assert verify_report(drill, digests) == [], "the report is as its last event says"


def test_an_aborted_drill_that_cannot_be_signed_says_so(signing: Signing) -> None:
    session = session_of(replace(signing, key=ConfigError("no key")))
    end_drill(session, DrillStatus.ABORTED)
    (finding,) = session.drill.blockers
    assert finding.startswith("the report was not signed: no key; correct it")


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
