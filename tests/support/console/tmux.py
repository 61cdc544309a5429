"""A program in a real tmux: what is on its screen, and keys typed into it."""

from __future__ import annotations

import re
import shutil
import subprocess
import uuid
from collections.abc import Mapping, Sequence
from typing import Self

from tests.support.clusters.kafka import TIMEOUT, eventually

TMUX = shutil.which("tmux")
# As long as the checks that a dialog waits for may take on a busy machine.
_DIALOG_S = 300.0
_COLOURS = re.compile(r"\x1b\[[\d;]*m")


class Tmux:
    """A tmux server of our own, with one window in which a command runs.

    When the command has ended, its exit code is on the screen: ``ENDED 0``.

    Args:
        command: what runs in it.
        env: environment variables over our own.
        size: columns and lines.
    """

    def __init__(
        self, command: Sequence[str], env: Mapping[str, str], size: tuple[int, int] = (80, 24)
    ) -> None:
        self._tmux = [str(TMUX), "-L", uuid.uuid4().hex, "-f", "/dev/null"]
        given = [part for name, value in env.items() for part in ("-e", f"{name}={value}")]
        shell = f"{' '.join(command)}; echo ENDED $?; cat"
        width, height = map(str, size)
        self._do("new-session", "-d", "-x", width, "-y", height, *given, shell)

    @property
    def drawn(self) -> str:
        """The screen with its colours."""
        return self._do("capture-pane", "-p", "-e")

    @property
    def screen(self) -> str:
        """The screen without its colours."""
        return _COLOURS.sub("", self.drawn)

    def press(self, *keys: str) -> None:
        """Press keys, by tmux's names."""
        self._do("send-keys", *keys)

    def type(self, text: str) -> None:
        """Type a text as it is."""
        self._do("send-keys", "-l", text)

    def sees(self, *texts: str, timeout: float = TIMEOUT) -> None:
        """Wait until all texts are on the screen at once."""
        try:
            eventually(lambda: all(text in self.screen for text in texts), str(texts), timeout)
        except AssertionError as error:
            raise AssertionError(f"{error}:\n{self.screen}") from None

    def agree(self, name: str = "") -> None:
        """Type the name that a dialog asks for, if any; apply once all that it does is shown."""
        if name:
            self.sees(f"type {name} to", timeout=_DIALOG_S)
            self.type(name)
            self.sees("Tab and space; Esc cancels", timeout=_DIALOG_S)
            self.press("Tab")
        self.sees("space applies; Esc cancels", timeout=_DIALOG_S)
        self.press("Space")

    def asks(self, variable: str) -> str:
        """Return what tmux says of the window, by one of its formats."""
        return self._do("display-message", "-p", variable).strip()

    def resize(self, width: int, height: int) -> None:
        """Make the window larger or smaller."""
        self._do("resize-window", "-x", str(width), "-y", str(height))

    def _do(self, *arguments: str) -> str:
        done = subprocess.run([*self._tmux, *arguments], capture_output=True, text=True, check=True)
        return done.stdout

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        subprocess.run([*self._tmux, "kill-server"], capture_output=True, check=False)
