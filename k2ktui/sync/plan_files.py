"""Keep plans made without an output file in a local directory, in the ``plan -o`` format.

They hold names and offsets, no secrets.
"""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

from platformdirs import user_state_path

from k2ktui.engine.plan import Plan, dump_plan
from k2ktui.private_files import private_directory, write_private

KEPT = 50


def directory() -> Path:
    """Return the directory of kept plans; it may not exist."""
    return user_state_path("k2ktui") / "plans"


def keep(plan: Plan) -> Path | None:
    """Write a plan and delete all but the newest :data:`KEPT`; None if it cannot be written."""
    path = directory() / f"{plan.id}.json"
    try:
        private_directory(path.parent.parent)
        private_directory(path.parent)
        write_private(path, dump_plan(plan).encode())
    except OSError:
        return None
    with suppress(OSError):
        found = sorted(path.parent.glob("*.json"), key=lambda each: each.stat().st_mtime)
        for old in found[:-KEPT]:
            old.unlink()
    return path
