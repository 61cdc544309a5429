"""The directory of evidence: documents with their signatures, each written once.

A document is ``PIPELINE-NUMBER.DRILL.json``, and its signature has ``.sig`` after that name. The
names only help to find them: what counts is in the documents.
"""

from __future__ import annotations

import contextlib
import os
import re
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

from k2ktui.drill.evidence.document import (
    FIRST,
    LARGEST_BYTES,
    Evidence,
    Place,
    read_document,
)
from k2ktui.drill.evidence.keys import SIGNATURE_BYTES, PublicKey, SigningKey, read_bounded
from k2ktui.engine.strict_json import MalformedRecord
from k2ktui.errors import Refused
from k2ktui.private_files import DIRECTORY_MODE
from k2ktui.runtime.paths import locked
from k2ktui.text import file_part, safe_text

SUFFIX, SIGNATURE_SUFFIX = ".json", ".sig"
_LOCK = ".lock"
_NUMBER = re.compile(r"-([0-9]{6,})\.")
# A pipeline's name may be longer than a file's name.
_LONGEST_NAME = 100


def signature_path(document: Path) -> Path:
    """Return where the signature of a document is."""
    return document.with_name(document.name + SIGNATURE_SUFFIX)


def list_documents(directory: Path) -> list[Path]:
    """Return the documents of a directory by their names, the lowest first.

    Raises:
        OSError: it cannot be listed.
    """
    names = os.listdir(directory)
    return [directory / n for n in sorted(names) if n.endswith(SUFFIX) and not n.startswith(".")]


def why_not_writable(directory: Path) -> str:
    """Return why no document can be written to a directory that may not exist yet; "" if it can."""
    place = directory if directory.exists() else directory.parent
    if not place.is_dir():
        return "is no directory" if place is directory else "does not exist, nor does its folder"
    return "" if os.access(place, os.W_OK | os.X_OK) else "cannot be written"


def find_signed(directory: Path, drill_id: str) -> Path | None:
    """Return the document of a drill by its name; None if the directory has none."""
    with contextlib.suppress(OSError):
        for path in list_documents(directory):
            if path.name.endswith(_end_of_name(drill_id)):
                return path
    return None


def read_signed(path: Path, keys: Sequence[PublicKey]) -> Evidence:
    """Return what a document says that one of these keys has signed.

    Raises:
        OSError: a file cannot be read.
        ValueError: it is not signed by one of the keys, or not a document of this release; why.
    """
    content = read_bounded(path, LARGEST_BYTES)
    try:
        signature = read_bounded(signature_path(path), SIGNATURE_BYTES)
    except FileNotFoundError as error:
        raise ValueError(f"its signature {safe_text(signature_path(path).name)} is gone") from error
    except ValueError as error:
        raise ValueError(f"its signature is not usable: {error}") from error
    key = next((key for key in keys if key.has_signed(content, signature)), None)
    if key is None:
        raise ValueError("it was changed after it was signed, or another key has signed it")
    evidence = read_document(content)
    if evidence.key != key.fingerprint:
        raise MalformedRecord("it names another key than the one that has signed it")
    return evidence


def write_signed(
    directory: Path,
    key: SigningKey,
    pipeline: str,
    drill_id: str,
    write: Callable[[Place], bytes],
) -> Path:
    """Sign the next document of a key and pipeline, and return its path.

    Args:
        directory: the directory, which is made if only it is missing.
        key: the key.
        pipeline: name of the pipeline.
        drill_id: the drill.
        write: returns the document for its place in the sequence.

    Raises:
        OSError: it cannot be written; no part of it is left.
        Refused: the drill has a document already.
        TimedOut: another process holds the directory's lock.
    """
    with contextlib.suppress(FileExistsError):
        directory.mkdir(DIRECTORY_MODE)
    with locked(directory / _LOCK):
        if (signed := find_signed(directory, drill_id)) is not None:
            raise Refused(f"the report was signed before: {safe_text(signed)}")
        stem = file_part(pipeline)[:_LONGEST_NAME]
        place = _next_place(directory, key.public, pipeline, stem)
        content = write(place)
        path = directory / f"{stem}-{place.sequence:06}{_end_of_name(drill_id)}"
        # The signature first: a document without one would look like a forgery. One that a killed
        # process has left without a document is replaced.
        _write_new(signature_path(path), key.sign(content), replaces=not os.path.lexists(path))
        _write_new(path, content)
    return path


def _end_of_name(drill_id: str) -> str:
    """Return how the name of a drill's document ends; ids have no dot."""
    return f".{file_part(drill_id)}{SUFFIX}"


def _next_place(directory: Path, key: PublicKey, pipeline: str, stem: str) -> Place:
    """Return the place behind the newest document of the key and pipeline."""
    numbered = [
        (int(match[1]), path)
        for path in list_documents(directory)
        if path.name.startswith(stem) and (match := _NUMBER.match(path.name, len(stem)))
    ]
    for _, path in sorted(numbered, reverse=True):
        try:
            last = read_signed(path, [key])
        except (OSError, ValueError):
            continue  # of another key or pipeline, or damaged; who verifies is told
        if last.pipeline == pipeline:
            return Place(last.place.sequence + 1, last.digest)
    return Place(FIRST, "")


def _write_new(path: Path, content: bytes, *, replaces: bool = False) -> None:
    """Write a whole private file, or nothing; never over another one unless it is told to."""
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=".new-")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        if replaces:
            os.replace(name, path)
        else:
            os.link(name, path)
    finally:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(name)
