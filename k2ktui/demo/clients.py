"""The demo's Kafka clients: the applications whose records and offsets are replicated."""

from __future__ import annotations

from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer
from confluent_kafka.admin import AdminClient

from k2ktui.errors import ConnectionFailed

TIMEOUT_SECONDS = 30.0


def settings(bootstrap: str, **more: object) -> dict[str, Any]:
    """Return librdkafka properties; ``_`` in a keyword name stands for ``.``."""
    # No librdkafka logs: a line on standard error would garble the live table.
    base: dict[str, Any] = {"bootstrap.servers": bootstrap, "log_level": 0}
    return base | {name.replace("_", "."): value for name, value in more.items()}


def admin(bootstrap: str) -> AdminClient:
    """Return an admin client; keep a reference until its futures are done."""
    return AdminClient(settings(bootstrap))


def producer(bootstrap: str, **more: object) -> Producer:
    """Return an idempotent producer, or a transactional one when given ``transactional_id``."""
    if "transactional_id" in more:
        # A transaction that is open when its cluster is killed ends soon after its return.
        more = {"transaction_timeout_ms": 10_000, **more}
    made = Producer(settings(bootstrap, enable_idempotence=True, linger_ms=20, **more))
    if "transactional_id" in more:
        made.init_transactions(TIMEOUT_SECONDS)
    return made


def consumer(bootstrap: str, group: str, **more: object) -> Consumer:
    """Return a read_committed consumer of ``group`` without auto-commit."""
    return Consumer(
        settings(
            bootstrap,
            group_id=group,
            isolation_level="read_committed",
            enable_auto_commit=False,
            auto_offset_reset="earliest",
            session_timeout_ms=10_000,
            **more,
        )
    )


class Delivery:
    """Delivery reports of one producer: the number of records, and the first error."""

    def __init__(self) -> None:
        self.delivered = 0
        self.error: KafkaError | None = None

    def __call__(self, error: KafkaError | None, message: Message) -> None:
        if error is None:
            self.delivered += 1
        else:
            self.error = self.error or error


def flush(made: Producer, delivery: Delivery, what: str) -> None:
    """Wait until everything produced is acknowledged.

    Raises:
        ConnectionFailed: not all records were acknowledged within 30 s.
    """
    left = made.flush(TIMEOUT_SECONDS)
    if left or delivery.error:
        reason = delivery.error.str() if delivery.error else f"{left} records unacknowledged"
        raise ConnectionFailed(f"The demo could not write {what}: {reason}.")


def client_error(error: KafkaException, what: str) -> ConnectionFailed:
    """Return the error shown to the operator when a client of the demo fails."""
    found = error.args[0]
    reason = found.str() if isinstance(found, KafkaError) else str(error)
    return ConnectionFailed(f"The demo could not {what}: {reason}.")
