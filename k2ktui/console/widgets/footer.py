"""The key bindings at the foot of a screen: those that fit, and always help and quit."""

from __future__ import annotations

from rich.cells import cell_len
from textual import events
from textual.binding import ActiveBinding
from textual.screen import Screen

from k2ktui.console.widgets.text_lines import TextLines
from k2ktui.present.formatting import Cell, Line, Tone

_LAST = ("help", "quit")
_ASCII_NAMES = {"⏎": "enter", "␣": "space", "⎋": "esc", "↑": "up", "↓": "down"}


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
        shown: dict[str, ActiveBinding] = {}
        for active in self.screen.active_bindings.values():
            if active.binding.show:
                shown.setdefault(active.binding.id or active.binding.action, active)
        last = [active for name, active in shown.items() if name in _LAST]
        first = [active for name, active in shown.items() if name not in _LAST]
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
        key = self.app.get_key_display(binding)
        if self.glyphs.ascii:
            key = _ASCII_NAMES.get(key, key)
        tone = Tone.PLAIN if active.enabled else Tone.MUTED
        return (
            Cell(f" {key}", Tone.HEADING if active.enabled else Tone.MUTED),
            Cell(f" {binding.description} ", tone),
        )

    async def on_click(self, event: events.Click) -> None:
        """Run the action of the clicked key."""
        for low, high, active in self._places:
            if low <= event.x < high and active.enabled:
                await self.app.run_action(active.binding.action, active.node)


def _width(line: Line) -> int:
    return sum(cell_len(cell.text) for cell in line)
