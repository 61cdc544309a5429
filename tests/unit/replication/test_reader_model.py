"""The reader against a model of source brokers that lose records, and whose answers come late.

Elections cut the log and write other records in place of what was there, retention deletes its
head, the topic is created again, and every response, computed when it was asked for, may arrive
after others. Laps end at any time, and leave their fetch sessions to the next one.
"""

from __future__ import annotations

import uuid
from collections.abc import Generator
from dataclasses import dataclass, field, replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from kafka.protocol.consumer import FetchRequest

from k2ktui.engine.records.state import Position, SourcePartition
from k2ktui.kafka.wire.cluster import PartitionLeader, TopicInfo
from k2ktui.log.rebuild import build_batches
from k2ktui.log.records import Records
from k2ktui.replication.copying import source_fetcher as module
from k2ktui.replication.copying.partition_reader import PartitionReader
from k2ktui.replication.copying.slot_task import Assignment, CopyPath, Route
from k2ktui.replication.copying.source_fetcher import Reading, SourceFetcher
from tests.support.schedule.examples import examples

pytestmark = pytest.mark.usefixtures("with_and_without_core")
KEY = ("t", 0)
RESPONSE_BATCHES = 4
FOREVER = 1e12  # monotonic seconds


@dataclass(eq=False)
class Answer:
    """A response on its way."""

    value: Any
    arrived: bool = False
    task: Any = None

    def __await__(self) -> Generator[Answer, None, Any]:
        if not self.arrived:
            yield self
        return self.value


@dataclass
class Stored:
    """A batch in the log; ``mark`` distinguishes it from others that had the same offsets."""

    base: int
    count: int
    epoch: int
    mark: int

    @property
    def end(self) -> int:
        return self.base + self.count

    def encoded(self) -> bytes:
        offsets = np.arange(self.count, dtype=np.int64)
        tails = [b"\x01\x01\x00"] * self.count
        (built,) = build_batches(
            Records(offsets, np.full(self.count, self.mark), tails), 0, 1 << 20
        )
        built.data[0:8] = self.base.to_bytes(8, "big")
        built.data[12:16] = self.epoch.to_bytes(4, "big")
        return bytes(built.data)


@dataclass
class Session:
    """What a broker remembers of a fetch session."""

    node: int
    epoch: int = 0
    topic_id: str = ""
    asked: tuple[int, int] | None = None
    answered: tuple[int, int] | None = None


