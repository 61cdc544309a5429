"""Folds the records of a state topic that belong to one pipeline into its current content."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterable, Mapping, Sequence

from k2ktui.engine.moves.journal import (
    DrillKey,
    JournalKey,
    StateKey,
    StateRecord,
    WrittenKey,
    record_key,
)
from k2ktui.engine.moves.journal_format import read_state_key, read_state_value
from k2ktui.engine.moves.written import WrittenCommits, merge
from k2ktui.engine.records.state import MalformedRecord
from k2ktui.kafka.control.reader import ControlRecord

_NUMBER = re.compile(rb'{"number":([0-9]{1,16}),')
# Number of records of a consumer group, written at the same time, whose commits are all known.
_AT_ONCE = 8


class StateFold:
    """The newest record of each key; each is decoded once, and only if nothing newer followed.

    Args:
        group: the pipeline's commit group; records of others are ignored.
    """

    def __init__(self, group: str) -> None:
        self._group = group
        # By raw key: what it says, None if it is another pipeline's or cannot be read.
        self._keys: dict[bytes, StateKey | None] = {}
        self._malformed_keys: set[bytes] = set()
        # The values that are not decoded yet; then the records, None if one cannot be read.
        self._values: dict[StateKey, bytes] = {}
        self._records: dict[StateKey, StateRecord | None] = {}
        self._parts: set[JournalKey] = set()
        self._drills: dict[str, tuple[int, int]] = {}
        # What was written for consumer groups: read on demand, several records may hold.
        self._written_values: dict[WrittenKey, deque[bytes]] = {}
        self._written: dict[WrittenKey, WrittenCommits] = {}

    def take(self, entry: ControlRecord, written: StateRecord | None = None) -> None:
        """Apply a record; those of one key must arrive in order.

        Args:
            entry: the record.
            written: what this process wrote with it, so that it need not be decoded.
        """
        raw = entry.key or b""
        if written is not None:
            self._keys.setdefault(raw, record_key(written))
        key = self._read_key(raw)
        if entry.value is None:
            self._malformed_keys.discard(raw)
        if key is None:
            return
        if isinstance(key, JournalKey) and key.consumer_group:
            (self._parts.discard if entry.value is None else self._parts.add)(key)
        elif isinstance(key, WrittenKey):
            if isinstance(written, WrittenCommits):
                self.written([key.consumer_group])
                self._add(key, written)
            else:
                self._take_written(key, entry.value)
        elif entry.value is None:
            self._values.pop(key, None)
            self._records.pop(key, None)
        else:
            self._values[key] = entry.value
            if isinstance(key, DrillKey):
                self._drills[key.id] = (entry.partition, entry.offset)

    def _take_written(self, key: WrittenKey, value: bytes | None) -> None:
        if value is None:
            self._written_values.pop(key, None)
            self._written.pop(key, None)
        else:
            self._written_values.setdefault(key, deque(maxlen=_AT_ONCE)).append(value)

    def written(self, groups: Iterable[str]) -> dict[str, WrittenCommits]:
        """Return what was written for consumer groups; a damaged record says nothing."""
        written = {}
        for group in groups:
            key = WrittenKey(group)
            for value in _at_once(self._written_values.pop(key, ())):
                try:
                    record = read_state_value(key, value)
                except MalformedRecord:
                    continue
                if isinstance(record, WrittenCommits):
                    self._add(key, record)
            if key in self._written:
                written[group] = self._written[key]
        return written

    def _add(self, key: WrittenKey, record: WrittenCommits) -> None:
        before = self._written.get(key)
        self._written[key] = record if before is None else merge(before, record)

    def records(self) -> Sequence[StateRecord]:
        """Return the newest records, without the parts of journal entries."""
        for key, value in self._values.items():
            try:
                self._records[key] = read_state_value(key, value)
            except MalformedRecord:
                self._records[key] = None
        self._values = {}
        return [record for record in self._records.values() if record is not None]

    def find_drill(self, drill_id: str) -> tuple[int, int] | None:
        """Return partition and offset of the newest record of a drill; None without one."""
        return self._drills.get(drill_id)

    @property
    def malformed(self) -> int:
        """Number of newest records that could not be read, of those that were decoded."""
        return len(self._malformed_keys) + sum(record is None for record in self._records.values())

    @property
    def unreadable(self) -> frozenset[StateKey]:
        """Keys of the newest records that could not be read, of those that were decoded."""
        return frozenset(key for key, record in self._records.items() if record is None)

    def entries(self) -> Mapping[str, set[str]]:
        """Return the consumer groups that each journal entry has records of; "" is its header."""
        entries: dict[str, set[str]] = {}
        headers = [key for key in self._records if isinstance(key, JournalKey)]
        for key in (*headers, *self._parts):
            entries.setdefault(key.id, set()).add(key.consumer_group)
        return entries

    def _read_key(self, raw: bytes) -> StateKey | None:
        if raw not in self._keys:
            key, readable = read_own_key(raw, self._group)
            self._keys[raw] = key
            if not readable:
                self._malformed_keys.add(raw)
                # Its next record counts as malformed, too, if a tombstone comes in between.
                del self._keys[raw]
        return self._keys.get(raw)


def _at_once(values: Iterable[bytes]) -> list[bytes]:
    """Leave out the records that a later one is based on: to decode all takes too long."""
    remaining = list(values)
    for last in range(len(remaining) - 1, 0, -1):
        number, before = _NUMBER.match(remaining[last]), _NUMBER.match(remaining[last - 1])
        if number is not None and before is not None and int(number[1]) > int(before[1]):
            return remaining[last:]
    return remaining


def read_own_key(raw: bytes, group: str) -> tuple[StateKey | None, bool]:
    """Return the key if it belongs to this pipeline, and whether it could be read."""
    try:
        _, key = read_state_key(raw, group)
    except MalformedRecord:
        return None, False
    return key, True
