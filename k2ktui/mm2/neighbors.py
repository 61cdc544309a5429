"""Where a position lies on a copy from which, or from whose original, records were deleted.

Compaction deletes on either cluster when it likes, so neighbours of a position on the source need
not be neighbours on the target. Nothing here reads Kafka.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Sequence
from itertools import pairwise

from k2ktui.log.content import KafkaRecord, content_digest


class Neighbors:
    """Records of a stretch of the source and a stretch of its copy, matched by their contents.

    Only records that are there exactly once on either side are matched, and only if all of them
    are in the same order on both.

    Args:
        original: records of the source, in order.
        copy: those of the target.
    """

    def __init__(self, original: Sequence[KafkaRecord], copy: Sequence[KafkaRecord]) -> None:
        here, there = _singles(original), _singles(copy)
        pairs = [(here[one], there[one]) for one in here if one in there]
        if any(b <= a for (_, a), (_, b) in pairwise(pairs)):
            pairs = []  # something is not what it looks like: nothing is proven
        self._sources = [source for source, _ in pairs]
        self._targets = [target for _, target in pairs]
        self._copy = [record.offset for record in copy]

    def landed(self, offset: int) -> int | None:
        """Return the target offset of the first record at or behind a source offset, if proven.

        It is if the last matched record before the offset and the first one behind it are next to
        each other on the target: whatever of the source lies between them has no copy there.
        """
        behind = bisect_left(self._sources, offset)
        if not 0 < behind < len(self._sources):
            return None
        last, first = self._targets[behind - 1], self._targets[behind]
        if bisect_left(self._copy, first) - bisect_left(self._copy, last) != 1:
            return None
        return first


def _singles(records: Sequence[KafkaRecord]) -> dict[str, int]:
    """Return the offset of each content that is there exactly once, in order."""
    digests = [(content_digest(record), record.offset) for record in records]
    counts = Counter(each for each, _ in digests)
    return {each: offset for each, offset in digests if counts[each] == 1}
