"""Stored positions of MirrorMaker 2's MirrorSourceConnector, and planned moves of them.

Connect stores ``{"cluster", "partition", "topic"} -> {"offset"}`` per source partition, where the
offset is that of the *last* record copied (MirrorSourceTask). A *position* here, as everywhere in
k2ktui, is the next offset to copy: one more. This module performs no I/O.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, TypeGuard

from k2ktui.engine.moves.positions import (
    MoveEffect,
    PositionMove,
    PositionPlan,
    SourceLog,
    effect_of,
)
from k2ktui.engine.records.state import SourcePartition
from k2ktui.engine.strict_json import parse_object
from k2ktui.errors import ConfigError, K2kError, Refused
from k2ktui.mm2.flows.connect import NOTHING, SourceOffset
from k2ktui.mm2.flows.model import FlowProperties
from k2ktui.text import safe_message, safe_text

# Journal name of a change.
OPERATION = "mm2 offsets"
SOURCE_CONNECTOR = "org.apache.kafka.connect.mirror.MirrorSourceConnector"
# These connectors store offset 0 and never read it (MirrorCheckpointTask, MirrorHeartbeatTask).
_WITHOUT_POSITIONS = ("MirrorCheckpointConnector", "MirrorHeartbeatConnector")
_RESET = "auto.offset.reset"
#: State of a connector that could not be asked for.
NOT_READ = "not read"
_LARGEST_OFFSET = (1 << 63) - 2


@dataclass(frozen=True, slots=True)
class Connector:
    """Current state of a MirrorSourceConnector.

    Attributes:
        name: the connector's name, or the flow's in a dedicated MirrorMaker 2.
        cluster: alias of the source cluster.
        state: state in Connect's terms.
        reset: where partitions without a position begin, see :func:`reset_of`.
        positions: next offset to copy of each partition that has a position.
    """

    name: str
    cluster: str
    state: str
    reset: str
    positions: Mapping[SourcePartition, int]


def stored_move(source: SourcePartition, now: int | None, new: int | None) -> PositionMove:
    """Return the move of a stored position; None if no position is stored."""
    by = 0 if now is None or new is None else new - now
    return PositionMove(
        source,
        effect_of(now, new),
        None,
        offset=new,
        again=max(0, -by),
        left_out=max(0, by),
        stored=now,
    )


def connect_offset(cluster: str, source: SourcePartition, position: int | None) -> SourceOffset:
    """Return a position as Connect stores it; the order of the fields is part of the key."""
    place = {"cluster": cluster, "partition": source.partition, "topic": source.topic}
    return SourceOffset(place, None if position is None else {"offset": position - 1})


def connect_offsets(change: PositionPlan) -> list[SourceOffset]:
    """Return the offsets that Connect must store for the changes of a plan."""
    return [connect_offset(change.alias, move.source, move.then) for move in change.changes]


def read_positions(offsets: Iterable[SourceOffset]) -> dict[tuple[str, SourcePartition], int]:
    """Return positions by source alias and partition.

    Raises:
        K2kError: an offset is not of a MirrorSourceConnector.
    """
    positions = {}
    for stored in offsets:
        place, offset = stored.partition, stored.offset
        last = offset.get("offset") if offset is not None else None
        source = _place(place)
        if source is None or (offset is not None and not _is_number(last)):
            raise K2kError(
                "an offset that is not a MirrorSourceConnector's:  "
                + safe_message(json.dumps([place, offset]), 200),
                unchanged=NOTHING,
            )
        if last is not None:
            positions[str(place["cluster"]), source] = int(last) + 1
    return positions


def _place(place: Mapping[str, Any]) -> SourcePartition | None:
    topic, partition = place.get("topic"), place.get("partition")
    if not isinstance(topic, str) or not isinstance(place.get("cluster"), str):
        return None
    return SourcePartition(topic, partition) if _is_number(partition) else None


def _is_number(value: Any) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool)


def source_alias(config: Mapping[str, str], connector: str) -> str:
    """Return the alias of the source cluster in a connector's settings.

    Raises:
        Refused: the connector is not a MirrorSourceConnector.
    """
    kind = config.get("connector.class", "")
    short = kind.rpartition(".")[2]
    if short in _WITHOUT_POSITIONS:
        raise Refused(
            f"connector {safe_text(connector)} is a {short}: it has no source positions, and "
            "changing its offsets has no effect",
            unchanged=NOTHING,
            hint="Name the MirrorSourceConnector.",
        )
    if short != SOURCE_CONNECTOR.rpartition(".")[2]:
        raise Refused(
            f"connector {safe_text(connector)} is not a MirrorSourceConnector ({safe_text(kind)})",
            unchanged=NOTHING,
        )
    return config.get("source.cluster.alias", "source")


def reset_of(config: Mapping[str, str]) -> str:
    """Return the connector's ``auto.offset.reset`` for new partitions (MirrorConnectorConfig)."""
    for prefix in ("source.consumer.", "consumer."):
        if prefix + _RESET in config:
            return config[prefix + _RESET].strip().lower()
    return "earliest"


