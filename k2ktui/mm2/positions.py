"""Positions of MirrorMaker 2's MirrorSourceConnector: what is stored, and moves of it, planned.

Connect stores ``{"cluster", "partition", "topic"} -> {"offset"}`` per source partition, where the
offset is that of the *last* record copied (MirrorSourceTask). A *position* here is the next one
to copy, as everywhere in this program: one more. Nothing here talks to anybody.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, TypeGuard

from k2ktui.engine.state import SourcePartition
from k2ktui.engine.strict_json import parse_object
from k2ktui.errors import ConfigError, K2kError, Refused
from k2ktui.mm2.connect import NOTHING, SourceOffset
from k2ktui.text import safe_text

SOURCE_CONNECTOR = "org.apache.kafka.connect.mirror.MirrorSourceConnector"
# Their offsets are always 0 and are never read (MirrorCheckpointTask, MirrorHeartbeatTask).
_WITHOUT_POSITIONS = ("MirrorCheckpointConnector", "MirrorHeartbeatConnector")
_RESET = "auto.offset.reset"
_LARGEST_OFFSET = (1 << 63) - 2


class StoredMoveEffect(StrEnum):
    """What a move of a position means."""

    KEEP = "keep"
    FORWARD = "forward"
    BACK = "back"
    BEGIN = "begin"
    CLEAR = "clear"


@dataclass(frozen=True, slots=True)
class Bounds:
    """Log start offset and high watermark of a source partition."""

    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Connector:
    """A MirrorSourceConnector as it is.

    Attributes:
        name: its name, or that of the flow in a dedicated MirrorMaker 2.
        cluster: alias of the source cluster.
        state: its state, as Connect calls it.
        reset: where partitions without a position begin, see :func:`reset_of`.
        positions: next offset to copy of each partition that has one.
    """

    name: str
    cluster: str
    state: str
    reset: str
    positions: Mapping[SourcePartition, int]


@dataclass(frozen=True, slots=True)
class StoredMove:
    """One position: what it is, and what it is to be; None for none stored.

    ``bounds`` are None where the source cluster was not asked.
    """

    source: SourcePartition
    before: int | None
    after: int | None
    bounds: Bounds | None = None

    @property
    def effect(self) -> StoredMoveEffect:
        """What it means for the copying."""
        if self.before == self.after:
            return StoredMoveEffect.KEEP
        if self.after is None:
            return StoredMoveEffect.CLEAR
        if self.before is None:
            return StoredMoveEffect.BEGIN
        return StoredMoveEffect.FORWARD if self.after > self.before else StoredMoveEffect.BACK

    @property
    def again(self) -> int:
        """Offsets whose records are copied a second time, at most."""
        if self.effect is not StoredMoveEffect.BACK or self.before is None or self.after is None:
            return 0
        return self.before - self.after

    @property
    def left_out(self) -> int:
        """Offsets whose records are never copied, at most."""
        if self.effect is not StoredMoveEffect.FORWARD or self.before is None or self.after is None:
            return 0
        return self.after - self.before


@dataclass(frozen=True, slots=True)
class StoredChange:
    """Moves of one connector's positions.

    Attributes:
        connector: its name.
        cluster: alias of the source cluster, as stored.
        moves: by source partition.
        notes: what to know of it.
    """

    connector: str
    cluster: str
    moves: tuple[StoredMove, ...]
    notes: tuple[str, ...] = ()

    @property
    def changes(self) -> tuple[StoredMove, ...]:
        """The moves that write something."""
        return tuple(move for move in self.moves if move.effect is not StoredMoveEffect.KEEP)

    def offsets(self) -> list[SourceOffset]:
        """Return what Connect is to store for the moves that write something."""
        return [connect_offset(self.cluster, move.source, move.after) for move in self.changes]


def connect_offset(cluster: str, source: SourcePartition, position: int | None) -> SourceOffset:
    """Return a position as Connect stores it; the order of the keys is part of the record's key."""
    place = {"cluster": cluster, "partition": source.partition, "topic": source.topic}
    return SourceOffset(place, None if position is None else {"offset": position - 1})


def read_positions(offsets: Iterable[SourceOffset]) -> dict[tuple[str, SourcePartition], int]:
    """Return positions by the source's alias and partition.

    Raises:
        K2kError: these are no offsets of a MirrorSourceConnector.
    """
    found = {}
    for each in offsets:
        place, offset = each.partition, each.offset
        last = offset.get("offset") if offset is not None else None
        source = _place(place)
        if source is None or (offset is not None and not _is_number(last)):
            raise K2kError(
                "an offset that is not of a MirrorSourceConnector: "
                + safe_text(json.dumps([place, offset]), 200),
                unchanged=NOTHING,
            )
        if last is not None:
            found[str(place["cluster"]), source] = int(last) + 1
    return found


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
        Refused: it is no MirrorSourceConnector.
    """
    kind = config.get("connector.class", "")
    short = kind.rpartition(".")[2]
    if short in _WITHOUT_POSITIONS:
        raise Refused(
            f"connector {safe_text(connector)} is a {short}: it has no positions, and a change of "
            "its offsets changes nothing",
            unchanged=NOTHING,
            mend="Name the MirrorSourceConnector.",
        )
    if short != SOURCE_CONNECTOR.rpartition(".")[2]:
        raise Refused(
            f"connector {safe_text(connector)} is no MirrorSourceConnector ({safe_text(kind)})",
            unchanged=NOTHING,
        )
    return config.get("source.cluster.alias", "source")


def reset_of(config: Mapping[str, str]) -> str:
    """Return where new partitions begin by a connector's settings (MirrorConnectorConfig)."""
    for prefix in ("source.consumer.", "consumer."):
        if prefix + _RESET in config:
            return config[prefix + _RESET].strip().lower()
    return "earliest"


