"""Themes: shipped and user-defined files of one format, validated, and reloaded on change.

A theme file is YAML: ``name``, ``dark``, optionally ``ansi``, ``colors`` (Textual's theme colors),
``status`` (:data:`STATUS`) and ``variables`` (any of Textual's CSS variables).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Any

import yaml
from textual.color import Color, ColorParseError
from textual.theme import BUILTIN_THEMES, Theme

from k2ktui.config.bounded_yaml import load_yaml
from k2ktui.private_files import user_path
from k2ktui.text import safe_text

STATUS = ("ok", "info", "warn", "unknown", "bad", "muted")
_COLORS = (
    "primary",
    "secondary",
    "warning",
    "error",
    "success",
    "accent",
    "foreground",
    "background",
    "surface",
    "panel",
    "boost",
)
_KEYS = ("name", "dark", "ansi", "colors", "status", "variables")
_LARGEST = 64 << 10


class BadTheme(ValueError):
    """A theme file is unusable; the text says what is wrong and where."""


@dataclass(frozen=True, slots=True)
class Loaded:
    """The themes by name, and the errors of the files that cannot be used."""

    themes: Mapping[str, Theme]
    errors: tuple[str, ...] = ()


def shipped_directory() -> Path:
    """Return the directory of the shipped themes: in the package, or beside it in a checkout."""
    inside = Path(__file__).parent / "themes"
    return inside if inside.is_dir() else Path(__file__).parents[2] / "themes"


def own_directory() -> Path:
    """Return the directory of the user's own themes; it may not exist."""
    return user_path("config") / "themes"


def stamp(directories: Iterable[Path]) -> tuple[tuple[str, int], ...]:
    """Return a value that changes when a theme file does: the paths and modification times."""
    stamps = []
    for path in _files(directories):
        try:
            stamps.append((str(path), path.stat().st_mtime_ns))
        except OSError:
            continue
    return tuple(stamps)


def load_themes(directories: Iterable[Path]) -> Loaded:
    """Load every theme file; if two have one name, the later directory's file wins."""
    themes: dict[str, Theme] = {}
    errors = []
    for path in _files(directories):
        try:
            theme = read_theme(path)
        except BadTheme as error:
            errors.append(f"theme {safe_text(path.name)}: {error}")
        else:
            themes[theme.name] = theme
    return Loaded(themes, tuple(errors))


def read_theme(path: Path) -> Theme:
    """Return the theme in a file.

    Raises:
        BadTheme: the file cannot be read or is not a theme.
    """
    try:
        if path.stat().st_size > _LARGEST:
            raise BadTheme(f"larger than {_LARGEST >> 10} KiB")
        value = load_yaml(path)
    except BadTheme:
        raise
    except (OSError, ValueError) as error:
        raise BadTheme(f"cannot be read: {getattr(error, 'strerror', None) or error}") from error
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        where = f" in line {mark.line + 1}" if mark else ""
        raise BadTheme(f'not valid YAML{where}. Are the colors quoted, as "#5fafff"?') from error
    return make_theme(value)


def make_theme(value: Any) -> Theme:
    """Return the theme that a file's content describes.

    Raises:
        BadTheme: the content is not a theme.
    """
    if not isinstance(value, dict):
        raise BadTheme("a mapping with name and colors is expected")
    _known(value, _KEYS, "")
    name = value.get("name")
    if not isinstance(name, str) or not name.strip() or len(name) > 40 or not name.isprintable():
        raise BadTheme("name must be a text of 1 to 40 characters")
    if name in BUILTIN_THEMES or "," in name:
        raise BadTheme(f"name {safe_text(name)} is taken by a built-in theme, or has a comma")
    colors = _section(value, "colors", _COLORS)
    if "primary" not in colors:
        raise BadTheme("colors.primary is missing")
    status = _section(value, "status", STATUS)
    arguments: dict[str, Any] = dict(colors)
    return Theme(
        name=name,
        dark=_flag(value, "dark", True),
        ansi=_flag(value, "ansi", False),
        variables={
            **{f"status-{word}": color for word, color in status.items()},
            **_variables(value),
        },
        **arguments,
    )


def status_defaults(theme: Theme) -> dict[str, str]:
    """Return the CSS variables of the status colors for a theme that does not define them.

    Also returns the variables that Textual's style sheets require of a theme with ANSI colors.
    """
    plain = "ansi_default" if theme.ansi else theme.foreground or theme.primary
    return {
        "status-ok": theme.success or theme.primary,
        "status-info": theme.accent or theme.primary,
        "status-warn": theme.warning or theme.primary,
        "status-unknown": theme.secondary or theme.primary,
        "status-bad": theme.error or theme.primary,
        "production": theme.error or theme.primary,
        "status-muted": plain if theme.ansi else f"{plain} 65%",
        "raised": plain if theme.ansi else f"{theme.primary} 30%",
        "panel-line": plain if theme.ansi else f"{plain} 30%",
        "ansi-background": "ansi_default",
        "ansi-foreground": "ansi_default",
    }


def _files(directories: Iterable[Path]) -> list[Path]:
    files: list[Path] = []
    for directory in directories:
        try:
            names = sorted(path for path in directory.iterdir() if path.suffix in (".yaml", ".yml"))
        except OSError:
            continue
        files += names
    return files


def _known(value: Mapping[Any, Any], names: Iterable[str], where: str) -> None:
    names = list(names)
    for key in value:
        if key not in names:
            near = get_close_matches(str(key), names, 1)
            hint = f"; did you mean {near[0]}?" if near else f"; known are {', '.join(names)}"
            raise BadTheme(f"unknown key {where}{safe_text(key, 40)}{hint}")


def _section(value: Mapping[str, Any], name: str, known: Iterable[str]) -> dict[str, str]:
    section = value.get(name) or {}
    if not isinstance(section, dict):
        raise BadTheme(f"{name} must be a mapping")
    _known(section, known, f"{name}.")
    return {key: _color(f"{name}.{key}", color) for key, color in section.items()}


def _color(where: str, value: Any) -> str:
    if not isinstance(value, str):
        raise BadTheme(f'{where} must be a quoted color, as "#5fafff"')
    try:
        Color.parse(value)
    except ColorParseError as error:
        raise BadTheme(f"{where}: {safe_text(value, 40)} is not a color") from error
    return value


def _flag(value: Mapping[str, Any], name: str, default: bool) -> bool:
    value_of_flag = value.get(name, default)
    if not isinstance(value_of_flag, bool):
        raise BadTheme(f"{name} must be true or false")
    return value_of_flag


def _variables(value: Mapping[str, Any]) -> dict[str, str]:
    variables = value.get("variables") or {}
    if not isinstance(variables, dict):
        raise BadTheme("variables must be a mapping")
    for name, text in variables.items():
        # The value becomes part of a style sheet, so it must not contain CSS syntax.
        if not isinstance(text, str) or any(sign in text for sign in ";{}$\n"):
            raise BadTheme(f"variables.{safe_text(name, 40)} must be a plain quoted value")
        if not str(name).replace("-", "").isalnum():
            raise BadTheme(f"variables.{safe_text(name, 40)} is not a variable name")
    return {str(name): str(text) for name, text in variables.items()}
