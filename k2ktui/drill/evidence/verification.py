"""What can be told of signed reports with the public key alone.

Whoever has the private key can sign anything, and can sign a whole sequence anew: that is not
found here, and nor is that the newest documents of a sequence are missing.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from k2ktui.drill.evidence.directory import read_signed
from k2ktui.drill.evidence.document import FIRST, LARGEST_BYTES, Evidence
from k2ktui.drill.evidence.keys import PublicKey, read_bounded
from k2ktui.engine.strict_json import parse_object
from k2ktui.text import counted, list_names, safe_message, safe_text

_NAMED = 10
# Of a report from the state topic: what ended later is not of the drill.
_LATER = ("rehearsals",)


@dataclass(frozen=True, slots=True)
class VerifiedFile:
    """A file, and what its signature proves: ``evidence``, or the ``problem``; safe to print."""

    path: Path
    evidence: Evidence | None
    problem: str = ""


@dataclass(frozen=True, slots=True)
class Verified:
    """What was found in a set of files.

    Attributes:
        files: the files, in their order.
        problems: what must not be, of files and of sequences; safe to print.
        notes: what is no problem by itself; safe to print.
    """

    files: tuple[VerifiedFile, ...]
    problems: tuple[str, ...]
    notes: tuple[str, ...]

    @property
    def evidence(self) -> list[Evidence]:
        """The documents that are signed, each once, by pipeline, key and number."""
        documents = {one.evidence.digest: one.evidence for one in self.files if one.evidence}
        return sorted(documents.values(), key=_order)


def verify_files(paths: Sequence[Path], keys: Sequence[PublicKey]) -> Verified:
    """Verify signatures and sequences of files."""
    files = tuple(_verify_file(path, keys) for path in paths)
    problems = [f"{safe_text(one.path)}: {one.problem}" for one in files if one.problem]
    notes: list[str] = []
    sequences: dict[tuple[str, str], list[Evidence]] = defaultdict(list)
    for evidence in Verified(files, (), ()).evidence:
        sequences[evidence.pipeline, evidence.key].append(evidence)
    for documents in sequences.values():
        problems += _check_sequence(documents)
        first = documents[0]
        if before := first.place.sequence - FIRST:
            notes.append(
                f"{_name(first)}: the files begin with number {first.place.sequence}; "
                f"{counted(before, 'earlier report')} of the sequence not among them"
            )
    given = sum(one.evidence is not None for one in files)
    if copies := given - sum(map(len, sequences.values())):
        notes.append(f"{counted(copies, 'file')} given twice")
    return Verified(files, tuple(problems), tuple(notes))


def _verify_file(path: Path, keys: Sequence[PublicKey]) -> VerifiedFile:
    try:
        return VerifiedFile(path, read_signed(path, keys))
    except OSError as error:
        return VerifiedFile(path, None, f"it cannot be read: {error.strerror}")
    except ValueError as error:
        return VerifiedFile(path, None, safe_message(error))


def _check_sequence(documents: Sequence[Evidence]) -> Iterator[str]:
    """Yield what must not be in the documents of one key and pipeline, sorted by number."""
    name = _name(documents[0])
    drills: dict[str, int] = {}
    for number, evidence in enumerate(documents):
        sequence = evidence.place.sequence
        if evidence.drill_id in drills:
            yield (
                f"{name}: drill {safe_text(evidence.drill_id)} was signed twice, as numbers "
                f"{drills[evidence.drill_id]} and {sequence}"
            )
        drills[evidence.drill_id] = sequence
        if not number:
            continue
        last = documents[number - 1]
        gap = sequence - last.place.sequence - 1
        if gap < 0:
            yield (
                f"{name}: two different reports have number {sequence}: those of the drills "
                f"{safe_text(last.drill_id)} and {safe_text(evidence.drill_id)}"
            )
        elif gap:
            missing = f"number {sequence - 1} is"
            if gap > 1:
                missing = f"numbers {last.place.sequence + 1} to {sequence - 1} are"
            yield f"{name}: {missing} missing"
        elif evidence.place.previous not in _digests(documents, last.place.sequence):
            yield (
                f"{name}: number {sequence} was signed after another number "
                f"{last.place.sequence} than the one given"
            )
        if evidence.signed_ms < last.signed_ms:
            yield (
                f"{name}: number {sequence} was signed before number {last.place.sequence}, by "
                "the clocks of their hosts"
            )


def _digests(documents: Sequence[Evidence], sequence: int) -> set[str]:
    return {one.digest for one in documents if one.place.sequence == sequence}


def _order(evidence: Evidence) -> tuple[str, str, int, int, str]:
    return (
        evidence.pipeline,
        evidence.key,
        evidence.place.sequence,
        evidence.signed_ms,
        evidence.digest,
    )


def _name(evidence: Evidence) -> str:
    return f"{safe_text(evidence.pipeline)}, key {evidence.key[:16]}"


def compare_reports(documents: Sequence[Evidence], paths: Sequence[Path]) -> list[str]:
    """Return what unsigned reports say otherwise than the signed ones of the same drills.

    Args:
        documents: the signed ones.
        paths: files with what ``k2ktui drill report --json`` has printed.
    """
    signed = {evidence.drill_id: evidence for evidence in documents}
    return [f"{safe_text(path)}: {why}" for path in paths if (why := _compare(signed, path))]


def _compare(signed: Mapping[str, Evidence], path: Path) -> str:
    try:
        report = parse_object(read_bounded(path, LARGEST_BYTES), "it", largest=LARGEST_BYTES)
    except OSError as error:
        return f"it cannot be read: {error.strerror}"
    except ValueError as error:
        return safe_message(error)
    drill_id = report.get("id")
    evidence = signed.get(drill_id) if isinstance(drill_id, str) else None
    if evidence is None:
        return "no signed report among the files is of this drill"
    names = sorted(
        name
        for name in {*report, *evidence.report} - {*_LATER}
        if not _are_same(report.get(name), evidence.report.get(name))
    )
    if not names:
        return ""
    number = evidence.place.sequence
    return f"it differs from the signed report number {number} in {list_names(names, _NAMED)}"


def _are_same(one: Any, other: Any) -> bool:
    """Return whether two JSON values are the same; true is not 1, and 1 is not 1.0."""
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(_are_same(one[key], other[key]) for key in one)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(_are_same, one, other))
    return type(one) is type(other) and one == other
