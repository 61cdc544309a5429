"""Fetches record batches from the source, with one incremental fetch session per broker (KIP-227).

Reads only committed records, by topic id if brokers support it (KIP-516), and asks brokers to
compare leader epochs (KIP-320), which detects truncation, re-creation and unclean elections.
"""

from __future__ import annotations

import logging
import uuid
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from time import monotonic
from typing import Any

from kafka.protocol.consumer import FetchRequest

from k2ktui.engine.records.state import SourcePartition
from k2ktui.errors import ConnectionFailed
from k2ktui.kafka.unreachable import OtherCluster
from k2ktui.kafka.wire.cluster import NotSent, OutcomeUnknown, Signal, Throttled, TopicInfo, Wire
from k2ktui.kafka.wire.codes import LEADER_MOVED, SESSION_LOST, TOPIC_GONE, Code, code_name
from k2ktui.kafka.wire.read_requests import (
    EARLIEST,
    LATEST,
    READ_COMMITTED,
    answered_partition,
    list_offsets_request,
)
from k2ktui.replication.copying import partition_faults
from k2ktui.replication.copying.fetch_session import FetchSession, Key
from k2ktui.replication.copying.partition_reader import FetchPosition, PartitionReader
from k2ktui.replication.copying.slot_settings import FetchSettings
from k2ktui.replication.copying.slot_task import SourceLogBounds
from k2ktui.text import safe_text

log = logging.getLogger(__name__)

_DEFAULTS = FetchSettings()
_BUFFER_BYTES = 48 << 20
_BACKOFF_S = 0.1
# A broker of a ZooKeeper cluster answers requests before its controller has sent it the topics.
_GONE_AFTER_S = 1.0
_LONGEST_WAIT_S = 1.0
_SMALL_BYTES = 64 << 10
_TRICKLE_S = 0.003
_FINAL_EPOCH = -1
_BY_ID_VERSION = 13  # of fetch requests

LogEnds = tuple[int, int]  # log start offset, last stable offset


@dataclass(frozen=True, slots=True)
class Reading:
    """Fetch sessions that a fetcher leaves to the fetcher of the slot's next lap.

    It holds no records: what was fetched and not committed is fetched again.

    Attributes:
        settings: what the sessions were asked for.
        ids: topic ids by topic, none of them empty.
        sessions: those of which the brokers remember exactly what ``known`` says.
        bounds: of the logs that these sessions read.
        left_at: monotonic seconds.
    """

    settings: FetchSettings
    ids: Mapping[str, str]
    sessions: Sequence[FetchSession]
    bounds: Mapping[Key, LogEnds]
    left_at: float

    def close(self, wire: Wire) -> None:
        """Close the sessions on the brokers."""
        for session in self.sessions:
            _close_session(wire, session)


