"""Watch for secrets on command lines and in files."""

from __future__ import annotations

import contextlib
import os
import stat
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Self


class Watch:
    """Looks at all command lines, and at the files below a directory, over and over.

    Attributes:
        looked: how often.
        shown: the command lines that held a secret.
        stored: the files that held a secret, with their mode and their directory's.
    """

    def __init__(self, directory: Path, secrets: Sequence[str]) -> None:
        self.looked = 0
        self.shown: set[str] = set()
        self.stored: dict[Path, tuple[int, int]] = {}
        self._directory = directory
        self._secrets = [secret.encode() for secret in secrets]
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._look_on, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()

    def holders(self) -> list[Path]:
        """Return the files that hold a secret now."""
        return [file for file in files(self._directory) if self._is_in(_read(file))]

    def _look_on(self) -> None:
        while not self._ended.wait(0.02):
            for file in Path("/proc").glob("[0-9]*/cmdline"):
                text = _read(file)
                if self._is_in(text):
                    self.shown.add(text.replace(b"\0", b" ").decode(errors="replace"))
            for file in self.holders():
                with contextlib.suppress(OSError):
                    self.stored[file] = _mode(file), _mode(file.parent)
            self.looked += 1

    def _is_in(self, text: bytes) -> bool:
        return any(secret in text for secret in self._secrets)


def files(directory: Path) -> Iterator[Path]:
    """Yield every file below a directory."""
    for parent, _, names in os.walk(directory):
        yield from (Path(parent, name) for name in names)


def _mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def _read(file: Path) -> bytes:
    try:
        return file.read_bytes()
    except OSError:
        return b""
