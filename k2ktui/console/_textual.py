"""Everything that the console relies on in Textual and that Textual does not document.

Other modules use Textual's public interface only. ``tests/console/test_textual_private.py`` checks
each of these names and says what breaks without it; ``pyproject.toml`` pins Textual's minor
version.
"""

from __future__ import annotations

import logging
import os
import selectors
import time
from collections.abc import Iterator, Sequence
from typing import IO, Any, cast

from rich.console import Console, RenderableType
from textual import constants, events, on
from textual._compositor import ChopsUpdate, CompositorUpdate, LayoutUpdate
from textual._xterm_parser import XTermParser
from textual.app import App
from textual.binding import Binding, BindingsMap
from textual.dom import DOMNode
from textual.driver import Driver
from textual.drivers.linux_driver import LinuxDriver
from textual.screen import Screen
from textual.strip import Strip
from textual.widget import Widget

from k2ktui.console.terminal import is_gone
from k2ktui.console.terminal_input import TerminalInput
from k2ktui.console.terminal_output import ShownCells

_log = logging.getLogger(__name__)
_TICK_S = 0.1
_READ = 4096
_CLEAR = "\x1b[H\x1b[2J"


class _Output:
    """The terminal, as Textual's thread writes to it; what is written after a hang-up is dropped.

    An error would end the thread, and be reported as a bug; the app, which notices the hang-up,
    would wait for room in the thread's queue.
    """

    def __init__(self, file: IO[str]) -> None:
        self._file = file

    def write(self, text: str) -> None:
        """Write, unless there is no terminal any more."""
        try:
            self._file.write(text)
        except OSError:
            if not is_gone():
                raise

    def flush(self) -> None:
        """Write what is buffered, unless there is no terminal any more."""
        try:
            self._file.flush()
        except OSError:
            if not is_gone():
                raise

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)


class TerminalDriver(LinuxDriver):
    """Textual's driver, whose input passes a filter, and which draws again after it was stopped."""

    _is_suspended = False

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._file = cast("Any", _Output(cast("IO[str]", self._file)))

    def run_input_thread(self) -> None:
        """Read the terminal until the app ends."""
        try:
            self._read_input()
        except Exception as error:  # Textual would print a traceback and exit with 0
            self._app.call_later(self._app._handle_exception, error)

    def _read_input(self) -> None:
        typed = TerminalInput(constants.ESCAPE_DELAY)
        parser = XTermParser(self._debug)
        with selectors.DefaultSelector() as selector:
            selector.register(self.fileno, selectors.EVENT_READ)
            while not self.exit_event.is_set():
                data = self._read_terminal() if selector.select(_TICK_S) else b""
                text = typed.feed(data, time.monotonic())
                if constants.DISABLE_KITTY_KEY:
                    text = text.replace("\x1b[27u", "\x1b")
                try:
                    for event in parser.feed(text) if text else parser.tick():
                        self.process_message(event)
                except Exception:
                    # Keys that were on their way are lost; the next ones are read.
                    _log.warning("input that Textual cannot read: %r", text, exc_info=True)
                    parser = XTermParser(self._debug)

    def _read_terminal(self) -> bytes:
        try:
            data = os.read(self.fileno, _READ)
        except OSError:
            data = b""
        if not data:
            time.sleep(_TICK_S)  # it was hung up, which the app notices
        return data

    def stop_application_mode(self) -> None:
        """Leave an empty screen: GNU screen has no alternate one, and would keep the console's."""
        self.write(_CLEAR)
        super().stop_application_mode()

    def _sigtstp_application(self, *signal: object) -> None:
        self._is_suspended = True
        super()._sigtstp_application(*signal)

    def _sigcont_application(self, *signal: object) -> None:
        """Take the terminal again; the shell has used it meanwhile.

        After SIGSTOP nothing has left it in order, and Textual would read it twice.
        """
        if self._writer_thread is None or is_gone():
            # Not drawn yet; or the terminal was closed, after which the kernel sends SIGCONT, too:
            # to write to it again would block.
            return
        if not self._is_suspended and self._auto_restart:
            self.suspend_application_mode()
        self._is_suspended = False
        self._must_signal_resume = True
        super()._sigcont_application(*signal)