def reset_in_words(reset: str) -> str:
    """Describe the effect of ``reset`` on partitions without a stored position."""
    if reset == "latest":
        return (
            f"new partitions start at their end (source.consumer.{_RESET}=latest): records "
            "produced before the task first reads them are skipped, which violates at-least-once; "
            "use it under special circumstances only"
        )
    if reset == "earliest":
        return (
            f"new partitions start at their log start offset ({_RESET}=earliest); "
            f"source.consumer.{_RESET}: latest would start at their end and skip earlier "
            "records"
        )
    return f"{_RESET}={safe_text(reset)}: tasks fail at partitions without a position"


def reset_notes(flow: FlowProperties) -> list[str]:
    """Return warnings about where a flow begins to copy partitions without a position."""
    notes = [] if flow.reset == "earliest" else [reset_in_words(flow.reset)]
    read = ("consumer.", "source.consumer.")
    works = _RESET in flow.clients["source"].get("consumer", {})
    idle = ("", "source.", "source.cluster.", "source.cluster.consumer.", f"{flow.source}.")
    keys = [f"{prefix}{_RESET}" for prefix in (*idle, *(() if works else read))]
    notes += [
        f"{safe_text(key)} has no effect: MirrorMaker 2 reads source.consumer.{_RESET} of the "
        "MirrorSourceConnector"
        for key in keys
        if key in flow.settings
    ]
    return notes


def plan(
    connector: Connector,
    wanted: Mapping[SourcePartition, int | None],
    bounds: Mapping[SourcePartition, SourceLog] | None,
) -> PositionPlan:
    """Plan moves to exact positions; None clears a position, so that the partition starts over.

    Args:
        connector: the connector's current state.
        wanted: the new positions.
        bounds: bounds of the source logs; None if the source cannot be queried.

    Raises:
        Refused: MirrorMaker 2 would not read from some positions; lists all of them.
    """
    wrong: list[str] = []
    moves, notes = [], []
    for source, position in sorted(wanted.items(), key=lambda move: move[0]):
        log = bounds.get(source) if bounds is not None else None
        why = _objection(position, log, connector.reset, asked=bounds is not None)
        if why:
            wrong.append(f"{safe_text(source)} at {position}: {why}")
        if position == 0:
            notes.append(f"{safe_text(source)}: to start at 0, store no position")
        # Position 0 would be offset -1, which Connect rejects (MirrorUtils.validateSourceOffset).
        moves.append(stored_move(source, connector.positions.get(source), position or None))
    if wrong:
        raise Refused(
            "MirrorMaker 2 cannot read from these positions:\n    " + "\n    ".join(wrong),
            unchanged=NOTHING,
            hint="List the partitions and their log bounds with k2ktui mm2 offsets show.",
        )
    unread = connector.state == NOT_READ
    if any(m.effect is MoveEffect.CLEAR or (unread and m.offset is None) for m in moves):
        notes.append(reset_in_words(connector.reset))
    if unread and not connector.positions and any(wanted.values()):
        notes.append(
            "the current positions were not read: an earlier offset copies records again, a later "
            "one skips records"
        )
    if bounds is None and any(wanted.values()):
        notes.append("the source cluster was not read: it is unknown whether these offsets exist")
    return PositionPlan(
        OPERATION, connector.name, tuple(moves), tuple(notes), alias=connector.cluster
    )


