"""Folds the records of a state topic that belong to one pipeline into its current content."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from k2ktui.engine.journal import DrillKey, JournalKey, StateKey, StateRecord
from k2ktui.engine.journal_format import read_state_key, read_state_value
from k2ktui.engine.state import MalformedRecord
from k2ktui.kafka.control_reader import ControlRecord


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

    def take(self, entry: ControlRecord) -> None:
        """Apply a record; those of one key must arrive in order."""
        raw = entry.key or b""
        key = self._read_key(raw)
        if entry.value is None:
            self._malformed_keys.discard(raw)
        if key is None:
            return
        if isinstance(key, JournalKey) and key.consumer_group:
            (self._parts.discard if entry.value is None else self._parts.add)(key)
        elif entry.value is None:
            self._values.pop(key, None)
            self._records.pop(key, None)
        else:
            self._values[key] = entry.value
            if isinstance(key, DrillKey):
                self._drills[key.id] = (entry.partition, entry.offset)

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
        return len(self._malformed_keys) + sum(each is None for each in self._records.values())

    def entries(self) -> Mapping[str, set[str]]:
        """Return the consumer groups that each journal entry has records of; "" is its header."""
        found: dict[str, set[str]] = {}
        headers = [key for key in self._records if isinstance(key, JournalKey)]
        for key in (*headers, *self._parts):
            found.setdefault(key.id, set()).add(key.consumer_group)
        return found

    def _read_key(self, raw: bytes) -> StateKey | None:
        if raw not in self._keys:
            key, readable = read_own_key(raw, self._group)
            self._keys[raw] = key
            if not readable:
                self._malformed_keys.add(raw)
                # Its next record counts as malformed, too, if a tombstone comes in between.
                del self._keys[raw]
        return self._keys.get(raw)


def read_own_key(raw: bytes, group: str) -> tuple[StateKey | None, bool]:
    """Return the key if it belongs to this pipeline, and whether it could be read."""
    try:
        _, key = read_state_key(raw, group)
    except MalformedRecord:
        return None, False
    return key, True
