"""When the records at given offsets were written."""

from __future__ import annotations

import logging
import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from k2ktui.errors import ConnectionFailed
from k2ktui.kafka.clients import Partition
from k2ktui.log.content import ContentReader, KafkaRecord, Where

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
    times = read_written(content, [(*at, offset) for at, offset in where.items()], timeout)
    firsts = {at: times[*at, offset] for at, offset in where.items() if (*at, offset) in times}
    return RecordTimes(
        {at: written for at, written in firsts.items() if math.isfinite(written)},
        frozenset(at for at, written in firsts.items() if written == math.inf),
        frozenset(at for at, written in firsts.items() if math.isnan(written)),
    )


def read_written(
    content: ContentReader, where: Collection[Where], timeout: float
) -> dict[Where, float]:
    """Return when the first committed record at or after each position was written.

    Arguments and what is left out are as for :func:`read_times`. The time is infinite where there
    is no record, and NaN for a record without a timestamp.
    """
    if not where:
        return {}
    try:
        answers = content.next_records(where, timeout)
    except ConnectionFailed as error:
        log.info("timestamps of records not read: %s", error.message)
        return {}
    times = {}
    for at, answer in answers.items():
        if answer is None:
            times[at] = math.inf
        elif isinstance(answer, KafkaRecord):
            times[at] = answer.timestamp_ms / 1000 if answer.timestamp_ms >= 0 else math.nan
    return times
