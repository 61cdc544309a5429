"""Produces record batches to target partitions: in order, several in flight, each exactly once.

Each target partition has one queue: its batches have consecutive sequence numbers, at most five
are in flight (a broker remembers five per producer to detect duplicates, KIP-98), and a batch is
resent with its original sequence number before any later batch.
"""

from __future__ import annotations

import logging
from collections import defaultdict, deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from time import monotonic
from types import MappingProxyType
from typing import Any

from kafka.protocol.producer import ProduceRequest

from k2ktui.kafka.producer_id import Producer
from k2ktui.kafka.wire import produce_request
from k2ktui.kafka.wire.cluster import (
    NotSent,
    OutcomeUnknown,
    PartitionLeader,
    Signal,
    TopicInfo,
    Wire,
)
from k2ktui.kafka.wire.codes import (
    FENCED,
    LEADER_MOVED,
    PRODUCE_RETRIABLE,
    PRODUCER_FAILED,
    TOO_LARGE,
    TOPIC_GONE,
    Code,
    code_name,
)
from k2ktui.log.batch import CorruptBatch, next_sequence
from k2ktui.log.core import producer_stamp
from k2ktui.replication.copying.failpoints import failpoint
from k2ktui.replication.copying.outgoing_batch import OutgoingBatch, TargetPartition
from k2ktui.replication.copying.slot_settings import ProduceSettings

log = logging.getLogger(__name__)

_DEFAULTS = ProduceSettings()
IN_FLIGHT = 5
UNAVAILABLE_AFTER_S = 20.0
"""Seconds without an acknowledgment after which a partition stops alone: longer than the election
of a leader after its broker died (``broker.session.timeout.ms``, 9 s by default)."""
_OUTAGE_S = 2.0
"""Seconds within which partitions of one outage begin to fail. They stop together: each lap that
fails for one of them alone would cost the others another 20 s."""
_BLAMELESS_BYTES = 64 << 10
"""Size of requests for which no broker closes a connection: for those up to it, it has stopped."""
_LOOK_UP_PAUSE_S = 0.2
_RETRY_BACKOFF_S = 0.05
GONE_AFTER_S = 5.0
_NOWHERE = PartitionLeader(-1, -1)
_LONGEST_WAIT_S = 1.0

OnTooLarge = Callable[[OutgoingBatch], list[OutgoingBatch]]


class Fenced(Exception):
    """This slot's producer epoch is no longer the current one."""


class SlotFailed(Exception):
    """This lap cannot continue; the driver bumps the epoch and reads the positions again.

    ``code`` is the broker's error code, 0 if there is none.
    """

    def __init__(self, text: str, code: int = 0) -> None:
        super().__init__(text)
        self.code = code


class PartitionsUnavailable(SlotFailed):
    """Partitions have accepted no writes for too long although their cluster responds."""

    def __init__(self, reasons: Mapping[TargetPartition, str]) -> None:
        first, reason = next(iter(reasons.items()))
        more = f", and {len(reasons) - 1} more" if len(reasons) > 1 else ""
        super().__init__(
            f"{first[0]}-{first[1]} on the target has accepted no writes for "
            f"{UNAVAILABLE_AFTER_S:g} s: {reason}{more}"
        )
        self.reasons = reasons


class RequestTooLarge(SlotFailed):
    """A broker closes the connection whenever it is sent a request with one batch of this size.

    Whether the target has appended the batch is unknown: only a lap with a new epoch, which aborts
    the transaction, may split it. ``size`` is in bytes.
    """

    def __init__(self, node: int, size: int) -> None:
        super().__init__(
            f"broker {node} on the target closes the connection on a batch of {size:,} bytes, as "
            "it does above its socket.request.max.bytes; smaller ones are sent"
        )
        self.size = size


