"""Key bindings: those of every screen, each with an id, and the user's file that remaps them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from pathlib import Path

import yaml
from textual.binding import Binding
from textual.dom import DOMNode
from textual.keys import Keys, key_to_character

from k2ktui.config.bounded_yaml import load_yaml
from k2ktui.private_files import user_path
from k2ktui.text import safe_text

# Names of keys that Textual knows; single characters are checked separately.
_NAMED = frozenset(key.value for key in Keys)

GLOBAL: tuple[Binding, ...] = (
    Binding("question_mark,f1", "help", "Help", id="help", key_display="?"),
    Binding("colon", "command", "Command", id="command", key_display=":"),
    Binding("ctrl+p", "command_palette", "Palette", id="palette", show=False),
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
CHART_WINDOW = Binding("w", "app.chart_window", "Charts", id="charts.window")
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


def bindings_of(*kinds: type[DOMNode]) -> Iterator[Binding]:
    """Yield the keys of these classes and of their base classes of ours, with ids or without."""
    own = (base for kind in kinds for base in kind.__mro__ if base.__module__.startswith("k2ktui."))
    for base in own:
        for binding in vars(base).get("BINDINGS", ()):
            if isinstance(binding, Binding):
                yield binding


def key_file() -> Path:
    """Return the path of the user's key file; the file may not exist."""
    return user_path("config") / "keys.yaml"


@dataclass(frozen=True, slots=True)
class KeyUse:
    """What keys do by default: an id, and the screens on which they do it; none means all."""

    id: str
    keys: str
    screens: frozenset[str] = frozenset()

    def is_beside(self, other: KeyUse) -> bool:
        """Return whether both may be wanted on one screen."""
        shared = self.screens & other.screens
        return bool(shared) or not self.screens or not other.screens


def load_keys(path: Path, uses: Iterable[KeyUse]) -> KeyFile:
    """Load a file of ``id: key`` or ``id: key,key``; invalid lines are reported and skipped.

    A key that does something else already on the same screen is reported, too: it gets the new
    meaning there.

    Args:
        path: the file; a missing file is not an error.
        uses: all ids; not iterated over without a file.
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
    keys: dict[str, str] = {}
    errors: list[str] = []
    known = list(uses)
    for name, text in value.items():
        wrong = _wrong(str(name), text, [use.id for use in known])
        if wrong:
            errors.append(f"keys: {wrong}")
        else:
            keys[str(name)] = str(text)
    return KeyFile(keys, (*errors, *_taken(keys, known)))


def _taken(keys: Mapping[str, str], uses: list[KeyUse]) -> Iterator[str]:
    """Yield what is to be said of keys of the file that have another meaning on the same screen."""
    for number, use in enumerate(uses):
        for other in uses[number + 1 :]:
            if use.id == other.id or not use.is_beside(other):
                continue
            moved, kept = (use, other) if use.id in keys else (other, use)
            if moved.id not in keys:
                continue  # as they are by default
            same = _names(keys[moved.id]) & _names(keys.get(kept.id, kept.keys))
            for key in sorted(same):
                yield (
                    f"keys: {safe_text(key, 40)} of {moved.id} is a key of {kept.id}, too; "
                    f"give one of them another"
                )


def _names(keys: str) -> set[str]:
    """Return keys by one name each: Textual knows ``?`` as ``question_mark``, too."""
    return {key_to_character(key.strip()) or key.strip() for key in keys.split(",")}


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
