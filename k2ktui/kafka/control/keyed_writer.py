"""Write keyed records to a control topic with an idempotent, non-transactional producer."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from threading import Lock
from time import monotonic
from typing import Any

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from k2ktui.errors import ClusterRefused, ConnectionFailed, K2kError, TimedOut
from k2ktui.kafka.auth.logins import LOGINS, Login, password_login
from k2ktui.kafka.client_errors import (
    LIBRARY_LOG,
    MESSAGE_TIMED_OUT,
    keeps_out,
    log_level,
)
from k2ktui.kafka.client_login import flush
from k2ktui.kafka.clients import Cluster
from k2ktui.kafka.properties.translation import librdkafka
from k2ktui.text import safe_text

log = logging.getLogger(__name__)

Entry = tuple[bytes, bytes | None]

_DEFAULT_S = 20.0
# librdkafka applies its limit before compression; the broker limits the compressed size.
_LARGEST_BYTES = 64 << 20
# A larger request than socket.request.max.bytes, 1 MB at some services, would never be answered.
_BATCH_BYTES = 512 << 10
_FULL_POLL_S = 0.05
_ANY_PARTITION = -1  # RD_KAFKA_PARTITION_UA
# Properties, with librdkafka's aliases, that would conflict with the settings made here.
_OURS = (
    "delivery.timeout.ms",
    "transactional.id",
    "request.required.acks",
    "message.send.max.retries",
    "max.in.flight",
    "compression.codec",
)
_TOO_LARGE = frozenset({KafkaError.MSG_SIZE_TOO_LARGE, KafkaError.RECORD_LIST_TOO_LARGE})
_FORBIDDEN = frozenset(
    {KafkaError.TOPIC_AUTHORIZATION_FAILED, KafkaError.CLUSTER_AUTHORIZATION_FAILED}
)


class KeyedWriter:
    """Writes to one topic; connects on the first write and reconnects after a failure.

    Args:
        cluster: cluster of the topic.
        topic: its name; it must exist.
        timeout: seconds that a record may wait for acknowledgment by all in-sync replicas.
        partition_of: chooses the partition by key; None for the Java client's default partitioner.
    """

    def __init__(
        self,
        cluster: Cluster,
        topic: str,
        timeout: float = _DEFAULT_S,
        partition_of: Callable[[bytes], int] | None = None,
    ) -> None:
        self._cluster = cluster
        self._topic = topic
        self._timeout = timeout
        self._partition_of = partition_of
        self._producer: Producer | None = None
        self._generation = 0
        self._login: Login = None
        self._has_written, self._made_at = False, 0
        self._in_use = Lock()
        self._trouble = ""
        self._refused: KafkaError | None = None  # a login or a certificate

    def open(self) -> None:
        """Connect before the first write, which then need not wait half a second for its id.

        Failures are ignored: the first write reports them.
        """
        with suppress(KafkaException, K2kError):
            self._connect()

    def put(self, entries: Iterable[Entry]) -> dict[int, range]:
        """Write records in order (value None: tombstone) and wait for all acknowledgments.

        Returns:
            The offsets of the records in each partition; empty if others wrote in between.

        Raises:
            ClusterRefused: the principal may not write to the topic, or a record is too large.
            ConnectionFailed, TimedOut, K2kError: not all records were acknowledged; some may have
                been written.
        """
        refused: list[KafkaError] = []
        offsets: dict[int, list[int]] = {}

        def delivered(error: KafkaError | None, message: Message) -> None:
            if error is not None:
                refused.append(error)
            else:
                offsets.setdefault(message.partition() or 0, []).append(message.offset() or 0)

        until = monotonic() + self._timeout
        try:
            with self._in_use:
                producer = self._connect()
                left = self._send(producer, list(entries), delivered, until)
        except KafkaException as error:
            self.close()
            raise self._failure(error.args[0]) from error
        if refused or left:
            reason = refused[0].name() if refused else self._trouble or "no answer"
            counts = len(refused), left
            log.info("%s: %d records refused, %d unanswered: %s", self._topic, *counts, reason)
            self.close()
            raise self._failure(refused[0] if refused else None)
        self._trouble, self._refused = "", None
        if not self._has_written:
            self._has_written = True
            LOGINS.accepted(self._login)
        spans = {p: range(min(written), max(written) + 1) for p, written in offsets.items()}
        return spans if all(len(spans[p]) == len(written) for p, written in offsets.items()) else {}

    def _look_after(self) -> None:
        """Close the producer if its login is refused, while nothing is written."""
        if self._in_use.acquire(blocking=False):
            try:
                if self._producer is not None:
                    self._producer.poll(0)
                    if LOGINS.was_refused(self._login, self._made_at):
                        self.close()
            finally:
                self._in_use.release()

    def close(self) -> None:
        """Disconnect and drop all unacknowledged records."""
        if self._producer is not None:
            self._producer.purge()
            self._producer = None

    def _send(
        self, producer: Producer, entries: Sequence[Entry], delivered: Any, until: float
    ) -> int:
        """Return the number of records not acknowledged in time."""
        for key, value in entries:
            partition = self._partition_of(key) if self._partition_of else _ANY_PARTITION
            while True:
                try:
                    producer.produce(self._topic, value, key, partition, on_delivery=delivered)
                    break
                except BufferError:
                    if monotonic() > until:
                        return len(producer)
                    producer.poll(_FULL_POLL_S)
            producer.poll(0)
        return flush(producer, until, lambda: self._refused)

    def _connect(self) -> Producer:
        if self._producer is not None and self._generation != self._cluster.login.generation:
            self.close()
        if self._producer is None:
            settings = librdkafka(self._cluster.config, "producer")
            for name in _OURS:
                settings.pop(name, None)
            settings = {**settings, **self._settings()}
            self._generation = self._cluster.login.generation
            self._login, self._has_written = password_login(settings), False
            self._made_at = LOGINS.refusals
            self._producer = Producer(
                self._cluster.login.checked(settings, self._note_trouble, self._look_after)
            )
        return self._producer

    def _settings(self) -> dict[str, Any]:
        return {
            "acks": "all",
            "enable.idempotence": True,
            "max.in.flight.requests.per.connection": 5,
            "retries": 2**31 - 1,
            "message.timeout.ms": int(self._timeout * 1000),
            "message.max.bytes": _LARGEST_BYTES,
            "batch.size": _BATCH_BYTES,
            "compression.type": "lz4",
            "linger.ms": 0,
            "partitioner": "murmur2_random",
            "log_level": log_level(),
            "logger": LIBRARY_LOG,
        }

    def _note_trouble(self, error: KafkaError) -> None:
        self._trouble = safe_text(error.str())
        if keeps_out(error):
            self._refused = error

    def _failure(self, error: KafkaError | None) -> K2kError:
        where = f"writing to {safe_text(self._topic)} on the {self._cluster.label} cluster"
        if error is not None and error.code() in _FORBIDDEN:
            return ClusterRefused(
                f"{where}: {safe_text(error.str())}",
                hint="Grant the principal Describe and Write on the topic, and on brokers before "
                "3.0 IdempotentWrite on the cluster.",
            )
        if error is not None and error.code() in _TOO_LARGE:
            return ClusterRefused(
                f"{where}: a record is too large",
                hint=f"Raise max.message.bytes of {safe_text(self._topic)}.",
            )
        if error is None or error.code() == MESSAGE_TIMED_OUT:
            kept_out, self._refused = self._refused, None
            if kept_out is not None:
                return self._cluster.login.error(kept_out)
            why = f" ({self._trouble})" if self._trouble else ""
            kind = ConnectionFailed if self._trouble else TimedOut
            return kind(
                f"{where}: not acknowledged within {self._timeout:g} s{why}",
                hint="Check that it is up and reachable from here.",
            )
        return K2kError(f"{where}: {safe_text(error.str())}")
