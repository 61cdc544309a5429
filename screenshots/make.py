"""Draw the pictures of README and docs, and sheets of all screens, from what is kept of the demo.

``python screenshots/make.py`` draws the pictures; ``--check`` compares them with the files and
fails where one differs. ``--sheets`` draws every screen at three sizes in every theme instead: a
file for each theme and size in ``screenshots/sheets``, and those of a directory of pipelines a file
for each size; ``--directory`` draws only these. What is kept is made by
``python screenshots/record.py`` (see there) of a new demo, and by ``--views RECORDING --end
NUMBER`` of a demo with MirrorMaker 2.
"""

from __future__ import annotations

import argparse
import asyncio
import importlib
import math
import pkgutil
import sys
from collections.abc import AsyncIterator, Iterator, Mapping
from pathlib import Path

import kept
import scenes
import svg
from stage import opened, opened_session
from svg import Frame
from tour import of_mirrormaker, of_the_demo
from tour_directory import of_a_directory, of_its_sites

from k2ktui.console import screens
from k2ktui.console.screens.base import ConsoleScreen
from k2ktui.console.screens.comparison import ComparisonScreen
from k2ktui.console.screens.fleet import FleetScreen
from k2ktui.console.screens.group_reset import ResetScreen
from k2ktui.console.screens.parity import ParityScreen
from k2ktui.console.screens.site import SiteScreen
from k2ktui.console.screens.site_drills import SiteDrillsScreen
from k2ktui.console.screens.site_member import MemberScreen
from k2ktui.console.themes import shipped_directory
from tests.support.console.fleets import fleet_session
from tests.support.console.sites import half_way, site_session

HERE = Path(__file__).parent
SHEETS = HERE / "sheets"
THEMES = {"": "k2k-dark", "-light": "k2k-light"}
# Pictures of README and docs; the sheets have all screens.
STILLS = (
    *("applied", "audit", "compared", "confirm", "drill", "drills", "events", "group", "groups"),
    *("help", "jobs", "journal", "overview", "partition", "positions", "replication", "report"),
    *("translate", "verified"),
)
SIZES = ((80, 24), (120, 35), (200, 60))
# Of a sheet in pixels, about: what fits beside each other so.
_SHEET_WIDE = 2_500
MIRRORMAKER_VIEWS = 60
Drawn = AsyncIterator[tuple[Path, str]]
# Those of a directory of pipelines, and what differs between clusters, are not kept of the demo:
# tests/console/pictures has them.
NOT_OF_THE_DEMO = {
    FleetScreen,
    SiteDrillsScreen,
    SiteScreen,
    MemberScreen,
    ParityScreen,
    ComparisonScreen,
    ResetScreen,
}


async def draw_pictures(themes: Mapping[str, str], *, with_film: bool) -> Drawn:
    """Yield the pictures in these themes; those of other themes with the dark one."""
    marks = kept.moments().marks
    for suffix, theme in themes.items():
        for name, screen in (await _screens(theme)).items():
            if name in STILLS:
                yield HERE / f"{name}{suffix}.svg", svg.draw([Frame(screen)])
        if with_film:
            async with opened(kept.DEMO, marks["steady"], theme=theme) as stage:
                film = svg.draw([frame async for frame in scenes.film(stage)])
            yield HERE / f"demo{suffix}.svg", film
    others = (("contrast", "k2k-contrast", False), ("ascii", "k2k-mono", True))
    for name, theme, plain in others if "" in themes else ():
        small = opened(kept.DEMO, marks["planned"], theme=theme, size=(80, 24), ascii_only=plain)
        async with small as stage:
            text = svg.draw([Frame(await stage.look())])
        yield HERE / f"{name}.svg", text


