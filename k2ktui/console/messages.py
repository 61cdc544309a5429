"""Messages between the feed, the app and its screens."""

from __future__ import annotations

from dataclasses import dataclass

from textual.message import Message

from k2ktui.watch.model import View


@dataclass
class ViewArrived(Message, bubble=False):
    """There is a newer view; every screen of the current stack gets it.

    It does not bubble: the app, which tells it to the screens, would tell it again for ever.
    """

    view: View

    def can_replace(self, message: Message) -> bool:
        """Whether an older one that still waits may be dropped: it may."""
        return isinstance(message, ViewArrived)
