"""Themes, keys, ASCII, and what the terminal wants."""

from __future__ import annotations

import os
from pathlib import Path

import click
import pytest
from textual.color import Color

from k2ktui.cli.main import cli
from k2ktui.cli.terminal import options
from k2ktui.console import app, terminal
from k2ktui.console.keys import KeyUse, load_keys
from k2ktui.console.themes import (
    STATUS,
    BadTheme,
    load_themes,
    make_theme,
    shipped_directory,
    status_defaults,
)
from k2ktui.errors import ConfigError
from k2ktui.watch import feed
from k2ktui.watch.model import PipelinePair
from tests.support.commands.in_process import invoke
from tests.support.console.driver import ConsoleDriver, drive
from tests.support.console.views import usual

SHIPPED = load_themes([shipped_directory()])


def test_shipped_themes_are_in_order() -> None:
    assert SHIPPED.errors == ()
    assert set(SHIPPED.themes) == {"k2k-dark", "k2k-light", "k2k-contrast", "k2k-mono"}


CUBE = (0, 95, 135, 175, 215, 255)
GREYS = tuple(range(8, 239, 10))


@pytest.mark.parametrize("name", ["k2k-dark", "k2k-light", "k2k-contrast"])
def test_colours_are_the_same_at_256(name: str) -> None:
    theme = SHIPPED.themes[name]
    own = [
        getattr(theme, name_of_color)
        for name_of_color in ("background", "surface", "panel", "foreground")
    ]
    own += [value for value in theme.variables.values() if value.startswith("#")]
    for text in own:
        red, green, blue = Color.parse(text).rgb
        assert {red, green, blue} <= set(CUBE) or (red == green == blue and red in GREYS), text


@pytest.mark.parametrize("name", ["k2k-dark", "k2k-light", "k2k-contrast"])
@pytest.mark.parametrize("word", ["bad", "warn"])
def test_the_color_of_a_problem_differs_from_that_of_text(name: str, word: str) -> None:
    theme = SHIPPED.themes[name]
    assert theme.foreground
    text, problem = Color.parse(theme.foreground), Color.parse(theme.variables[f"status-{word}"])
    # A dark red beside black text looks black: it takes a difference in one of the colors.
    assert max(abs(a - b) for a, b in zip(text.rgb, problem.rgb, strict=True)) >= 100


@pytest.mark.parametrize("name", ["k2k-dark", "k2k-light", "k2k-contrast"])
def test_statuses_are_readable(name: str) -> None:
    theme = SHIPPED.themes[name]
    for word in STATUS:
        for ground in (theme.background, theme.surface):
            assert ground
            front, back = Color.parse(theme.variables[f"status-{word}"]), Color.parse(ground)
            assert contrast(front, back) >= 4.5, (word, ground)


