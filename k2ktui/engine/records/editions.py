"""Number the pipeline files by which runs copy, in the order of their first use.

Runs that share a pipeline must copy by the same rules, or a partition that only one file selects is
copied by no run. So each run has the digest of its file's copy rules (docs/runners.md#one-file). A
digest that is used for the first time gets the next number, its *edition*. Only runs with the
highest edition copy.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from k2ktui.engine.strict_json import MalformedRecord, integer, mapping

# 64 bits: the files of one pipeline are a few, and none is made to collide.
_DIGEST_CHARS = 16
# A file whose digest is older than so many others counts as a new one.
_MOST_DIGESTS = 100
# More than any pipeline has; it fits in the id of a layout.
LARGEST_EDITION = 1 << 40
_DIGEST = re.compile("[0-9a-f]{8,64}")  # later releases may write longer ones
_LAYOUT_ID = re.compile(rf"[0-9a-f]+-(\d{{1,13}})-({_DIGEST.pattern})", re.ASCII)


def digest_of(rules: Mapping[str, object]) -> str:
    """Return the digest of copy rules, given as plain values.

    The order of keys does not count; that of lists does.
    """
    text = json.dumps(rules, separators=(",", ":"), sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:_DIGEST_CHARS]


@dataclass(frozen=True, slots=True)
class Edition:
    """The digest of a run's file, and its number; 0 and "" if unknown, as of earlier releases."""

    number: int = 0
    digest: str = ""


UNKNOWN_EDITION = Edition()


@dataclass(frozen=True, slots=True)
class Editions:
    """The editions of a pipeline that its run record names, the newest first."""

    known: tuple[Edition, ...] = ()

    @property
    def newest(self) -> Edition:
        """The edition that counts."""
        return self.known[0] if self.known else UNKNOWN_EDITION

    def find(self, digest: str) -> Edition | None:
        """Return the edition of a digest; None if no run had it."""
        return next((edition for edition in self.known if edition.digest == digest), None)

    def next(self, digest: str) -> Edition:
        """Return the edition of a digest that is used for the first time, or put first again."""
        newest = self.newest
        if newest.digest == digest:
            return newest
        return Edition(min(newest.number + 1, LARGEST_EDITION), digest)

    def edition_of(self, digest: str, at_least: int = 0) -> Edition:
        """Return the edition of a digest; the next one if no run had it.

        Args:
            digest: the digest.
            at_least: the number that a run of it has announced.
        """
        edition = self.find(digest) or self.next(digest)
        return Edition(max(edition.number, at_least), digest)

    def with_edition(self, edition: Edition) -> Editions:
        """Return these editions with one more; the highest number of a digest counts."""
        return merge_editions((self, Editions((edition,))))


NO_EDITIONS = Editions()


def merge_editions(records: Iterable[Editions]) -> Editions:
    """Return all editions of several run records, also of those that were never committed."""
    numbers: dict[str, int] = {}
    for record in records:
        for edition in record.known:
            if edition.digest:
                numbers[edition.digest] = max(edition.number, numbers.get(edition.digest, 0))
    newest = sorted(numbers.items(), key=lambda item: (-item[1], item[0]))[:_MOST_DIGESTS]
    return Editions(tuple(Edition(number, digest) for digest, number in newest))


def editions_value(editions: Editions) -> dict[str, int]:
    """Return editions as a member of a run record: the number by digest."""
    return {edition.digest: edition.number for edition in editions.known}


def read_editions(value: object) -> Editions:
    """Decode editions of a run record; raises MalformedRecord."""
    numbers_by_digest = mapping(value)
    if len(numbers_by_digest) > _MOST_DIGESTS:
        raise MalformedRecord(f"more than {_MOST_DIGESTS} digests")
    numbers = [Edition(read_number(n), read_digest(d)) for d, n in numbers_by_digest.items()]
    return merge_editions([Editions(tuple(numbers))])


def read_digest(value: object) -> str:
    """Return a digest that is not empty; raises MalformedRecord."""
    if isinstance(value, str) and _DIGEST.fullmatch(value):
        return value
    raise MalformedRecord("no digest")


def read_number(value: object) -> int:
    """Return the number of an edition; raises MalformedRecord."""
    return integer(value, 1, LARGEST_EDITION)


def layout_id(unique: str, edition: Edition) -> str:
    """Return the id of a layout: unique, with the edition for which it was made.

    Runs of earlier releases take the id as it is.
    """
    return f"{unique}-{edition.number}-{edition.digest}" if edition.digest else unique


def edition_of_layout(id_: str) -> Edition:
    """Return the edition for which a layout was made; unknown if an earlier release made it."""
    match = _LAYOUT_ID.fullmatch(id_)
    if match is None or not 0 < int(match[1]) <= LARGEST_EDITION:
        return UNKNOWN_EDITION
    return Edition(int(match[1]), match[2])
