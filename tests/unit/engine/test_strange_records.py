"""Records that no registered pipeline wrote are told apart, against a log that others write to."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np
import pytest
from confluent_kafka import TIMESTAMP_CREATE_TIME, Message
from hypothesis import example, given, settings
from hypothesis import strategies as st

from k2ktui.engine.mapping.log import MappingLog
from k2ktui.engine.mapping.ranges import MappingRanges
from k2ktui.engine.mapping.replica import Replica
from k2ktui.engine.mapping.strange_records import (
    NOT_MAPPED,
    NOTHING_COPIED,
    PARTLY_MAPPED,
    CopyLog,
    OtherWriters,
    StrangeRecords,
    WrittenBatch,
    find_unnamed,
)
from k2ktui.engine.records.state import (
    Covers,
    Landed,
    MappingRecord,
    Position,
    SourcePartition,
    mapping_key,
    mapping_value,
)
from k2ktui.replication.copying.landed_spans import LandedSpans
from k2ktui.replication.copying.range_builder import RangeBuilder
from k2ktui.sync.mapping.parse import MappingDecoder
from tests.support.schedule.examples import examples

TARGET = ("t", 0)
OTHER_PIPELINE, STRANGER, MARKER, GONE = 50, 7, -2, -3
REGISTERED = frozenset({OTHER_PIPELINE, *range(1000, 2000)})


@dataclass
class Entry:
    """One offset: who wrote it; ``open`` until its transaction has ended, then aborted or not."""

    writer: int
    open: bool = False
    aborted: bool = False


@dataclass
class Log:
    """A target partition that a slot and others write to, and who watches it.

    ``landed`` is what the commit topic says: a view may have read it a moment earlier (``older``).
    """

    entries: list[Entry] = field(default_factory=list)
    landed: Landed | None = None
    older: Landed | None = None
    producer: int = 1000
    spans: LandedSpans = field(default_factory=lambda: LandedSpans([], transactional=True))
    mapped: list[tuple[int, int]] = field(default_factory=list)
    mappings: list[MappingRecord] = field(default_factory=list)
    copy: CopyLog = field(default_factory=CopyLog)
    unended: bool = False
    reads: int = 0

    def write(self, writer: int, count: int, *, is_open: bool = False) -> int:
        self.entries += [Entry(writer, is_open) for _ in range(count)]
        return len(self.entries) - count

    def mine(self) -> list[int]:
        """The offsets that the slot's open transaction has written."""
        return [at for at, e in enumerate(self.entries) if e.open and e.writer == self.producer]

    def copies(self, count: int) -> None:
        self.ends()
        self.spans.add(TARGET, self.write(self.producer, count, is_open=True), count)

    def commits(self) -> None:
        """The position is there; the marker follows."""
        if not self.unended and self.mine():
            self.older, (self.landed,) = self.landed, self.spans.of([TARGET])
            self.map(self.mine())
            self.spans.mark_committed()
            self.unended = True

    def map(self, targets: list[int]) -> None:
        """A transaction's mapping record, as it is written."""
        ranges, first = RangeBuilder(), len(self.mapped)
        self.mapped += [(at, at + 1) for at in targets]
        for number, at in enumerate(targets, first):
            ranges.add_range(number, at, 1)
        template = MappingRecord("p", SourcePartition("s", 0), *TARGET, 1)
        covers = Covers(first, len(self.mapped))
        self.mappings += [replace(one, covers=covers) for one in ranges.mappings(template)]

    def ends(self) -> None:
        """The marker of a committed transaction."""
        if self.unended:
            self.end(self.producer, aborted=False)
            self.unended = False

    def end(self, writer: int, *, aborted: bool) -> None:
        its = [entry for entry in self.entries if entry.open and entry.writer == writer]
        for entry in its:
            entry.open, entry.aborted = False, aborted
        if its:
            self.write(MARKER, 1)

    def fails(self, *, renewed: bool) -> None:
        """An attempt is aborted, and the slot begins anew, perhaps with another producer id."""
        self.ends()
        self.end(self.producer, aborted=True)
        position = Position(
            0, 0, -1, "", 1, 0, *TARGET, landed=(self.landed,) if self.landed else ()
        )
        self.spans = LandedSpans([position], transactional=True)
        self.producer += renewed

    def moves_back(self) -> None:
        self.fails(renewed=False)
        if self.landed is not None:
            self.landed = self.older = replace(self.landed, first=self.landed.end)
            position = Position(0, 0, -1, "", 1, 0, *TARGET, landed=(self.landed,))
            self.spans = LandedSpans([position], transactional=True)

    def compacts(self, seed: int) -> None:
        for at in range(seed, self.stable - 1, 3):
            self.entries[at].writer = GONE

    @property
    def stable(self) -> int:
        return next((at for at, e in enumerate(self.entries) if e.open), len(self.entries))

    def strange(self, low: int = 0) -> set[int]:
        return {
            at
            for at in range(low, self.stable)
            if self.entries[at].writer in (STRANGER, -1) and not self.entries[at].aborted
        }

    def look(self, *, late: bool) -> None:
        """Read as a view does: what is not explained, by the headers of committed batches."""
        self.copy.see(self.older if late and self.older else self.landed, self.stable)
        for low, high in self.copy.gaps:
            self.reads += high - low
        self.read()

    def read(self) -> None:
        batches = [
            WrittenBatch(at, at + 1, self.entries[at].writer, 1)
            for low, high in self.copy.gaps
            for at in range(low, high)
            if self.entries[at].writer not in (MARKER, GONE) and not self.entries[at].aborted
        ]
        self.copy.learn(batches, REGISTERED, ())

    def look_as_a_new_process(self) -> set[int]:
        """Read once, with the mapping; return what is found."""
        self.copy = CopyLog()
        self.copy.see(self.landed, self.stable)
        if self.landed is not None and self.copy.known_from is not None:
            unnamed = find_unnamed(read_mapping(self.mappings), TARGET, self.copy.known_from)
            if unnamed is not None:
                self.copy.look_back(*unnamed)
        self.read()
        return self.found

    @property
    def found(self) -> set[int]:
        return {at for one in self.copy._strange for at in range(one.first, one.end)}  # noqa: SLF001