@dataclass
class Brokers:
    """The source, its event loop and the wire to it in one."""

    compare_epochs: bool = True
    log: list[Stored] = field(default_factory=list)
    start: int = 0
    end: int = 0
    epoch: int = 0
    epochs: list[tuple[int, int]] = field(default_factory=lambda: [(0, 0)])
    marks: int = 0
    topic_id: str = ""
    pending: list[Answer] = field(default_factory=list)
    posted: list[tuple[Any, int, float]] = field(default_factory=list)
    sessions: dict[int, Session] = field(default_factory=dict)
    session_ids: int = 0

    @property
    def loop(self) -> Brokers:
        return self

    @property
    def leader(self) -> int:
        return self.epoch % 2

    def spawn(self, coroutine: Any) -> None:
        self._step(coroutine)

    def _step(self, coroutine: Any) -> None:
        try:
            waited: Answer = coroutine.send(None)
        except StopIteration:
            return
        waited.task = coroutine

    def arrive(self, index: int) -> None:
        answer = self.pending.pop(index % len(self.pending))
        answer.arrived = True
        self._step(answer.task)

    async def metadata(self, _: Any) -> dict[str, TopicInfo]:
        return {"t": TopicInfo(0, self.topic_id, {0: PartitionLeader(self.leader, self.epoch)})}

    request_timeout_s = 30.0

    def post(self, request: Any, node: int, timeout: float = 0.0) -> Any:
        self.posted.append((request, node, timeout))
        if not isinstance(request, FetchRequest):
            self.pending.append(Answer(self._listed(request)))
            return self.pending[-1]
        request.API_VERSION = 16 if self.topic_id else 12
        if request.session_epoch == -1:
            self.sessions.pop(request.session_id, None)
            return SimpleNamespace(add_errback=lambda _: None)
        self.pending.append(Answer(self._fetch(request, node)))
        return self.pending[-1]

    async def answer(self, posted: Answer) -> Any:
        return await posted

    async def send(self, request: Any, node: int) -> Any:
        return await self.post(request, node)

    def _listed(self, request: Any) -> Any:
        which = request.topics[0].partitions[0].timestamp
        offset = self.start if which == -2 else self.end
        part = SimpleNamespace(partition_index=0, offset=offset, error_code=0)
        return SimpleNamespace(topics=[SimpleNamespace(partitions=[part])])

    def _fetch(self, request: Any, node: int) -> Any:
        if request.session_epoch == 0:
            self.session_ids += 1
            session = self.sessions[self.session_ids] = Session(node)
        else:
            known = self.sessions.get(request.session_id)
            if known is None or known.node != node or known.epoch + 1 != request.session_epoch:
                return SimpleNamespace(error_code=70, session_id=0)
            session, session.epoch = known, request.session_epoch
        for topic in request.topics:
            for part in topic.partitions:
                session.asked = (part.fetch_offset, part.last_fetched_epoch)
                session.topic_id = topic.topic_id.hex if topic.topic_id else ""
        if any(topic.partitions for topic in request.forgotten_topics_data):
            session.asked = session.answered = None
        number = next(id_ for id_, held in self.sessions.items() if held is session)
        parts = []
        if session.asked is not None:
            part = self._read(*session.asked, node)
            if session.topic_id != self.topic_id:
                part.error_code, part.records, part.diverging_epoch = 100, None, None
            bounds = part.log_start_offset, part.last_stable_offset
            # A broker says nothing of a partition that is as it was.
            if (
                part.error_code
                or part.records
                or part.diverging_epoch
                or bounds != session.answered
            ):
                parts.append(part)
            session.answered = None if part.error_code else bounds
        id_ = uuid.UUID(hex=session.topic_id) if session.topic_id else None
        topic = SimpleNamespace(topic="" if id_ else "t", topic_id=id_, partitions=parts)
        return SimpleNamespace(
            error_code=0, session_id=number, responses=[topic], throttle_time_ms=0
        )

    def _read(self, offset: int, last_epoch: int, node: int) -> Any:
        part = SimpleNamespace(
            partition_index=0,
            error_code=0,
            last_stable_offset=self.end,
            log_start_offset=self.start,
            diverging_epoch=None,
            aborted_transactions=None,
            records=None,
        )
        if node != self.leader:
            part.error_code = 6
        elif self.compare_epochs and last_epoch >= 0 and self.diverges(offset, last_epoch):
            epoch, end = self.last_of(last_epoch)
            part.diverging_epoch = SimpleNamespace(epoch=epoch, end_offset=end)
        elif not self.start <= offset <= self.end:
            part.error_code = 1
        else:
            batches = [batch for batch in self.log if batch.end > offset][:RESPONSE_BATCHES]
            part.records = b"".join(batch.encoded() for batch in batches)
        return part

    def diverges(self, offset: int, last_epoch: int) -> bool:
        epoch, end = self.last_of(last_epoch)
        return epoch < last_epoch or end < offset

    def last_of(self, epoch: int) -> tuple[int, int]:
        """The highest epoch up to this one that the log has, and where it ends there."""
        above = [start for other, start in self.epochs if other > epoch]
        known = [other for other, _ in self.epochs if other <= epoch]
        return known[-1] if known else epoch, above[0] if above else self.end

    def create_again(self) -> None:
        """The topic is deleted and created again, with other records."""
        self.topic_id = uuid.UUID(int=uuid.UUID(hex=self.topic_id).int + 1).hex
        self.log, self.start, self.end, self.epoch, self.epochs = [], 0, 0, 0, [(0, 0)]
        for _ in range(8):
            self.append(1)

    def append(self, count: int) -> None:
        self.marks += 1
        self.log.append(Stored(self.end, count, self.epoch, self.marks))
        self.end += count

    def elect(self, lost: int) -> None:
        """Another leader is elected that lacks the last batches."""
        self.log = self.log[: max(0, len(self.log) - lost)]
        self.end = self.log[-1].end if self.log else self.start
        self.epoch += 1
        self.epochs = [(epoch, start) for epoch, start in self.epochs if start < self.end]
        self.epochs.append((self.epoch, self.end))

    def delete(self, share: int) -> None:
        self.start = max(self.start, self.end - share)
        self.log = [batch for batch in self.log if batch.end > self.start]
        below = [epoch for epoch, start in self.epochs if start <= self.start]
        above = [(epoch, start) for epoch, start in self.epochs if start > self.start]
        self.epochs = [(below[-1], self.start), *above]