class _Changes(CompositorUpdate):
    """What changes on the terminal when a part of a screen, or all of it, is drawn again."""

    def __init__(self, update: ChopsUpdate | LayoutUpdate, shown: ShownCells) -> None:
        self._update, self._shown = update, shown

    def render_segments(self, console: Console) -> str:
        """Return what is to be written, and keep it."""
        return "".join(self._shown.changes(x, y, strip, console) for x, y, strip in self._strips())

    def _strips(self) -> Iterator[tuple[int, int, Strip]]:
        """Yield the pieces of lines that are drawn, with the places where they begin."""
        update = self._update
        if isinstance(update, LayoutUpdate):
            for y, line in enumerate(update.strips, update.region.y):
                x = update.region.x
                for strip in line:
                    yield x, y, strip
                    x += strip.cell_length
            return
        for y, first, last in update.spans:
            for end, (x, piece) in zip(update.chop_ends[y], update.chops[y].items(), strict=False):
                if piece is not None and x < last and end > first:
                    yield x, y, piece.crop(0, min(end, last) - x)


class QuietApp(App[int]):
    """An app that writes only what changes, and that an exception ends without a traceback.

    Attributes:
        fault: the exception that ended the app; None if none did.
    """

    fault: Exception | None = None

    def __init__(self) -> None:
        super().__init__(driver_class=TerminalDriver)
        self._shown_cells = ShownCells()
        self._shown_screen: Screen[Any] | None = None

    def _display(self, screen: Screen[Any], renderable: RenderableType | None) -> None:
        """Write what changes; another screen is written whole, whatever is on the terminal."""
        if screen is not self._shown_screen:
            self._shown_screen = screen
            self._shown_cells.forget()
        if isinstance(renderable, ChopsUpdate | LayoutUpdate):
            # Textual asks only for render_segments, and calls it where it writes.
            super()._display(screen, cast("Any", _Changes(renderable, self._shown_cells)))
        else:
            super()._display(screen, renderable)

    @on(events.Resize)
    def _forget_cells(self) -> None:
        # Of another size, a terminal arranges its lines anew.
        self._shown_cells.forget()

    @on(Driver.SignalResume)
    def action_redraw(self) -> None:
        """Draw the whole screen again: another program has written on it."""
        self._shown_cells.forget()
        if self._driver is not None:
            self._driver.write(_CLEAR)
        self.refresh()

    def write_terminal(self, text: str) -> None:
        """Write what draws nothing; thread-safe."""
        if self._driver is not None and not self.is_headless:
            self._driver.write(text)

    def _fatal_error(self) -> None:
        """Exit without Textual's traceback, which prints local values that may be secrets."""
        self.fault = self._exception if isinstance(self._exception, Exception) else None
        self._close_messages_no_wait()


def lay_out_again(widget: Widget) -> None:
    """Give a widget the height of its new content, also while an earlier change waits for that.

    Textual keeps the box of a layout in between, and a second request does not make it forget it:
    the widget would have the height of the earlier content until that changes again.
    """
    widget._layout_updates += 1
    widget.refresh(layout=True)


def add_bindings(node: DOMNode, added: Sequence[Binding]) -> None:
    """Add keys to one widget or app; Textual's ``App.bind`` cannot give them an id."""
    node._bindings = BindingsMap.merge([node._bindings, BindingsMap(added)])


def replace_binding(node: DOMNode, binding: Binding) -> None:
    """Replace what one widget does with a key, and its label, without affecting its class."""
    node._bindings.key_to_bindings[binding.key] = [binding]
