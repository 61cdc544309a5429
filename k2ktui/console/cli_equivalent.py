"""The commands that do what a screen does, to be copied into a shell or a runbook."""

from __future__ import annotations

import re
import shlex
from collections.abc import Collection, Sequence
from pathlib import Path

from k2ktui.engine.plan import Rewind
from k2ktui.text import safe_text


def pattern_of(names: Collection[str]) -> str:
    """Return a regular expression that matches these names as a whole, and no other.

    What cannot be printed is escaped, so that the text can be shown and copied.
    """
    return "|".join("".join(map(_escaped, name)) for name in sorted(names))


def _escaped(char: str) -> str:
    if char.isprintable() and safe_text(char) == char != "\\":
        return re.escape(char)
    return f"\\U{ord(char):08x}"


def plan_and_apply(
    files: Sequence[str], groups: Collection[str] | None, rewind: Rewind, path: Path | str
) -> str:
    """Return the command that makes a plan and applies it; ``groups`` None are all."""
    words = ["k2ktui", "plan", *_files(files), *_groups(groups)]
    if rewind is not Rewind.NEVER:
        words += ["--rewind", str(rewind)]
    return (
        f"{shlex.join([*words, '-o', str(path)])} && {shlex.join(['k2ktui', 'apply', str(path)])}"
    )


def verify(files: Sequence[str], path: Path | str) -> str:
    """Return the command that compares the next records at a plan's offsets."""
    return shlex.join(["k2ktui", "verify", *_files(files), "--plan", str(path)])


def undo(files: Sequence[str], entry: str, *, skip_moved: bool = False) -> str:
    """Return the command that takes back an entry of the journal."""
    words = ["k2ktui", "undo", *_files(files), entry]
    return shlex.join([*words, "--skip-moved"] if skip_moved else words)


def _files(files: Sequence[str]) -> list[str]:
    return [word for file in files for word in ("-f", file)]


def _groups(groups: Collection[str] | None) -> list[str]:
    return [] if groups is None else ["--group", pattern_of(groups)]


def offsets(files: Sequence[str], what: str, words: Sequence[str]) -> str:
    """Return the command over the pipeline's own positions; ``what`` is ``offsets set``, …"""
    return shlex.join(["k2ktui", *what.split(), *_files(files), *words])
