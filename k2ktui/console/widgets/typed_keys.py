"""Keys take effect one after the other, and what is typed for a dialog reaches it.

Textual passes a key on as soon as it arrives, although what an earlier one does has not happened
yet. Over a slow line or on a busy machine, keys arrive together: ``A`` and the name that is typed
for its dialog would go to the screen below, where letters are commands.
"""

from __future__ import annotations

import time
from collections import deque

from rich.console import RenderableType
from textual import events
from textual.message import Message
from textual.widget import Widget

from k2ktui.console._textual import QuietApp
from k2ktui.console.widgets.dialog import Dialog

# The group of the workers that ask the operator.
ASK = "ask"
# Messages are sent on as often as this until what a key began has happened: Enter in the palette
# reaches its field, the palette, the list and the palette again.
_ROUNDS = 3
_LOST_S = 2.0
_LOOK_S = 0.05
# Of a name that was typed for a dialog that was refused: from the refusal, and between two letters.
_IGNORED_S, _BETWEEN_S = 2.0, 0.7
# Keys of a paste come closer together than a person types; a key that is held down repeats after at
# most a second.
_BURST_S, _REPEAT_S, _KEPT = 0.05, 1.0, 64
_IGNORED = "Nothing was changed. The name that you type is ignored."


class KeyPassed(Message):
    """Follows a key on its way from the widget that has the focus up to the app."""

    def __init__(self, target: Widget, number: int, rounds: int) -> None:
        super().__init__()
        self.target, self.number, self.rounds = target, number, rounds


