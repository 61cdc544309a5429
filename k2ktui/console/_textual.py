"""Everything that the console relies on in Textual and that Textual does not document.

Other modules use Textual's public interface only. ``tests/console/test_textual_private.py`` checks
each of these names and says what breaks without it; ``pyproject.toml`` pins Textual's minor
version.
"""

from __future__ import annotations

from collections.abc import Sequence

from textual.app import App
from textual.binding import Binding, BindingsMap
from textual.dom import DOMNode


class QuietApp(App[int]):
    """An app that an unhandled exception ends without a traceback on the terminal.

    Attributes:
        fault: the exception that ended the app; None if none did.
    """

    fault: Exception | None = None

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
