"""Source logs that were deleted before all of their records were copied, as the commit topic says.

A run writes a record when it finds that the topic does not exist any longer and the replicated
position is behind the last end that it knew. An operator acknowledges it by writing it again.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from k2ktui.engine.strict_json import (
    LARGEST_MS,
    MalformedRecord,
    dump_object,
    field,
    integer,
    text,
)

DELETED = "deleted"
_VERSION = 1


@dataclass(frozen=True, slots=True)
class DeletedLog:
    """A partition of a deleted source topic whose copy ends before its last known end.

    Attributes:
        topic, partition: of the source.
        offset: replicated position: the next source offset that would have been copied.
        end: last stable offset when the log was last read.
        topic_id: id of the deleted topic; "" if it had none.
        at_ms: wall clock of the writer, epoch milliseconds.
        acknowledged: ``user@host`` who has acknowledged it; "" if nobody has.
    """

    topic: str
    partition: int
    offset: int
    end: int
    topic_id: str = ""
    at_ms: int = 0
    acknowledged: str = ""

    @property
    def lost(self) -> int:
        """Number of source offsets that were not copied; their records are on no cluster."""
        return self.end - self.offset

    def is_of(self, offset: int, topic_id: str) -> bool:
        """Whether it is about the log that a position belongs to, and nothing was copied since."""
        return (self.offset, self.topic_id) == (offset, topic_id)

    def follow(self, earlier: DeletedLog | None) -> DeletedLog:
        """Return this record, read after an earlier one; an acknowledgment of the same stays.

        A run that has not seen the acknowledgment yet may write its own record after it.
        """
        if earlier is None or self.acknowledged or not earlier.acknowledged:
            return self
        is_same = earlier.is_of(self.offset, self.topic_id) and earlier.end >= self.end
        return earlier if is_same else self


def deleted_log_key(group: str, log: DeletedLog) -> bytes:
    """Compaction key of a record; ``group`` is ``coordination.commit.group``."""
    return dump_object(
        {"group": group, "kind": DELETED, "topic": log.topic, "partition": log.partition}
    )


def deleted_log_value(log: DeletedLog) -> bytes:
    """Value of a record."""
    value: dict[str, Any] = {
        "v": _VERSION,
        "offset": log.offset,
        "end": log.end,
        "topicId": log.topic_id,
        "at": log.at_ms,
    }
    if log.acknowledged:
        value["acknowledged"] = log.acknowledged
    return dump_object(value)


def parse_deleted_log(topic: str, partition: int, value: Mapping[str, Any]) -> DeletedLog:
    """Return the record of a partition, from its decoded value.

    Raises:
        MalformedRecord: a field is missing or wrong.
    """
    offset, end = integer(field(value, "offset")), integer(field(value, "end"))
    if offset >= end:
        raise MalformedRecord("a deleted log without a record that was not copied")
    return DeletedLog(
        topic,
        partition,
        offset,
        end,
        text(field(value, "topicId")),
        integer(value.get("at", 0), high=LARGEST_MS),
        text(value.get("acknowledged", "")),
    )
