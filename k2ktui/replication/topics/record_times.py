"""When the records at given offsets were written."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass, field

from k2ktui.errors import ConnectionFailed
from k2ktui.kafka.clients import Partition
from k2ktui.log.content import ContentReader, KafkaRecord

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class RecordTimes:
    """What is known of the first committed record at or after an offset.

    Attributes:
        times: timestamps in epoch seconds.
        exhausted: partitions without a committed record from their offset to the last stable
            offset, such as those that end with the marker of a transaction.
        untimed: partitions whose record has no timestamp.
    """

    times: Mapping[Partition, float] = field(default_factory=dict)
    exhausted: frozenset[Partition] = frozenset()
    untimed: frozenset[Partition] = frozenset()


def read_times(
    content: ContentReader, where: Mapping[Partition, int], timeout: float
) -> RecordTimes:
    """Return when the first committed record at or after each offset was written.

    Args:
        content: of the cluster.
        where: offset by topic and partition.
        timeout: in seconds; partitions that were not read by then, or cannot be read, are left out.
    """
    if not where:
        return RecordTimes()
    try:
        answers = content.next_records([(*at, offset) for at, offset in where.items()], timeout)
    except ConnectionFailed as error:
        log.info("timestamps of records not read: %s", error.message)
        return RecordTimes()
    firsts = {at: answers[(*at, offset)] for at, offset in where.items()}
    stamps = {at: one.timestamp_ms for at, one in firsts.items() if isinstance(one, KafkaRecord)}
    return RecordTimes(
        {at: stamp / 1000 for at, stamp in stamps.items() if stamp >= 0},
        frozenset(at for at, answer in firsts.items() if answer is None),
        frozenset(at for at, stamp in stamps.items() if stamp < 0),
    )
