"""One partition of the mapping topic: its records, sorted by the source partitions they are of."""

from __future__ import annotations

import json
from array import array
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from zlib import crc32

from confluent_kafka import Message

from k2ktui.engine.ranges import Columns, joined, ordered, overlapping
from k2ktui.engine.replica import TargetPartition
from k2ktui.engine.state import MalformedRecord, Mapping, SourcePartition, mapping_key
from k2ktui.sync.mapping_parse import Lane, Texts, read_one
from k2ktui.sync.mapping_report import Malformed
from k2ktui.sync.mapping_track import UNREAD, Piece, Track

_KEYS = 100_000
# Trimming costs a copy, so it waits until it pays.
_SLACK, _SLACK_RANGES = 2, 1_000


@dataclass(frozen=True, slots=True)
class Owner:
    """What the key of a mapping record says."""

    pipeline: str
    source: SourcePartition


class Keys:
    """Decodes keys, each once; and what follows the numbers in values, each once."""

    def __init__(self, pipeline: str) -> None:
        self.pipeline = pipeline
        self.tails: dict[bytes, Lane | None] = {}
        self._owners: dict[bytes | None, Owner | None] = {}

    def owner(self, key: bytes | None) -> Owner | None:
        """Return whose record it is, None if the key is damaged."""
        if key not in self._owners:
            # Whoever writes rubbish must not fill the memory.
            for cache in (self._owners, self.tails):
                if len(cache) > _KEYS:
                    cache.clear()
            self._owners[key] = _owner(key)
        return self._owners[key]


def _owner(key: bytes | None) -> Owner | None:
    try:
        head = json.loads(key or b"")
        pipeline, topic, partition = head["pipeline"], head["topic"], head["partition"]
    except (ValueError, KeyError, TypeError, RecursionError):
        return None
    if not (isinstance(pipeline, str) and isinstance(topic, str) and type(partition) is int):
        return None
    return Owner(pipeline, SourcePartition(topic, partition))


def home_of(pipeline: str, source: SourcePartition, partitions: int) -> int:
    """Return the mapping partition of a source partition (docs/record-formats.md)."""
    return crc32(mapping_key(Mapping(pipeline, source, "", 0))) % partitions


