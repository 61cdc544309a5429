"""Write keyed records to a control topic as their only writer, fenced by a transactional id.

Opening a writer bumps the epoch of its transactional id: every earlier writer with this id, on any
host, can write nothing from then on. Each :meth:`FencedWriter.put` is one transaction.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from time import monotonic
from typing import Any

from confluent_kafka import KafkaError, KafkaException, Producer

from k2ktui.errors import K2kError, Refused, TimedOut
from k2ktui.kafka.client_errors import LOCAL_TIMED_OUT, PRODUCER_FENCED
from k2ktui.kafka.clients import Cluster
from k2ktui.kafka.control.keyed_writer import Entry, KeyedWriter
from k2ktui.text import safe_text

log = logging.getLogger(__name__)

_TIMEOUT_S = 20.0
# A killed writer's open transaction hides later records of the topic for this long at most.
_TRANSACTION_S = 30.0
_FENCED = frozenset(
    {PRODUCER_FENCED, KafkaError.PRODUCER_FENCED, KafkaError.INVALID_PRODUCER_EPOCH}
)
_FORBIDDEN = KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED


class WriterFenced(Refused):
    """Another process has opened a writer with the same transactional id; nothing was written."""


class FencedWriter(KeyedWriter):
    """The only writer with a transactional id; opened once, useless after its first failure.

    Args:
        cluster: cluster of the topic.
        topic: its name; it must exist.
        transactional_id: the id.
        timeout: seconds for each request of a transaction.
    """

    def __init__(
        self, cluster: Cluster, topic: str, transactional_id: str, timeout: float = _TIMEOUT_S
    ) -> None:
        super().__init__(cluster, topic, timeout)
        self._id = transactional_id
        self._first_error: K2kError | None = None

    def open(self) -> None:
        """Fence every earlier writer with this id.

        Raises:
            Refused: the principal may not use the transactional id.
            ConnectionFailed, TimedOut: the cluster did not answer.
        """
        producer = self._connect()
        try:
            producer.init_transactions(self._timeout)
        except KafkaException as error:
            self._first_error = self._transaction_failure(error.args[0])
            raise self._first_error from error

    def put(self, entries: Iterable[Entry]) -> dict[int, range]:
        """Write records in one transaction; returns nothing, since its marker follows them.

        Raises:
            WriterFenced: another writer was opened; nothing was written.
            ConnectionFailed, TimedOut, K2kError: the outcome is unknown.
        """
        producer = self._producer
        if producer is None or self._first_error is not None:
            first = self._first_error
            raise K2kError(
                f"nothing can be written as {safe_text(self._id)} after an earlier failure: "
                + (first.message if first is not None else "it is not connected"),
                unchanged="Nothing was written.",
                hint=first.hint if first is not None else "",
            )
        refused: list[KafkaError] = []

        def delivered(error: KafkaError | None, _: Any) -> None:
            if error is not None:
                refused.append(error)

        try:
            producer.begin_transaction()
            left = self._send(producer, list(entries), delivered, monotonic() + self._timeout)
            if refused or left:
                raise KafkaException(refused[0] if refused else KafkaError(LOCAL_TIMED_OUT))
            self._commit(producer)
        except (KafkaException, SystemError) as error:
            # Python reports a SystemError if a callback runs while the client raises an error.
            cause = error if isinstance(error, KafkaException) else error.__cause__
            if not isinstance(cause, KafkaException):
                raise
            self._first_error = self._transaction_failure(cause.args[0])
            log.info("transaction of %s failed: %s", self._id, self._first_error.message)
            raise self._first_error from error
        return {}

    def _commit(self, producer: Producer) -> None:
        until = monotonic() + self._timeout
        while True:
            try:
                producer.commit_transaction(max(0.1, until - monotonic()))
                return
            except KafkaException as error:
                if not error.args[0].retriable() or monotonic() > until:
                    raise

    def _settings(self) -> dict[str, Any]:
        return {
            **super()._settings(),
            "transactional.id": self._id,
            "transaction.timeout.ms": int(_TRANSACTION_S * 1000),
        }

    def _transaction_failure(self, error: KafkaError) -> K2kError:
        if error.code() in _FENCED:
            return WriterFenced(
                f"another process has opened the transactional id {safe_text(self._id)}",
                unchanged="Nothing was written.",
            )
        if error.code() == _FORBIDDEN:
            return Refused(
                f"the principal may not use the transactional id {safe_text(self._id)}",
                unchanged="Nothing was written.",
                hint="Grant it Write and Describe on this id, or on its prefix.",
            )
        if error.code() == LOCAL_TIMED_OUT:
            return TimedOut(
                f"the {self._cluster.label} cluster did not answer a transaction within "
                f"{self._timeout:g} s",
                hint="Check that it is up and reachable from here.",
            )
        return self._failure(error)
