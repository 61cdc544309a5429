"""The document of a signed report: what it says, as the bytes that are signed; pure.

Documents of one key and pipeline are numbered from 1, and each has the SHA-256 of the one before.
The format is in ``docs/evidence.md``.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any, TypeVar

from k2ktui.drill.facts import GroupReads
from k2ktui.drill.report import has_findings, measure, report_json
from k2ktui.engine.drill.checks import DrillKind
from k2ktui.engine.drill.model import Drill, DrillStatus
from k2ktui.engine.strict_json import (
    LARGEST_MS,
    MalformedRecord,
    field,
    flag,
    integer,
    items,
    mapping,
    parse_object,
    require_version,
    text,
)

FORMAT, VERSION = "k2ktui evidence", 1
LARGEST_BYTES = 64 << 20
"""Maximum size of a document; a larger one is not read."""
FIRST = 1
"""The number of the first document of a key and pipeline."""
_MOST_LINES = 1_000
_DIGEST = re.compile(r"[0-9a-f]{64}")


class Signed(StrEnum):
    """When a report was signed, which decides what the signature proves.

    ``drill``: at the end, by the process that had run the drill from its beginning. ``resumed``: at
    the end, by a process that has read the beginning from the state topic. ``later``: by
    ``k2ktui evidence sign``, from the state topic.
    """

    BY_DRILL = "drill"
    RESUMED = "resumed"
    LATER = "later"

    def describe(self) -> str:
        """Return the end of the sentence "signed …"."""
        match self:
            case Signed.BY_DRILL:
                return "at its end by the process that ran all of it"
            case Signed.RESUMED:
                return "at its end by a process that resumed or aborted it"
            case Signed.LATER:
                return "later, from the state topic"


@dataclass(frozen=True, slots=True)
class Place:
    """The place of a document in the sequence of its key and pipeline.

    Attributes:
        sequence: its number, from 1.
        previous: SHA-256 of the document before, as hex text; "" for the first one.
    """

    sequence: int
    previous: str


@dataclass(frozen=True, slots=True)
class Evidence:
    """A document whose signature was verified.

    Attributes:
        digest: SHA-256 of its bytes, as hex text.
        key: fingerprint of the key that signed it.
        place: its place in the sequence.
        signed_ms: when it was signed, by the clock of the host that did, epoch milliseconds.
        signed_by: who signed it, ``user@host``.
        signed: when, and by which process.
        drill_id, pipeline: the drill, and its pipeline.
        kind: kind of the drill.
        status: how it ended.
        ended_ms: when it ended, epoch milliseconds.
        summary: the first lines of the report, its result first.
        has_findings: whether something was found that an operator should know or fix.
        failed_checks: ids of the checks that failed.
        source_cluster, target_cluster: ids of the clusters; the source's may be unknown.
        figures: what was measured, by name (:class:`~k2ktui.drill.facts.DrillMeasures`).
        report: the report, as ``k2ktui drill report --json`` prints it.
    """

    digest: str
    key: str
    place: Place
    signed_ms: int
    signed_by: str
    signed: Signed
    drill_id: str
    pipeline: str
    kind: DrillKind
    status: DrillStatus
    ended_ms: int
    summary: tuple[str, ...]
    has_findings: bool
    failed_checks: tuple[str, ...]
    source_cluster: str
    target_cluster: str
    figures: Mapping[str, Any]
    report: Mapping[str, Any]


def digest_of(content: bytes) -> str:
    """Return the SHA-256 of a document, as hex text."""
    return hashlib.sha256(content).hexdigest()


def write_document(
    drill: Drill,
    reads: Iterable[GroupReads] | None,
    place: Place,
    *,
    key: str,
    signed_ms: int,
    signed_by: str,
    signed: Signed,
    versions: Mapping[str, str],
) -> bytes:
    """Return the bytes that are signed: JSON in ASCII, so that no name in it can mislead a reader.

    Args:
        drill: the drill, which is over.
        reads: what its groups read first on the target; None if this process did not see it.
        place: its place in the sequence.
        key: fingerprint of the key.
        signed_ms, signed_by, signed: as of :class:`Evidence`.
        versions: of what signs, by name.
    """
    body = {
        "format": FORMAT,
        "v": VERSION,
        "key": key,
        "sequence": place.sequence,
        "previous": place.previous,
        "signed_ms": signed_ms,
        "signed_by": signed_by,
        "signed": str(signed),
        "versions": dict(versions),
        "has_findings": has_findings(drill),
        "figures": asdict(measure(drill)),
        "reads": None if reads is None else [_sum_up(read) for read in reads],
        "report": report_json(drill),
    }
    return (json.dumps(body, indent=1) + "\n").encode()


def _sum_up(read: GroupReads) -> dict[str, Any]:
    topic, partition = read.target
    return {
        "group": read.group,
        "source_topic": read.source.topic,
        "source_partition": read.source.partition,
        "source_offset": read.source_offset,
        "target_topic": topic,
        "target_partition": partition,
        "target_offsets": list(read.offsets),
        "records": len(read.digests),
        "sha256": digest_of("\n".join(read.digests).encode()),
    }


def read_document(content: bytes) -> Evidence:
    """Return what a document says whose signature was verified.

    Raises:
        MalformedRecord: it is not a document that this release reads.
    """
    body = parse_object(content, "the document", largest=LARGEST_BYTES)
    if body.get("format") != FORMAT:
        raise MalformedRecord("it is not evidence of a drill")
    require_version(body, VERSION)
    report = mapping(field(body, "report"))
    sequence = integer(field(body, "sequence"), FIRST)
    previous = text(field(body, "previous"))
    if sequence == FIRST and previous:
        raise MalformedRecord("the first of a sequence names one before it")
    if sequence > FIRST and not _DIGEST.fullmatch(previous):
        raise MalformedRecord("it does not name the one before it")
    checks = map(mapping, items(field(report, "checks")))
    return Evidence(
        digest=digest_of(content),
        key=text(field(body, "key")),
        place=Place(sequence, previous),
        signed_ms=integer(field(body, "signed_ms"), high=LARGEST_MS),
        signed_by=text(field(body, "signed_by")),
        signed=_one_of(Signed, field(body, "signed")),
        drill_id=text(field(report, "id")),
        pipeline=text(field(report, "pipeline")),
        kind=_one_of(DrillKind, field(report, "kind")),
        status=_one_of(DrillStatus, field(report, "status")),
        ended_ms=integer(field(report, "ended_ms"), high=LARGEST_MS),
        summary=tuple(map(text, items(field(report, "summary"), _MOST_LINES))),
        has_findings=flag(field(body, "has_findings")),
        failed_checks=tuple(
            text(field(check, "id")) for check in checks if field(check, "outcome") == "fail"
        ),
        source_cluster=text(field(report, "source_cluster")),
        target_cluster=text(field(report, "target_cluster")),
        figures=mapping(field(body, "figures")),
        report=report,
    )


_Word = TypeVar("_Word", bound=StrEnum)


def _one_of(kind: type[_Word], value: object) -> _Word:
    try:
        return kind(text(value))
    except ValueError as error:
        raise MalformedRecord(f"not one of: {', '.join(kind)}") from error
