"""Export of a tail: one file of JSON lines per partition, readable only by its owner.

Each line is one record: ``topic``, ``partition``, ``offset``, ``timestamp`` (epoch milliseconds,
-1 without one), ``timestampType``, ``key``, ``value`` and ``headers``, a list of ``[name, value]``.
Keys, values and header values are base64, or null.
"""

from __future__ import annotations

import base64
import contextlib
import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import IO, Self

from k2ktui.drill.files import split_files
from k2ktui.drill.session import Session
from k2ktui.engine.drill.tail import TailPartition
from k2ktui.errors import Refused
from k2ktui.kafka.clients import Partition
from k2ktui.log.record import KafkaRecord
from k2ktui.private_files import FILE_MODE, private_directory
from k2ktui.text import safe_text

_PART = ".part"
_MOST_OPEN = 128
_SAFE = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-")


def export_directory(session: Session) -> Path:
    """Return the directory of a drill's exported records on this host."""
    if session.export_to:
        return Path(session.export_to)
    return default_export_directory(session.files, session.drill.id)


def default_export_directory(files: Sequence[str], drill_id: str) -> Path:
    """Return the directory of exported records if none was named: beside the pipeline's file."""
    first = Path(split_files(files)[0])
    return first.absolute().with_name(f"{first.stem}-tail-{drill_id}")


def export_name(at: Partition) -> str:
    """Return the name of a partition's file; characters that no topic name has are escaped."""
    topic = "".join(char if char in _SAFE else f"%{ord(char):x}" for char in at[0])
    return f"{topic}-{at[1]}.jsonl"


class TailExport:
    """Writes records to files that get their names when all of them are complete.

    Args:
        directory: where; it is created with mode 0700, the files with mode 0600.

    Raises:
        Refused: the directory or a file cannot be written.
    """

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self._files: dict[Partition, IO[bytes]] = {}
        self._made: set[Partition] = set()
        try:
            if not directory.exists():
                private_directory(directory)
            for part in directory.glob(f"*{_PART}"):
                part.unlink()  # of a process that was killed
        except OSError as error:
            raise self._refuse(error) from error

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for file in self._files.values():
            with contextlib.suppress(OSError):
                file.close()
        for at in self._made:
            with contextlib.suppress(OSError):
                self._part(at).unlink(missing_ok=True)

    def add(self, at: Partition, record: KafkaRecord) -> None:
        """Write one record."""
        try:
            self._open(at).write(_line(at, record))
        except OSError as error:
            raise self._refuse(error) from error

    def _open(self, at: Partition) -> IO[bytes]:
        file = self._files.get(at)
        if file is None:
            if len(self._files) >= _MOST_OPEN:
                self._close()
            again = os.O_APPEND if at in self._made else os.O_EXCL
            flags = os.O_WRONLY | os.O_CREAT | again | os.O_CLOEXEC | os.O_NOFOLLOW
            file = os.fdopen(os.open(self._part(at), flags, FILE_MODE), "wb")
            self._files[at] = file
            self._made.add(at)
        return file

    def _close(self) -> None:
        """Make the open files durable, and close them."""
        for file in self._files.values():
            file.flush()
            os.fsync(file.fileno())
            file.close()
        self._files.clear()

    def complete(self, tail: Sequence[TailPartition]) -> None:
        """Make all files durable, and give them their names; those of an earlier try go."""
        try:
            self._close()
            for part in tail:
                at = part.topic, part.partition
                os.replace(self._part(at), self.directory / export_name(at))
            handle = os.open(self.directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            try:
                os.fsync(handle)
            finally:
                os.close(handle)
        except OSError as error:
            raise self._refuse(error) from error

    def _part(self, at: Partition) -> Path:
        return self.directory / f"{export_name(at)}{_PART}"

    def _refuse(self, error: OSError) -> Refused:
        return Refused(
            f"{safe_text(self.directory)} cannot be written: {safe_text(error.strerror or error)}",
            unchanged="No position was changed; the records are still on the old source.",
            hint="Make room or name another directory: drill resume ID -f FILE --export-to DIR.",
        )


def _line(at: Partition, record: KafkaRecord) -> bytes:
    body = {
        "topic": at[0],
        "partition": at[1],
        "offset": record.offset,
        "timestamp": record.timestamp_ms,
        "timestampType": str(record.timestamp_type),
        "key": _encode(record.key),
        "value": _encode(record.value),
        "headers": [[name, _encode(value)] for name, value in record.headers],
    }
    return json.dumps(body, separators=(",", ":")).encode() + b"\n"


def _encode(data: bytes | None) -> str | None:
    return None if data is None else base64.b64encode(data).decode()
