"""Pictures of screens that are kept, to be compared; ``K2KTUI_PICTURES=write`` redraws them."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from textual.widgets import Input

from k2ktui.console import header
from k2ktui.console.session import Session
from tests.support.console.driver import ConsoleDriver, Steps, drive, drive_session
from tests.support.console.views import Made

PICTURES = Path(__file__).parents[2] / "console" / "pictures"


Size = tuple[int, int]

# The first is that at which a console is opened; the others by changes of the terminal's size.
SIZES: tuple[Size, ...] = ((80, 24), (60, 20), (120, 35), (200, 60))
# Of a state that differs from another one in its texts: the transcript has them.
ONE: tuple[Size, ...] = SIZES[:1]
THEMES = ("k2k-light", "k2k-contrast", "k2k-mono")
THEMES_AT: Size = (120, 35)


def each_screen(names: Iterable[str]) -> Callable[[Any], Any]:
    """Give a test screens, each with all of its pictures; they are slow."""

    def decorate(function: Any) -> Any:
        return pytest.mark.slow(pytest.mark.parametrize("screen", list(names))(function))

    return decorate


def compare_screen(
    opens: Steps,
    made: Made,
    screen: str,
    *,
    sizes: Sequence[Size] = SIZES,
    themes: Sequence[str] = (),
    themes_at: Size = THEMES_AT,
    afresh: bool = False,
    **options: Any,
) -> None:
    """Open a screen of a made pipeline, and expect its pictures to be those that are kept.

    Args:
        opens: how it is opened.
        made: the pipeline.
        screen: the name of its pictures.
        sizes: of the terminal, one after the other.
        themes: others than the usual one.
        themes_at: size of the terminal for them.
        afresh: open it for each size: a screen below a dialog is not drawn for another size.
        options: of the console.
    """
    looks = [((size,), themes if size == themes_at else ()) for size in sizes]
    for at, in_themes in looks if afresh else [(sizes, themes)]:
        drawn = _Drawn(opens, screen, at, in_themes, themes_at)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(header, "who", lambda: "ops@bastion1")
            drive(drawn.draw, made, size=at[0], theme="k2k-dark", **options)
        drawn.compare()


def compare_session_after(
    session: Session,
    keys: Iterable[str],
    screen: str,
    *,
    sizes: Sequence[Size] = SIZES,
    themes: Sequence[str] = (),
) -> None:
    """Press keys in a session, and expect the screen to look as in its kept pictures."""

    async def opens(console: ConsoleDriver) -> None:
        for key in keys:
            await console.press(key)

    drawn = _Drawn(opens, screen, sizes, themes)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(header, "who", lambda: "ops@bastion1")
        drive_session(session, drawn.draw, sizes[0])
    drawn.compare()


@dataclass
class _Drawn:
    """The pictures of a screen, which is opened once."""

    opens: Steps
    screen: str
    sizes: Sequence[Size]
    themes: Sequence[str]
    themes_at: Size = THEMES_AT
    pictures: dict[str, str] = field(default_factory=dict)

    async def draw(self, console: ConsoleDriver) -> None:
        """Open it, and draw it at each size and in each theme."""
        await self.opens(console)
        for size in self.sizes:
            await self._resize(console, size)
            await self._keep(console, "k2k-dark", size)
        for theme in self.themes:
            await self._resize(console, self.themes_at)
            console.app.theme = theme
            await console.pilot.pause()
            console.app.clear_notifications()  # which theme was chosen
            await console.pilot.pause()
            await self._keep(console, theme, self.themes_at)
        console.app.workers.cancel_all()  # one may wait for the answer of a dialog

    async def _resize(self, console: ConsoleDriver, size: Size) -> None:
        if console.app.size != size:
            await console.pilot.resize_terminal(*size)
            await console.pilot.pause()

    async def _keep(self, console: ConsoleDriver, theme: str, size: Size) -> None:
        for typed in console.app.screen.query(Input):
            typed.cursor_blink = False  # a blinking cursor is in a picture or not, by the clock
        await console.pilot.pause()
        self.pictures[f"{self.screen}-{theme}-{size[0]}x{size[1]}"] = console.svg()

    def compare(self) -> None:
        """Expect the pictures to be those that are kept."""
        for name, svg in self.pictures.items():
            _compare(svg, name)


def _compare(svg: str, name: str) -> None:
    """Expect a picture to be the one that is kept under a name."""
    path = PICTURES / f"{name}.svg"
    if os.environ.get("K2KTUI_PICTURES") == "write":
        path.parent.mkdir(exist_ok=True)
        path.write_text(svg)
    expected = path.read_text()
    if svg != expected:
        assert _words(svg) == _words(expected)
    assert svg == expected, f"{path.name} differs in colours or places"


def _words(svg: str) -> list[str]:
    """The texts of a picture, which say more of a difference than its markup."""
    return re.findall(r"<text[^>]*>([^<]*)</text>", svg)