def a_feed(position: Position | None = None) -> PartitionReader:
    position = position or Position(0, 0, -1, "", 1, 0, "t", 0)
    return PartitionReader(
        Assignment(SourcePartition("t", 0), position, Route(CopyPath.VERBATIM, "t", 0, 1))
    )


def waiting_bytes(feed: PartitionReader) -> int:
    return sum(len(batch.view) for batch in feed.ready)


STEPS = st.one_of(
    st.tuples(st.just("append"), st.integers(1, 3)),
    st.tuples(st.just("pump"), st.just(0)),
    st.tuples(st.just("arrive"), st.integers(0, 5)),
    st.tuples(st.just("take"), st.integers(1, 3)),
    st.tuples(st.just("elect"), st.integers(0, 4)),
    st.tuples(st.just("delete"), st.integers(0, 6)),
)


@pytest.fixture(autouse=True, scope="module")
def _no_pauses() -> Any:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "_TRICKLE_S", 0)
        patch.setattr(module, "_BACKOFF_S", 0)
        yield


@settings(max_examples=examples(400), deadline=None)
@given(st.lists(STEPS, max_size=60), st.booleans(), st.booleans())
def test_what_is_taken_is_what_the_source_has(
    steps: list[tuple[str, int]], continue_on_loss: bool, compare_epochs: bool
) -> None:
    """Brokers before 2.7 compare no epochs; there a log that grew again may go unnoticed."""
    brokers, feed = Brokers(compare_epochs), a_feed()
    wire: Any = brokers
    woken: Any = SimpleNamespace(set=lambda: None)
    reader = SourceFetcher(wire, [feed], woken, continue_on_loss=continue_on_loss)
    taken: dict[int, int] = {}
    written: dict[int, set[int]] = {}

    def take(most: int) -> None:
        while feed.ready and most:
            first, batch = feed.handed, feed.take()
            reader.release(len(batch.view))
            for offset in range(max(first, batch.base_offset), batch.last_offset + 1):
                assert offset > max(taken, default=-1), "twice, or out of order"
                taken[offset] = batch.base_timestamp
            most -= 1

    def settle() -> None:
        for _ in range(30):
            reader.pump(FOREVER)
            reader.take_updated()
            while brokers.pending:
                brokers.arrive(0)
            take(100)

    for step, number in steps:
        match step:
            case "append":
                brokers.append(number)
            case "pump":
                reader.pump(FOREVER)
            case "arrive" if brokers.pending:
                brokers.arrive(number)
            case "take":
                take(number)
            case "elect":
                brokers.elect(number)
            case "delete":
                brokers.delete(number)
        assert feed.ready_bytes == waiting_bytes(feed)
        for batch in brokers.log:
            for offset in range(batch.base, batch.end):
                written.setdefault(offset, set()).add(batch.mark)
    settle()

    assert reader.buffered == feed.ready_bytes == 0
    assert all(mark in written[offset] for offset, mark in taken.items()), "records of no log"
    if feed.fault is None:
        assert feed.handed == brokers.end
        lost = {o for gap in feed.gaps for o in range(gap.first, gap.end)}
        assert not lost & taken.keys()
        assert max(lost, default=-1) < brokers.start
        for batch in brokers.log:
            for offset in range(max(batch.base, brokers.start), batch.end):
                assert offset in lost or offset in taken, "passed over"
                assert offset in lost or taken[offset] == batch.mark or not compare_epochs


