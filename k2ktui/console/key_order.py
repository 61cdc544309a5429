"""The order of keys in the footer and in the help: those of the current screen first."""

from __future__ import annotations

from typing import Any

from textual.app import App
from textual.binding import ActiveBinding, Binding
from textual.screen import Screen

from k2ktui.console.keys import GLOBAL

_GLOBAL = frozenset(binding.id for binding in GLOBAL)
_ASCII_NAMES = {"⏎": "enter", "␣": "space", "⎋": "esc", "↑": "up", "↓": "down"}
_SHARED = frozenset({"filter", "sort", "reverse", "problems"})


def sorted_bindings(screen: Screen[Any]) -> list[ActiveBinding]:
    """Return the active bindings: the screen's own, those of every table, those of every screen."""
    by_id: dict[str, ActiveBinding] = {}
    for active in screen.active_bindings.values():
        by_id.setdefault(active.binding.id or active.binding.action, active)
    return sorted(by_id.values(), key=lambda active: rank(active.binding))


def rank(binding: Binding) -> int:
    """Return 0 for a key of the current screen, 1 for one of every table, 2 for one of all."""
    if binding.id in _GLOBAL or str(binding.id).startswith("screen."):
        return 2
    moves = str(binding.id).startswith("grid.") and binding.id != "grid.open"
    return 1 if binding.id in _SHARED or moves else 0


def key_name(app: App[Any], binding: Binding, *, plain: bool) -> str:
    """Return a key as it is displayed; ``plain`` uses ASCII characters only."""
    key = app.get_key_display(binding)
    return _ASCII_NAMES.get(key, key) if plain else key
