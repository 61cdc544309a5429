"""Group records of the mapping topic by source partition, and decode them."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from confluent_kafka import Message

from k2ktui.engine.mapping_log import MappingChunk
from k2ktui.engine.state import MalformedRecord, SourcePartition, read_mapping_key
from k2ktui.sync.mapping_parse import MappingParser, read_one

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
    """

    records: int = 0
    malformed: tuple[MalformedMapping, ...] = ()
    malformed_count: int = 0
    behind: bool = False
    conflicting_pipelines: Mapping[SourcePartition, tuple[str, ...]] = field(default_factory=dict)


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

    Attributes:
        owners: the commit group whose records are used, per source partition.
        records: number of records read.
        malformed: the first 20 records that cannot be used.
        malformed_count: number of records that cannot be used.
        conflicting_pipelines: per source partition, the other pipelines that map it.
    """

    def __init__(
        self,
        pipelines: Collection[str],
        only: Collection[SourcePartition] | None = None,
        owners: Mapping[SourcePartition, str] | None = None,
    ) -> None:
        self.records = 0
        self.malformed: list[MalformedMapping] = []
        self.malformed_count = 0
        self.conflicting_pipelines: dict[SourcePartition, set[str]] = {}
        self.owners = dict(owners or {})
        self._pipelines = frozenset(pipelines)
        self._only = only
        self._parser = MappingParser()
        self._owners: dict[bytes | None, _Owner | None] = {}

    def sort(self, messages: Sequence[Message]) -> list[tuple[SourcePartition, list[MappingChunk]]]:
        """Return the chunks of each source partition, in the order of the topic.

        Args:
            messages: consecutive records of one partition of the topic.
        """
        self.records += len(messages)
        ours: dict[SourcePartition, list[Message]] = {}
        for message in messages:
            owner = self._owner(message)
            if owner is not None:
                ours.setdefault(owner.source, []).append(message)
        pieces = self._parser.pieces(list(ours.values()))
        if pieces is None:
            pieces = [self._one_by_one(group) for group in ours.values()]
        return list(zip(ours, pieces, strict=True))

    def _owner(self, message: Message) -> _Owner | None:
        """Return the owner of a record; None if the record is not of interest."""
        key = message.key()
        if key not in self._owners:
            if len(self._owners) > _KEYS:  # bounds the memory that garbage keys can take
                self._owners.clear()
            self._owners[key] = _read_owner(key)
        owner = self._owners[key]
        if owner is None:
            self._complain(message, "the key is damaged or not k2ktui's")
        elif not self._is_used(owner):
            self.conflicting_pipelines.setdefault(owner.source, set()).add(owner.pipeline)
        elif self._only is None or owner.source in self._only:
            return owner
        return None

    def _is_used(self, owner: _Owner) -> bool:
        used = owner.pipeline in self._pipelines
        return used and self.owners.setdefault(owner.source, owner.pipeline) == owner.pipeline

    def _one_by_one(self, messages: Sequence[Message]) -> list[MappingChunk]:
        found = []
        for message in messages:
            try:
                found.append(read_one(message))
            except MalformedRecord as error:
                self._complain(message, str(error))
        return found

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
