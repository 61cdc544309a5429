"""Finds positions on a copy when records were deleted on either cluster.

Compaction runs independently on each cluster, so records that are adjacent on the source may
be apart on the target. This module does not access Kafka.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Sequence
from itertools import pairwise

from k2ktui.log.content import KafkaRecord, content_digest


class Neighbors:
    """Records of a source range and of a range of its copy, matched by content.

    Only records that occur exactly once on each side are matched, and only if all matches are in
    the same order on both.

    Args:
        original: records of the source, in order.
        copy: records of the target, in order.
    """

    def __init__(self, original: Sequence[KafkaRecord], copy: Sequence[KafkaRecord]) -> None:
        source_offsets, target_offsets = _singles(original), _singles(copy)
        pairs = [
            (source_offsets[one], target_offsets[one])
            for one in source_offsets
            if one in target_offsets
        ]
        if any(b <= a for (_, a), (_, b) in pairwise(pairs)):
            pairs = []  # at least one match is wrong, so none is trusted
        self._sources = [source for source, _ in pairs]
        self._targets = [target for _, target in pairs]
        self._copy = [record.offset for record in copy]

    def find_target(self, offset: int) -> int | None:
        """Return the target offset of the first record at or after a source offset, if proven.

        It is proven if the last matched record before the offset and the first one at or after it
        are adjacent on the target: no source record between them has a copy.
        """
        behind = bisect_left(self._sources, offset)
        if not 0 < behind < len(self._sources):
            return None
        last, first = self._targets[behind - 1], self._targets[behind]
        if bisect_left(self._copy, first) - bisect_left(self._copy, last) != 1:
            return None
        return first


def _singles(records: Sequence[KafkaRecord]) -> dict[str, int]:
    """Return the offset of each record whose content occurs exactly once, in order."""
    digests = [(content_digest(record), record.offset) for record in records]
    counts = Counter(digest for digest, _ in digests)
    return {digest: offset for digest, offset in digests if counts[digest] == 1}