class BatchRefused(Exception):
    """The target refused a batch with a non-retriable error: its source partition stops.

    ``record`` is the number of the refused record in it, -1 if the target named none.
    """

    def __init__(self, outgoing: OutgoingBatch, code: int, detail: str, record: int = -1) -> None:
        super().__init__(outgoing, code, detail, record)
        self.record = record
        self.outgoing = outgoing
        self.code = code
        self.detail = detail

    def __str__(self) -> str:
        return f"{code_name(self.code)} {self.detail}".strip() if self.code else self.detail


class RecordTooLargeToSend(BatchRefused):
    """A broker closes the connection whenever it is sent a batch of this one record."""

    def __init__(self, outgoing: OutgoingBatch) -> None:
        super().__init__(outgoing, Code.MESSAGE_TOO_LARGE, "")


class TargetEndsBefore(BatchRefused):
    """The target took a batch at an offset that it had written before: its log is another one.

    Attributes:
        base: target offset of the batch's first record.
        end: target offset after the last record that was written there before.
    """

    def __init__(self, outgoing: OutgoingBatch, base: int, end: int) -> None:
        super().__init__(outgoing, Code.UNKNOWN_TOPIC_OR_PARTITION, "created again")
        self.base, self.end = base, end


@dataclass(slots=True, eq=False)
class _Queue:
    """The batches of one target partition: waiting and in flight, oldest first.

    ``end`` is the target offset after the last acknowledged record. ``parts`` has the smaller
    batches that replace batches in flight that were refused for their size.
    """

    target: TargetPartition
    waiting: deque[OutgoingBatch] = field(default_factory=deque)
    flying: deque[OutgoingBatch] = field(default_factory=deque)
    sequence: int = 0
    proven: bool = False
    end: int = 0
    broken: int = 0
    retry_at: float = 0.0
    gone_since: float = 0.0
    failing_since: float = 0.0
    silent: bool = False
    reason: str = ""
    parts: dict[OutgoingBatch, list[OutgoingBatch]] = field(default_factory=dict)

    @property
    def idle(self) -> bool:
        """Whether every batch was acknowledged."""
        return not self.waiting and not self.flying

    def fails(self, reason: str, *, silent: bool = False) -> None:
        """Record that the partition accepts no writes and why; ``silent`` if no broker answered."""
        self.failing_since = self.failing_since or monotonic()
        self.silent, self.reason = silent, reason

    def resend(self, retry_at: float) -> None:
        """Queue all batches in flight again, in order, once each of them has failed."""
        again = [part for outgoing in self.flying for part in self.parts.get(outgoing, [outgoing])]
        self.waiting.extendleft(reversed(again))
        # Those behind a refused batch failed because it was missing: nothing has to be waited for.
        self.retry_at = 0.0 if self.parts else retry_at
        self.flying.clear()
        self.parts.clear()
        self.broken = 0

    def ready(self, now: float) -> bool:
        """Return whether the next batch may be sent.

        Until the first batch of an epoch is acknowledged, only one is in flight: a broker without
        state for the producer accepts any sequence number, so a second could overtake the first.
        """
        limit = IN_FLIGHT if self.proven else 1
        return (
            bool(self.waiting)
            and not self.broken
            and len(self.flying) < limit
            and (now >= self.retry_at)
        )


@dataclass(slots=True, eq=False)
class _Request:
    """A produce request in flight to a broker; ``size`` is that of its batches in bytes.

    ``is_suspect`` says whether its size may be why the broker closes the connection: a broker
    answers in order, so that it has not read the requests behind the first unanswered one.
    """

    node: int
    items: list[tuple[_Queue, OutgoingBatch]]
    size: int
    is_suspect: bool = True


