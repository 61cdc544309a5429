"""Group records of the mapping topic by source partition, and decode them."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from confluent_kafka import Message

from k2ktui.engine.mapping.copy_extent import CopyExtent, Overlap
from k2ktui.engine.mapping.log import MappingChunk
from k2ktui.engine.records.state import MalformedRecord, SourcePartition, read_mapping_key
from k2ktui.sync.mapping.parse import MappingDecoder

_KEYS = 100_000
_KEPT_MALFORMED = 20


@dataclass(frozen=True, slots=True)
class MalformedMapping:
    """A record of the mapping topic that cannot be used."""

    partition: int
    offset: int
    why: str


@dataclass(frozen=True, slots=True)
class MappingReport:
    """The result of a refresh.

    Attributes:
        records: records of the mapping topic that this refresh read.
        malformed: the first 20 records that cannot be used.
        malformed_count: number of records that cannot be used.
        behind: whether mappings below replicated positions could not be read: the end was not
            reached in time, or they are behind an open transaction.
        conflicting_pipelines: per source partition that several pipelines map, their names.
        earlier_pipelines: per source partition, other pipelines that mapped the same records, but
            wrote all their copies before the first one of ours; they conflict if they still run.
    """

    records: int = 0
    malformed: tuple[MalformedMapping, ...] = ()
    malformed_count: int = 0
    behind: bool = False
    conflicting_pipelines: Mapping[SourcePartition, tuple[str, ...]] = field(default_factory=dict)
    earlier_pipelines: Mapping[SourcePartition, tuple[str, ...]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class _Owner:
    pipeline: str
    source: SourcePartition


class MappingSorter:
    """Sorts and decodes the mapping records of some pipelines, one for each source partition.

    Args:
        pipelines: the commit groups whose records are used.
        only: the source partitions of interest; None for all.
        owners: source partitions whose records are used of one of these pipelines only. Of others,
            the pipeline of the first record is used.
        elsewhere: commit groups that copy between other clusters: they conflict with none.

    Attributes:
        owners: the commit group whose records are used, per source partition.
        records: number of records read.
        malformed: the first 20 records that cannot be used.
        malformed_count: number of records that cannot be used.
        seen: the commit groups of all records.
        damaged: the source partitions of which a record that would be used cannot be read.
    """

    def __init__(
        self,
        pipelines: Collection[str],
        only: Collection[SourcePartition] | None = None,
        owners: Mapping[SourcePartition, str] | None = None,
        elsewhere: Collection[str] = (),
    ) -> None:
        self.records = 0
        self.malformed: list[MalformedMapping] = []
        self.malformed_count = 0
        self.owners = dict(owners or {})
        self.seen: set[str] = set()
        self.damaged: set[SourcePartition] = set()
        self._elsewhere = frozenset(elsewhere)
        self._pipelines = frozenset(pipelines)
        self._only = only
        self._decoder = MappingDecoder()
        self._owners_by_key: dict[bytes | None, _Owner | None] = {}
        self._extents: dict[_Owner, CopyExtent] = {}
        # Other pipelines with records of a source partition that were not decoded: it had no owner.
        self._passed_over: dict[SourcePartition, set[str]] = {}

    def sort(self, messages: Sequence[Message]) -> list[tuple[SourcePartition, list[MappingChunk]]]:
        """Return the chunks of each source partition, in the order of the topic.

        Args:
            messages: consecutive records of one partition of the topic.
        """
        self.records += len(messages)
        used: dict[SourcePartition, list[Message]] = {}
        others: dict[_Owner, list[Message]] = {}
        for message in messages:
            owner = self._owner(message)
            if owner is None:
                continue
            if self._is_used(owner):
                if self._only is None or owner.source in self._only:
                    used.setdefault(owner.source, []).append(message)
            elif self._only is None and owner.pipeline not in self._elsewhere:
                if owner.source in self.owners:
                    others.setdefault(owner, []).append(message)
                else:
                    self._passed_over.setdefault(owner.source, set()).add(owner.pipeline)
        self._take_others(others)
        sources = list(used)

        def refuse(number: int, message: Message, error: MalformedRecord) -> None:
            self.damaged.add(sources[number])
            self._complain(message, str(error))

        pieces = self._decoder.decode(list(used.values()), refuse)
        if self._only is None:
            for source, chunks in zip(used, pieces, strict=True):
                self._extend(_Owner(self.owners[source], source), chunks)
        return list(zip(used, pieces, strict=True))

    def has_passed_over(
        self, sources: Iterable[SourcePartition], elsewhere: Collection[str]
    ) -> bool:
        """Whether records were not decoded that would be with these owners and ``elsewhere``."""
        shared = not self._elsewhere.issubset(elsewhere)
        return shared or not self._passed_over.keys().isdisjoint(sources)

    def find_overlaps(
        self, overlap: Overlap, elsewhere: Collection[str] = ()
    ) -> dict[SourcePartition, set[str]]:
        """Return the other pipelines whose mappings relate so to the ones used.

        Args:
            overlap: the relation.
            elsewhere: commit groups that are known by now to copy between other clusters.
        """
        overlaps: dict[SourcePartition, set[str]] = {}
        if overlap is Overlap.CONFLICT:
            for source, names in self._passed_over.items():
                if self._used_extent(source):
                    overlaps[source] = names.difference(elsewhere)
        for owner, extent in self._extents.items():
            extent_in_use = self._used_extent(owner.source)
            if (
                extent_in_use
                and owner.pipeline not in elsewhere
                and extent_in_use.compare(extent) is overlap
            ):
                overlaps.setdefault(owner.source, set()).add(owner.pipeline)
        return {source: names for source, names in overlaps.items() if names}

    def _used_extent(self, source: SourcePartition) -> CopyExtent | None:
        return self._extents.get(_Owner(self.owners.get(source, ""), source))

    def _take_others(self, others: Mapping[_Owner, Sequence[Message]]) -> None:
        owners = list(others)

        def refuse(number: int, _: Message, __: MalformedRecord) -> None:
            self._extents.setdefault(owners[number], CopyExtent()).damaged = True

        for owner, chunks in zip(
            owners, self._decoder.decode(list(others.values()), refuse), strict=True
        ):
            self._extend(owner, chunks)

    def _extend(self, owner: _Owner, pieces: Sequence[MappingChunk]) -> None:
        extent = self._extents.setdefault(owner, CopyExtent())
        for piece in pieces:
            extent.take(piece)

    def _owner(self, message: Message) -> _Owner | None:
        """Return the owner of a record; None if its key is damaged."""
        key = message.key()
        if key not in self._owners_by_key:
            if len(self._owners_by_key) > _KEYS:  # bounds the memory that garbage keys can take
                self._owners_by_key.clear()
            owner = self._owners_by_key[key] = _read_owner(key)
            self.seen.update([owner.pipeline] if owner else [])
        owner = self._owners_by_key[key]
        if owner is None:
            self._complain(message, "the key is damaged or not k2ktui's")
        return owner

    def _is_used(self, owner: _Owner) -> bool:
        used = owner.pipeline in self._pipelines
        return used and self.owners.setdefault(owner.source, owner.pipeline) == owner.pipeline

    def _complain(self, message: Message, why: str) -> None:
        self.malformed_count += 1
        if len(self.malformed) < _KEPT_MALFORMED:
            self.malformed.append(
                MalformedMapping(message.partition() or 0, message.offset() or 0, why)
            )


def _read_owner(key: bytes | None) -> _Owner | None:
    try:
        return _Owner(*read_mapping_key(key))
    except MalformedRecord:
        return None
