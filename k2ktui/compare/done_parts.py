"""Keeps the results of compared parts in a file, so that a comparison can be stopped and resumed.

A line for each part, the first line says of what. The file holds names, offsets and hashes, and is
of mode 0600. It is removed once the report is written.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
from pathlib import Path
from typing import IO, Any, Self

from k2ktui.compare.plan import ComparisonChoice, ComparisonPlan
from k2ktui.config.model import PipelineConfig
from k2ktui.engine.compare.outcomes import PartResult
from k2ktui.engine.compare.parts import ComparisonPart
from k2ktui.engine.compare.report import read_result, result_json
from k2ktui.engine.strict_json import MalformedRecord, field, mapping, parse_object, text
from k2ktui.errors import Refused
from k2ktui.private_files import FILE_MODE, private_directory, user_path
from k2ktui.text import moment, safe_text

_VERSION = 1
_KEY_CHARACTERS = 16


class DoneParts:
    """The parts that were compared; a context manager that closes the file, and keeps it.

    Args:
        config: the pipeline.
        plan: what is compared.
        choice: what the operator wants compared; another choice has another file.
        resumes: whether to use what an earlier run has left, or to discard it; None if there must
            be none.

    Raises:
        Refused: the file cannot be written, another run writes it, or an earlier run has left
            results and ``resumes`` is None.
    """

    def __init__(
        self,
        config: PipelineConfig,
        plan: ComparisonPlan,
        choice: ComparisonChoice,
        *,
        resumes: bool | None,
    ) -> None:
        head = {
            "v": _VERSION,
            "pipeline": config.name,
            "source": plan.source_cluster,
            "target": plan.target_cluster,
            "topics": choice.pattern,
            "since": choice.since_ms,
            "sample": choice.sample,
        }
        key = hashlib.sha256(json.dumps(head, sort_keys=True).encode()).hexdigest()
        self._path = user_path("state") / "compare" / f"{key[:_KEY_CHARACTERS]}.jsonl"
        self._known: dict[str, PartResult] = {}
        self._ignored, self._transforms = plan.ignored, plan.transforms
        try:
            private_directory(self._path.parent)
            self._file = _open(self._path)
            if resumes is not False:
                kept, planned = _read(self._file, head), set(map(self._fingerprint, plan.parts))
                self._known = {part: kept[part] for part in kept.keys() & planned}
            if resumes is None and self._offsets_known(plan):
                raise self._not_discarded(plan)
            if not self._known:
                self._file.seek(0)
                self._file.truncate()
                self._write(head)
        except OSError as error:
            raise _not_kept(self._path, error, "Nothing was compared.") from error

    @property
    def resumed(self) -> int:
        """Number of parts that need not be compared, as an earlier run has done that."""
        return len(self._known)

    def _offsets_known(self, plan: ComparisonPlan) -> int:
        return sum(part.end - part.first for part in plan.parts if self.find(part) is not None)

    def _not_discarded(self, plan: ComparisonPlan) -> Refused:
        stopped_at = os.fstat(self._file.fileno()).st_mtime
        self._file.close()
        done, offsets = self._offsets_known(plan), sum(p.end - p.first for p in plan.parts)
        return Refused(
            f"a comparison that stopped at {moment(stopped_at)} has compared {done:,} of "
            f"{offsets:,} offsets ({done / offsets:.0%})",
            unchanged="Nothing was compared. What that comparison has done is still kept.",
            hint="Continue it with --resume, or discard it with --restart.",
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def find(self, part: ComparisonPart) -> PartResult | None:
        """Return the result of a part that was compared with the same mapping; None if not yet."""
        return self._known.get(self._fingerprint(part))

    def add(self, part: ComparisonPart, result: PartResult) -> None:
        """Keep the result of a part.

        Raises:
            Refused: it cannot be written.
        """
        try:
            self._write({"part": self._fingerprint(part), "result": result_json(result)})
        except OSError as error:
            unchanged = "The parts before are kept, for --resume."
            raise _not_kept(self._path, error, unchanged) from error

    def forget(self) -> None:
        """Remove the file: everything is compared, and the report is where it was wanted."""
        self._path.unlink(missing_ok=True)

    def _fingerprint(self, part: ComparisonPart) -> str:
        """Return a digest of what a result depends on: offsets, mapping, and what is compared.

        Retention moves the log start offsets every few minutes: they are not in it. Where they
        decide anything, the part begins there.
        """
        digest = hashlib.sha256()
        topic = part.source.topic
        compared = sorted(self._ignored.get(topic, ())), self._transforms.get(topic)
        digest.update(repr((part.source, part.first, part.end, part.start, compared)).encode())
        for span in part.targets:
            digest.update(repr((span.at, span.first, span.end)).encode())
            for column in (span.ranges.source, span.ranges.target, span.ranges.count):
                digest.update(column.tobytes())
        return digest.hexdigest()

    def _write(self, line: dict[str, Any]) -> None:
        self._file.write(json.dumps(line, sort_keys=True).encode() + b"\n")
        self._file.flush()


def _open(path: Path) -> IO[bytes]:
    handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, FILE_MODE)
    os.fchmod(handle, FILE_MODE)
    file = os.fdopen(handle, "r+b")
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        file.close()
        raise Refused(
            "another comparison of the same choice is running",
            unchanged="Nothing was compared.",
            hint="Wait until it ends, or stop it and continue it with --resume.",
        ) from error
    return file


def _not_kept(path: Path, error: OSError, unchanged: str) -> Refused:
    return Refused(
        f"what is compared cannot be kept in {safe_text(path)}: {error.strerror or error}",
        unchanged=unchanged,
        hint="Free space there, or set XDG_STATE_HOME to a directory that this user can write.",
    )


def _read(file: IO[bytes], head: dict[str, Any]) -> dict[str, PartResult]:
    """Return the results by fingerprint; what is damaged, or cut off, is compared again."""
    known: dict[str, PartResult] = {}
    whole = 0
    try:
        line = file.readline()
        if parse_object(line) != head:
            return {}
        while line.endswith(b"\n"):
            whole += len(line)
            line = file.readline()
            if line.endswith(b"\n"):
                body = parse_object(line)
                known[text(field(body, "part"))] = read_result(mapping(field(body, "result")))
    except MalformedRecord:
        pass
    file.seek(whole)
    file.truncate()
    return known
