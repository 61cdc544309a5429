"""Cases of the transcript: commands with made answers of clusters, in place of those who read.

A module an area; each maps the words of its commands to a function that returns their cases.
"""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path

from tests.support.commands.transcript import Typed
from tests.unit.golden.cases import (
    configuration,
    drills,
    evidence,
    groups,
    mirrormaker,
    parity,
    positions,
    reading,
    runs,
    schemas,
    site_drills,
)
from tests.unit.golden.cases.common import Cases

_AREAS = (
    configuration,
    drills,
    evidence,
    groups,
    mirrormaker,
    parity,
    positions,
    reading,
    runs,
    schemas,
    site_drills,
)


def _by_command() -> dict[str, list[Cases]]:
    """Return the cases of all areas; a command may have some in several."""
    cases = defaultdict(list)
    for area in _AREAS:
        for command, made in area.CASES.items():
            cases[command].append(made)
    return dict(cases)


CASES = _by_command()


def typed_cases(command: str, folder: Path) -> list[Typed]:
    """Return what is typed of a command in a folder, and the answers that it gets."""
    return [case for made in CASES.get(command, ()) for case in made(folder)]
