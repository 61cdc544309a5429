"""Split batches that the target refuses for their size, and limit the size of later ones.

A broker compresses a batch again if the topic's ``compression.type`` is another codec, and compares
the result with ``max.message.bytes``: a batch of 100 kB may become one of 2 MB. Whether it gets too
large is only known once it is refused. The result depends on the uncompressed size, so the limit of
later batches counts uncompressed bytes; batches that are small as sent are not decompressed for it.
"""

from __future__ import annotations

import numpy as np

from k2ktui.log.batch import COMPRESSION_MASK, split_batches
from k2ktui.log.rebuild import build_batches, built_bytes
from k2ktui.log.records import Records, decode_records
from k2ktui.replication.copying.outgoing_batch import OutgoingBatch
from k2ktui.replication.copying.slot_task import SizeLimit


def split_refused(
    outgoing: OutgoingBatch, limit: SizeLimit | None
) -> tuple[list[OutgoingBatch], SizeLimit]:
    """Split a refused batch of several records; return the parts, and the limit of later batches.

    Args:
        outgoing: the batch.
        limit: what applied to it.

    Raises:
        CorruptBatch: its records cannot be decoded.
    """
    (batch,) = split_batches(outgoing.data)
    records = decode_records(batch)
    limit = halve(limit, len(outgoing.data), records)
    parts, first = [], 0
    for built in build_batches(records, batch.attributes & COMPRESSION_MASK, limit.uncompressed):
        sources = outgoing.sources
        if sources is not None:
            sources = sources[first : first + built.count]
        at = outgoing.first_source + first if sources is None else int(sources[0])
        parts.append(
            OutgoingBatch(
                *(outgoing.target, memoryview(built.data), built.count, at, sources),
                outgoing.owner,
                checksum_known=True,
            )
        )
        first += built.count
    assert first == outgoing.count, "the parts have the sequence numbers of the whole"
    return parts, limit


def halve(limit: SizeLimit | None, sent: int, records: Records) -> SizeLimit:
    """Return the limit after a batch of several records was refused: half of it, in both sizes.

    It always splits that batch, and never falls below what one of its records needs: a record that
    is too large alone must not make batches of all others smaller.

    Args:
        limit: what applied before.
        sent: size of the batch as it was sent.
        records: its records.
    """
    largest = max(range(len(records)), key=lambda row: len(records.tails[row]))
    alone = built_bytes(records.take(np.array([largest])))
    half = max(alone, built_bytes(records) // 2)
    if limit is None:
        return SizeLimit(sent // 2, half)
    return SizeLimit(min(limit.sent, sent // 2), min(limit.uncompressed, half))