class SourceFetcher:
    """Fetches for all partitions of one slot until ``close``.

    Args:
        wire: connection to the source cluster.
        readers: the partitions of the slot.
        signal: set after every response or failure.
        continue_on_loss: skip lost records and record the gap instead of stopping.
        settings: sizes, waiting time and rack of the requests.
        before: what the fetcher of the lap before has left; its sessions are closed here, unless
            they read these partitions.
    """

    def __init__(
        self,
        wire: Wire,
        readers: Iterable[PartitionReader],
        signal: Signal,
        *,
        continue_on_loss: bool,
        settings: FetchSettings = _DEFAULTS,
        before: Reading | None = None,
    ) -> None:
        self._wire = wire
        self._signal = signal
        self._continue = continue_on_loss
        self._settings = settings
        self._readers: dict[Key, PartitionReader] = {
            (f.source.topic, f.source.partition): f for f in readers
        }
        self._ids = {f.source.topic: f.assignment.position.topic_id for f in self._readers.values()}
        self._names = {topic_id: name for name, topic_id in self._ids.items()}
        self._leaders: dict[Key, int] = {}  # or the replica that the leader named
        self._followed: set[Key] = set()
        self._sessions: dict[int, FetchSession] = {}
        self._stale = True
        self._stale_since = 0.0
        self._looking = False
        self._closed = False
        self._unknown_since: dict[str, float] = {}
        self._measuring: set[PartitionReader] = set()
        self._by_id = all(self._ids.values())
        self._updated: set[PartitionReader] = set()
        self._failure: Exception | None = None
        self._has_read = False
        # Why a partition, or its leader, is not known to be read; few have a reason at any time.
        self._troubles: dict[Key, str] = {}
        self._look_up_trouble = ""
        self.buffered = 0
        self._bounds: dict[PartitionReader, LogEnds] = {}
        # Of the lap before, by broker: true once that has answered in this lap.
        self._bounds_before: dict[int, dict[PartitionReader, LogEnds]] = {}
        if before is not None:
            self._go_on(before)

    def take_updated(self) -> set[PartitionReader]:
        """Return the partitions that received data since the last call.

        Raises:
            Exception: processing a response failed.
        """
        if self._failure is not None:
            raise self._failure
        updated, self._updated = self._updated, set()
        return updated

    def release(self, size: int) -> None:
        """Free ``size`` bytes of the fetch buffer, which were handed on or dropped."""
        self.buffered -= size

    def unread(self) -> dict[SourcePartition, str]:
        """Return why partitions are not read now: no answer of their leader, an error, a quota.

        A partition that a response does not mention is idle, and not included.
        """
        reasons = {}
        for key, reader in self._readers.items():
            reason = "" if reader.done else self._why_unread(key)
            if reason:
                reasons[reader.source] = reason
        return reasons

    def _why_unread(self, key: Key) -> str:
        leader = self._leaders.get(key, -1)
        own = self._troubles.get(key, "")
        if leader < 0:
            return self._look_up_trouble or own or "its leader is not known yet"
        session = self._sessions[leader]
        quota = f"the {self._wire.label} cluster throttles this client (quota)"
        return own or session.trouble or (quota if session.throttled else "")

    def outage(self) -> ConnectionFailed | None:
        """Return why no fetch request has been answered by any leader; None if one has been.

        Also None if nothing had to be read, or the source only throttles this client.
        """
        if self._has_read or any(session.throttled for session in self._sessions.values()):
            return None
        if all(reader.done for reader in self._readers.values()):
            return None
        label = self._wire.label
        why = self._wire.outage()
        if why is not None:
            return why
        waiting = next(reader.source for reader in self._readers.values() if not reader.done)
        nothing = (waiting, "no answer has arrived")
        at, reason = next(iter(self.unread().items()), nothing)
        return ConnectionFailed(
            f"the {label} cluster has answered no fetch request: {safe_text(at)}: {reason}",
            hint=f"Check the {label} cluster's brokers and their advertised addresses.",
        )

    def bounds(self) -> dict[SourcePartition, SourceLogBounds]:
        """Return the bounds of each source log from the last responses."""
        return {
            reader.source: SourceLogBounds(start, end, reader.next_timestamp)
            for reader, (start, end) in self._bounds.items()
        }

    def pump(self, until: float) -> float:
        """Send the fetches that are due; brokers answer them before monotonic time ``until``.

        Returns:
            Seconds until another fetch is due if no response arrives before.
        """
        now = monotonic()
        if self._closed or now >= until:
            return _LONGEST_WAIT_S
        if self._stale and not self._looking and now >= self._stale_since:
            self._looking = True
            self._wire.loop.spawn(self._look_up())
        delay = max(0.001, self._stale_since - now) if self._stale else _LONGEST_WAIT_S
        if self.buffered > _BUFFER_BYTES:
            return delay
        for session in self._sessions.values():
            if session.waiting or not session.members:
                continue
            if now < session.not_before:
                delay = min(delay, session.not_before - now)
                continue
            self._fetch(session, until - now)
        return delay

    def _fetch_from(self, key: Key, node: int) -> None:
        """Fetch a partition from a broker, -1 for none until its leader is known."""
        before = self._leaders.pop(key, -1)
        if before not in (-1, node):
            log.info("%s-%d on the source: leader %d follows %d", *key, node, before)
        if before >= 0:
            self._sessions[before].remove(key)
        if node >= 0:
            self._leaders[key] = node
            self._sessions.setdefault(node, FetchSession(node)).add(key)

    def _go_on(self, before: Reading) -> None:
        """Go on with the fetch sessions of the lap before that read partitions of this one.

        Leaders are looked up as without them, at once. What they remember of a partition that is
        now at another offset, or after another leader epoch, is sent again with the first request.
        """
        for session in before.sessions:
            if before.settings == self._settings and self._can_go_on(session, before.ids):
                self._sessions[session.node] = session
                kept = self._bounds_before[session.node] = {}
                for key in session.go_on():
                    self._fetch_from(key, session.node)
                    if key in before.bounds:
                        kept[self._readers[key]] = before.bounds[key]
            else:
                _close_session(self._wire, session)

    def _can_go_on(self, session: FetchSession, ids: Mapping[str, str]) -> bool:
        """Return whether a session reads partitions of this fetcher only, of the same topics.

        A broker would answer for the others all the time.
        """
        topics = {name for name, _ in session.known}
        same = all(ids.get(name) and ids[name] == self._ids.get(name) for name in topics)
        return same and session.known.keys() <= self._readers.keys()

    @property
    def is_settled(self) -> bool:
        """Whether no request waits for its response."""
        return not any(session.waiting for session in self._sessions.values())

    def hand_on(self) -> Reading:
        """Stop fetching; return the sessions that the next lap can go on with, close the others."""
        well = self._failure is None and not self._followed
        kept = [session for session in self._sessions.values() if well and session.is_settled]
        self.close(kept)
        topics = {name for session in kept for name, _ in session.known}
        known: dict[PartitionReader, LogEnds] = {}
        for bounds in (*self._bounds_before.values(), self._bounds):
            known.update(bounds)
        bounds_by_key = {
            (reader.source.topic, reader.source.partition): ends for reader, ends in known.items()
        }
        ids = {name: self._ids[name] for name in topics}
        return Reading(self._settings, ids, kept, bounds_by_key, monotonic())

    def close(self, kept: Sequence[FetchSession] = ()) -> None:
        """Stop fetching and close the fetch sessions on the brokers, but not those of ``kept``."""
        if self._closed:
            return
        self._closed = True
        for session in self._sessions.values():
            if not session.waiting and session not in kept:
                _close_session(self._wire, session)

    def _fetch(self, session: FetchSession, remaining: float) -> None:
        changes = session.take_changes(self._readers, self._settings.most_waiting_bytes)
        if changes is None:
            return
        topics: dict[str, list[Any]] = defaultdict(list)
        for (name, partition), want in changes.wanted.items():
            topics[name].append(
                FetchRequest.FetchTopic.FetchPartition(
                    partition=partition,
                    current_leader_epoch=-1,
                    fetch_offset=want.offset,
                    last_fetched_epoch=want.epoch,
                    log_start_offset=-1,
                    partition_max_bytes=self._settings.partition_bytes,
                )
            )
        forgotten: dict[str, list[int]] = defaultdict(list)
        for name, partition in changes.dropped:
            forgotten[name].append(partition)
        known = bool(session.session_id) and not self._stale and not self._looking
        wait_ms = max(
            1, min(self._settings.wait_ms(idle=known and session.is_idle), int(remaining * 1000))
        )
        request = _fetch_request(
            self._settings,
            session.session_id,
            session.epoch,
            [self._topic(FetchRequest.FetchTopic, n, partitions=p) for n, p in topics.items()],
            [
                self._topic(FetchRequest.ForgottenTopic, n, partitions=p)
                for n, p in forgotten.items()
                if session.session_id
            ],
            wait_ms,
            by_id=self._by_id,
        )
        session.waiting = True
        timeout = self._wire.request_timeout_s + wait_ms / 1000
        posted = self._wire.post(request, session.node, timeout)
        self._wire.loop.spawn(self._await_answer(session, posted, request))

    def _topic(self, kind: Any, name: str, **fields: Any) -> Any:
        topic_id = self._ids[name]
        return kind(topic=name, topic_id=uuid.UUID(hex=topic_id) if topic_id else None, **fields)

    async def _await_answer(self, session: FetchSession, posted: Any, request: Any) -> None:
        try:
            response = await self._wire.answer(posted)
            session.by_id = (request.API_VERSION or 0) >= _BY_ID_VERSION
            self._handle_response(session, response)
        except (NotSent, OutcomeUnknown) as error:
            session.throttled = isinstance(error, Throttled)
            before, session.trouble = (
                session.trouble,
                self._wire.trouble(session.node) or str(error),
            )
            if session.trouble != before:  # it is tried ten times a second
                log.info("fetch session with broker %d lost: %s", session.node, session.trouble)
            self._bounds_before.pop(session.node, None)
            session.restart()
            session.not_before = monotonic() + _BACKOFF_S
            self._look_up_later()
        except Exception as error:  # a defect here must end the lap, not stall it
            self._failure = error
        finally:
            session.waiting = False
            self._signal.set()

    @staticmethod
    def _forget_trouble(session: FetchSession) -> None:
        if session.trouble:
            log.info("fetch session with broker %d works again", session.node)
            session.trouble = ""

    def _handle_response(self, session: FetchSession, response: Any) -> None:
        if self._closed:
            return
        if response.error_code != Code.NONE:
            log.info(
                "fetch session with broker %d: %s", session.node, code_name(response.error_code)
            )
            self._bounds_before.pop(session.node, None)
            session.restart()
            if response.error_code not in SESSION_LOST:
                session.trouble = f"broker {session.node}: {code_name(response.error_code)}"
                session.not_before = monotonic() + _BACKOFF_S
            return
        self._has_read = True
        self._forget_trouble(session)
        session.throttled = response.throttle_time_ms > 0
        for key in [key for key in self._troubles if key in session.members]:
            del self._troubles[key]  # it is added again if it has the error still
        session.session_id = response.session_id
        session.epoch = session.epoch % 0x7FFFFFFF + 1 if response.session_id else 0
        if session.node in self._bounds_before:
            self._bounds = self._bounds_before.pop(session.node) | self._bounds
        before = self.buffered
        for topic in response.responses:
            name = topic.topic or self._names.get(topic.topic_id.hex, "")
            for part in topic.partitions:
                key = (name, part.partition_index)
                reader = self._readers.get(key)
                if reader is not None:
                    session.touch((key,))
                    if reader.fault is None:
                        self._partition(session, reader, part)
        if not response.session_id:
            session.lose_known()
        if 0 < self.buffered - before < _SMALL_BYTES:
            # Little data: delay the next fetch briefly, so that its response carries more.
            session.not_before = monotonic() + _TRICKLE_S

    def _partition(self, session: FetchSession, reader: PartitionReader, part: Any) -> None:
        code, key = part.error_code, (reader.source.topic, reader.source.partition)
        if not reader.awaits(session.known.get(key)):
            return  # the partition's fetch position has changed since this request
        if self._changes_replica(session, key, part):
            return
        if code == Code.NONE:
            if part.last_stable_offset >= 0:
                self._bounds[reader] = (part.log_start_offset, part.last_stable_offset)
                reader.log_end = part.last_stable_offset
            self._receive(session, reader, part)
        elif code == Code.OFFSET_OUT_OF_RANGE:
            if reader.check_epoch:
                # The broker also returns this if retention removed the last fetched leader epoch.
                reader.check_epoch = False
            else:
                self._measure(session, reader, -1)
        elif code in TOPIC_GONE:
            self._troubles[key] = f"broker {session.node}: {code_name(code)}"
            session.forget(key)
            self._look_up_later()
        elif code == Code.TOPIC_AUTHORIZATION_FAILED:
            reader.stop(partition_faults.UNAUTHORIZED.at(reader.source, reader.fetched))
        elif code in LEADER_MOVED:
            self._troubles[key] = f"broker {session.node}: {code_name(code)}"
            session.forget(key)
            self._fetch_from(key, -1)
            self._look_up_later()
        else:
            reader.stop(
                partition_faults.UNREADABLE.at(
                    reader.source, reader.fetched, reason=code_name(code)
                )
            )

    def _receive(self, session: FetchSession, reader: PartitionReader, part: Any) -> None:
        """Take the records of a partition, unless its log has parted from what was read before."""
        diverging = getattr(part, "diverging_epoch", None)
        if diverging is not None and diverging.epoch >= 0 and diverging.end_offset >= 0:
            agreed = reader.agrees_until(diverging.epoch, diverging.end_offset)
            self._measure(session, reader, agreed)
        elif part.records:
            aborted = [(a.producer_id, a.first_offset) for a in part.aborted_transactions or ()]
            self.buffered += reader.receive(part.records, aborted)
            self._updated.add(reader)
            reader.check_epoch = reader.leader_epoch >= 0

    def _changes_replica(self, session: FetchSession, key: Key, part: Any) -> bool:
        """Follow the leader's advice to a closer replica; return from it if it has a problem."""
        diverging = getattr(part, "diverging_epoch", None)
        if key in self._followed:
            if part.error_code == Code.NONE and (diverging is None or diverging.end_offset < 0):
                return False
            # Only the leader knows whether records are lost.
            self._followed.discard(key)
            self._fetch_from(key, -1)
            self._look_up_later()
            return True
        closer = getattr(part, "preferred_read_replica", -1)
        if part.error_code != Code.NONE or closer < 0 or closer == session.node:
            return False
        self._followed.add(key)
        self._fetch_from(key, closer)
        return True

    def _measure(self, session: FetchSession, reader: PartitionReader, diverged_at: int) -> None:
        """Request the current log bounds before deciding whether records are lost."""
        if reader not in self._measuring:
            self._measuring.add(reader)
            self._wire.loop.spawn(
                self._measure_log(session.node, reader, reader.next_fetch, diverged_at)
            )

    async def _measure_log(
        self, node: int, reader: PartitionReader, asked: FetchPosition, diverged_at: int
    ) -> None:
        try:
            start = await self._list_offset(node, reader, EARLIEST)
            end = await self._list_offset(node, reader, LATEST)
        except (NotSent, OutcomeUnknown):
            return  # the next fetch gets the same error and asks again
        except OtherCluster as error:
            self._failure = error
            return
        finally:
            self._measuring.discard(reader)
            self._signal.set()
        if start >= 0 and end >= 0 and reader.awaits(asked):
            self._lost(reader, start, end, diverged_at)

    async def _list_offset(self, node: int, reader: PartitionReader, which: int) -> int:
        where = [(reader.source.topic, reader.source.partition)]
        request = list_offsets_request(where, which, READ_COMMITTED)
        response = await self._wire.send(request, node)
        part = answered_partition(response.topics, reader.source.partition)
        return int(part.offset) if part is not None and part.error_code == Code.NONE else -1

    def _lost(self, reader: PartitionReader, start: int, end: int, diverged_at: int) -> None:
        """Handle lost records at the position: stop, or skip them if configured."""
        loss = partition_faults.find_loss(reader.source, reader.fetched, start, end, diverged_at)
        if loss is None:
            return  # out of range only temporarily, for example while the leader moves
        key = (reader.source.topic, reader.source.partition)
        if key in self._leaders:
            self._sessions[self._leaders[key]].touch((key,))
        if self._continue and loss.offset >= reader.handed:
            self.buffered -= reader.jump(loss.offset, loss.kind.value)
            self._updated.add(reader)
            return
        # Going back needs a new term, which only the driver can begin: pass it the new offset.
        reader.stop(loss if self._continue else replace(loss, offset=reader.fetched))
        self.buffered -= reader.drop_from(loss.offset)

    def _look_up_later(self) -> None:
        if not self._stale:
            self._stale, self._stale_since = True, monotonic() + _BACKOFF_S

    async def _look_up(self) -> None:
        try:
            topics = await self._wire.metadata(self._ids)
        except (NotSent, OutcomeUnknown) as error:
            self._look_up_trouble = f"its leader cannot be looked up: {error}"
            self._stale_since = monotonic() + _BACKOFF_S
            return
        except OtherCluster as error:  # the lap must fail before it fetches from there
            self._failure = error
            return
        finally:
            self._looking = False
            self._signal.set()
        self._stale, self._look_up_trouble = False, ""
        for key, reader in self._readers.items():
            info = topics.get(key[0])
            if reader.fault is None and info is not None:
                self._apply_topic_info(key, reader, info)
                if reader.fault is not None:
                    self._fetch_from(key, -1)

    def _apply_topic_info(self, key: Key, reader: PartitionReader, info: TopicInfo) -> None:
        topic_id = self._ids[key[0]]
        if info.error not in TOPIC_GONE:
            self._unknown_since.pop(key[0], None)
        if info.error == Code.TOPIC_AUTHORIZATION_FAILED:
            reader.stop(partition_faults.UNAUTHORIZED.at(reader.source, reader.fetched))
        elif info.error == Code.INVALID_TOPIC:
            reader.stop(partition_faults.GONE.at(reader.source, reader.fetched))
        elif info.error in TOPIC_GONE:
            if monotonic() - self._unknown_since.setdefault(key[0], monotonic()) < _GONE_AFTER_S:
                self._look_up_later()
            else:
                reader.stop(partition_faults.GONE.at(reader.source, reader.fetched))
        elif topic_id and info.topic_id and info.topic_id != topic_id:
            reader.stop(partition_faults.RECREATED.at(reader.source, reader.fetched))
        elif key[1] in info.partitions and info.partitions[key[1]].node >= 0:
            node = info.partitions[key[1]].node
            if self._leaders.get(key) != node:
                self._fetch_from(key, node)
            self._followed.discard(key)
        else:
            self._troubles[key] = "it has no leader" if not info.error else code_name(info.error)
            self._look_up_later()


def _close_session(wire: Wire, session: FetchSession) -> None:
    if session.session_id:
        request = _fetch_request(_DEFAULTS, session.session_id, _FINAL_EPOCH, [], [], 0, by_id=True)
        wire.post(request, session.node).add_errback(lambda _: None)


def _fetch_request(
    settings: FetchSettings,
    session_id: int,
    epoch: int,
    topics: list[Any],
    forgotten: list[Any],
    wait_ms: int,
    *,
    by_id: bool,
) -> Any:
    return FetchRequest(
        replica_id=-1,
        max_wait_ms=wait_ms,
        min_bytes=settings.min_bytes,
        max_bytes=settings.max_bytes,
        isolation_level=READ_COMMITTED,
        session_id=session_id,
        session_epoch=epoch,
        topics=topics,
        forgotten_topics_data=forgotten,
        rack_id=settings.rack,
        max_version=16 if by_id else 12,
    )
