"""A drill of 675e1d1f that has fenced producers by quotas: its record has those before.

No drill lowers quotas any more. Without what is tested here, producers would stay at 1 byte/s.
"""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from k2ktui.drill.changes import source as source_changes
from k2ktui.drill.changes.handlers import HANDLERS, restore
from k2ktui.drill.peers import ALONE
from k2ktui.drill.phases import source
from k2ktui.drill.previews import preview_abort, preview_resume
from k2ktui.drill.report import make_report, render_text
from k2ktui.drill.session import Session
from k2ktui.engine.drill.changes import EVERYONE, describe_undo
from k2ktui.engine.drill.checks import DrillPhase
from k2ktui.engine.drill.format import drill_body, read_drill
from k2ktui.engine.drill.model import ChangeKind, ChangeStatus, Drill, DrillStatus, Fence
from k2ktui.engine.drill.pair_state import find_displaced
from k2ktui.engine.drill.steps import changes_to_restore, describe_phase_of, needs_confirmation
from k2ktui.kafka.admin.quotas import Quota
from k2ktui.present.drills import describe_task

RECORD = Path(__file__).with_name("fenced_by_quota.json").read_text()
ANN = (("user", "ann"),)
LOW = [Quota(EVERYONE, 1.0), Quota(ANN, 1.0)]


def recorded() -> Drill:
    return read_drill("20261130-100000-ab12", json.loads(RECORD))


def session_of(drill: Drill) -> Session:
    fake = SimpleNamespace(drill=drill, source=None, peers=ALONE, open_logs=Closed)
    return cast(Session, fake)


def test_its_record_is_read_and_written_as_it_was() -> None:
    drill = recorded()
    assert drill.options.fence is Fence.QUOTA
    assert json.dumps(drill_body(drill)) == RECORD.strip()
    (change,) = drill.changes
    assert describe_undo(drill, change.kind) == change.undo
    shown = "\n".join(render_text(make_report(drill)))
    assert "set the producer quotas of the source to 1 byte per second: made" in shown


# A process that was killed after it lowered them has left the change intended.
@pytest.mark.parametrize("status", [ChangeStatus.MADE, ChangeStatus.INTENDED])
def test_an_abort_restores_the_quotas_before(
    status: ChangeStatus, monkeypatch: pytest.MonkeyPatch
) -> None:
    drill = recorded()
    session = session_of(replace(drill, changes=(replace(drill.changes[0], status=status),)))
    written: list[Quota] = []
    monkeypatch.setattr(source_changes, "producer_quotas", lambda _: LOW)
    monkeypatch.setattr(
        source_changes, "set_producer_quotas", lambda _, quotas: written.extend(quotas)
    )
    assert preview_abort(session) == [
        "producer quota of client-id default, user default on the source: 1 bytes/s → none",
        "producer quota of user ann on the source: 1 bytes/s → 5000 bytes/s",
    ]
    (change,) = changes_to_restore(session.drill)
    assert restore(session, change) == []
    assert written == [Quota(EVERYONE, None), Quota(ANN, 5000.0)]


def test_a_resume_lowers_nothing_and_proves_the_fence(monkeypatch: pytest.MonkeyPatch) -> None:
    drill = recorded()
    phase = DrillPhase.FENCE_PRODUCERS
    waiting = drill.with_phase(replace(drill.record(phase), status=drill.phases[-1].status))
    assert not any("quota" in line for line in preview_resume(session_of(waiting)))
    assert not needs_confirmation(phase, Fence.QUOTA)
    assert describe_task(waiting) == "Stop the producers on the source."
    assert "stop the producers by hand" in describe_phase_of(waiting, phase)
    monkeypatch.setattr(source, "_prove_frozen", lambda *_: "proven")
    assert cast(Any, source.run_fence_producers(session_of(waiting))) == "proven"


class Closed:
    """Logs that nothing asks for."""

    def close(self) -> None:
        """Do nothing."""


def test_a_failback_finds_the_quotas_in_force(monkeypatch: pytest.MonkeyPatch) -> None:
    session = cast(Session, SimpleNamespace(target=None))
    quotas = HANDLERS[ChangeKind.QUOTAS]
    monkeypatch.setattr(source_changes, "producer_quotas", lambda _: LOW)
    assert quotas.blocks_return(session)
    monkeypatch.setattr(source_changes, "producer_quotas", lambda _: [Quota(ANN, 5000.0)])
    assert not quotas.blocks_return(session)


def test_its_record_stays_while_the_quotas_are_lowered() -> None:
    ended = replace(recorded(), status=DrillStatus.DONE)
    intended = replace(ended.changes[0], status=ChangeStatus.INTENDED)
    restored = replace(ended.changes[0], status=ChangeStatus.UNDONE)
    newer = replace(ended, id="20261130-110000-ab12", changes=())
    assert find_displaced([ended, newer], 0) == [newer]
    assert find_displaced([replace(ended, changes=(intended,)), newer], 0) == [newer]
    taken_back = replace(ended, changes=(restored,))
    assert find_displaced([taken_back, newer], 0) == [newer, taken_back]
