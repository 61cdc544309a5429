"""The base of everything that is shown above a screen: its first result is its last."""

from __future__ import annotations

from typing import ClassVar, Protocol, TypeVar, cast

from textual import events
from textual.await_complete import AwaitComplete
from textual.content import Content
from textual.screen import ModalScreen

T = TypeVar("T")
_FRAMES = "#confirm, #drill, #choose, #leave, #ask"


async def _done() -> None:
    pass


def _nothing() -> AwaitComplete:
    return AwaitComplete(_done())


class KeepsTyped(Protocol):
    """What dialogs use of the app."""

    def is_hasty(self, key: events.Key) -> bool:
        """Return whether a key is repeated, or came right behind another one."""

    def forget_repeats(self) -> None:
        """Drop the Enters that wait in front of all other keys."""

    @property
    def warning_word(self) -> str:
        """What stands in the frame of every dialog that may change something; may be empty."""


class Dialog(ModalScreen[T]):
    """A modal screen that closes once.

    Textual closes the topmost screen for every result. A second Enter or click that is already
    queued when the first one closes the dialog would close the screen below, or end the console.

    Attributes:
        CANCELED: what is said after the dialog was closed without an answer; may be empty.
        is_over: whether it has its result.
        is_ready: whether its field or list has the focus, so that it can take keys.
    """

    CANCELED: ClassVar[str] = ""

    is_over: bool = False
    is_ready: bool = False

    @property
    def text_width(self) -> int:
        """The cells of a line of its text; border, padding and the screen's margin are the rest."""
        return max(30, min(86, self.app.size.width - 10))

    def on_mount(self) -> None:
        """Take keys from now on; Textual calls this after the handler of a subclass."""
        if word := cast("KeepsTyped", self.app).warning_word:
            for frame in self.query(_FRAMES):
                frame.border_title = Content(word)
        # Queued, so that it runs after the change of focus, which Textual queues as well.
        self.app.call_later(self._become_ready)

    def _become_ready(self) -> None:
        self.is_ready = True

    def must_wait(self, key: str) -> bool:
        """Return whether a key cannot have its effect yet."""
        return not (self.is_ready or self.is_over)

    def is_hasty(self, key: events.Key) -> bool:
        """Return whether a key is repeated, or came right behind another one, as in a paste."""
        return cast("KeepsTyped", self.app).is_hasty(key)

    def dismiss(self, result: T | None = None) -> AwaitComplete:
        """Close the dialog with its result, unless it has one, or another one covers it."""
        if self.is_over or not self.is_active:
            return _nothing()
        self.is_over = True
        # A second Enter of the same packet was pressed for this dialog, not for a row below it.
        cast("KeepsTyped", self.app).forget_repeats()
        return super().dismiss(result)

    def cancel(self, result: T | None = None) -> None:
        """Close the dialog without an answer, and say what that means."""
        if not self.is_over and self.is_active and (said := self.what_canceling_means()):
            self.app.notify(said, markup=False)
        self.dismiss(result)

    def what_canceling_means(self) -> str:
        """Return what is said after the dialog was closed without an answer."""
        return self.CANCELED
