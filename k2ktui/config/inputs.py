"""The files that a command is given; ``-`` is standard input.

Several parts of a command read its files, and a pipe can be read once: what came from one is kept.

``noting_sources`` records which files and environment variables a value was read from: a running
process reads passwords and certificates again (``k2ktui.kafka.properties.renewal``).
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field

from k2ktui.config.bounded_yaml import BYTE_LIMIT

STDIN = "-"
_read: dict[str, bytes] = {}


@dataclass(frozen=True, slots=True)
class Sources:
    """Where values came from.

    Attributes:
        files: names of the files that were read, or could not be.
        variables: keys of values with the environment variables in them.
    """

    files: set[str] = field(default_factory=set)
    variables: set[tuple[str, str]] = field(default_factory=set)


_sources: ContextVar[Sources | None] = ContextVar("sources", default=None)
_key: ContextVar[str] = ContextVar("key", default="")


@contextmanager
def noting_sources() -> Iterator[Sources]:
    """Record what is read in this context, by this thread."""
    sources = Sources()
    token = _sources.set(sources)
    try:
        yield sources
    finally:
        _sources.reset(token)


@contextmanager
def value_of(key: str) -> Iterator[None]:
    """Say of which key's value the variables in this context are."""
    token = _key.set(key)
    try:
        yield
    finally:
        _key.reset(token)


def note_file(name: str) -> None:
    """Record that a file is read now."""
    if (sources := _sources.get()) is not None:
        sources.files.add(name)


def note_variable(name: str) -> None:
    """Record that an environment variable is read now."""
    if (sources := _sources.get()) is not None:
        sources.variables.add((_key.get(), name))


def read_file(file: str) -> bytes:
    """Return the content of a file; of a larger one than ``BYTE_LIMIT``, one byte more than that.

    Raises:
        OSError: the file cannot be read.
    """
    if file in _read:
        return _read[file]
    note_file(file)
    with open(0 if file == STDIN else file, "rb", closefd=file != STDIN) as opened:
        content = opened.read(BYTE_LIMIT + 1)
        if file == STDIN or not stat.S_ISREG(os.fstat(opened.fileno()).st_mode):
            _read[file] = content
    return content


@contextmanager
def drafted(file: str, text: str) -> Iterator[None]:
    """Let a file that is not written yet have this text for whoever reads it in this context."""
    _read[file] = text.encode()
    try:
        yield
    finally:
        del _read[file]


def can_be_read_again(files: Iterable[str]) -> bool:
    """Return whether another process can read the files later: none is ``-`` or a pipe."""
    names = [part.strip() for names_of_layer in files for part in names_of_layer.split(",")]
    return all(
        name != STDIN and (os.path.isfile(name) or not os.path.exists(name)) for name in names
    )


def absolute_files(files: Iterable[str]) -> tuple[str, ...]:
    """Return the absolute names of files for a later command; none if they cannot be read again."""
    names = [part for names_of_layer in files for part in names_of_layer.split(",") if part]
    return tuple(map(os.path.abspath, names)) if can_be_read_again(names) else ()