async def draw_sheets(wanted: str | None) -> Drawn:
    """Yield the sheets of all themes, or of one."""
    themes = sorted(path.stem for path in shipped_directory().glob("*.yaml"))
    sheets = [(theme, size, False) for theme in themes for size in SIZES]
    sheets.append(("k2k-mono", SIZES[0], True))
    for theme, (width, height), plain in sheets:
        if wanted in (None, theme):
            drawn = await _screens(theme, (width, height), ascii_only=plain)
            frames = [Frame(screen, caption) for caption, screen in drawn.items()]
            columns = max(1, _SHEET_WIDE // svg.size_of(frames[0].screen)[0])
            name = f"{'ascii' if plain else theme}-{width}x{height}"
            yield SHEETS / f"{name}.svg", svg.draw(frames, columns)


async def _screens(
    theme: str, size: tuple[int, int] = SIZES[1], *, ascii_only: bool = False
) -> dict[str, svg.Screen]:
    """Return every screen by name, and see that none of the console's is missing."""
    found = {}
    missing = set(_leaves(ConsoleScreen)) - NOT_OF_THE_DEMO
    sources = (
        (kept.DEMO, kept.moments().marks["steady"], of_the_demo),
        (kept.MIRRORMAKER, math.inf, of_mirrormaker),
    )
    for recording, at, pictures in sources:
        stage_of = opened(recording, at, theme=theme, size=size, ascii_only=ascii_only)
        async with stage_of as stage:
            async for name, screen in pictures(stage):
                found[name] = screen
            missing -= stage.seen
    assert not missing, f"no picture of {', '.join(sorted(each.__name__ for each in missing))}"
    return found


async def draw_directory(wanted: str | None) -> Drawn:
    """Yield a sheet for each size: the screens of a directory in all themes, or in one."""
    themes = sorted(path.stem for path in shipped_directory().glob("*.yaml"))
    looks = [(theme, False) for theme in themes if wanted in (None, theme)]
    for size in SIZES:
        frames: list[Frame] = []
        for theme, plain in (*looks, ("k2k-mono", True)) if wanted is None else looks:
            name = "ascii" if plain else theme
            sessions = (
                (fleet_session(theme=theme, ascii=plain), of_a_directory),
                (site_session(*half_way(), theme=theme, ascii=plain), of_its_sites),
            )
            for session, pictures in sessions:
                async with opened_session(session, size) as stage:
                    async for screen, picture in pictures(stage):
                        frames.append(Frame(picture, f"{screen} {name}"))
        columns = max(1, _SHEET_WIDE // svg.size_of(frames[0].screen)[0])
        yield SHEETS / f"directory-{size[0]}x{size[1]}.svg", svg.draw(frames, columns)


def _leaves(kind: type[ConsoleScreen]) -> Iterator[type[ConsoleScreen]]:
    """Yield the classes of screens that nothing is derived from, of all modules of screens."""
    for module in pkgutil.iter_modules(screens.__path__, f"{screens.__name__}."):
        importlib.import_module(module.name)
    for each in kind.__subclasses__():
        yield from _leaves(each)
    if not kind.__subclasses__():
        yield kind


def main() -> int:
    """Return 1 if a picture is not as it should be."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--theme", metavar="NAME", help="only the pictures in this theme")
    parser.add_argument("--stills", action="store_true", help="not the film")
    parser.add_argument("--sheets", action="store_true", help="sheets of all screens instead")
    parser.add_argument("--directory", action="store_true", help="only those of a directory")
    parser.add_argument("--views", type=Path, metavar="RECORDING")
    parser.add_argument("--end", type=int, default=sys.maxsize, metavar="NUMBER")
    options = parser.parse_args()
    if options.views:
        kept.keep_last_views(options.views, MIRRORMAKER_VIEWS, options.end)
    themes = {key: name for key, name in THEMES.items() if options.theme in (None, name)}
    drawings = [draw_directory(options.theme)] if options.sheets or options.directory else []
    if not options.directory:
        stills = draw_pictures(themes, with_film=not options.stills)
        drawings.append(draw_sheets(options.theme) if options.sheets else stills)
    different = [
        name for drawing in drawings for name in asyncio.run(_write(drawing, check=options.check))
    ]
    if different:
        print(f"not as drawn now: {', '.join(different)}", file=sys.stderr)
    return 1 if different else 0


async def _write(drawing: Drawn, *, check: bool) -> list[str]:
    """Write the pictures; with ``check``, return the names of files that differ instead."""
    different = []
    async for path, text in drawing:
        if not check:
            path.parent.mkdir(exist_ok=True)
            path.write_text(text)
        elif not path.exists() or path.read_text() != text:
            different.append(path.name)
    return different


if __name__ == "__main__":
    sys.exit(main())