steps = st.one_of(
    st.tuples(st.just("copies"), st.integers(1, 3)),
    st.tuples(
        st.sampled_from(["commits", "ends", "strange-commits", "strange-aborts"]), st.just(0)
    ),
    st.tuples(st.sampled_from(["strange", "strange-opens", "other"]), st.integers(1, 2)),
    st.tuples(st.sampled_from(["fails", "renews", "moves", "compacts"]), st.integers(0, 2)),
    st.tuples(st.sampled_from(["looks", "looks late"]), st.just(0)),
)


def act(log: Log, what: str, count: int) -> None:
    match what:
        case "copies":
            log.copies(count)
        case "commits":
            log.commits()
        case "ends":
            log.ends()
        case "strange":
            log.write(-1, count)
        case "strange-opens":
            log.write(STRANGER, count, is_open=True)
        case "strange-commits" | "strange-aborts":
            log.end(STRANGER, aborted=what == "strange-aborts")
        case "other":
            log.write(OTHER_PIPELINE, count)
        case "fails" | "renews":
            log.fails(renewed=what == "renews")
        case "moves":
            log.moves_back()
        case "compacts":
            log.compacts(count)
        case _:
            log.look(late=what == "looks late")


@given(st.lists(steps, max_size=40))
@settings(max_examples=examples(500))
def test_what_is_found_is_what_is_there(done: list[tuple[str, int]]) -> None:
    log = Log()
    ever: set[int] = set()
    for what, count in done:
        act(log, what, count)
        ever |= log.strange()
        assert log.found <= ever, "an alarm without a strange record"
        if what.startswith("looks"):
            assert log.copy.known_from is not None
            assert log.strange(log.copy.known_from) <= log.found


