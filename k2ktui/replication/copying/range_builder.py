"""Mapping of one source partition's records to one target partition within one transaction."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from k2ktui.engine.records.state import MappingRange, MappingRecord, ScatteredRun
from k2ktui.log.records import I64

# A mapping record must stay well below max.message.bytes, which is 1 MiB by default.
_RANGES_A_RECORD = 8_000
_SCATTERED_A_RECORD = 60_000
# Above this share of breaks per record, listing single offsets is shorter than ranges.
_SCATTERED_SHARE = 0.2


class RangeBuilder:
    """Collects mapping ranges and scattered runs as batches are acknowledged.

    I3: where mapping[source] = target, both records have the same content. A range comes only from
    the base offset that the broker acknowledged for the batch with that very record; an offset that
    is predicted is wrong as soon as another producer writes to the partition.
    """

    def __init__(self) -> None:
        self._ranges: list[list[int]] = []
        self._runs: list[tuple[int, I64]] = []
        self._last = -1

    def add_range(self, source: int, target: int, count: int) -> None:
        """Add ``count`` records with consecutive source and target offsets."""
        if self._ranges:
            last = self._ranges[-1]
            if last[0] + last[2] == source and last[1] + last[2] == target:
                last[2] += count
                return
        self._ranges.append([source, target, count])

    def add(self, sources: I64, target: int) -> None:
        """Add records with these source offsets and consecutive target offsets from ``target``.

        Args:
            sources: at least one source offset; they never decrease. One that repeats is that of a
                further record which a transform made of the same source record.
            target: target offset of the first record.
        """
        repeats = int(sources[0]) == self._last or (np.diff(sources) == 0).any()
        self._last = int(sources[-1])
        if repeats:  # several records of one source record
            self._runs.append((target, sources))
            return
        breaks = np.nonzero(np.diff(sources) != 1)[0] + 1
        if len(breaks) > _SCATTERED_SHARE * len(sources):
            self._runs.append((target, sources))
            return
        bounds = [0, *breaks.tolist(), len(sources)]
        for start, end in itertools.pairwise(bounds):
            self.add_range(int(sources[start]), target + start, end - start)

    def mappings(self, template: MappingRecord) -> Iterator[MappingRecord]:
        """Yield mapping records, each small enough to be produced."""
        for at in range(0, len(self._ranges), _RANGES_A_RECORD):
            part = self._ranges[at : at + _RANGES_A_RECORD]
            yield replace(template, ranges=tuple(MappingRange(*r) for r in part))
        yield from self._scattered_records(template)

    def _scattered_records(self, template: MappingRecord) -> Iterator[MappingRecord]:
        pending: list[ScatteredRun] = []
        size = 0
        for target, sources in self._runs:
            for at in range(0, len(sources), _SCATTERED_A_RECORD):
                part = sources[at : at + _SCATTERED_A_RECORD]
                if pending and size + len(part) > _SCATTERED_A_RECORD:
                    yield replace(template, runs=tuple(pending))
                    pending, size = [], 0
                pending.append(ScatteredRun(target + at, tuple(part.tolist())))
                size += len(part)
        if pending:
            yield replace(template, runs=tuple(pending))
