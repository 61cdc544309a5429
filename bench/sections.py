"""Sections of RESULTS.md that other benchmarks write, each between two marks at its end."""

from __future__ import annotations

import re
from pathlib import Path

from k2ktui.runtime.paths import write_atomically

_SECTION = re.compile(r"<!-- (\S+) -->\n.*?<!-- /\1 -->\n", re.DOTALL)


def sections(path: Path) -> str:
    """Return the sections of a report, with their marks; empty if there are none."""
    if not path.exists():
        return ""
    return "".join(f"\n{found[0]}" for found in _SECTION.finditer(path.read_text()))


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
