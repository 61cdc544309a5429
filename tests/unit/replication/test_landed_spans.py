"""Which target offsets a slot may claim as its own, against a log that others write to as well."""

from __future__ import annotations

from dataclasses import dataclass, field

from hypothesis import given, settings
from hypothesis import strategies as st

from k2ktui.engine.records.state import Landed, Position
from k2ktui.replication.copying.landed_spans import LandedSpans
from tests.support.schedule.examples import examples

TARGET = ("t", 0)
OURS, MARKER, OTHERS, ABORTED = "ours", "marker", "others", "aborted"


@dataclass
class Log:
    """What a target partition holds, and the laps of one slot that write to it."""

    transactional: bool = True
    entries: list[str] = field(default_factory=list)
    position: Position = field(default_factory=lambda: Position(0, 0, -1, "", 1, 0, "t", 0))

    def lap(self, commits: list[list[int]], *, aborted: int, rival_after: int) -> None:
        """Write transactions of batches; another program writes after some, the last one fails."""
        spans = LandedSpans([self.position], transactional=self.transactional)
        for number, batches in enumerate(commits):
            for size in batches:
                spans.add(TARGET, len(self.entries), size)
                self.entries += [OURS] * size
            # Another transaction's record may come before the marker.
            self.entries += [OTHERS] * (number == rival_after)
            self.position = replace_landed(self.position, spans)
            if self.transactional and batches:
                self.entries += [MARKER]
            spans.mark_committed()
        if aborted:
            spans.add(TARGET, len(self.entries), aborted)
            self.entries += [ABORTED] * aborted + [MARKER] * self.transactional


def replace_landed(position: Position, spans: LandedSpans) -> Position:
    landed = spans.of([TARGET])
    return Position(position.offset + 1, 0, -1, "", 1, 0, "t", 0, landed=landed)


laps = st.tuples(
    st.lists(st.lists(st.integers(1, 3), max_size=3), max_size=4),
    st.integers(0, 2),
    st.integers(-1, 3),
    st.booleans(),
)


@given(st.lists(laps, max_size=5))
@settings(max_examples=examples(300))
def test_only_own_records_and_markers_are_claimed(
    runs: list[tuple[list[list[int]], int, int, bool]],
) -> None:
    log = Log()
    for commits, aborted, rival_after, transactional in runs:
        log.transactional = transactional
        log.lap(commits, aborted=aborted, rival_after=rival_after)
        for landed in log.position.landed:
            claimed = log.entries[landed.first : landed.end]
            assert set(claimed) <= {OURS, MARKER}
            ours = [at for at, entry in enumerate(log.entries) if entry == OURS]
            assert landed.end == (ours[-1] + 1 if ours else 0)


def test_laps_that_nobody_disturbs_are_one_span() -> None:
    log = Log()
    for _ in range(3):
        log.lap([[2, 1], [], [3]], aborted=0, rival_after=-1)
    assert log.position.landed == (Landed("t", 0, 0, 3 * 8 - 1),)


def test_an_aborted_attempt_begins_a_new_span() -> None:
    """Its offsets are in no acknowledgment that counts: whose they are is not known later."""
    log = Log()
    log.lap([[2]], aborted=5, rival_after=-1)
    assert log.position.landed == (Landed("t", 0, 0, 2),)
    log.lap([[2]], aborted=0, rival_after=-1)
    assert log.position.landed == (Landed("t", 0, 9, 11),)


def test_without_transactions_only_the_end_is_known() -> None:
    log = Log(transactional=False)
    log.lap([[2], [3]], aborted=0, rival_after=-1)
    assert log.position.landed == (Landed("t", 0, 5, 5),)
    log.transactional = True
    log.entries += [OTHERS]
    log.lap([[1]], aborted=0, rival_after=-1)
    assert log.position.landed == (Landed("t", 0, 6, 7),)


def test_partitions_of_a_slot_that_share_a_target_share_its_span() -> None:
    one, other = (
        Position(0, 0, -1, "", 1, 0, "t", 0, landed=(Landed("t", 0, first, 10),))
        for first in (4, 2)
    )
    spans = LandedSpans([one, other], transactional=True)
    spans.add(TARGET, 11, 5)
    assert spans.of([TARGET, ("t", 1)]) == (Landed("t", 0, 2, 16),)
    assert spans.ends == {TARGET: 16}
