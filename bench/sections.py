"""Sections between two marks: those of other benchmarks in RESULTS.md, and tables of documents."""

from __future__ import annotations

import re
from pathlib import Path

from k2ktui.runtime.paths import write_atomically

_SECTION = re.compile(r"<!-- (\S+) -->\n.*?<!-- /\1 -->\n", re.DOTALL)


def sections(path: Path) -> str:
    """Return the sections of a report, with their marks; empty if there are none."""
    if not path.exists():
        return ""
    return "".join(f"\n{match[0]}" for match in _SECTION.finditer(path.read_text()))


def section_of(path: Path, name: str) -> str:
    """Return the text between a section's marks.

    Raises:
        LookupError: the file has no such section.
    """
    for match in _SECTION.finditer(path.read_text()):
        if match[1] == name:
            marks = f"<!-- {name} -->\n", f"<!-- /{name} -->\n"
            return match[0].removeprefix(marks[0]).removesuffix(marks[1])
    raise LookupError(f"{path.name} has no section {name}")


def put_section(path: Path, name: str, text: str) -> None:
    """Write a section of a report in the place of its last version."""
    before = path.read_text() if path.exists() else ""
    section = f"<!-- {name} -->\n{text}<!-- /{name} -->\n"
    others = [m for m in _SECTION.finditer(before) if m[1] == name]
    if others:
        after = before[: others[0].start()] + section + before[others[0].end() :]
    else:
        after = f"{before}\n{section}"
    write_atomically(path, after.encode())
