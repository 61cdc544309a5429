"""Messages between the feed, the app and its screens."""

from __future__ import annotations

from dataclasses import dataclass

from textual.message import Message

from k2ktui.watch.model import View


@dataclass
class ViewArrived(Message, bubble=False):
    """A new view is available; every screen of the current stack receives it.

    It does not bubble: the app forwards it to the screens, and would forward it again forever.
    """

    view: View

    def can_replace(self, message: Message) -> bool:
        """Return whether this view replaces a queued older one: it always does."""
        return isinstance(message, ViewArrived)
