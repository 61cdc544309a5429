"""The pictures of README and docs: what they may hold, and that each page has its own."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parents[2]
SCREENSHOTS = REPOSITORY / "screenshots"
PAGES = [REPOSITORY / "README.md", *sorted((REPOSITORY / "docs").glob("*.md"))]
SHEETS = SCREENSHOTS / "sheets"
# Bytes: of a picture that moves, of all others, of all in the directory, of all sheets.
LARGEST, LARGEST_STILL, ALL, ALL_SHEETS = 1_000_000, 60_000, 3_000_000, 8_000_000
SIZES = ("80x24", "120x35", "200x60")


def pictures() -> list[Path]:
    return sorted(SCREENSHOTS.glob("*.svg"))


def without_a_path_or_a_fetched_font(path: Path) -> None:
    urls = re.findall(
        r"(?:/home|/root|/tmp|/work|/Users)/\S*|url\(|@import|https?://\S+", path.read_text()
    )
    assert set(urls) <= {'http://www.w3.org/2000/svg"'}, f"{path.name}: {urls}"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_a_page_shows_pictures_that_exist_dark_and_light(page: Path) -> None:
    text = page.read_text()
    shown = set(re.findall(r"screenshots/(\S+?)\.svg", text))
    for name in shown:
        assert (SCREENSHOTS / f"{name}.svg").is_file(), f"{page.name}: {name}"
        dark = name.removesuffix("-light")
        assert {dark, f"{dark}-light"} <= shown, f"{page.name} shows {dark} in one theme only"


def test_every_picture_is_small_and_without_a_path_or_a_fetched_font() -> None:
    assert pictures()
    for path in pictures():
        text = path.read_text()
        moves = "@keyframes" in text
        assert len(text.encode()) < (LARGEST if moves else LARGEST_STILL), path.name
        without_a_path_or_a_fetched_font(path)
    assert sum(path.stat().st_size for path in SCREENSHOTS.iterdir() if path.is_file()) < ALL


def test_there_is_a_sheet_of_all_screens_for_each_theme_and_size() -> None:
    themes = sorted(path.stem for path in (REPOSITORY / "themes").glob("*.yaml"))
    sheets = sorted(set(SHEETS.glob("*.svg")) - set(SHEETS.glob("directory-*.svg")))
    wanted = {f"{theme}-{size}" for theme in themes for size in SIZES} | {"ascii-80x24"}
    assert {path.stem for path in sheets} == wanted
    names = names_in("tour.py")
    assert len(names) == len(set(names)) > 30
    expect_screens(sheets, names)


def test_there_is_a_sheet_of_the_screens_of_a_directory_for_each_size() -> None:
    sheets = sorted(SHEETS.glob("directory-*.svg"))
    assert {path.stem for path in sheets} == {f"directory-{size}" for size in SIZES}
    themes = sorted(path.stem for path in (REPOSITORY / "themes").glob("*.yaml"))
    screens = names_in("tour_directory.py")
    expect_screens(sheets, [f"{name} {theme}" for name in screens for theme in (*themes, "ascii")])


def names_in(tour: str) -> list[str]:
    """Return the names of the screens that a tour visits."""
    return re.findall(r'yield "([\w-]+)"', (SCREENSHOTS / tour).read_text())


def expect_screens(sheets: list[Path], names: list[str]) -> None:
    """Expect each sheet to have a picture of each of these names."""
    for path in sheets:
        text = path.read_text()
        assert not [name for name in names if f">{name}</text>" not in text], path.name
        without_a_path_or_a_fetched_font(path)
    assert sum(path.stat().st_size for path in sheets) < ALL_SHEETS


@pytest.mark.parametrize("name", ["demo", "demo-light"])
def test_the_film_stands_still_for_those_who_ask_for_it(name: str) -> None:
    text = (SCREENSHOTS / f"{name}.svg").read_text()
    assert "@media (prefers-reduced-motion:reduce){#film{animation:none}}" in text
    assert re.search(r"animation:film [\d.]+s step-end infinite", text)
