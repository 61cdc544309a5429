"""Pictures of screens that are kept, to be compared; ``K2KTUI_PICTURES=write`` redraws them."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from k2ktui.console import header
from k2ktui.console.session import Session
from tests.support.console.driver import ConsoleDriver, Steps, drive, drive_session
from tests.support.console.views import Made

PICTURES = Path(__file__).parents[2] / "console" / "pictures"


Drawn = tuple[str, str, tuple[int, int]]


def each_picture(drawn: Iterable[Drawn]) -> pytest.MarkDecorator:
    """Give a test pictures (screen, theme, size); all but those of 80 by 24 are slow."""
    slow = (pytest.mark.slow,)
    return pytest.mark.parametrize(
        ("screen", "theme", "size"),
        [pytest.param(*picture, marks=() if picture[2] == (80, 24) else slow) for picture in drawn],
        ids=lambda v: "x".join(map(str, v)) if type(v) is tuple else v,
    )


def compare_screen(opens: Steps, made: Made, drawn: Drawn, **options: Any) -> None:
    """Open a screen of a made pipeline, and expect its picture to be the one that is kept."""
    screen, theme, (width, height) = drawn
    pictures: list[str] = []

    async def steps(console: ConsoleDriver) -> None:
        await opens(console)
        pictures.append(console.svg())
        console.app.workers.cancel_all()  # one may wait for the answer of a dialog

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(header, "who", lambda: "ops@bastion1")
        drive(steps, made, size=(width, height), theme=theme, **options)
    _compare(pictures[0], f"{screen}-{theme}-{width}x{height}")


def compare_session(session: Session, drawn: Drawn) -> None:
    """Open the console on a session, and expect its first screen to look as its kept picture."""
    compare_session_after(session, (), drawn)


def compare_session_after(session: Session, keys: Iterable[str], drawn: Drawn) -> None:
    """Press keys in a session, and expect the screen to look as its kept picture."""
    screen, theme, (width, height) = drawn
    pictures: list[str] = []

    async def steps(console: ConsoleDriver) -> None:
        for key in keys:
            await console.press(key)
        pictures.append(console.svg())

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(header, "who", lambda: "ops@bastion1")
        drive_session(session, steps, (width, height))
    _compare(pictures[0], f"{screen}-{theme}-{width}x{height}")


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