def _objection(position: int | None, log: SourceLog | None, reset: str, *, asked: bool) -> str:
    """Return why a position is unusable: the consumer would apply its reset policy instead."""
    if position is None:
        return ""
    if position > _LARGEST_OFFSET:
        return "it is too large for Kafka"
    if position == 0 and reset != "earliest":
        return f"position 0 requires storing no position, and then {reset_in_words(reset)}"
    if not asked or (position == 0 and log is not None):
        return ""
    if log is None:
        return "the source has no such partition"
    if position > log.end:
        return f"it is beyond the high watermark, {log.end}"
    if position < log.start:
        return f"it is below the log start offset, {log.start}"
    return ""


def refuse_other(change: PositionPlan, name: str, alias: str) -> None:
    """Check that a plan is one for this connector's positions.

    Raises:
        Refused: it is another connector's, or a pipeline's.
    """
    if (change.operation, change.pipeline, change.alias) != (OPERATION, name, alias):
        raise Refused(
            f"the plan is one of {safe_text(change.operation)} for {safe_text(change.pipeline)} "
            f'with source alias "{safe_text(change.alias)}", not of {OPERATION} for '
            f'{safe_text(name)} with "{safe_text(alias)}"',
            unchanged="No offset was changed.",
            hint="Plan the change again, for this connector.",
        )


def refuse_overtaken(change: PositionPlan, now: Mapping[SourcePartition, int]) -> None:
    """Check that no move has changed its effect because copying continued after planning.

    A move back remains a move back; a move forward that copying has overtaken would copy records
    twice.

    Raises:
        Refused: the effect of at least one move has changed.
    """
    lines = ""
    for move in change.changes:
        at = now.get(move.source)
        if effect_of(at, move.then) is not move.effect:
            said = "none" if at is None else at
            lines += f"\n    {safe_text(move.source)}: its position is {said} now"
    if lines:
        raise Refused(
            f"the positions have changed since the plan was made:{lines}",
            unchanged="No offset was changed.",
            hint="Stop the copying first, then plan again.",
        )


def offsets_body(offsets: Iterable[SourceOffset]) -> str:
    """Return the body of Connect's ``PATCH …/offsets`` as indented JSON."""
    return json.dumps(
        {"offsets": [{"partition": o.partition, "offset": o.offset} for o in offsets]}, indent=2
    )


def parse_offsets_body(text: str) -> dict[tuple[str, SourcePartition], int | None]:
    """Parse the body of Connect's ``PATCH …/offsets`` for a MirrorSourceConnector.

    Returns:
        Positions by source alias and partition; None clears a position.

    Raises:
        ConfigError: the text is not such a body.
    """
    try:
        listed = parse_object(text)["offsets"]
        offsets = [SourceOffset(item["partition"], item["offset"]) for item in listed]
        places = {(str(o.partition["cluster"]), _place(o.partition)) for o in offsets}
        positions = read_positions(offsets)
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError, K2kError):
        places, positions = {("", None)}, {}
    parsed: dict[tuple[str, SourcePartition], int | None] = {}
    for cluster, source in places:
        if source is None:
            raise ConfigError(
                "the file is not a request body of Connect's PATCH …/offsets for a "
                "MirrorSourceConnector",
                unchanged=NOTHING,
                hint='Give {"offsets": [{"partition": {"cluster": …, "partition": …, '
                '"topic": …}, "offset": {"offset": …}}]}.',
            )
        parsed[cluster, source] = positions.get((cluster, source))
    return parsed
