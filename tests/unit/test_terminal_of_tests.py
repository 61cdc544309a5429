"""A test that waits for a text on a terminal sees it, in whatever pieces it was drawn."""

from __future__ import annotations

import sys

import pytest

from tests.support.console import terminal as module
from tests.support.console.terminal import Terminal

# What differs from "Over there" is drawn alone; after a change of the size, the line as a whole.
PROGRAM = """
import os, signal
draw = lambda *_: os.write(1, b"\\x1b[HOverview")
signal.signal(signal.SIGWINCH, draw)
os.write(1, b"\\x1b[HOver there\\x1b[1;5Hview \\x1b[K")
while True:
    signal.pause()
"""


def test_a_text_that_is_drawn_in_pieces_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_DRAWN_AGAIN_S", 0.1)
    with Terminal([sys.executable, "-c", PROGRAM]) as terminal:
        terminal.await_text("Overview", 30)
        assert b"Over there" in terminal.output