class BatchSender:
    """Produces the batches of one slot to its target partitions, and tells their owners.

    Args:
        wire: connection to the target cluster.
        producer: producer id and epoch; without a transactional id, writes are only idempotent.
        signal: set after every response or failure.
        settings: size of a request and time limit of a batch.
        on_too_large: called with a batch of several records that the target refused for its size;
            returns the batches that take its place.
        topic_ids: the ids that topics must have: requests name topics, and one that was deleted and
            created again would take them. Such a topic counts as missing.
        ends: the target offsets after what was written before: a log that appends below them is
            another one, also where topics have no id.

    Attributes:
        leaderless: the partitions that had no leader at the last metadata lookup.
        request_bytes: size of a request. It shrinks when a broker closes the connection twice on a
            request of several batches, as it does above ``socket.request.max.bytes``: the same
            batches are then sent with fewer others.
        acknowledged_bytes: size of the batches that the target has acknowledged.

    Raises:
        K2kError: the core in C is required, and cannot be used.
    """

    def __init__(
        self,
        wire: Wire,
        producer: Producer,
        signal: Signal,
        settings: ProduceSettings = _DEFAULTS,
        on_too_large: OnTooLarge = lambda outgoing: [],
        topic_ids: Mapping[str, str] = MappingProxyType({}),
        ends: Mapping[TargetPartition, int] = MappingProxyType({}),
    ) -> None:
        self._wire = wire
        self._producer = producer
        self._stamp_producer = producer_stamp()
        self._signal = signal
        self._settings, self._on_too_large = settings, on_too_large
        self._topic_ids, self._ends = topic_ids, ends
        self._queues: dict[TargetPartition, _Queue] = {}
        self._leaders: dict[TargetPartition, PartitionLeader] = {}
        self.leaderless: set[TargetPartition] = set()
        self._busy: set[_Queue] = set()
        self._in_flight: dict[int, list[_Request]] = defaultdict(list)
        self._accepted: dict[int, int] = defaultdict(lambda: _BLAMELESS_BYTES)
        self._closed: set[int] = set()  # brokers that have closed the connection on a request
        self.request_bytes = settings.request_bytes
        self._failure: Exception | None = None
        self._stale = True
        self._looked_up_at = 0.0
        self._version = -1
        self.acknowledged_bytes = 0

    def offer(self, outgoing: OutgoingBatch) -> None:
        """Queue a batch behind all others of its target partition."""
        target = outgoing.target
        queue = self._queues.get(target)
        if queue is None:
            queue = self._queues[target] = _Queue(target, end=self._ends.get(target, 0))
            self._stale = self._stale or target not in self._leaders
        queue.waiting.append(outgoing)
        self._busy.add(queue)

    def has_leader(self, target: TargetPartition) -> bool:
        """Return whether the partition has a known leader."""
        return self._leaders.get(target, _NOWHERE).node >= 0

    def exists(self, target: TargetPartition) -> bool:
        """Return whether the partition exists, with or without a leader."""
        return self._leaders.get(target, _NOWHERE) is not _NOWHERE

    @property
    def has_recent_metadata(self) -> bool:
        """Whether the last metadata lookup succeeded and is recent."""
        return monotonic() - self._looked_up_at < 2 * _LOOK_UP_PAUSE_S

    async def locate(self, targets: Collection[TargetPartition]) -> None:
        """Look up leaders, unless all are known from a recent lookup."""
        fresh = monotonic() - self._looked_up_at < _LOOK_UP_PAUSE_S
        if not (fresh and all(target in self._leaders for target in targets)):
            await self._look_up(targets)

    def backlog(self, targets: Iterable[TargetPartition]) -> int:
        """Most batches waiting for one of these partitions, not counting those in flight."""
        most = 0
        for target in targets:
            queue = self._queues.get(target)
            if queue is not None:
                most = max(most, len(queue.waiting))
        return most

    @property
    def idle(self) -> bool:
        """Whether every offered batch was acknowledged."""
        return not self._busy

    @property
    def unacknowledged(self) -> Iterator[OutgoingBatch]:
        """The batches that were offered and not acknowledged yet."""
        for queue in self._busy:
            yield from queue.flying
            yield from queue.waiting

    async def pump(self) -> float:
        """Send all batches that may be sent.

        Returns:
            Seconds until another batch may be sent if no response arrives before.

        Raises:
            Fenced, SlotFailed, BatchRefused: the target or a time limit ended the lap.
            PartitionsUnavailable: partitions have accepted no writes for too long.
        """
        self._raise_failure()
        if self._stale:
            await self._look_up_leaders()
        now = monotonic()
        self._give_up(now)
        while self._send_round(now):
            pass
        retries = [queue.retry_at - now for queue in self._busy if queue.retry_at > now]
        return min([_LONGEST_WAIT_S, *retries])

    def _give_up(self, now: float) -> None:
        """Stop waiting for partitions that fail although the cluster responds.

        Each has its own time, or a leader change elsewhere would stop a partition that has just
        begun to fail.
        """
        failing = [
            queue
            for queue in self._busy
            if queue.failing_since
            and (not queue.silent or queue.failing_since < self._looked_up_at)
        ]
        late = [queue for queue in failing if now - queue.failing_since > UNAVAILABLE_AFTER_S]
        if not late:
            return
        longest = now - min(queue.failing_since for queue in late)
        if len(late) == len(failing) or longest > UNAVAILABLE_AFTER_S + _OUTAGE_S:
            raise PartitionsUnavailable({queue.target: queue.reason for queue in late})

    def _send_round(self, now: float) -> bool:
        """Send at most one batch per target partition; return whether any was sent."""
        batches: dict[int, list[tuple[_Queue, OutgoingBatch]]] = defaultdict(list)
        sizes: dict[int, int] = defaultdict(int)
        for queue in self._busy:
            if not queue.ready(now):
                continue
            leader = self._leaders.get(queue.target)
            if leader is None or leader.node < 0:
                self._wait_for_leader(queue, now)
                continue
            node = leader.node
            size = len(queue.waiting[0].data)
            full = sizes[node] and sizes[node] + size > self.request_bytes
            if full or len(self._in_flight[node]) >= IN_FLIGHT:
                continue  # wait for the next round or response
            sizes[node] += size
            batches[node].append((queue, self._take(queue, now)))
        for node, items in batches.items():
            self._post(node, items, sizes[node])
        return bool(batches)

    async def drain(self) -> None:
        """Send all offered batches and wait for their acknowledgments; raises as ``pump``."""
        while not self.idle:
            delay = await self.pump()
            if not self.idle:
                await self._signal.wait(delay)
        self._raise_failure()

    def _take(self, queue: _Queue, now: float) -> OutgoingBatch:
        outgoing = queue.waiting.popleft()
        if outgoing.sequence < 0:
            self._stamp(outgoing, queue.sequence, now)
            queue.sequence = next_sequence(queue.sequence, outgoing.count)
        elif now - outgoing.first_sent > self._settings.delivery_timeout_s:
            raise SlotFailed(
                f"a batch for {queue.target[0]}-{queue.target[1]} was not acknowledged within "
                f"{self._settings.delivery_timeout_s:g} s"
            )
        queue.flying.append(outgoing)
        return outgoing

    def _stamp(self, outgoing: OutgoingBatch, sequence: int, now: float) -> None:
        outgoing.sequence, outgoing.first_sent = sequence, now
        self._stamp_producer(
            outgoing.data,
            self._producer.producer_id,
            self._producer.epoch,
            sequence,
            transactional=self._producer.transactional_id is not None,
            checksum_known=outgoing.checksum_known,
        )

    def _post(self, node: int, items: list[tuple[_Queue, OutgoingBatch]], size: int) -> None:
        records: dict[str, list[tuple[int, memoryview]]] = defaultdict(list)
        for queue, outgoing in items:
            topic, partition = queue.target
            records[topic].append((partition, outgoing.data))
        if self._version < 0:
            self._version = self._wire.version_of(ProduceRequest)
        request = produce_request.make_produce_request(
            self._producer.transactional_id, records, self._version
        )
        sent = _Request(node, items, size)
        self._in_flight[node].append(sent)
        # Use callbacks instead of a coroutine per request: callbacks run in the order of responses,
        # while coroutines could process a response before an earlier one.
        future = self._wire.post(request, node)
        failpoint("sent")
        future.add_callback(self._on_answer, sent)
        future.add_errback(self._on_silence, sent)

    def _on_answer(self, request: _Request, response: Any) -> None:
        self._in_flight[request.node].remove(request)
        if request.size >= self._accepted[request.node]:
            self._accepted[request.node] = request.size
            self._closed.discard(request.node)
        now = monotonic()
        try:
            answers = {
                (topic.name, part.index): part
                for topic in response.responses
                for part in topic.partition_responses
            }
            for queue, outgoing in request.items:
                answer = answers.get(queue.target)
                if answer is not None:
                    self._handle_response(queue, outgoing, answer, now)
                else:
                    queue.fails(f"the answer of broker {request.node} does not have it")
                    self._again(queue, now)
        except Exception as error:  # a bug or a malformed response must end the lap, not hang it
            self._failure = self._failure or error
        self._signal.set()

    def _on_silence(self, request: _Request, error: BaseException) -> None:
        """Resend the same bytes in order after the connection failed or was lost."""
        node, items = request.node, request.items
        self._in_flight[node].remove(request)
        if request.is_suspect and self._wire.was_closed(error):
            self._suspect_size(request)
        # Where another cluster answers, nothing was sent, and the lap ends before anything is.
        self._failure = self._failure or self._wire.as_other_cluster(error)
        log.info("broker %d on the target: no answer to %d batches: %s", node, len(items), error)
        now = monotonic()
        for queue, _ in items:
            queue.fails(f"its leader, broker {node}, does not respond", silent=True)
            self._again(queue, now)
        self._signal.set()

    def _suspect_size(self, request: _Request) -> None:
        """Send less at once after a broker has closed the connection twice on a large request.

        Whether it has taken the request is unknown, so that its batches stay as they are.
        """
        for behind in self._in_flight[request.node]:
            behind.is_suspect = False
        node, size = request.node, request.size
        if size <= self._accepted[node]:
            return  # it has stopped: it has taken as much at once before
        if node not in self._closed:
            self._closed.add(node)
            return
        self._closed.discard(node)
        if len(request.items) > 1:
            self.request_bytes = min(self.request_bytes, size // 2)
            log.info(
                "broker %d on the target closes connections on %d bytes; requests have %d",
                node,
                size,
                self.request_bytes,
            )
            return
        ((_, outgoing),) = request.items
        if outgoing.count == 1:
            self._failure = self._failure or RecordTooLargeToSend(outgoing)
            return
        self.request_bytes = min(self.request_bytes, size // 2)
        self._failure = self._failure or RequestTooLarge(node, size)

    def _handle_response(
        self, queue: _Queue, outgoing: OutgoingBatch, answer: Any, now: float
    ) -> None:
        code = answer.error_code
        if code == 0:
            if answer.base_offset < 0:
                raise BatchRefused(outgoing, code, "the acknowledgment has no offset")
            if queue.flying[0] is not outgoing:
                raise SlotFailed(f"{queue.target} sent acknowledgments out of order")
            if answer.base_offset < queue.end:
                # Such a log only grows: the topic was created again. The transaction is aborted.
                raise TargetEndsBefore(outgoing, answer.base_offset, queue.end)
            queue.end = answer.base_offset + outgoing.count
            queue.flying.popleft()
            queue.proven = True
            queue.gone_since = queue.failing_since = 0.0
            if queue.broken:
                self._settle(queue, now)
            if queue.idle:
                self._busy.discard(queue)
            self.acknowledged_bytes += len(outgoing.data)
            if outgoing.owner is not None:
                outgoing.owner.acknowledge(outgoing, answer.base_offset)
        elif code in FENCED:
            raise Fenced(code_name(code))
        elif code in PRODUCE_RETRIABLE or (
            queue.broken and code == Code.OUT_OF_ORDER_SEQUENCE_NUMBER
        ):
            queue.fails(code_name(code))
            log.info(
                "%s-%d on the target: %s, sending %d batches again",
                *queue.target,
                code_name(code),
                len(queue.flying),
            )
            self._again(queue, now, look_up=code in LEADER_MOVED | TOPIC_GONE)
        elif code in TOO_LARGE and outgoing.count > 1:
            self._split(queue, outgoing, code, now)
        elif code in PRODUCER_FAILED:
            raise SlotFailed(f"{queue.target[0]}-{queue.target[1]}: {code_name(code)}", code)
        else:
            detail, record = produce_request.read_refusal(answer)
            raise BatchRefused(outgoing, code, detail, record)

    def _split(self, queue: _Queue, outgoing: OutgoingBatch, code: int, now: float) -> None:
        """Replace a batch by smaller ones that share its sequence numbers.

        The target has appended neither it nor the batches in flight behind it, whose sequence
        numbers do not follow. So the order stays, and later batches keep their sequence numbers.
        """
        try:
            parts = self._on_too_large(outgoing)
        except CorruptBatch as error:
            raise BatchRefused(outgoing, code, str(error)) from error
        if not parts:
            raise BatchRefused(outgoing, code, "")
        sequence = outgoing.sequence
        for part in parts:
            self._stamp(part, sequence, now)
            sequence = next_sequence(sequence, part.count)
        queue.parts[outgoing] = parts
        failpoint("halved")
        self._again(queue, now, look_up=False)

    def _again(self, queue: _Queue, now: float, *, look_up: bool = True) -> None:
        """Count a failed batch; once all batches in flight have failed, queue them again.

        ``now`` is the same for all batches of a request: they are sent again in one.
        """
        queue.broken += 1
        self._stale = self._stale or look_up
        self._settle(queue, now)

    def _settle(self, queue: _Queue, now: float) -> None:
        if queue.broken < len(queue.flying):
            return
        queue.resend(now + _RETRY_BACKOFF_S)

    def _raise_failure(self) -> None:
        if self._failure is not None:
            raise self._failure

    async def _look_up_leaders(self) -> None:
        if await self._look_up({queue.target for queue in self._busy}):
            self._stale = False
        else:
            await self._wire.loop.sleep(_RETRY_BACKOFF_S)

    async def _look_up(self, targets: Collection[TargetPartition]) -> bool:
        """Look up the leaders of partitions; return whether a broker answered."""
        try:
            topics = await self._wire.metadata({topic for topic, _ in targets})
        except (NotSent, OutcomeUnknown):
            return False
        self._looked_up_at = monotonic()
        for topic, partition in targets:
            info = topics.get(topic)
            leader = info.partitions.get(partition) if info and self._is_same(topic, info) else None
            before = self._leaders.get((topic, partition))
            self._leaders[topic, partition] = now = leader or _NOWHERE
            if before is not None and before.node != now.node:
                log.info(
                    "%s-%d on the target: leader %d follows %d",
                    topic,
                    partition,
                    now.node,
                    before.node,
                )
            if self.has_leader((topic, partition)):
                self.leaderless.discard((topic, partition))
            else:
                self.leaderless.add((topic, partition))
        return True

    def _is_same(self, topic: str, info: TopicInfo) -> bool:
        """Return whether a topic is the one that positions belong to, not one created again."""
        expected = self._topic_ids.get(topic, "")
        return not expected or not info.topic_id or info.topic_id == expected

    def _wait_for_leader(self, queue: _Queue, now: float) -> None:
        """Schedule another lookup; refuse the batch if the partition no longer exists."""
        queue.gone_since = queue.gone_since or now
        queue.fails("it has no leader", silent=True)
        queue.retry_at = now + _RETRY_BACKOFF_S
        self._stale = True
        waited = now - queue.gone_since
        if self._leaders.get(queue.target) is _NOWHERE and waited > GONE_AFTER_S:
            code, detail = Code.UNKNOWN_TOPIC_OR_PARTITION, "no such topic-partition on the target"
            raise BatchRefused(queue.waiting[0], code, detail)
        if waited > self._settings.delivery_timeout_s:
            raise SlotFailed(f"{queue.target[0]}-{queue.target[1]} on the target has no leader")