def test_a_response_to_a_request_of_before_going_back_is_ignored() -> None:
    """The log was cut below what was fetched, and grew past it before that was found out."""
    brokers, feed = Brokers(compare_epochs=False), a_feed()
    wire: Any = brokers
    reader = SourceFetcher(wire, [feed], SimpleNamespace(set=lambda: None), continue_on_loss=True)  # type: ignore[arg-type]

    def exchange() -> None:
        reader.pump(FOREVER)
        brokers.arrive(0)

    for _ in range(4):
        brokers.append(1)
    exchange()
    assert feed.fetched == 4
    brokers.elect(2)
    for _ in range(3):  # not the leader; out of range with an epoch; without
        exchange()
    brokers.arrive(0)  # the log start, asked for; now its end is
    for _ in range(3):
        brokers.append(1)
    reader.pump(FOREVER)
    assert len(brokers.pending) == 2
    brokers.arrive(0)
    assert feed.fetched == 2
    brokers.arrive(0)
    exchange()
    assert [batch.base_offset for batch in feed.ready] == [0, 1, 2, 3, 4]
    assert feed.fetched == 5


LAPS = st.one_of(
    STEPS,
    st.tuples(st.just("lap"), st.integers(0, 2)),
    st.tuples(st.just("create again"), st.just(0)),
)


class Laps:
    """The laps of a partition, each of which begins with what the one before has left."""

    def __init__(self, brokers: Brokers, *, continue_on_loss: bool) -> None:
        self.brokers, self.continue_on_loss = brokers, continue_on_loss
        self.taken: dict[int, int] = {}
        # Below the position that an operator set, which has no epoch to compare.
        self.unproven = 0
        self.feed = a_feed(Position(0, 0, -1, brokers.topic_id, 1, 0, "t", 0))
        self.reader = self.fetcher(None)

    def fetcher(self, before: Reading | None) -> SourceFetcher:
        wire: Any = self.brokers
        woken: Any = SimpleNamespace(set=lambda: None)
        return SourceFetcher(
            wire, [self.feed], woken, continue_on_loss=self.continue_on_loss, before=before
        )

    def take(self, most: int) -> None:
        while self.feed.ready and most:
            first, batch = self.feed.handed, self.feed.take()
            self.reader.release(len(batch.view))
            for offset in range(max(first, batch.base_offset), batch.last_offset + 1):
                assert offset > max(self.taken, default=-1), "twice, or out of order"
                self.taken[offset] = batch.base_timestamp
            most -= 1

    def next(self, back: int) -> None:
        """Begin another lap at the position of this one, or before it: an operator set it."""
        if self.feed.fault is not None:
            return
        position = self.feed.position(1, 0, 0)
        if back and position.offset - back >= position.start:
            position = replace(position, offset=position.offset - back, leader_epoch=-1)
            self.unproven = position.offset
        self.taken = {at: mark for at, mark in self.taken.items() if at < position.offset}
        left = self.reader.hand_on()
        self.feed = a_feed(position)
        self.reader = self.fetcher(left)

    def settle(self) -> None:
        for _ in range(40):
            self.reader.pump(FOREVER)
            self.reader.take_updated()
            while self.brokers.pending:
                self.brokers.arrive(0)
            self.take(100)


