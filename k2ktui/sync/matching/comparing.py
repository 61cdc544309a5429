"""Finds positions on a copy by comparing its records one by one with the original's.

A copy holds either committed records only or those of aborted transactions as well, depending on
the copier's ``isolation.level`` (by default both); the target does not record which. So the
original is compared both ways. A position is proven if both ways agree, or if no aborted record
can be mistaken for a committed one. This module does not access Kafka.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise

from k2ktui.engine.mapping.anchors import OffsetAnchor
from k2ktui.log.content import KafkaRecord, RecordRange, compare_content, content_digest

# Number of neighboring records on each side of a pattern.
NEIGHBOURS = 32

UNSTABLE = "a transaction on the source is still open, so some records before it cannot be compared"
DIFFER = "records between it and the last known one differ, or were deleted, on either side"
_ALIKE = "neighboring records have identical contents, so comparing them proves nothing"

Answers = list[int | str]
Way = Callable[[Sequence[KafkaRecord], Sequence[KafkaRecord]], Answers]


def compare(
    offsets: Sequence[int],
    source_range: RecordRange,
    target_range: RecordRange,
    way: Way,
    *,
    unique: bool = False,
) -> Answers:
    """Return the target offset of the anchor at each source offset, or why it is not proven.

    Args:
        offsets: committed offsets on the source.
        source_range: records of the source.
        target_range: records of the target.
        way: function that compares two lists of records.
        unique: whether the record at an offset must occur once in both ranges: others may have
            written records with the same content, and to count alike records proves nothing then.
    """
    for side, records in (("source", source_range), ("target", target_range)):
        if records.unread:
            return [f"the {side} could not be read"] * len(offsets)
    committed = [source_range.records[at] for at in sorted(source_range.records)]
    copy = [target_range.records[at] for at in sorted(target_range.records)]
    targets = way(committed, copy)
    every = committed
    if source_range.aborted:
        both = {**source_range.records, **source_range.aborted}
        every = [both[at] for at in sorted(both)]
        targets = _combine_answers(
            targets, way(every, copy), _has_aborted_records(source_range, copy)
        )
    if unique:
        targets = _require_unique(offsets, targets, every, copy)
    if any(isinstance(target, str) for target in targets):
        left = Neighbors(every, copy)
        targets = [
            answer if isinstance(answer, int) else (left.find_target(offset) or answer)
            for offset, answer in zip(offsets, targets, strict=True)
        ]
    stable = source_range.bounds.stable
    return [
        UNSTABLE if 0 <= stable < offset else answer
        for offset, answer in zip(offsets, targets, strict=True)
    ]


def _require_unique(
    offsets: Sequence[int],
    answers: Answers,
    original: Sequence[KafkaRecord],
    copy: Sequence[KafkaRecord],
) -> Answers:
    counts = [Counter(map(content_digest, records)) for records in (original, copy)]
    sources = [record.offset for record in original]

    def is_unique(offset: int) -> bool:
        row = bisect_left(sources, offset)
        if row == len(sources):
            return True
        digest = content_digest(original[row])
        return all(count[digest] <= 1 for count in counts)

    return [
        answer if isinstance(answer, str) or is_unique(offset) else _ALIKE
        for offset, answer in zip(offsets, answers, strict=True)
    ]


def _has_aborted_records(here: RecordRange, copy: Sequence[KafkaRecord]) -> bool | None:
    """Return whether the copy has records of aborted transactions; None if unknown.

    It is known only if no aborted record equals a committed one.
    """
    committed = {content_digest(record) for record in here.records.values()}
    aborted = {content_digest(record) for record in here.aborted.values()}
    if not committed.isdisjoint(aborted):
        return None
    return not aborted.isdisjoint(content_digest(record) for record in copy)


def _combine_answers(without: Answers, with_aborted: Answers, copied: bool | None) -> Answers:
    """Choose between the answers for a copy without and with records of aborted transactions.

    If ``copied`` is None, only an answer that both agree on is used.
    """
    if copied is not None:
        return with_aborted if copied else without
    pairs = zip(without, with_aborted, strict=True)
    return [one if one == other else _ALIKE for one, other in pairs]


def _same(pairs: Iterator[tuple[KafkaRecord, KafkaRecord]]) -> int:
    """Return the number of equal pairs before the first difference."""
    count = 0
    for one, other in pairs:
        if compare_content(one, other):
            break
        count += 1
    return count


def walk_forward(
    offsets: Sequence[int],
    anchor: OffsetAnchor,
    original: Sequence[KafkaRecord],
    copy: Sequence[KafkaRecord],
) -> Answers:
    """Compare forward from a known anchor, at which both lists begin."""
    same = _same(zip(original, copy, strict=False))
    most = min(len(original), len(copy))
    sources = [record.offset for record in original]

    def target_of(offset: int) -> int | str:
        read = bisect_left(sources, offset)
        # The next record must match on both sides as well, if both have one.
        if same < min(read + 1, most):
            return DIFFER
        if same < read:
            return (
                "some records that the group has read are not on the target (not copied "
                "yet, or deleted)"
            )
        if same > read:
            return copy[read].offset
        return copy[read - 1].offset + 1 if read else anchor.target

    return [target_of(offset) for offset in offsets]


def walk_backward(
    offsets: Sequence[int],
    anchor: OffsetAnchor,
    original: Sequence[KafkaRecord],
    copy: Sequence[KafkaRecord],
    *,
    low: OffsetAnchor | None = None,
) -> Answers:
    """Compare backward from a known anchor, at which both lists end.

    ``low`` is another known anchor, if the original is compared from there on.
    """
    same = _same(zip(reversed(original), reversed(copy), strict=False))
    most = min(len(original), len(copy))
    sources = [record.offset for record in original]

    def target_of(offset: int) -> int | str:
        unread = len(sources) - bisect_left(sources, offset)
        # The previous record must match on both sides as well, if both have one.
        if same < min(unread + 1, most) or same < unread:
            return DIFFER
        # Copies older than all remaining source records may be of records that were not read,
        # unless they lie before an anchor that is older, too.
        if unread == len(sources) < len(copy) and sources[:1] != [offset]:
            older = copy[len(copy) - unread - 1].offset
            if low is None or older >= low.target:
                return DIFFER
        return copy[-unread].offset if unread else anchor.target

    return [target_of(offset) for offset in offsets]


def found_once(
    offsets: Sequence[int],
    anchor: OffsetAnchor,
    original: Sequence[KafkaRecord],
    copy: Sequence[KafkaRecord],
) -> Answers:
    """Search for the neighboring records of one offset; they must occur exactly once."""
    (offset,) = offsets
    read = sum(record.offset < offset for record in original)
    original = original[max(0, read - NEIGHBOURS) : read + NEIGHBOURS]
    read = min(read, NEIGHBOURS)
    if len(original) < NEIGHBOURS:
        return ["too few records around it to compare"]
    places = [
        start
        for start in range(len(copy) - len(original) + 1)
        if _same(zip(original, copy[start : start + len(original)], strict=True)) == len(original)
    ]
    if not places:
        return [DIFFER]
    if len(places) > 1:
        return [_ALIKE]
    at = places[0] + read
    return [copy[at].offset if at < len(copy) else copy[-1].offset + 1]


class Neighbors:
    """Records of a source range and of a range of its copy, matched by content.

    Only records that occur exactly once on each side are matched, and only if all matches are in
    the same order on both. Compaction runs independently on each cluster, so records that are
    adjacent on the source may be apart on the target.

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
