"""A terminal that is too small: a message replaces the screens until it is enlarged."""

from __future__ import annotations

from textual import events
from textual.app import ComposeResult
from textual.geometry import Size
from textual.widgets import Static

from k2ktui.console import terminal
from k2ktui.console.widgets.dialog import Dialog
from k2ktui.console.widgets.typed_keys import TypedKeysApp

LEAST = Size(60, 16)


def too_small(size: Size) -> bool:
    """Return whether the screens cannot be drawn in a terminal of this size."""
    return size.width < LEAST.width or size.height < LEAST.height


class TooSmall(Dialog[None]):
    """Covers everything while the terminal is too small, so that hidden screens get no keys."""

    def compose(self) -> ComposeResult:
        """Build the message."""
        yield Static(id="small", markup=False)

    def on_resize(self) -> None:
        """Show the current and the required size, or close if there is room."""
        size = self.app.size
        if not too_small(size):
            self._make_way()
            return
        self.query_one("#small", Static).update(
            f"This terminal is too small: {size.width} by {size.height}.\n"
            f"Enlarge it to at least {LEAST.width} by {LEAST.height}.\n"
            "Nothing is lost; Ctrl-Q leaves."
        )

    def on_screen_resume(self) -> None:
        """Close if the terminal was enlarged while another screen was in front."""
        if not too_small(self.app.size):
            self.call_after_refresh(self._make_way)

    def _make_way(self) -> None:
        if self.is_active:
            self.dismiss()


class SizedApp(TypedKeysApp):
    """An app whose screens need a minimum size, and that follows its terminal's size."""

    def fit(self) -> None:
        """Apply the terminal's size in case SIGWINCH was lost or came too early."""
        cells = terminal.size() if not self.is_headless else None
        size = Size(*cells) if cells else None
        if size is not None and size != self.size:
            self.post_message(events.Resize(size, size))
        elif self.screen.outer_size != self.size:
            # The screen may have laid itself out once more for its previous size.
            self.screen.post_message(events.Resize(self.size, self.size))

    def on_resize(self, event: events.Resize) -> None:
        """Hide the screens while the terminal is too small."""
        if too_small(event.size) and not isinstance(self.screen, TooSmall):
            self.push_screen(TooSmall())
