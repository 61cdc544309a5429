"""The screens of a directory of pipelines, by name."""

from __future__ import annotations

from stage import Stage
from tour import Pictures


async def of_a_directory(stage: Stage) -> Pictures:
    """Yield the screen of all pipelines of a directory."""
    yield "fleet", await stage.look()


async def of_its_sites(stage: Stage) -> Pictures:
    """Yield the site drills of a directory, one of them, and a pipeline that is held."""
    await stage.press("8")
    yield "site-drills", await stage.look()
    await stage.press("enter")
    yield "site", await stage.look()
    await stage.press("down", "enter")
    yield "site-held", await stage.look()
