"""Plans that were made without naming a file are kept on this machine, as ``plan -o`` keeps them.

They hold names and offsets, nothing secret.
"""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

from platformdirs import user_state_path

from k2ktui.engine.plan import Plan, dump_plan
from k2ktui.private_files import private_directory, write_private

KEPT = 50


def directory() -> Path:
    """Return where they are; it need not exist."""
    return user_state_path("k2ktui") / "plans"


def keep(plan: Plan) -> Path | None:
    """Write a plan; the oldest beyond :data:`KEPT` go. None if it cannot be written."""
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
