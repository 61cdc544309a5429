"""Scenes of the transcript of screens: consoles with made answers of clusters.

A module an area; each maps the name of a file of the transcript to its consoles.
"""

from __future__ import annotations

from tests.support.console.transcript import Scene
from tests.unit.golden.scenes import changes, drills, pipeline, runs

SCENES: dict[str, list[Scene]] = {
    **pipeline.SCENES,
    **changes.SCENES,
    **runs.SCENES,
    **drills.SCENES,
}
