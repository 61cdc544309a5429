"""The directory of evidence: documents with their signatures, each written once.

A document is ``PIPELINE-NUMBER.DRILL.json``, and its signature has ``.sig`` after that name. The
names only help to find them: what counts is in the documents.
"""

from __future__ import annotations

import contextlib
import os
import re
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from k2ktui.drill.evidence.document import (
    FIRST,
    LARGEST_BYTES,
    Evidence,
    Place,
    digest_of,
    read_document,
)
from k2ktui.drill.evidence.keys import SIGNATURE_BYTES, PublicKey, SigningKey, read_bounded
from k2ktui.engine.strict_json import MalformedRecord
from k2ktui.errors import ConfigError, Refused, TimedOut
from k2ktui.private_files import DIRECTORY_MODE, why_others_may_replace
from k2ktui.runtime.paths import locked
from k2ktui.text import file_part, safe_text

SUFFIX, SIGNATURE_SUFFIX = ".json", ".sig"
_LOCK, _TRIAL = ".lock", ".trial"
# A drill that has ended does not wait for long: its report can be signed later.
_LOCK_WAIT_S = 10.0
# More than the report of a large drill, so that a full disk is known before.
_TRIAL_BYTES = 1 << 20
_UNCHANGED = "Nothing was signed."
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
    """Return why no document can be written to a directory that may not exist yet; "" if it can.

    In one that exists, a file is written and removed again.
    """
    try:
        directory.lstat()
    except FileNotFoundError:
        if not directory.parent.is_dir():
            return "does not exist, nor does its folder"
        return "" if os.access(directory.parent, os.W_OK | os.X_OK) else "cannot be made"
    except OSError as error:
        return f"cannot be looked at: {error.strerror}"
    try:
        if not directory.is_dir():
            return "is no directory"
        if reason := why_others_may_replace(directory):
            return reason
        _try_writing(directory)
    except OSError as error:
        return f"cannot be written: {error.strerror}"
    return ""


def _try_writing(directory: Path) -> None:
    """Do all that signing does, without a document.

    Raises:
        OSError: it cannot be done.
    """
    # Another process that signs at the moment shows that locks work: it is not waited for.
    with contextlib.suppress(TimedOut), locked(directory / _LOCK, 0):
        trial = directory / _TRIAL
        trial.unlink(missing_ok=True)
        _write_new(trial, bytes(_TRIAL_BYTES))
        trial.unlink()


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
        ConfigError: a file has a number of the sequence and cannot be one of its documents.
        OSError: it cannot be written; no document of it is left, and no signature unless the
            process is killed.
        Refused: the drill has a document already.
        TimedOut: another process holds the directory's lock.
    """
    with contextlib.suppress(FileExistsError):
        directory.mkdir(DIRECTORY_MODE)
    with _locked(directory):
        if (signed := find_signed(directory, drill_id)) is not None:
            raise Refused(
                f"the report was signed before: {safe_text(signed)}", unchanged=_UNCHANGED
            )
        stem = file_part(pipeline)[:_LONGEST_NAME]
        place = _next_place(directory, key.public, pipeline, stem)
        content = write(place)
        path = directory / f"{stem}-{place.sequence:06}{_end_of_name(drill_id)}"
        # The signature first: a document without one would look like a forgery. One that a killed
        # process has left without a document is replaced.
        signature = signature_path(path)
        _write_new(signature, key.sign(content), replaces=not os.path.lexists(path))
        try:
            _write_new(path, content)
        except BaseException:
            with contextlib.suppress(OSError):
                signature.unlink()
            raise
        _sync(directory)
    return path


@contextlib.contextmanager
def _locked(directory: Path) -> Iterator[None]:
    try:
        with locked(directory / _LOCK, _LOCK_WAIT_S):
            yield
    except TimedOut as error:
        raise TimedOut(
            f"another process has held the lock {safe_text(directory / _LOCK)} for "
            f"{_LOCK_WAIT_S:g} s",
            unchanged=_UNCHANGED,
            hint="It signs a report there, or hangs: wait for it or end it.",
        ) from error


def _sync(directory: Path) -> None:
    """Keep the names of new files through a power cut, where the file system can."""
    with contextlib.suppress(OSError):
        handle = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def _end_of_name(drill_id: str) -> str:
    """Return how the name of a drill's document ends; ids have no dot."""
    return f".{file_part(drill_id)}{SUFFIX}"


def _next_place(directory: Path, key: PublicKey, pipeline: str, stem: str) -> Place:
    """Return the place behind the newest document of the key and pipeline.

    One that is damaged, or whose signature is gone, keeps its number: who verifies is told of it.

    Raises:
        ConfigError, OSError: the newest one cannot be read.
    """
    numbered = [
        (int(match[1]), path)
        for path in list_documents(directory)
        if path.name.startswith(stem) and (match := _NUMBER.match(path.name, len(stem)))
    ]
    for taken, path in sorted(numbered, reverse=True):
        try:
            content = read_bounded(path, LARGEST_BYTES)
        except ValueError as error:
            raise ConfigError(
                f"{safe_text(path)} cannot be a signed report: {error}",
                unchanged=_UNCHANGED,
                hint="Move it away: its name has a number of the sequence.",
            ) from error
        try:
            last = read_document(content)
        except ValueError:
            return Place(taken + 1, digest_of(content))
        if (last.key, last.pipeline) == (key.fingerprint, pipeline):
            return Place(max(taken, last.place.sequence) + 1, last.digest)
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
