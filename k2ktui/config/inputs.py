"""The files that a command is given; ``-`` is standard input.

Several parts of a command read its files, and a pipe can be read once: what came from one is kept.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable

from k2ktui.config.bounded_yaml import BYTE_LIMIT

STDIN = "-"
_read: dict[str, bytes] = {}


def read_file(file: str) -> bytes:
    """Return the content of a file; of a larger one than ``BYTE_LIMIT``, one byte more than that.

    Raises:
        OSError: the file cannot be read.
    """
    if file in _read:
        return _read[file]
    with open(0 if file == STDIN else file, "rb", closefd=file != STDIN) as opened:
        content = opened.read(BYTE_LIMIT + 1)
        if file == STDIN or not stat.S_ISREG(os.fstat(opened.fileno()).st_mode):
            _read[file] = content
    return content


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
