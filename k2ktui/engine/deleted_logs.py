"""Source logs that were deleted before all of their records were copied, as the commit topic says.

A run writes a record when it finds that the topic does not exist any longer and the replicated
position is behind the last end that it knew. An operator acknowledges it by writing it again.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from k2ktui.engine.strict_json import MalformedRecord, dump_object
from k2ktui.engine.wire import (
    COUNT,
    MILLIS,
    TEXT,
    Wire,
    defaulted,
    optional,
    required,
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


_WIRE = Wire(
    DeletedLog,
    offset=required("offset", COUNT),
    end=required("end", COUNT),
    topic_id=required("topicId", TEXT),
    at_ms=defaulted("at", MILLIS, 0),
    acknowledged=optional("acknowledged", TEXT, ""),
)


def deleted_log_key(group: str, log: DeletedLog) -> bytes:
    """Compaction key of a record; ``group`` is ``coordination.commit.group``."""
    return dump_object(
        {"group": group, "kind": DELETED, "topic": log.topic, "partition": log.partition}
    )


def deleted_log_value(log: DeletedLog) -> bytes:
    """Value of a record."""
    return dump_object({"v": _VERSION, **_WIRE.write(log)})


def parse_deleted_log(topic: str, partition: int, value: Mapping[str, Any]) -> DeletedLog:
    """Return the record of a partition, from its decoded value.

    Raises:
        MalformedRecord: a field is missing or wrong.
    """
    log = _WIRE.read(value, topic=topic, partition=partition)
    if log.offset >= log.end:
        raise MalformedRecord("a deleted log without a record that was not copied")
    return log
