"""The keys at the foot of a screen: its own first, those that fit, and always help and quit."""

from __future__ import annotations

from rich.cells import cell_len
from textual import events
from textual.binding import ActiveBinding
from textual.screen import Screen

from k2ktui.console.key_order import key_name, sorted_bindings
from k2ktui.console.widgets.text_lines import TextLines
from k2ktui.present.formatting import Cell, Line, Tone

_LAST = ("help", "quit")


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
