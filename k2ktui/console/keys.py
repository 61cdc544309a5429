"""Key bindings: those of every screen, each with an id, and the user's file that remaps them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from pathlib import Path

import yaml
from platformdirs import user_config_path
from textual.binding import Binding
from textual.keys import Keys, key_to_character

from k2ktui.config.bounded_yaml import load_yaml
from k2ktui.text import safe_text

# Names of keys that Textual knows; single characters are checked separately.
_NAMED = frozenset(key.value for key in Keys)

GLOBAL: tuple[Binding, ...] = (
    Binding("question_mark,f1", "help", "Help", id="help", key_display="?"),
    Binding("colon,ctrl+p", "command_palette", "Palette", id="palette", key_display=":"),
    Binding("r", "refresh", "Refresh", id="refresh"),
    Binding("p", "pause", "Pause", id="pause"),
    Binding("e", "export", "Export", id="export"),
    Binding("y", "copy", "Copy", id="copy", show=False),
    Binding("plus", "interval(1)", "Slower", id="slower", show=False),
    Binding("minus", "interval(-1)", "Faster", id="faster", show=False),
    Binding("u", "unlock", "Unlock", id="unlock"),
    Binding("L", "events", "Event log", id="events", show=False),
    Binding("t", "change_theme", "Theme", id="theme", show=False),
    Binding("ctrl+s", "shot", "Screenshot", id="screenshot", show=False),
    Binding("ctrl+l", "redraw", "Draw again", id="redraw", show=False),
    Binding("ctrl+z", "suspend_process", "Suspend", id="suspend", show=False),
    Binding("q", "back", "Quit", id="quit"),
    Binding("escape", "back_only", "Back", id="back", show=False),
    Binding("ctrl+q,ctrl+c", "quit", "Quit at once", id="quit-now", show=False, priority=True),
)
# For the screens with charts.
CHART_WINDOW = Binding("w", "app.chart_window", "5/15/60 min", id="charts.window")
REPLAY: tuple[Binding, ...] = (
    Binding("left_square_bracket", "step(-1)", "Step back", id="step-back", key_display="["),
    Binding("right_square_bracket", "step(1)", "Step", id="step", key_display="]"),
    Binding("comma", "seek", "Seek", id="seek", key_display=","),
)


@dataclass(frozen=True, slots=True)
class KeyFile:
    """The user's keys by id, and the problems found in the file."""

    keys: Mapping[str, str] = field(default_factory=dict)
    errors: tuple[str, ...] = ()


def key_file() -> Path:
    """Return the path of the user's key file; the file may not exist."""
    return user_config_path("k2ktui") / "keys.yaml"


def load_keys(path: Path, ids: Iterable[str]) -> KeyFile:
    """Load a file of ``id: key`` or ``id: key,key``; invalid lines are reported and skipped.

    Args:
        path: the file; a missing file is not an error.
        ids: the known ids; not iterated over without a file.
    """
    try:
        value = load_yaml(path)
    except FileNotFoundError:
        return KeyFile()
    except (OSError, ValueError, yaml.YAMLError) as error:
        reason = getattr(error, "strerror", None) or "it is not valid YAML"
        return KeyFile(errors=(f"{safe_text(path)}: {reason}",))
    if not isinstance(value, dict):
        return KeyFile(errors=(f"{safe_text(path)}: lines of id: key are expected",))
    keys, errors, known = {}, [], list(ids)
    for name, text in value.items():
        wrong = _wrong(str(name), text, known)
        if wrong:
            errors.append(f"keys: {wrong}")
        else:
            keys[str(name)] = str(text)
    return KeyFile(keys, tuple(errors))


def _wrong(name: str, text: object, known: list[str]) -> str:
    if name not in known:
        near = get_close_matches(name, known, 1)
        hint = f"; did you mean {near[0]}?" if near else "; ? in the console lists them"
        return f"there is no id {safe_text(name, 40)}{hint}"
    for key in str(text).split(","):
        if not _is_key(key.strip()):
            return f"{safe_text(name)}: {safe_text(key, 40)} is not a key"
    return ""


def _is_key(key: str) -> bool:
    if len(key) == 1:
        return key.isprintable() and not key.isspace()
    *modifiers, last = key.split("+")
    if any(modifier not in ("ctrl", "shift", "alt") for modifier in modifiers):
        return False
    return key in _NAMED or last in _NAMED or len(last) == 1 or key_to_character(last) is not None
