"""The site drills of a directory, as the records say that its rows were read from."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import TYPE_CHECKING

from k2ktui.engine.drill.model import Drill
from k2ktui.engine.drill.site import SiteDrill, gather_site
from k2ktui.engine.drill.steps import is_acting
from k2ktui.text import safe_message
from k2ktui.watch.model import PartName

if TYPE_CHECKING:
    from k2ktui.fleet.model import FleetRow


def gather_sites(rows: Sequence[FleetRow]) -> list[SiteDrill]:
    """Return the site drills that the rows of a directory know of, the newest first."""
    drills: dict[str, list[Drill]] = defaultdict(list)
    acting: dict[str, list[str]] = defaultdict(list)
    for row in rows:
        for drill in row.site_drills:
            if drill.site is None:
                continue
            drills[drill.site.id].append(drill)
            if row.taken_at is not None and is_acting(drill, int(row.taken_at * 1000)):
                acting[drill.site.id].append(drill.id)
    files = {row.pair.pipeline: str(row.file) for row in rows if row.is_valid}
    errors = {row.pair.pipeline: _why(row) for row in rows}
    sites = []
    for site_id in sorted(drills, reverse=True):
        missing = {
            member.pipeline: "the directory has no file of this pipeline"
            for drill in drills[site_id]
            if drill.site is not None
            for member in drill.site.members
            if member.pipeline not in errors
        }
        known = {name: why for name, why in errors.items() if why}
        sites.append(gather_site(drills[site_id], {**known, **missing}, acting[site_id], files))
    return sites


def _why(row: FleetRow) -> str:
    """Return why the drills of a row cannot be read; "" if they were."""
    if row.taken_at is not None and PartName.STATE not in row.stale:
        return ""
    whys = (
        problem
        for problem in row.problems
        if problem.kind == "file" or (problem.kind == "cluster" and problem.key != PartName.SOURCE)
    )
    problem = next(whys, None)
    if problem is None:
        return "its target was not read yet"
    subject = "" if problem.kind == "file" else f"{problem.subject}: "
    return safe_message(f"{subject}{' '.join(problem.message.split())}")