def contrast(front: Color, back: Color) -> float:
    """As WCAG 2 defines it."""
    light, dark = sorted((luminance(front), luminance(back)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


def luminance(color: Color) -> float:
    """As WCAG 2 defines it."""
    parts = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in color.normalized]
    return 0.2126 * parts[0] + 0.7152 * parts[1] + 0.0722 * parts[2]


@pytest.mark.parametrize(
    ("value", "what"),
    [
        ([], "a mapping"),
        ({"name": "x"}, "colors.primary is missing"),
        ({"name": "nord", "colors": {"primary": "#ffffff"}}, "taken"),
        ({"name": "x", "colors": {"primary": "no"}}, "not a color"),
        ({"name": "x", "colors": {"primry": "#ffffff"}}, "did you mean primary"),
        ({"name": "x", "colors": {"primary": 5}}, "quoted"),
        ({"name": "x", "colors": {"primary": "red"}, "variables": {"a": "b;}"}}, "plain"),
        ({"name": "x", "colors": {"primary": "red"}, "dark": "yes"}, "true or false"),
    ],
)
def test_a_theme_that_is_wrong_is_reported(value: object, what: str) -> None:
    with pytest.raises(BadTheme, match=what):
        make_theme(value)


@pytest.mark.slow
def test_every_builtin_theme_has_status_colours() -> None:
    async def flow(console: ConsoleDriver) -> None:
        for name in sorted(console.app.available_themes):
            console.app.theme = name
            await console.settle()
            for word in STATUS:
                assert f"status-{word}" in status_defaults(console.app.current_theme)

    drive(flow)


def test_own_themes_are_loaded_and_loaded_again_when_they_change(tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text('name: mine\ncolors: {primary: "#ff0000"}\n')
    (tmp_path / "broken.yaml").write_text("name: [")

    async def flow(console: ConsoleDriver) -> None:
        assert console.app.theme == "mine"
        assert "theme broken.yaml: not valid YAML" in console.text
        path.write_text('name: mine\ncolors: {primary: "#00ff00"}\n')
        os.utime(path, (1, 1))
        console.app.poll_themes()
        await console.settle()
        assert console.app.current_theme.primary == "#00ff00"

    drive(flow, themes=(shipped_directory(), tmp_path), theme="mine")


def test_a_theme_that_is_not_there_is_reported() -> None:
    async def flow(console: ConsoleDriver) -> None:
        assert console.app.theme == "k2k-dark"
        assert "there is no theme nope" in console.text

    drive(flow, theme="nope")


def test_keys_can_be_moved(tmp_path: Path) -> None:
    path = tmp_path / "keys.yaml"
    path.write_text("pause: b\nscreen.groups: g,f3\nsrot: a\nquit: nokey\n")

    async def flow(console: ConsoleDriver) -> None:
        assert "there is no id srot; did you mean sort?" in console.text
        assert "quit: nokey is not a key" in console.text
        await console.press("p")
        assert not console.feed.paused
        await console.press("b", "f3")
        assert console.feed.paused
        assert "4 groups" in console.text

    drive(flow, keys=path)


def test_the_other_screens_are_imported_after_the_first_figures(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A key that opens a screen does not wait for that; nor do the first figures."""
    loaded: list[str] = []
    monkeypatch.setattr(app, "import_module", loaded.append)

    async def steps(console: ConsoleDriver) -> None:
        await console.press("2")
        assert "k2ktui.console.screens.drill" in loaded
        await console.press("r")
        assert len(loaded) == len(set(loaded)), "once is enough"

    drive(steps)


def test_key_files_that_cannot_be_read(tmp_path: Path) -> None:
    path = tmp_path / "keys.yaml"
    assert load_keys(path, [KeyUse("sort", "s")]).errors == ()
    path.write_text("- sort")
    assert "id: key are expected" in load_keys(path, [KeyUse("sort", "s")]).errors[0]
    path.write_bytes(b"\xff\xfe\x00")
    assert load_keys(path, [KeyUse("sort", "s")]).errors


def test_ascii_is_all_ascii(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    made = usual()
    for number in range(40):
        made.partition("many", number, end=5)  # so that it scrolls

    async def flow(console: ConsoleDriver) -> None:
        for key in (
            "1",
            "2",
            "enter",
            "e",
            "enter",
            "escape",
            "question_mark",
            "escape",
            "3",
            "v",
            "colon",
            "escape",
            "ctrl+p",
        ):
            await console.press(key)
            assert console.text.isascii(), (key, ascii(console.text))

    drive(flow, made, ascii=True)


def test_mono_has_no_colour() -> None:
    async def flow(console: ConsoleDriver) -> None:
        for key in ("1", "2", "3"):
            await console.press(key)
            for strip in console.strips():
                for segment in strip:
                    style = segment.style
                    colors = (style.color, style.bgcolor) if style else ()
                    assert all(color is None or color.is_default for color in colors), segment

    drive(flow, theme="k2k-mono")


@pytest.mark.parametrize("size", [(60, 20), (80, 24), (200, 60)])
def test_every_size_shows_what_matters(size: tuple[int, int]) -> None:
    async def flow(console: ConsoleDriver) -> None:
        assert "1,200 records" in console.text
        assert "q Quit" in console.text
        assert "READ-WRITE" in console.text
        await console.press("2")
        assert "1,200" in console.line("clicks-2")
        assert "○ behind" in console.line("clicks-2")
        if size[0] == 200:
            detail = console.panel("clicks-0")  # beside the table, as from 120 columns on
            assert "Source log  0 … 90,000" in detail
            assert "verbatim" in detail
            assert "retained log" in console.text
        await console.press("3")
        rows = [line for line in console.text.splitlines() if "billing" in line]
        assert any("✗ skips" in row and "107" in row for row in rows), rows

    drive(flow, size=size)


def test_resizing_keeps_what_is_shown() -> None:
    async def flow(console: ConsoleDriver) -> None:
        await console.press("2", "down", "down")
        for size in ((60, 20), (200, 60), (30, 8), (120, 40)):
            await console.pilot.resize_terminal(*size)
            await console.settle()
            assert "clicks-2" in console.text or size == (30, 8)

    drive(flow)


def test_what_the_terminal_wants() -> None:
    assert terminal.wants_mouse(None, {})
    assert not terminal.wants_mouse(None, {"SSH_CONNECTION": "x"})
    assert terminal.wants_mouse(True, {"SSH_CONNECTION": "x"})
    assert terminal.theme_for(None, {"NO_COLOR": "1"}) == "k2k-mono"
    assert terminal.theme_for("nord", {"NO_COLOR": "1"}) == "nord"
    assert terminal.theme_for(None, {}) is None, "that of the last session, or the default"
    environ = {"SSH_CONNECTION": "x", "NO_COLOR": "1"}
    assert terminal.prepare(None, environ) == "k2k-mono"
    assert environ["ESCDELAY"] == "200"
    assert "NO_COLOR" not in environ
    environ = {"ESCDELAY": "50", "TEXTUAL_THEME": "k2k-light"}
    assert terminal.prepare(None, environ) == "k2k-light"
    assert environ["ESCDELAY"] == "50"
    for color, kept in (("256", True), ("none", False)):
        environ = {"TEXTUAL": "debug", "TEXTUAL_PRESS": "q", "TEXTUAL_FPS": "30"}
        environ["TEXTUAL_COLOR_SYSTEM"] = color
        terminal.prepare(None, environ)
        assert ("TEXTUAL_COLOR_SYSTEM" in environ) is kept
        assert environ.keys() & {"TEXTUAL", "TEXTUAL_PRESS", "TEXTUAL_FPS"} == {"TEXTUAL_FPS"}


@pytest.mark.parametrize(
    ("environ", "ascii"),
    [
        ({"LANG": "C.UTF-8"}, False),
        ({"LANG": "de_DE.utf8"}, False),
        ({"LANG": "C"}, True),
        ({"LANG": "de_DE.ISO-8859-1"}, True),
        ({"LANG": "C", "LC_CTYPE": "C.UTF-8"}, True),  # as Python starts with LANG=C
        ({"LC_CTYPE": "UTF-8"}, False),  # as on macOS
        ({"LANG": "C", "LC_ALL": "en_US.UTF-8"}, False),
        ({"LANG": "en_US.UTF-8", "LC_ALL": "C"}, True),
        ({}, True),
    ],
)
def test_a_locale_without_utf_8_draws_ascii(environ: dict[str, str], ascii: bool) -> None:
    assert terminal.wants_ascii(None, environ) is ascii
    assert terminal.wants_ascii(False, {"LANG": "C"}) is False
    assert terminal.wants_ascii(True, {"LANG": "C.UTF-8"}) is True


@pytest.mark.parametrize("seconds", ["1.9", "0", "-5", "nan", "inf"])
@pytest.mark.parametrize("command", [[], ["watch"]])
def test_an_interval_below_the_minimum_is_refused(command: list[str], seconds: str) -> None:
    with pytest.raises(click.UsageError, match="is not in the range of 2 to 3,600 seconds"):
        invoke(cli, *command, "-f", "none.yaml", "--interval", seconds)


@pytest.mark.parametrize("seconds", ["0.4", "0", "-5", "nan", "inf"])
def test_a_publishing_interval_below_the_minimum_is_refused(seconds: str) -> None:
    with pytest.raises(click.UsageError, match=r"is not in the range of 0\.5 to 3,600 seconds"):
        invoke(cli, "mm2", "publish", "-f", "none.yaml", "--interval", seconds)


def test_the_minimum_of_the_interval_is_that_of_the_feed() -> None:
    assert options.MIN_INTERVAL_S == feed.MIN_INTERVAL_S


def test_without_a_terminal_it_says_what_to_use_instead() -> None:
    with pytest.raises(ConfigError, match="needs a terminal") as raised:
        terminal.check()
    assert "k2ktui watch" in raised.value.hint


@pytest.mark.parametrize("opener", ["ctrl+p", "t"])
def test_without_colour_the_chosen_row_of_a_list_is_underlined(opener: str) -> None:
    async def flow(console: ConsoleDriver) -> None:
        await console.press(opener)
        commands = console.widget("CommandList")
        await console.until(lambda: commands.option_count, "a list")  # type: ignore[attr-defined]
        await console.press("down", "down")
        top = commands.region.y
        lines = list(console.strips())[top : top + commands.region.height]
        chosen = [
            segment.text.strip()
            for strip in lines
            for segment in strip
            if segment.style and segment.style.underline and segment.text.strip()
        ]
        assert len(chosen) == (2 if opener == "ctrl+p" else 1), chosen  # a command has two lines

    drive(flow, theme="k2k-mono")


@pytest.mark.parametrize("name", ["k2k-dark", "k2k-light", "k2k-contrast"])
def test_production_is_readable_and_no_status(name: str) -> None:
    theme = SHIPPED.themes[name]
    production = Color.parse(theme.variables["production"])
    for ground in (theme.panel, theme.surface):
        assert ground and contrast(production, Color.parse(ground)) >= 4.5, ground
    assert theme.variables["production"] not in {
        theme.variables[f"status-{word}"] for word in ("bad", "warn")
    }


@pytest.mark.parametrize(
    ("theme", "ascii"), [*((name, False) for name in sorted(SHIPPED.themes)), ("k2k-mono", True)]
)
def test_production_is_in_the_header_and_around_dialogs(theme: str, ascii: bool) -> None:
    made = usual(PipelinePair("a-pipeline-with-a-long-name", "production"))

    async def flow(console: ConsoleDriver) -> None:
        edge = console.widget("#header").styles.border_left
        color = console.app.theme_variables["production"]
        assert edge[0] == ("ascii" if ascii else "outer")
        assert edge[1] == Color.parse(color)
        assert "production" in console.text.splitlines()[0]
        await console.press("u")
        assert console.screen.query_one("#confirm").styles.border_top[1] == Color.parse(color)
        assert ("+- production -" if ascii else "┌─ production ─") in console.text

    drive(flow, made, size=(60, 24), theme=theme, ascii=ascii)


def test_elsewhere_nothing_looks_like_production() -> None:
    async def flow(console: ConsoleDriver) -> None:
        await console.press("colon", *"q", "escape", "e")
        assert not console.screen.query_one("#ask").border_title
        assert not console.app.has_class("-production")

    drive(flow, usual(PipelinePair("orders", "staging")))