def reset_in_words(reset: str) -> str:
    """Say what the settings mean for partitions without a stored position."""
    if reset == "latest":
        return (
            f"new partitions begin at their end (source.consumer.{_RESET}=latest): records "
            "produced before the task first reads them are left out"
        )
    if reset == "earliest":
        return (
            f"new partitions begin at their log start offset ({_RESET}=earliest); "
            f"source.consumer.{_RESET}: latest would begin at their end, and leave out what was "
            "produced before"
        )
    return f"{_RESET}={safe_text(reset)}: tasks fail at partitions without a position"


def plan(
    connector: Connector,
    wanted: Mapping[SourcePartition, int | None],
    bounds: Mapping[SourcePartition, Bounds] | None,
) -> StoredChange:
    """Plan exact positions, and None where nothing is to be stored, so that they begin anew.

    Args:
        connector: as it is now.
        wanted: positions that are to be.
        bounds: of the logs on the source; None if it cannot be asked.

    Raises:
        Refused: positions that MirrorMaker 2 would not read from, all of them at once.
    """
    wrong: list[str] = []
    moves, notes = [], []
    for source, position in sorted(wanted.items(), key=lambda each: each[0]):
        log = bounds.get(source) if bounds is not None else None
        why = _objection(position, log, connector.reset, asked=bounds is not None)
        if why:
            wrong.append(f"{safe_text(source)} at {position}: {why}")
        if position == 0:
            notes.append(f"{safe_text(source)}: storing no position is how to begin at 0")
        # Connect refuses an offset of -1 (MirrorUtils.validateSourceOffset).
        moves.append(StoredMove(source, connector.positions.get(source), position or None, log))
    if wrong:
        raise Refused(
            "positions that MirrorMaker 2 would not read from:\n    " + "\n    ".join(wrong),
            unchanged=NOTHING,
            mend="k2ktui mm2 offsets show lists the partitions and their bounds.",
        )
    if any(move.effect is StoredMoveEffect.CLEAR for move in moves):
        notes.append(reset_in_words(connector.reset))
    if bounds is None and any(wanted.values()):
        notes.append("the source cluster was not asked: whether these offsets exist is not known")
    return StoredChange(connector.name, connector.cluster, tuple(moves), tuple(notes))


def _objection(position: int | None, log: Bounds | None, reset: str, *, asked: bool) -> str:
    """Return why a position cannot be read from: the consumer would jump by its reset rule."""
    if position is None:
        return ""
    if position > _LARGEST_OFFSET:
        return "it is too large for Kafka"
    if position == 0 and reset != "earliest":
        return f"0 can only be had by storing nothing, and then {reset_in_words(reset)}"
    if not asked or (position == 0 and log is not None):
        return ""
    if log is None:
        return "the source has no such partition"
    if position > log.end:
        return f"it is beyond the high watermark, {log.end}"
    if position < log.start:
        return f"it is below the log start offset, {log.start}"
    return ""


def refuse_overtaken(change: StoredChange, now: Mapping[SourcePartition, int]) -> None:
    """Refuse moves that mean something else by now, since copying went on while they waited.

    A move back stays one, however far copying has come; a move forward that was overtaken would
    copy records twice.

    Raises:
        Refused: there are some.
    """
    lines = ""
    for move in change.changes:
        at = now.get(move.source)
        if StoredMove(move.source, at, move.after).effect is not move.effect:
            said = "none" if at is None else at
            lines += f"\n    {safe_text(move.source)}: its position is {said} now"
    if lines:
        raise Refused(
            f"copying went on while this was decided, and it would mean something else now:{lines}",
            unchanged="No offset was changed.",
            mend="Stop the copying first, then plan again.",
        )


def offsets_body(offsets: Iterable[SourceOffset]) -> str:
    """Return the body of Connect's ``PATCH …/offsets``, readable."""
    return json.dumps(
        {"offsets": [{"partition": o.partition, "offset": o.offset} for o in offsets]}, indent=2
    )


def parse_offsets_body(text: str) -> dict[tuple[str, SourcePartition], int | None]:
    """Read such a body: positions by alias and partition, None where nothing is to be stored.

    Raises:
        ConfigError: it is none.
    """
    try:
        listed = parse_object(text)["offsets"]
        offsets = [SourceOffset(each["partition"], each["offset"]) for each in listed]
        places = {(str(o.partition["cluster"]), _place(o.partition)) for o in offsets}
        positions = read_positions(offsets)
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError, K2kError):
        places, positions = {("", None)}, {}
    found: dict[tuple[str, SourcePartition], int | None] = {}
    for cluster, source in places:
        if source is None:
            raise ConfigError(
                "the file is no body of Connect's PATCH …/offsets for a MirrorSourceConnector",
                unchanged=NOTHING,
                mend='It has {"offsets": [{"partition": {"cluster": …, "partition": …, "topic": …}'
                ', "offset": {"offset": …}}]}.',
            )
        found[cluster, source] = positions.get((cluster, source))
    return found