@settings(max_examples=examples(400), deadline=None)
@given(st.lists(LAPS, max_size=60), st.booleans())
@example(  # a leader that goes and comes back, with a lap's end at each
    [("pump", 0), ("arrive", 0), *2 * [("elect", 0), ("lap", 0), ("pump", 0)]], False
)
@example(  # records are replaced before an operator sets the position behind them
    [
        *(("append", 1), ("append", 2), ("pump", 0), ("arrive", 0)),
        *(("elect", 2), ("append", 1), ("take", 2), ("lap", 2)),
    ],
    False,
)
def test_a_lap_that_goes_on_with_fetch_sessions_notices_what_another_would(
    steps: list[tuple[str, int]], continue_on_loss: bool
) -> None:
    brokers = Brokers(topic_id=uuid.UUID(int=7).hex)
    laps = Laps(brokers, continue_on_loss=continue_on_loss)
    first_id = brokers.topic_id
    written: dict[int, set[int]] = {}
    for step, number in steps:
        match step:
            case "append":
                brokers.append(number)
            case "pump":
                laps.reader.pump(FOREVER)
            case "arrive" if brokers.pending:
                brokers.arrive(number)
            case "take":
                laps.take(number)
            case "elect":
                brokers.elect(number)
            case "delete":
                brokers.delete(number)
            case "lap":
                laps.next(number)
            case "create again":
                brokers.create_again()
        assert laps.feed.ready_bytes == waiting_bytes(laps.feed)
        if brokers.topic_id == first_id:
            for batch in brokers.log:
                for offset in range(batch.base, batch.end):
                    written.setdefault(offset, set()).add(batch.mark)
    laps.settle()
    feed, taken = laps.feed, laps.taken
    assert laps.reader.buffered == feed.ready_bytes == 0
    assert all(mark in written[offset] for offset, mark in taken.items()), "records of no log"
    if brokers.topic_id != first_id:
        assert feed.fault is not None
    elif feed.fault is None:
        assert feed.handed == brokers.end
        assert laps.reader.bounds()[feed.source].end == brokers.end
        lost = {o for gap in feed.gaps for o in range(gap.first, gap.end)}
        assert max(lost, default=-1) < brokers.start
        for batch in brokers.log:
            for offset in range(max(batch.base, brokers.start, laps.unproven), batch.end):
                assert offset in lost or taken[offset] == batch.mark, "passed over"
    assert len(brokers.sessions) <= 2 + sum(step == "lap" for step, _ in steps)


def exchange(laps: Laps) -> Any:
    """Send a fetch and let its response arrive; return the request."""
    laps.reader.pump(FOREVER)
    request = laps.brokers.posted[-1][0]
    laps.brokers.arrive(0)
    laps.take(100)
    return request


def test_the_next_lap_asks_only_for_what_has_changed() -> None:
    brokers = Brokers(topic_id=uuid.UUID(int=7).hex)
    laps = Laps(brokers, continue_on_loss=False)
    brokers.append(1)
    for _ in range(3):
        exchange(laps)
    assert laps.feed.handed == 1
    laps.next(0)
    first = exchange(laps)
    assert first.session_epoch == 3 and not first.topics
    assert laps.reader.bounds()[laps.feed.source].end == 1, "what the broker says nothing of"
    brokers.append(1)
    exchange(laps)
    laps.next(1)
    again = exchange(laps)
    assert [part.fetch_offset for topic in again.topics for part in topic.partitions] == [1]
    assert list(brokers.sessions) == [1]


def test_a_lap_that_ends_before_a_response_leaves_no_session() -> None:
    """The broker may have answered, and would refuse or repeat the request."""
    brokers = Brokers(topic_id=uuid.UUID(int=7).hex)
    laps = Laps(brokers, continue_on_loss=False)
    exchange(laps)
    laps.reader.pump(FOREVER)
    laps.next(0)
    assert exchange_after(laps).session_epoch == 0


def exchange_after(laps: Laps) -> Any:
    """As ``exchange``, after the response of the lap before."""
    laps.brokers.arrive(0)
    return exchange(laps)


def test_sessions_of_brokers_that_compare_no_topic_ids_are_closed() -> None:
    """They would go on with the topic of the same name that was created again."""
    brokers = Brokers()
    laps = Laps(brokers, continue_on_loss=False)
    exchange(laps)
    laps.next(0)
    assert not brokers.sessions
    assert exchange(laps).session_epoch == 0