class TypedKeysApp(QuietApp):
    """An app that handles a key when the one before it has had its effect.

    While a worker of the group ``ask`` prepares a dialog, keys wait for it. If none comes, what was
    typed for it is dropped, as it is for two seconds after :meth:`ignore_typing`.

    Attributes:
        is_leaving: whether it ends.
        warning_word: what stands in the frame of every dialog that may change something.
    """

    is_leaving: bool = False
    warning_word: str = ""

    def __init__(self) -> None:
        super().__init__()
        self._typed: deque[events.Key] = deque()
        # The last keys, whatever became of them.
        self._last_keys: deque[events.Key] = deque(maxlen=_KEPT)
        self._passing: tuple[Widget, int, float] | None = None
        self._number = 0
        self._asks = self._looks = self._said = False
        self._ignored_until = 0.0
        # The first letter after a refusal: a command if no other follows, else part of a name.
        self._held: events.Key | None = None
        self._may_hold = False

    async def on_event(self, event: events.Event) -> None:
        """Queue a key that was typed; handle everything else."""
        if isinstance(event, events.Key) and not event.is_forwarded:
            if self._must_wait and event.key.startswith("ctrl+"):
                await super().on_event(event)  # leaving is always possible
                return
            self._last_keys.append(event)
            self._typed.append(event)
            await self._pass_on()
        else:
            await super().on_event(event)

    async def on_key_passed(self, message: KeyPassed) -> None:
        """Pass the next key on when what the one before has begun has happened."""
        message.stop()
        if self._passing is None or self._passing[1] != message.number:
            return
        if message.rounds:
            again = KeyPassed(message.target, message.number, message.rounds - 1)
            if message.target.is_attached and message.target.post_message(again):
                return
        self._passing = None
        await self._pass_on()

    @property
    def has_typed_keys(self) -> bool:
        """Whether keys that were typed have not had their effect yet."""
        return bool(self._typed) or self._is_passing or self._held is not None

    @property
    def _must_wait(self) -> bool:
        """Whether a dialog is prepared, or does not take keys yet."""
        screen = self.screen if self.screen_stack else None
        if isinstance(screen, Dialog):
            return screen.must_wait(self._typed[0].key if self._typed else "")
        asks = any(worker.group == ASK and not worker.is_finished for worker in self.workers)
        if self._asks and not asks:
            # Whatever was refused or canceled: a name that was typed for it is no command.
            self._drop_typed()
        self._asks = asks
        return asks

    def _drop_typed(self) -> None:
        kept = [key for key in self._typed if not _is_text(key)]
        if len(kept) < len(self._typed):
            self.ignore_typing()
            self._may_hold = False  # the name has begun
        self._typed = deque(kept)

    def ignore_typing(self) -> None:
        """Ignore names for two seconds: they are typed for a dialog that does not come.

        A single letter is a command, as the message about the refusal may advise.
        """
        self._ignored_until, self._said = time.monotonic() + _IGNORED_S, False
        self._may_hold = True

    def _is_ignored(self, key: events.Key) -> bool:
        now = time.monotonic()
        if not _is_text(key):
            self._ignored_until = 0.0  # whoever moves the cursor has seen what happened
            self._held = None
        if now >= self._ignored_until or isinstance(self.screen, Dialog):
            return False
        self._ignored_until = max(self._ignored_until, now + _BETWEEN_S)
        if self._may_hold:
            self._may_hold, self._held = False, key
            self.set_timer(_BETWEEN_S, lambda: self._release(key))
            return True
        self._held = None
        if not self._said:
            self._said = True
            self.notify(_IGNORED, markup=False)
        return True

    async def _release(self, key: events.Key) -> None:
        """Let the letter after a refusal take effect if no other letter has followed it."""
        if self._held is key:
            self._held, self._ignored_until = None, 0.0
            self._typed.appendleft(key)
            await self._pass_on()

    async def _pass_on(self) -> None:
        while self._typed and not self._is_passing:
            if self.is_leaving or not self.screen_stack:
                self._typed.clear()
                return
            if self._must_wait:
                if self._cancels():
                    continue
                break
            if not self._typed:
                return
            key = self._typed.popleft()
            if self._is_ignored(key):
                continue
            target = self.focused or self.screen
            await super().on_event(key)
            self._number += 1
            if target.post_message(KeyPassed(target, self._number, _ROUNDS - 1)):
                self._passing = (target, self._number, time.monotonic())
        self._look_again()

    def is_hasty(self, key: events.Key) -> bool:
        """Return whether a key is repeated, or came right behind another one, as in a paste."""
        return any(
            0 <= key.time - other.time < (_REPEAT_S if other.key == key.key else _BURST_S)
            for other in self._last_keys
            if other is not key
        )

    def forget_repeats(self) -> None:
        """Drop the Enters that wait in front of all other keys: a dialog was closed meanwhile."""
        while self._typed and self._typed[0].key == "enter":
            self._typed.popleft()

    def _cancels(self) -> bool:
        """Give up what keys wait for, if one of them is Esc; return whether the next can pass."""
        keys = [key.key for key in self._typed]
        if "escape" not in keys or (isinstance(self.screen, Dialog) and not self.screen.is_ready):
            return False
        for _ in keys[: keys.index("escape")]:
            self._typed.popleft()
        if isinstance(self.screen, Dialog):
            return True  # Esc itself closes it
        self._typed.popleft()
        self._cancel_asking()
        return False

    def _cancel_asking(self) -> None:
        for worker in list(self.workers):
            if worker.group == ASK and not worker.is_finished:
                worker.cancel()
        self.notify("Canceled: nothing was changed.", markup=False)

    @property
    def _is_passing(self) -> bool:
        """Whether a key is on its way; one whose widget is gone has arrived."""
        if self._passing is None:
            return False
        target, _, since = self._passing
        if not target.is_attached or time.monotonic() - since > _LOST_S:
            self._passing = None
        return self._passing is not None

    def _look_again(self) -> None:
        if self._typed and not self._looks:
            self._looks = True
            self.set_timer(_LOOK_S, self._look)

    async def _look(self) -> None:
        self._looks = False
        await self._pass_on()

    def exit(
        self,
        result: int | None = None,
        return_code: int = 0,
        message: RenderableType | None = None,
    ) -> None:
        """Leave; what was typed behind it is dropped."""
        self.is_leaving = True
        super().exit(result, return_code, message)


def _is_text(key: events.Key) -> bool:
    """Return whether a key may belong to a typed name, or to what confirms it.

    Capital letters ask before they change anything, and H holds a drill: it must always be heard.
    Enter opens what is under the cursor, and changes nothing.
    """
    text = key.character or ""
    return (key.is_printable and not text.isupper()) or key.key == "tab"
