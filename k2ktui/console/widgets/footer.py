"""The keys at the foot of a screen: its own first, those that fit, and always help and quit."""

from __future__ import annotations

from typing import Any

from rich.cells import cell_len
from textual import events
from textual.app import App
from textual.binding import ActiveBinding, Binding
from textual.screen import Screen

from k2ktui.console.keys import GLOBAL
from k2ktui.console.widgets.text_lines import TextLines
from k2ktui.present.formatting import Cell, Line, Tone

_GLOBAL = frozenset(binding.id for binding in GLOBAL)
_ASCII_NAMES = {"⏎": "enter", "␣": "space", "⎋": "esc", "↑": "up", "↓": "down"}
_SHARED = frozenset({"filter", "sort", "reverse", "problems"})
_LAST = ("help", "quit")


def sorted_bindings(screen: Screen[Any]) -> list[ActiveBinding]:
    """Return the active bindings: the screen's own, those of every table, those of every screen."""
    by_id: dict[str, ActiveBinding] = {}
    for active in screen.active_bindings.values():
        by_id.setdefault(active.binding.id or active.binding.action, active)
    return sorted(by_id.values(), key=lambda active: rank_of_key(active.binding))


def rank_of_key(binding: Binding) -> int:
    """Return 0 for a key of the current screen, 1 for one of every table, 2 for one of all."""
    if binding.id in _GLOBAL or str(binding.id).startswith("screen."):
        return 2
    moves = str(binding.id).startswith("grid.") and binding.id != "grid.open"
    return 1 if binding.id in _SHARED or moves else 0


def key_name(app: App[Any], binding: Binding, *, plain: bool) -> str:
    """Return a key as it is displayed; ``plain`` uses ASCII characters only."""
    key = app.get_key_display(binding)
    return _ASCII_NAMES.get(key, key) if plain else key


class KeyFooter(TextLines):
    """One line of key bindings; redrawn only when the bindings change."""

    def __init__(self) -> None:
        super().__init__(id="keys")
        self._places: list[tuple[int, int, ActiveBinding]] = []

    def on_mount(self) -> None:
        """Subscribe to changes of the active bindings."""
        self.screen.bindings_updated_signal.subscribe(self, self._keys_changed)
        self.show_keys()

    def on_resize(self) -> None:
        """Choose the keys that fit the new width."""
        self.show_keys()

    def _keys_changed(self, screen: Screen[object]) -> None:
        if screen is self.screen:
            self.show_keys()

    def show_keys(self) -> None:
        """Show the bindings that are active now."""
        shown = [active for active in sorted_bindings(self.screen) if active.binding.show]
        last = [active for active in shown if active.binding.id in _LAST]
        first = [active for active in shown if active.binding.id not in _LAST]
        room = self.size.width - sum(_width(self._line(active)) for active in last)
        chosen = []
        for active in first:
            room -= _width(self._line(active))
            if room < 0:
                break
            chosen.append(active)
        cells: list[Cell] = []
        self._places, at = [], 0
        for active in [*chosen, *last]:
            line = self._line(active)
            self._places.append((at, at + _width(line), active))
            at += _width(line)
            cells += line
        self.show([tuple(cells)])

    def _line(self, active: ActiveBinding) -> Line:
        binding = active.binding
        key = key_name(self.app, binding, plain=self.glyphs.ascii)
        tone = Tone.PLAIN if active.enabled else Tone.MUTED
        label = binding.description
        if binding.id == "quit" and len(getattr(self.app, "path", ())) > 1:
            label = "Back"
        return (
            Cell(f" {key}", Tone.HEADING if active.enabled else Tone.MUTED),
            Cell(f" {label} ", tone),
        )

    async def on_click(self, event: events.Click) -> None:
        """Run the action of the clicked key, unless an earlier click has covered the screen."""
        if not self.screen.is_active:
            return
        for low, high, active in self._places:
            if low <= event.x < high and active.enabled:
                await self.app.run_action(active.binding.action, active.node)


def _width(line: Line) -> int:
    return sum(cell_len(cell.text) for cell in line)
