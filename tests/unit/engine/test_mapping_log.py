"""A track against a brute-force model: random logs with gaps, aborts, restarts, rewinds, losses."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from random import Random

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from k2ktui.engine.mapping.log import MappingChunk, MappingLog
from k2ktui.engine.mapping.range_columns import RangeColumns
from k2ktui.engine.mapping.ranges import NOT_FOUND, MappingRanges
from k2ktui.engine.mapping.replica import TargetLog, make_replica
from k2ktui.engine.mapping.translate import Basis, translate
from k2ktui.engine.records.state import Covers, Position, SourcePartition
from tests.support.schedule.examples import examples

Target = tuple[str, int]
Landed = dict[int, tuple[Target, int]]
TARGETS = [("copy", number) for number in range(3)]


@dataclass
class Log:
    """Mapping records of one source partition, as a writer would have left them.

    Attributes:
        written: all of them.
        pieces: those that can still be read.
    """

    random: Random
    lanes: int = 1
    lost: float = 0.0
    rewinds: float = 0.1
    repeats: float = 0.0
    pieces: list[MappingChunk] = field(default_factory=list)
    written: list[MappingChunk] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.term, self.position, self._next, self._at = 1, 0, 0, 1_000
        self.ends = dict.fromkeys(TARGETS, 100)
        self._alive: dict[int, bool] = {}  # a rewind copies the same records again

    def grow(self, steps: int) -> Log:
        chance = self.random.random
        for _ in range(steps):
            self._at += self.random.randint(0, 200_000)
            if chance() < 0.1:
                self.term += 1
            if chance() < self.rewinds:
                self.term += 1
                self.position = self.random.randint(0, self.position)
            self._transact()
            if chance() < self.repeats:
                self._repeat()
        return self

    def _transact(self) -> None:
        first, landed = self.position, dict[Target, list[tuple[int, int]]]()
        self.position += self.random.randint(1, 8)
        for source in range(first, self.position):
            # Others are compacted away, aborted, a marker.
            if self._alive.setdefault(source, self.random.random() < 0.7):
                target = self.random.choice(TARGETS[: self.lanes])
                landed.setdefault(target, []).append((source, self.ends[target]))
                self.ends[target] += 1
        self.ends = {target: end + 1 for target, end in self.ends.items()}  # the commit marker
        self._write(first, self.position, landed, again=False)

    def copies(self) -> Iterable[tuple[int, tuple[Target, int]]]:
        """Yield where each record landed, each time that it was copied."""
        for piece in self.written:
            for s, t in zip(piece.columns.source, piece.columns.target, strict=True):
                yield int(s), (piece.target, int(t))

    def _repeat(self) -> None:
        whole, known = model(self.pieces)
        end = 0
        while end in known:
            end += 1
        if not end:
            return
        low = self.random.randrange(end)
        high = self.random.randint(low + 1, end)
        landed: dict[Target, list[tuple[int, int]]] = {}
        for source, (target, at) in sorted(whole.items()):
            if low <= source < high:
                landed.setdefault(target, []).append((source, at))
        self._write(low, high, landed, again=True)

    def _write(
        self, first: int, end: int, landed: dict[Target, list[tuple[int, int]]], again: bool
    ) -> None:
        cut = self.random.random() < 0.2
        parts = [
            (target, part)
            for target, pairs in landed.items()
            for part in ([pairs[::2], pairs[1::2]] if cut else [pairs])
            if part
        ] or [(TARGETS[0], [])]
        made = [
            MappingChunk(
                self.term,
                0,
                0,
                self._at,
                0,
                Covers(first, end, number, len(parts)),
                target,
                RangeColumns(
                    np.array([s for s, _ in pairs], dtype=np.int64),
                    np.array([t for _, t in pairs], dtype=np.int64),
                    np.ones(len(pairs), dtype=np.int64),
                ),
                again,
            )
            for number, (target, pairs) in enumerate(parts)
        ]
        self.random.shuffle(made)
        for piece in made:
            placed = replace(piece, offset=self._next, last=self._next)
            self.written.append(placed)
            if self.random.random() >= self.lost:
                self.pieces.append(placed)
            self._next += 1


def model(pieces: Iterable[MappingChunk]) -> tuple[Landed, set[int]]:
    """What complete sets of records say, in the order of their terms and of the log."""
    whole: Landed = {}
    known: set[int] = set()
    sets: dict[tuple[int, bool, int, int], list[MappingChunk]] = {}
    done: list[list[MappingChunk]] = []
    for piece in sorted(pieces, key=lambda p: (p.term, p.offset)):
        key = (piece.term, piece.again, piece.covers.first, piece.covers.end)
        pieces_of = sets.setdefault(key, [])
        pieces_of.append(piece)
        if len(pieces_of) == piece.covers.parts:
            done.append(sets.pop(key))
    for parts in done:
        covers = parts[0].covers
        new = {
            int(s): (part.target, int(t))
            for part in parts
            for s, t in zip(part.columns.source, part.columns.target, strict=True)
        }
        decided = set(range(covers.first, covers.end))
        if parts[0].again:
            whole |= {s: at for s, at in new.items() if s not in known}
        else:
            known = {s for s in known if s < covers.first}
            whole = {s: at for s, at in whole.items() if s < covers.first} | new
        known |= decided
    return whole, known


def of(lanes: dict[Target, MappingRanges]) -> Landed:
    landed: Landed = {}
    for target, ranges in lanes.items():
        columns = ranges.columns()
        for s, t, n in zip(columns.source, columns.target, columns.count, strict=True):
            landed |= {int(s) + i: (target, int(t) + i) for i in range(int(n))}
    return landed


def decided(track: MappingLog) -> set[int]:
    return {offset for low, high in track.known.all() for offset in range(low, high)}


def taken(pieces: Iterable[MappingChunk]) -> MappingLog:
    track = MappingLog()
    for piece in pieces:
        track.take(piece)
    return track


def reach(track: MappingLog, pieces: Sequence[MappingChunk], low: int) -> None:
    """Read the stretch again that has what is not in memory, as the store does."""
    older = MappingLog(track.since, track.rewinds)
    for number, index in track.index.items():
        begin, stop = index.stretch(low, track.hot_from)
        for piece in pieces:
            mine = piece.partition == number and piece.offset >= begin
            if mine and (stop is None or piece.offset < stop):
                older.take(piece)
    track.refill(older, low)


logs = st.builds(
    Log,
    st.integers(0, 2**32).map(Random),
    lanes=st.integers(1, 3),
    lost=st.sampled_from([0.0, 0.0, 0.1]),
    rewinds=st.sampled_from([0.0, 0.1]),
    repeats=st.sampled_from([0.0, 0.1]),
)


@settings(deadline=None)
@given(logs, st.integers(1, 60))
def test_the_track_is_the_model(log: Log, steps: int) -> None:
    track = taken(log.grow(steps).pieces)
    whole, known = model(log.pieces)
    assert of(track.target_ranges) == whole
    assert decided(track) == known
    if not log.lost:
        assert known == set(range(log.position))


@settings(deadline=None)
@given(logs, st.integers(1, 60), st.integers(0, 60))
def test_what_the_topic_has_lost_is_unknown_and_the_rest_as_it_was(
    log: Log, steps: int, gone: int
) -> None:
    kept = log.grow(steps).pieces[gone:]
    track = taken(kept)
    assert (of(track.target_ranges), decided(track)) == model(kept)


@settings(deadline=None)
@given(logs, st.integers(1, 40), st.integers(1, 40), st.integers(0, 3))
def test_another_partition_from_some_run_on_changes_nothing(
    log: Log, before: int, after: int, seed: int
) -> None:
    """Partitions are read in any order; each run writes to one."""
    log.grow(before)
    log.term += 1
    begun = log.term
    log.grow(after)
    pieces = [replace(p, partition=int(p.term >= begun)) for p in log.pieces]
    old, new = ([p for p in pieces if p.partition == n] for n in (0, 1))
    order = list(old), list(new)
    mixed, random = [], Random(seed)
    while order[0] or order[1]:
        mixed.append(
            (order[0] or order[1] if random.random() < 0.5 else order[1] or order[0]).pop(0)
        )
    expected = model(pieces)
    for arranged in (old + new, new + old, mixed):
        track = taken(arranged)
        assert (of(track.target_ranges), decided(track)) == expected


@settings(deadline=None, max_examples=examples(50))
@given(logs, st.lists(st.tuples(st.integers(1, 12), st.integers(1, 15)), min_size=1, max_size=4))
def test_bounds_change_no_answer(log: Log, rounds: list[tuple[int, int]]) -> None:
    track, read = MappingLog(), 0
    for steps, count in rounds:
        log.grow(steps)
        for piece in log.pieces[read:]:
            track.take(piece)
            track.trim(count)
        read = len(log.pieces)
        track.trim(count)
        assert track.rows <= count + len(track.target_ranges)
        whole, known = model(log.pieces)
        assert decided(track) == known
        if track.needs_refill:
            reach(track, log.pieces, 0)
        everything = taken(log.pieces)
        for target, lane in everything.target_ranges.items():
            if len(lane):
                assert track.target_ranges[target].target_end == lane.target_end
        low = log.random.randint(0, log.position)
        if low < track.hot_from:
            reach(track, log.pieces, low)
        held = {s: at for s, at in of(track.target_ranges).items() if s >= low}
        assert held == {s: at for s, at in whole.items() if s >= low}
        offsets = np.arange(low, log.position + 3)
        for target, lane in everything.target_ranges.items():
            if len(lane):
                assert track.target_ranges[target].translate(offsets).tolist() == (
                    lane.translate(offsets).tolist()
                )


@settings(deadline=None)
@given(logs, st.integers(1, 60))
def test_translations_are_monotone_and_the_way_back_is_their_inverse(log: Log, steps: int) -> None:
    for ranges in taken(log.grow(steps).pieces).target_ranges.values():
        translated = ranges.translate(np.arange(log.position))
        translated = translated[translated != NOT_FOUND]
        assert (np.diff(translated) >= 0).all()
        sources = np.array(sorted(of({TARGETS[0]: ranges})), dtype=np.int64)
        assert ranges.back(ranges.translate(sources)).tolist() == sources.tolist()


@settings(deadline=None)
@given(logs, st.integers(1, 40), st.integers(0, 5))
def test_mappings_of_an_earlier_source_log_do_not_count(log: Log, steps: int, since: int) -> None:
    track = MappingLog(since)
    for piece in log.grow(steps).pieces:
        track.take(piece)
    assert (of(track.target_ranges), decided(track)) == model(
        p for p in log.pieces if p.term >= since
    )


@settings(deadline=None)
@given(logs, st.integers(1, 60), st.integers(0, 100), st.integers(0, 100))
def test_what_only_old_records_tell(log: Log, steps: int, old: int, low: int) -> None:
    track = taken(log.grow(steps).pieces)
    spans = track.only_before({0: old}, low)
    repeated = {offset for a, b in spans for offset in range(a, b)}
    _, known = model(log.pieces)
    _, still = model(p for p in log.pieces if p.offset >= old)
    # Everything that would be lost with the old records, perhaps a little more.
    assert {offset for offset in known - still if offset >= low} <= repeated
    assert repeated <= {offset for offset in known if offset >= low}


@settings(deadline=None, max_examples=examples(50))
@given(logs, st.integers(1, 40), st.integers(0, 20))
def test_nothing_is_skipped_whatever_is_lost(log: Log, steps: int, gone: int) -> None:
    """What cannot be known is unmapped; what is given is the first unread record, or before it."""
    kept = log.grow(steps).pieces[gone:]
    track = taken(kept)
    position = Position(
        log.position, 0, 0, "id", log.term, 0, "copy", 0 if log.lanes == 1 else None
    )
    replica = replace(
        make_replica(position, track.known.all(), unread=False), target_ranges=track.target_ranges
    )
    source = SourcePartition("s", 0)
    targets = {target: TargetLog(0, end) for target, end in log.ends.items()}
    whole = not log.lost and not gone
    truth, _ = model(log.written)
    copies = list(log.copies())
    for offset in range(log.position + 1):
        rows = list(translate({source: replica}, {source: offset}, targets))
        if not rows or any(row.basis is Basis.UNMAPPED for row in rows):
            assert not whole or not rows
            continue  # nothing is written then
        read = {row.target: row.offset or 0 for row in rows}
        # What landed only where no surviving record names it gets no row, so nothing is claimed.
        unread = {s for s, (at, _) in truth.items() if offset <= s < log.position and at in read}
        assert unread <= {s for s, (at, t) in copies if t >= read.get(at, t + 1)}
        assert not any(row.skipped for row in rows)
        if log.rewinds:
            continue  # the old copies of what was copied twice are not counted
        for row in rows:
            again = {
                s for s, (at, t) in copies if at == row.target and t >= read[at] and s < offset
            }
            assert len(again) <= (row.reread or 0)
