"""Reads registered producer ids from a commit topic: all that were written so far, up to now."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import suppress
from time import monotonic
from typing import Any

from k2ktui.engine.records.producer_registration import (
    REGISTRATION_MARK,
    ProducerRegistration,
    read_registration,
)
from k2ktui.engine.records.run_record import RUN_MARK, Run, read_run
from k2ktui.engine.records.state import Position, read_commit_record
from k2ktui.engine.strict_json import MalformedRecord, UnknownVersion
from k2ktui.kafka.wire.cluster import NotSent, OutcomeUnknown, TopicInfo, Wire
from k2ktui.kafka.wire.codes import TOPIC_GONE, Code, code_name
from k2ktui.kafka.wire.read_requests import (
    EARLIEST,
    LATEST,
    READ_UNCOMMITTED,
    answered_partition,
    fetch_request,
    list_offsets_request,
)
from k2ktui.log.batch import COMPRESSION_MASK, Batch, CorruptBatch, split_batches
from k2ktui.log.record import record_at, timestamp_type
from k2ktui.log.records import decode_records
from k2ktui.text import list_names, safe_text

_FETCH_BYTES = 4 << 20
_RETRY_S = 0.1
# A broker of a ZooKeeper cluster answers requests before its controller has sent it the topics.
_GONE_AFTER_S = 3.0


class RegistrationsUnavailable(Exception):
    """The registrations cannot be read now.

    Attributes:
        unauthorized: whether rights are missing.
        is_newer: whether another release of k2ktui wrote them.
    """

    def __init__(self, reason: str, *, unauthorized: bool = False, is_newer: bool = False) -> None:
        super().__init__(reason)
        self.unauthorized, self.is_newer = unauthorized, is_newer

    @property
    def is_lasting(self) -> bool:
        """Whether another attempt fails likewise, unless an operator changes something."""
        return self.unauthorized or self.is_newer


class RegistrationReader:
    """What is registered in one commit topic; every call of ``read`` continues where it ended.

    Records of open and aborted transactions count too: a registration is true as soon as it is
    written, and the transaction that wrote it may not have its marker yet although batches of its
    producer id are committed.

    Args:
        topic: the commit topic.
        with_positions: keep the positions, too; by far the most records.

    Attributes:
        registrations: by producer id.
        runs: the latest run of each pipeline, by its commit group.
        newer_ids, newer_runs: producer ids and commit groups of which there are only records of
            versions that this release does not read.
    """

    def __init__(self, topic: str, *, with_positions: bool = False) -> None:
        self._topic = topic
        self._with_positions = with_positions
        self._positions: dict[bytes, bytes] = {}
        self._topic_id = ""
        self._next: dict[int, int] = {}
        self.registrations: dict[int, ProducerRegistration] = {}
        self.runs: dict[str, Run] = {}
        self.newer_ids: set[int] = set()
        self.newer_runs: set[str] = set()

    def check_known(self, producer_ids: Iterable[int]) -> None:
        """Refuse to decide about producer ids whose registration this release does not read.

        Raises:
            RegistrationsUnavailable: there are such ids among them.
        """
        newer = sorted(self.newer_ids.intersection(producer_ids))
        if newer:
            raise RegistrationsUnavailable(
                f"{safe_text(self._topic)} has registrations in a version that this release does "
                f"not read (producer id {list_names(newer, 3)})",
                is_newer=True,
            )

    def target_topics(self, group: str) -> set[str]:
        """Return the target topics of a pipeline's positions."""
        topics: set[str] = set()
        for key, value in self._positions.items():
            with suppress(MalformedRecord):
                of, _, position = read_commit_record(key, value, group)
                if of == group and isinstance(position, Position):
                    topics.update(position.target_topics)
        return topics

    async def read(self, wire: Wire, timeout: float) -> None:
        """Read up to the high watermark of every partition, as it is after the call began.

        A topic that does not exist has no registrations.

        Raises:
            RegistrationsUnavailable: not everything could be read within ``timeout`` seconds.
        """
        until = monotonic() + timeout
        gone_since = 0.0
        while True:
            try:
                info = (await wire.metadata([self._topic]))[self._topic]
                if info.error in TOPIC_GONE and not self._topic_id:
                    gone_since = gone_since or monotonic()
                    if monotonic() - gone_since >= min(_GONE_AFTER_S, timeout / 2):
                        return
                    reason = code_name(info.error)
                else:
                    self._check(info)
                    for partition in sorted(info.partitions):
                        await self._read_partition(wire, info, partition, until)
                    return
            except (NotSent, OutcomeUnknown, _Retry) as error:
                reason = str(error)
            if monotonic() > until:
                raise RegistrationsUnavailable(
                    f"{safe_text(self._topic)} on the {wire.label} cluster: {reason}"
                )
            await wire.loop.sleep(_RETRY_S)

    def _check(self, info: TopicInfo) -> None:
        if info.error == Code.TOPIC_AUTHORIZATION_FAILED:
            raise self._unauthorized()
        if info.error:
            raise _Retry(code_name(info.error))
        if self._topic_id and info.topic_id and info.topic_id != self._topic_id:
            self._next.clear()
        self._topic_id = info.topic_id or self._topic_id or "-"

    def _unauthorized(self) -> RegistrationsUnavailable:
        return RegistrationsUnavailable(
            f"the principal may not read {safe_text(self._topic)}", unauthorized=True
        )

    async def _read_partition(
        self, wire: Wire, info: TopicInfo, partition: int, until: float
    ) -> None:
        node = info.partitions[partition].node
        if node < 0:
            raise _Retry(f"partition {partition} has no leader")
        end = await self._offset(wire, node, partition, LATEST)
        at = self._next.get(partition, -1)
        if at < 0 or at > end:
            at = await self._offset(wire, node, partition, EARLIEST)
        while at < end:
            if monotonic() > until:
                raise _Retry(f"partition {partition} was not read in time")
            request = self._fetch(partition, at)
            result = self._result(await wire.send(request, node), partition)
            after = at
            for batch in split_batches(result.records or b""):
                after = batch.last_offset + 1
                self._take(batch)
            if after == at and result.high_watermark < end:
                raise _Retry(f"partition {partition} has changed its leader")
            if after == at:
                after = end  # a response has at least one batch (KIP-74): the rest was compacted
            at = self._next[partition] = after
        self._next[partition] = max(at, self._next.get(partition, 0))

    async def _offset(self, wire: Wire, node: int, partition: int, which: int) -> int:
        request = list_offsets_request([(self._topic, partition)], which, READ_UNCOMMITTED)
        part = answered_partition((await wire.send(request, node)).topics, partition)
        if part is None:
            raise _Retry(f"no answer for partition {partition}")
        self._check_code(part.error_code)
        return int(part.offset)

    def _fetch(self, partition: int, offset: int) -> Any:
        wanted = {(self._topic, partition): (offset, _FETCH_BYTES)}
        return fetch_request(wanted, isolation=READ_UNCOMMITTED, max_bytes=_FETCH_BYTES)

    def _result(self, response: Any, partition: int) -> Any:
        if response.error_code:
            raise _Retry(code_name(response.error_code))
        part = answered_partition(response.responses, partition)
        if part is None:
            raise _Retry("it throttles this client (quota)")
        if part.error_code == Code.OFFSET_OUT_OF_RANGE:
            self._next.pop(partition, None)
        self._check_code(part.error_code)
        return part

    def _check_code(self, code: int) -> None:
        if code == Code.TOPIC_AUTHORIZATION_FAILED:
            raise self._unauthorized()
        if code:
            raise _Retry(code_name(code))

    def _take(self, batch: Batch) -> None:
        try:
            if not batch.crc_ok():
                raise CorruptBatch("wrong checksum")
            for key, value in _records(batch, with_all=self._with_positions):
                self._take_record(key, value)
        except CorruptBatch as error:
            # It may hold a registration: not knowing it would copy records back.
            raise RegistrationsUnavailable(
                f"{safe_text(self._topic)}, batch at offset {batch.base_offset}: {error}"
            ) from error

    def _take_record(self, key: bytes | None, value: bytes | None) -> None:
        try:
            registration = read_registration(key, value)
            run = read_run(key, value)
        except UnknownVersion as error:
            self._note_newer(error.of)
            return
        except MalformedRecord:
            return  # what is not k2ktui's stops no pipeline
        if self._with_positions and registration is None and run is None and key and value:
            self._positions[key] = value
        if registration is not None:
            self.registrations[registration.producer_id] = registration
            self.newer_ids.discard(registration.producer_id)
        if run is not None and (run[0] not in self.runs or run[1].term >= self.runs[run[0]].term):
            self.runs[run[0]] = run[1]
            self.newer_runs.discard(run[0])

    def _note_newer(self, of: str | int) -> None:
        if isinstance(of, str):
            self.newer_runs.add(of)
        elif (
            of not in self.registrations
        ):  # an id is never registered for a second pair of clusters
            self.newer_ids.add(of)


class _Retry(Exception):
    """Not readable at the moment."""


def _records(batch: Batch, *, with_all: bool) -> Iterator[tuple[bytes | None, bytes | None]]:
    """Yield the keys and values of a batch, unless it can hold neither registration nor run.

    Raises:
        CorruptBatch: its bytes do not follow the format.
    """
    if batch.is_control or not batch.count:
        return
    if not with_all and not batch.attributes & COMPRESSION_MASK:
        data = bytes(batch.view)
        if REGISTRATION_MARK not in data and RUN_MARK not in data:
            return
    records, kind = decode_records(batch), timestamp_type(batch)
    for row in range(len(records)):
        record = record_at(records, row, kind)
        yield record.key, record.value
