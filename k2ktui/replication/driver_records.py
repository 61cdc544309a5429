"""Writes the driver's own records to the commit topic: run records, positions, registrations."""

from __future__ import annotations

from collections.abc import Sequence

from k2ktui.kafka.codes import code_name
from k2ktui.kafka.producer_id import Producer
from k2ktui.kafka.transactions import add_partitions, end_transaction
from k2ktui.kafka.wire import Signal, Wire
from k2ktui.log.rebuild import build_batches
from k2ktui.log.records import make_records
from k2ktui.replication.copying.failpoints import failpoint
from k2ktui.replication.copying.outgoing_batch import OutgoingBatch
from k2ktui.replication.copying.writer import SlotFailed, Writer

_BATCH_BYTES = 512 << 10


async def write_records(
    wire: Wire,
    producer: Producer,
    where: Sequence[tuple[str, int]],
    entries: Sequence[tuple[bytes, bytes | None]],
    at_ms: int,
    *,
    transactional: bool,
) -> None:
    """Write keys and values to each of these partitions, in one transaction if there are any.

    Raises:
        Fenced, SlotFailed, BatchRefused, CoordinatorError, OutcomeUnknown: as a slot's transaction.
    """
    records = make_records([(i, at_ms, key, value) for i, (key, value) in enumerate(entries)])
    writer = Writer(wire, producer, Signal(wire.loop), lambda *_: None)
    if transactional:
        for (topic, number), code in (await add_partitions(wire, producer, where)).items():
            raise SlotFailed(f"{topic}-{number}: {code_name(code)}", code)
    for partition in where:
        for built in build_batches(records, 0, _BATCH_BYTES):
            writer.offer(partition, OutgoingBatch(memoryview(built.data), built.count))
    await writer.drain()
    failpoint("recorded")
    if transactional:
        await end_transaction(wire, producer, commit=True)
