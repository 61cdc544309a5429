"""What the screens look like, against pictures; ``K2KTUI_PICTURES=write`` redraws them."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from k2ktui.console import header
from tests.support.console import ConsoleDriver, drive
from tests.support.pictures import compare, mostly_slow
from tests.support.views import Made, usual

REPOSITORY = Path(__file__).parents[2]

SIZES = [(60, 20), (80, 24), (120, 40)]
SCREENS = {
    "overview": (),
    "replication": ("2",),
    "partition": ("2", "enter"),
    "groups": ("3",),
}
DRAWN = [(screen, "k2k-dark", size) for screen in SCREENS for size in SIZES]
DRAWN += [("overview", theme, size) for theme in ("k2k-light", "k2k-mono") for size in SIZES]


def lived() -> Made:
    """The usual pipeline after a minute."""
    made = usual()
    for number in range(12):
        made.view()
        made.now += 5
        made.copy(100 + number % 3)
    return made


@pytest.mark.parametrize(
    ("screen", "theme", "size"),
    mostly_slow(DRAWN),
    ids=lambda v: "x".join(map(str, v)) if type(v) is tuple else v,
)
def test_screens_look_as_they_did(
    screen: str, theme: str, size: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(header, "who", lambda: "ops@bastion1")
    drawn: list[str] = []

    async def flow(console: ConsoleDriver) -> None:
        await console.press(*SCREENS[screen]) if SCREENS[screen] else None
        drawn.append(console.svg())

    drive(flow, lived(), size=size, theme=theme)
    compare(drawn[0], f"{screen}-{theme}-{size[0]}x{size[1]}")


@pytest.mark.slow
def test_pictures_of_the_readme_are_of_this_program() -> None:
    done = subprocess.run(
        [sys.executable, "screenshots/make.py", "--check"],
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    shown = set(re.findall(r"screenshots/(\S+?\.svg)", (REPOSITORY / "README.md").read_text()))
    assert shown
    assert all((REPOSITORY / "screenshots" / name).is_file() for name in shown)