class MappingPartition:
    """What was read of one partition of the mapping topic.

    Args:
        number: its number.
        keys: decoded keys, shared by all partitions.
        scattered: whether keys choose the target partition.
        only: the source partitions of interest, None for all.

    Attributes:
        tracks: what is known of each source partition.
        rivals: for each source partition the other pipelines that map it, and where they last did.
        records: number of records read.
        log_start, stable, written: its bounds: last stable offset, high watermark.
        next: offset to read next.
        begun: whether its bounds are known.
        whole: whether nothing had been deleted when it was first read.
    """

    def __init__(
        self,
        number: int,
        keys: Keys,
        *,
        scattered: bool,
        only: Iterable[SourcePartition] | None = None,
    ) -> None:
        self.number = number
        self.log_start = self.next = self.stable = self.written = 0
        self.begun, self.whole = False, True
        self.tracks: dict[SourcePartition, Track] = {}
        self.rivals: dict[SourcePartition, dict[str, int]] = {}
        self.records = 0
        self._keys = keys
        self._scattered = scattered
        self._only = None if only is None else frozenset(only)
        self._since: dict[SourcePartition, int] = {}
        self._created_anew = False
        # When damaged records with an unreadable key were written.
        self._unknown = array("q")

    def created_anew(self) -> None:
        """Take note that the topic was deleted and created: what was read cannot be read again."""
        self._created_anew = True

    def begin(self, log_start: int, written: int) -> None:
        """Go on reading where it is possible, given the log start offset and high watermark."""
        if not self.begun:
            self.begun, self.whole, self.next = True, log_start == 0, log_start
        elif self._created_anew or written < self.next:
            for track in self.tracks.values():
                track.index = track.index.cut_off()
            self._unknown.append(UNREAD)
            self.next = log_start
        elif self.next < log_start:
            self._unknown.append(UNREAD)
            self.next = log_start
        self._created_anew = False
        self.log_start = log_start

    def lost(self, log_start: int) -> None:
        """Take note that the partition now begins at ``log_start``."""
        self.log_start = log_start
        for track in self.tracks.values():
            track.lost(log_start)
        for source, names in list(self.rivals.items()):
            kept = {name: offset for name, offset in names.items() if offset >= log_start}
            self.rivals[source] = kept
            if not kept:
                del self.rivals[source]

    def trim(self, count: int, before_ms: int | None) -> None:
        """Hold at most ``count`` ranges a source partition, none written before a time."""
        for track in self.tracks.values():
            track.trim(count, before_ms)
            track.asked = None

    def keep_within(self, count: int) -> None:
        """Let no source partition hold many more than ``count`` ranges until the next trimming."""
        for track in self.tracks.values():
            if track.rows > _SLACK * count + _SLACK_RANGES:
                track.trim(count, None)

    def forget_before_term(self, source: SourcePartition, since: int) -> None:
        """Let mappings of earlier terms be those of another source log."""
        self._since[source] = since
        if source in self.tracks:
            self.tracks[source].forget_terms_before(since)

    def since(self, source: SourcePartition) -> int:
        """Return the term below which mappings are of another source log."""
        return self._since.get(source, 0)

    @property
    def damaged(self) -> bool:
        """Whether records of unknown source partitions are damaged or were deleted unread."""
        return bool(self._unknown)

    def settle(self) -> None:
        """Let every source partition know of the damage there is."""
        for track in self.tracks.values():
            self._settle(track)

    def _settle(self, track: Track) -> None:
        if track.seen < len(self._unknown):
            track.tear(frozenset(self._unknown[track.seen :] if self._scattered else ()))
            track.seen = len(self._unknown)

    def take(self, messages: Sequence[Message]) -> list[Malformed]:
        """Take in records that follow each other; return those that cannot be used."""
        self.records += len(messages)
        self.next = max(self.next, (messages[-1].offset() or 0) + 1)
        groups: dict[bytes | None, list[Message]] = {}
        for message in messages:
            groups.setdefault(message.key(), []).append(message)
        if any(self._keys.owner(key) is None for key in groups):
            # Which source partitions go on before and which after the damage: the order decides.
            return self._one_by_one(messages)
        ours: dict[SourcePartition, list[Message]] = {}
        for key, found in groups.items():
            owner = self._keys.owner(key)
            if owner is not None and self._wanted(owner):
                several = owner.source in ours
                ours.setdefault(owner.source, []).extend(found)
                if several:  # keys that are spelled differently
                    ours[owner.source].sort(key=lambda message: message.offset() or 0)
            elif owner is not None:
                self._rival(owner, found[-1].offset() or 0)
        return self._many(ours)

    def _wanted(self, owner: Owner) -> bool:
        return owner.pipeline == self._keys.pipeline and (
            self._only is None or owner.source in self._only
        )

    def _rival(self, owner: Owner, offset: int) -> None:
        if owner.pipeline != self._keys.pipeline:
            self.rivals.setdefault(owner.source, {})[owner.pipeline] = offset

    def _track(self, source: SourcePartition) -> Track:
        track = self.tracks.get(source)
        if track is None:
            track = Track(whole=self.whole, scattered=self._scattered, since=self.since(source))
            self.tracks[source] = track
        self._settle(track)
        return track

    def _many(self, ours: dict[SourcePartition, list[Message]]) -> list[Malformed]:
        texts = Texts(self._keys.tails)
        chosen: list[tuple[SourcePartition, list[tuple[list[Message], int]]]] = []
        slow: list[SourcePartition] = []
        for source, messages in ours.items():
            parts = self._cut(messages)
            added = [texts.add([m.value() for m in part]) for part in parts]
            if self._track(source).plain and all(at is not None for at in added):
                chosen.append((source, list(zip(parts, (at or 0 for at in added), strict=True))))
            else:
                slow.append(source)
        columns = texts.columns()
        for source, numbered in chosen:
            pieces = None if columns is None else [_piece(p, columns[at]) for p, at in numbered]
            if pieces is None or not self._add(source, pieces):
                slow.append(source)
        return [bad for source in slow for bad in self._one_by_one(ours[source])]

    def _cut(self, messages: list[Message]) -> list[list[Message]]:
        """Keep the last transaction apart where its records interleave: damage may follow."""
        if not self._scattered:
            return [messages]
        last, at = _time(messages[-1]), len(messages) - 1
        while at and _time(messages[at - 1]) == last:
            at -= 1
        return [part for part in (messages[:at], messages[at:]) if part]

    def _add(self, source: SourcePartition, pieces: Sequence[Piece | None]) -> bool:
        """Add pieces that simply follow; False, and none was added, if one of them does not."""
        track, first, term = self.tracks[source], 0, -1
        for piece in pieces:
            if piece is None or not track.follows(piece.term, piece.first):
                return False
            # The second one is judged before the first one is there.
            if piece.term < term or (piece.term > term >= 0 and piece.first < first):
                return False
            first, term = piece.end, piece.term
        for piece in pieces:
            if piece is not None:
                track.add(piece)
        return True

    def _one_by_one(self, messages: Iterable[Message]) -> list[Malformed]:
        malformed = []
        for message in messages:
            why = self._one(message)
            if why:
                malformed.append(Malformed(self.number, message.offset() or 0, why))
        return malformed

    def _one(self, message: Message) -> str:
        key, offset, at = message.key(), message.offset() or 0, _time(message)
        owner = self._keys.owner(key)
        if owner is None:
            self._unknown.append(at)
            return "the key is damaged, or not one of ours"
        if not self._wanted(owner):
            self._rival(owner, offset)
            return ""
        track = self._track(owner.source)
        try:
            mapping, columns = read_one(key, message.value())
        except MalformedRecord as error:
            track.tear((at,))
            return str(error)
        target = (mapping.target_topic, mapping.target_partition)
        if mapping.again is not None:
            track.repeat(offset, mapping.term, mapping.again, target, columns)
        elif len(columns):
            track.add(Piece(offset, at, mapping.term, {target: columns}))
        return ""


def _time(message: Message) -> int:
    return int(message.timestamp()[1])


def _piece(messages: Sequence[Message], found: Sequence[tuple[Lane, Columns]]) -> Piece | None:
    """Make one piece of records, None if they are of several terms or map an offset twice."""
    lanes: dict[TargetPartition, list[Columns]] = {}
    for lane, columns in found:
        lanes.setdefault(lane.target, []).append(columns)
    whole = {target: ordered(joined(parts)) for target, parts in lanes.items()}
    if len({lane.term for lane, _ in found}) > 1 or any(map(overlapping, whole.values())):
        return None
    offset, at = messages[0].offset() or 0, _time(messages[0])
    return Piece(offset, at, found[0][0].term, whole, len(messages))
