"""Processes that begin or take over drills at the same moment, on a real cluster."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from k2ktui.drill.operations import abort_drill, resume_drill
from k2ktui.drill.ownership import Actor
from k2ktui.drill.store import DrillStore, make_event
from k2ktui.engine.drill.checks import DrillKind, DrillPhase
from k2ktui.engine.drill.model import DrillStatus
from k2ktui.engine.moves.journal import JournalKey
from k2ktui.errors import K2kError, Refused
from k2ktui.kafka.clients import target_cluster
from k2ktui.runtime.node import KafkaNode
from k2ktui.sync.operations import read_journal
from k2ktui.sync.store import StateStore
from tests.support.clusters.kafka import TIMEOUT
from tests.support.drill.runs import MAY, Pair, Yes

pytestmark = pytest.mark.slow


@pytest.fixture
def pair(tmp_path: Path, source: KafkaNode, target: KafkaNode) -> Pair:
    return Pair(tmp_path, source, target)


def test_two_drills_that_begin_at_once_are_not_both_open(
    pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both have looked for open drills before either of them has begun."""
    together = threading.Barrier(2, timeout=TIMEOUT)
    own = DrillStore.own

    def own_together(self: DrillStore, drill_id: str) -> None:
        own(self, drill_id)
        together.wait()

    monkeypatch.setattr(DrillStore, "own", own_together)
    errors: list[K2kError] = []

    def begin() -> None:
        try:
            pair.start(DrillKind.PLANNED, operator=Yes(frozenset({DrillPhase.APPLY})))
        except K2kError as error:
            errors.append(error)

    threads = [threading.Thread(target=begin, daemon=True) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(2 * TIMEOUT)
    assert len([drill for drill in pair.drills() if not drill.is_over]) == 1
    refused = [error for error in errors if "not confirmed" not in error.message]
    assert len(errors) == 2 and len(refused) == 1, errors
    assert "No drill was begun." in refused[0].unchanged


def test_what_the_former_owner_wrote_last_is_kept(
    pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It writes after its record was read, and before it is fenced."""
    with pytest.raises(Refused, match="not confirmed"):
        pair.start(DrillKind.PLANNED, operator=Yes(frozenset({DrillPhase.APPLY})))
    (drill,) = pair.drills()
    former = DrillStore(pair.flow.config, target_cluster(pair.flow.config))
    former.own(drill.id)

    def write_late(self: DrillStore, drill_id: str) -> None:
        monkeypatch.undo()
        former.write(drill, [make_event(1, "ann@a", DrillPhase.APPLY, "the last words")])
        self.own(drill_id)

    monkeypatch.setattr(DrillStore, "own", write_late)
    aborted = abort_drill(Actor(pair.flow, [str(pair.file)], MAY, Yes()), drill.id)
    former.close()
    assert "the last words" in [event.text for event in aborted.events]


def test_a_drill_that_ended_meanwhile_is_not_continued(
    pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(Refused, match="not confirmed"):
        pair.start(DrillKind.PLANNED, operator=Yes(frozenset({DrillPhase.APPLY})))
    (drill,) = pair.drills()

    def end_first(self: DrillStore, drill_id: str) -> None:
        monkeypatch.undo()
        abort_drill(Actor(pair.flow, [str(pair.file)], MAY, Yes()), drill.id)
        self.own(drill_id)

    monkeypatch.setattr(DrillStore, "own", end_first)
    with pytest.raises(Refused, match="is aborted"):
        resume_drill(Actor(pair.flow, [str(pair.file)], MAY, Yes()), drill.id)
    (after,) = pair.drills()
    assert after.status is DrillStatus.ABORTED


def test_an_abort_says_that_the_journal_entry_is_gone(pair: Pair) -> None:
    with pytest.raises(Refused, match="not confirmed"):
        pair.start(DrillKind.PLANNED, operator=Yes(frozenset({DrillPhase.FENCE_REPLICATOR})))
    (drill,) = pair.drills()
    config = pair.flow.config
    (entry,) = [header for header in read_journal(config) if header.operation == "apply"]
    store = StateStore(config, target_cluster(config))
    gone = [JournalKey(entry.id, group) for group in ("", *pair.groups)]
    store.put([], gone)
    store.close()
    aborted = abort_drill(Actor(pair.flow, [str(pair.file)], MAY, Yes()), drill.id)
    assert aborted.status is DrillStatus.ABORTED
    (text,) = [blocker for blocker in aborted.blockers if "journal entry" in blocker]
    assert f"of plan {drill.plans[-1]} is gone" in text
    assert pair.groups[0] in text
    assert pair.target_offsets(pair.groups[0]) == pair.expected_offsets(0)