@given(st.lists(steps, max_size=40))
@example([*[("copies", 1), ("strange", 1), ("copies", 1), ("commits", 0)] * 2, ("strange", 2)])
@example(
    [*[("copies", 1), ("strange", 1)] * 2, *[("commits", 0), ("renews", 0), ("copies", 1)] * 3]
)
@settings(max_examples=examples(500))
def test_a_new_process_finds_all_since_the_first_copy(done: list[tuple[str, int]]) -> None:
    log = Log()
    for what, count in done:
        act(log, what, count)
    strange = log.strange(log.mapped[0][0]) if log.mapped else set()
    found = log.look_as_a_new_process()
    assert strange <= found
    assert found <= {at for at, one in enumerate(log.entries) if one.writer in (STRANGER, -1)}


@given(st.lists(st.tuples(st.integers(1, 3), st.booleans()), max_size=20))
def test_nothing_is_read_while_the_log_ends_where_the_pipeline_says(
    transactions: list[tuple[int, bool]],
) -> None:
    log = Log()
    log.write(-1, 5)  # before the pipeline: not its matter
    for count, looks in transactions:
        log.copies(count)
        log.commits()
        log.ends()
        if looks:
            log.look(late=False)
    assert (log.reads, log.copy.is_strange) == (0, False)


def test_a_record_that_comes_before_the_marker_or_alone_after_it_is_seen() -> None:
    log = Log()
    log.copies(3)
    log.commits()
    log.write(-1, 1)
    log.ends()
    log.look(late=False)
    log.write(STRANGER, 1)
    log.look(late=False)
    assert log.found == {3, 5}


def test_a_partition_into_which_nothing_was_copied_counts_from_the_first_reading_on() -> None:
    log = Log()
    log.write(-1, 4)
    log.look(late=False)
    assert (log.copy.known_from, log.found) == (4, set())
    log.write(-1, 2)
    log.look(late=False)
    assert log.found == {4, 5}


def test_a_single_record_in_the_middle_of_a_transaction_is_found_after_others() -> None:
    log = Log()
    for strange in (1, 0, 2):
        log.copies(2)
        log.write(-1, strange)
        log.copies(1)
        log.commits()
        log.ends()
    assert log.look_as_a_new_process() == {2, 11, 12}
    replica = read_mapping(log.mappings)
    assert replica.inserted == {TARGET: (2,)}
    again = [replace(one, again=True) for one in log.mappings]
    assert read_mapping(again).inserted == {}, "a repeat may have ranges of several transactions"


def read_mapping(mappings: list[MappingRecord]) -> Replica:
    """Read mapping records as a view does."""
    log = MappingLog()
    messages = [
        Message(
            topic="m",
            partition=0,
            offset=at,
            key=mapping_key(one),
            value=mapping_value(one),
            timestamp=(TIMESTAMP_CREATE_TIME, 0),
        )
        for at, one in enumerate(mappings)
    ]
    for chunk in MappingDecoder().decode([messages], lambda *_: None)[0]:
        log.take(chunk)
    return Replica(None, log.target_ranges, inserted=log.inserted)


def mapped(*ranges: tuple[int, int, int]) -> Replica:
    rows, columns = np.array(ranges, dtype=np.int64).reshape(-1, 3), MappingRanges()
    columns.append(rows[:, 0], rows[:, 1], rows[:, 2])
    return Replica(None, {TARGET: columns})


def test_the_mapping_tells_what_was_followed_by_copies() -> None:
    # A marker at 15, then 5 offsets that no range names; the newest span begins at 30.
    replica = mapped((0, 10, 5), (5, 16, 4), (9, 25, 4))
    assert find_unnamed(replica, TARGET, 30) == (10, [(20, 25), (29, 30)])
    assert find_unnamed(replica, TARGET, 29) == (10, [(20, 25)])
    assert find_unnamed(replica, TARGET, 10) is None
    assert find_unnamed(replace(replica, held_from=9), TARGET, 30) == (25, [(29, 30)])
    assert find_unnamed(replace(replica, behind=True), TARGET, 30) is None
    assert find_unnamed(replica, ("t", 1), 30) is None


def test_strangers_of_before_the_first_reading_are_found_by_the_mapping() -> None:
    log = Log()
    for strange in (3, 0, 1):
        log.copies(2)
        log.commits()
        log.ends()
        log.write(-1, strange)
    log.copies(2)
    log.commits()
    log.ends()
    log.look(late=False)
    assert (log.copy.known_from, log.found) == (13, set())
    replica = mapped(*[(n, at, end - at) for n, (at, end) in enumerate(log.mapped)])
    found = find_unnamed(replica, TARGET, 13)
    assert found == (0, [(2, 6), (11, 13)])
    log.copy.look_back(*found)
    log.read()
    assert (log.copy.known_from, log.found) == (0, {3, 4, 5, 12})


