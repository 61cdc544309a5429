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
from collections.abc import Sequence

from textual import constants, on
from textual._xterm_parser import XTermParser
from textual.app import App
from textual.binding import Binding, BindingsMap
from textual.dom import DOMNode
from textual.driver import Driver
from textual.drivers.linux_driver import LinuxDriver

from k2ktui.console.terminal import is_gone
from k2ktui.console.terminal_input import TerminalInput

_log = logging.getLogger(__name__)
_TICK_S = 0.1
_READ = 4096
_CLEAR = "\x1b[H\x1b[2J"


class TerminalDriver(LinuxDriver):
    """Textual's driver, whose input passes a filter, and which draws again after it was stopped."""

    _is_suspended = False

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


class QuietApp(App[int]):
    """An app that an unhandled exception ends without a traceback on the terminal.

    Attributes:
        fault: the exception that ended the app; None if none did.
    """

    fault: Exception | None = None

    def __init__(self) -> None:
        super().__init__(driver_class=TerminalDriver)

    @on(Driver.SignalResume)
    def action_redraw(self) -> None:
        """Draw the whole screen again: another program has written on it."""
        if self._driver is not None:
            self._driver.write(_CLEAR)
        self.refresh()

    def _fatal_error(self) -> None:
        """Exit without Textual's traceback, which prints local values that may be secrets."""
        self.fault = self._exception if isinstance(self._exception, Exception) else None
        self._close_messages_no_wait()


def add_bindings(node: DOMNode, added: Sequence[Binding]) -> None:
    """Add keys to one widget or app; Textual's ``App.bind`` cannot give them an id."""
    node._bindings = BindingsMap.merge([node._bindings, BindingsMap(added)])


def replace_binding(node: DOMNode, binding: Binding) -> None:
    """Replace what one widget does with a key, and its label, without affecting its class."""
    node._bindings.key_to_bindings[binding.key] = [binding]
