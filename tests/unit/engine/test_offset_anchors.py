"""Cuts against a brute-force model of a copy of which only some records are known."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from k2ktui.engine.mapping.anchors import OffsetAnchor, OffsetAnchors
from k2ktui.engine.mapping.replica import Replica, TargetLog
from k2ktui.engine.mapping.translate import Basis, Translation, translate
from k2ktui.engine.records.state import Position, SourcePartition

SOURCE, TARGET = SourcePartition("t", 0), ("A.t", 0)


def translated(
    anchors: OffsetAnchors, committed: int, position: int, end: int, start: int = 0
) -> Translation:
    replica = Replica(Position(position, 0, -1, "", 0, -1, *TARGET), anchors=anchors)
    log = TargetLog(start, end)
    (row,) = translate({SOURCE: replica}, {SOURCE: committed}, {TARGET: log})
    return row


@settings(deadline=None)
@given(
    st.lists(st.tuples(st.integers(1, 4), st.integers(1, 3), st.booleans()), min_size=1),
    st.integers(0, 150),
    st.integers(0, 150),
)
def test_nothing_is_skipped_and_the_bound_holds(
    steps: list[tuple[int, int, bool]], committed: int, proven: int
) -> None:
    """Gaps on both sides, some records known, one cut proven anywhere."""
    pairs, anchors = [], OffsetAnchors()
    source = target = 5
    for forward, landing, is_known in steps:
        source, target = source + forward, target + landing
        pairs.append((source, target))
        if is_known:
            anchors.add_record(source, target)

    def right(offset: int) -> int:
        return next((t for s, t in pairs if s >= offset), target + 1)

    cut = OffsetAnchor(proven, right(proven))
    assert anchors.prove(cut)
    row = translated(anchors, committed, source + 1, target + 1)
    assert row.offset is not None and row.offset <= right(committed)
    again = sum(1 for s, t in pairs if s < committed and t >= row.offset)
    assert row.reread is not None and again <= row.reread and row.skipped == 0
    known = {s for (s, _), (_, _, is_known) in zip(pairs, steps, strict=True) if is_known}
    if committed == proven or committed in known:
        assert row.basis is Basis.EXACT and again == 0


def test_a_source_copied_again_holds_from_there_on() -> None:
    """After a rewind of the copying the later copy counts; before it, the earlier one."""
    anchors = OffsetAnchors()
    for source, target in ((0, 0), (100, 100), (200, 200), (150, 260)):
        anchors.add_record(source, target)
    known = [(0, 0), (1, 1), (100, 100), (101, 101), (150, 260), (151, 261)]
    assert list(anchors) == [OffsetAnchor(*pair) for pair in known]
    assert translated(anchors, 120, 300, 500).offset == 101


def test_a_target_created_again_forgets_all() -> None:
    """A record that landed earlier than one before it is in another log."""
    anchors = OffsetAnchors()
    anchors.add_record(100, 100)
    anchors.add_record(200, 7)
    assert list(anchors) == [OffsetAnchor(200, 7), OffsetAnchor(201, 8)]
    anchors.add_record(200, 7)
    assert len(anchors) == 2


def test_what_is_proven_stays_unless_it_contradicts() -> None:
    """A proof ahead of the last known record outlives the next one, not a rewind."""
    anchors = OffsetAnchors()
    anchors.add_record(10, 10)
    assert (
        anchors.prove(OffsetAnchor(50, 40))
        and not anchors.prove(OffsetAnchor(50, 39))
        and not anchors.prove(OffsetAnchor(60, 39))
    )
    assert not anchors.prove(OffsetAnchor(5, 11))
    anchors.add_record(30, 30)
    assert OffsetAnchor(50, 40) in list(anchors)
    anchors.add_record(40, 60)
    assert OffsetAnchor(50, 40) not in list(anchors)


def test_bases_at_the_borders() -> None:
    """Before the first, past the position, nothing known, retention on the target."""
    anchors = OffsetAnchors()
    assert translated(anchors, 5, 10, 10).basis is Basis.UNMAPPED
    anchors.add_record(100, 50)
    before = translated(anchors, 20, 101, 60, start=10)
    assert (before.basis, before.offset, before.reread) == (Basis.BOUNDED, 10, 40)
    ahead = translated(anchors, 105, 101, 60)
    assert (ahead.basis, ahead.offset, ahead.reread) == (Basis.AHEAD, 51, 4)
    assert translated(anchors, 101, 101, 60).basis is Basis.EXACT
    assert translated(anchors, 103, 110, 60).basis is Basis.BOUNDED
    assert translated(anchors, 101, 101, 90, start=70).offset == 70


def test_old_cuts_are_thinned_and_stay_true() -> None:
    """No more are held than wanted, the oldest among them, and nothing is ever skipped."""
    anchors = OffsetAnchors(most=100)
    assert anchors.prove(OffsetAnchor(0, 0))
    for number in range(1, 1001):
        anchors.add_record(100 * number, 90 * number)
    assert len(anchors) <= 100 and next(iter(anchors)) == OffsetAnchor(0, 0)
    assert translated(anchors, 100_000, 100_001, 90_001).basis is Basis.EXACT
    for number in range(89):
        assert anchors.prove(OffsetAnchor(99_901 + number, 89_911 + number))
    assert len(anchors) <= 100
    for committed in range(0, 99_000, 777):
        row = translated(anchors, committed, 100_001, 90_001)
        assert row.offset is not None and row.offset <= 90 * -(-committed // 100)