def test_what_cannot_be_read_stays_to_be_read() -> None:
    log = Log()
    log.copies(2)
    log.commits()
    log.ends()
    log.write(STRANGER, 3)
    log.copy.see(log.landed, log.stable)
    assert log.copy.gaps == ((2, 6),)
    log.copy.see(log.landed, log.stable)
    assert log.copy.gaps == ((2, 6),), "nothing new"
    log.copy.learn([WrittenBatch(3, 4, STRANGER, 1)], REGISTERED, [(4, 6)])
    log.copy.give_up()
    assert not log.copy.gaps
    assert log.copy.describe(TARGET) == StrangeRecords("t", 0, 3, 4, 1, (STRANGER,), 0, True)
    log.copy.forget_before(4)
    assert log.copy.describe(TARGET) is None
    assert log.copy.gaps == ((4, 6),), "what was given up is a question again"


def test_a_log_that_has_lost_records_is_read_again_from_there() -> None:
    log = Log()
    log.write(STRANGER, 2)
    log.look(late=False)
    log.write(STRANGER, 6)
    log.look(late=False)
    assert log.found == {2, 3, 4, 5, 6, 7}
    del log.entries[4:]
    log.look(late=False)
    assert log.found == {2, 3}
    log.write(STRANGER, 3)
    log.look(late=False)
    assert log.found == {2, 3, 4, 5, 6}


def test_the_newest_stretches_are_kept() -> None:
    copy = CopyLog()
    copy.learn([WrittenBatch(2 * n, 2 * n + 1, STRANGER, 1) for n in range(1_500)], (), ())
    one = copy.describe(TARGET)
    assert one is not None and (one.first, one.end, one.at_least) == (1_000, 2_999, True)


@pytest.mark.parametrize(
    ("one", "text"),
    [
        (
            StrangeRecords("t", 0, 5, 6, 1, (), 1),
            "1 record at offset 5 that no registered pipeline wrote, by a producer without id",
        ),
        (
            StrangeRecords("t", 0, 5, 1200, 7, (4, 8), 2, True),
            "at least 7 records at offsets 5 to 1,199 that no registered pipeline wrote, by "
            "producer id 4, 8 and a producer without id",
        ),
    ],
)
def test_they_are_described(one: StrangeRecords, text: str) -> None:
    assert one.describe() == text


def test_it_is_said_what_cannot_be_told_and_what_is_expected() -> None:
    one = StrangeRecords("t", 0, 5, 6, 1, (), 1)
    assert (OtherWriters((one,)).records, OtherWriters((one,)).notes()) == (1, [])
    expected = OtherWriters((one,), expected="target.writers: shared")
    assert (expected.records, expected.describe()) == (0, [])
    assert expected.notes() == [
        "1 target partition with records of other writers, which target.writers: shared expects: "
        "t-0 from offset 5 on"
    ]
    untold = OtherWriters(why="features.exactlyOnce is disabled")
    assert untold.records is None
    assert untold.describe() == [
        "Records of other writers cannot be told from copies: features.exactlyOnce is disabled."
    ]
    untold = OtherWriters(untold={"several source partitions are copied into it": 2})
    assert untold.records is None
    assert untold.notes() == [
        "whether other writers have written to 2 target partitions cannot be told: several source "
        "partitions are copied into it"
    ]
    assert OtherWriters((one,), untold=untold.untold).records == 1
    usual = OtherWriters(untold={NOT_MAPPED: 1, PARTLY_MAPPED: 1, NOTHING_COPIED: 1})
    assert (usual.records, usual.notes()) == (0, [])
    unread = OtherWriters(unread={"the principal may not read it": 2})
    assert unread.records is None
    assert unread.describe() == [
        "Whether other writers have written to 2 target partitions cannot be told: the principal "
        "may not read it."
    ]
