"""What a pipeline changes in records, or leaves out: comparisons of contents must expect it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from k2ktui.config.model import PipelineConfig
from k2ktui.engine.mapping.ranges import NOT_FOUND
from k2ktui.engine.mapping.replica import Replica
from k2ktui.engine.moves.groups import Snapshot
from k2ktui.engine.schemas.ids import SchemaPart
from k2ktui.log.record import RecordPart
from k2ktui.sync.verify.verification import GroupPosition

_SCHEMA_IDS = {
    SchemaPart.KEY: RecordPart.KEY_SCHEMA_ID,
    SchemaPart.VALUE: RecordPart.VALUE_SCHEMA_ID,
}


def ignored_parts(
    config: PipelineConfig, topic: str, *, transforms: bool = False
) -> frozenset[RecordPart]:
    """Return the parts of a source topic's records that the pipeline changes on purpose.

    ``transforms`` is whether the records to compare are those that its transform has made.
    """
    from k2ktui.engine.transforms.header_names import HeaderRules
    from k2ktui.replication.topics.routing import header_rules

    parts: set[RecordPart] = set()
    transform = None if transforms else config.replication.transform_for(topic)
    for part in (RecordPart.KEY, RecordPart.VALUE, RecordPart.HEADERS):
        if transform is not None and transform.changes(part.value):
            parts.add(part)
    schemas = config.schema_rule_for(topic)
    parts |= {_SCHEMA_IDS[part] for part in (schemas.parts if schemas is not None else ())}
    marked = config.bidirectional_mode in ("pipeline", "cluster")
    if marked or header_rules(config, topic) != HeaderRules():
        parts.add(RecordPart.HEADERS)
    if not config.features.keep_record_creation_timestamp:
        parts.add(RecordPart.TIMESTAMP)
    return frozenset(parts)


def leaves_records_out(config: PipelineConfig, topic: str) -> bool:
    """Return whether a target partition may lack some records of a source partition.

    A transform leaves them out, an expression sends them to another topic or partition, or they are
    dead letters.
    """
    transform, schemas = config.replication.transform_for(topic), config.schema_rule_for(topic)
    if schemas is not None and schemas.on_unknown == "deadLetter":
        return True
    if transform is None:
        return False
    return transform.leaves_records_out or transform.routing is not None


def skip_left_out(
    config: PipelineConfig, snapshot: Snapshot, rows: Sequence[GroupPosition]
) -> list[GroupPosition]:
    """Return the positions, moved on the source over records that are not on the target partition.

    The first unread record on the target is the copy of the first mapped one.
    """
    positions = []
    for row in rows:
        replica = snapshot.replicas.get(row.source)
        if replica is not None and leaves_records_out(config, row.source.topic):
            row = replace(row, source_offset=_first_mapped(replica, row))
        positions.append(row)
    return positions


def _first_mapped(replica: Replica, row: GroupPosition) -> int:
    """Return the offset of the first mapped record at or after a position, if it is known."""
    ranges = replica.target_ranges.get(row.target)
    if ranges is None or replica.unusable_reason or replica.known_from > row.source_offset:
        return row.source_offset
    offsets = np.array([row.source_offset], dtype=np.int64)
    (first,) = ranges.first_at_or_after(offsets).tolist()
    if first != NOT_FOUND:
        return int(first)
    copied = replica.position.offset if replica.position is not None else 0
    return max(row.source_offset, copied)
