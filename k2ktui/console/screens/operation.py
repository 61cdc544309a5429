"""Base of the screens that act on a cluster: one operation at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, ClassVar, TypeVar

from textual import on
from textual.binding import Binding, BindingType
from textual.message import Message
from textual.widget import Widget

from k2ktui.config.model import PipelineConfig
from k2ktui.console.event_log import EventKind
from k2ktui.console.screens.row import RowsScreen
from k2ktui.console.visuals.panel import Tile, is_wide
from k2ktui.console.widgets.grid import Grid
from k2ktui.console.widgets.styled_text import glyphs_of, wrap
from k2ktui.console.widgets.text_lines import TextLines
from k2ktui.engine.severity import Severity
from k2ktui.errors import Declined, K2kError
from k2ktui.present.formatting import Cell, Line, Tone
from k2ktui.progress import ProgressTexts, listening
from k2ktui.sync.flow import Flow
from k2ktui.text import safe_message

T = TypeVar("T")
_ERROR_LINES = 5
# On a terminal with fewer lines, one line below the table has the reason of a row, not two.
_LOW = 24
# The group of the threads that act; one at a time on each screen.
ACT = "act"


class OperationScreen(RowsScreen):
    """A table with progress above it; on a narrow terminal, the reason of a row is below it.

    Attributes:
        NEEDS: actions that query a cluster; unavailable in a recording and during an operation.
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        # Hidden, so that on a narrow terminal the footer shows the keys of operations.
        Binding("s", "sort", "Sort", id="sort", show=False),
        Binding("z", "problems", "Problems", id="problems", show=False),
    ]
    NEEDS: ClassVar[frozenset[str]] = frozenset()

    class Progressed(Message):
        """The operation in progress reports how far it is."""

        def __init__(self, text: str) -> None:
            super().__init__()
            self.text = text

        def can_replace(self, message: Message) -> bool:
            """Return whether this replaces a queued message: yes, the newest is enough."""
            return isinstance(message, OperationScreen.Progressed)

    def __init__(self) -> None:
        super().__init__()
        self.busy = self._progress = ""
        self.error: K2kError | None = None
        self._writing = False

    # For subclasses

    def facts(self) -> list[Line]:
        """Return the lines above the table."""
        return []

    def row_reason(self, row: Any) -> list[Line]:
        """Return the lines below the table of a narrow terminal: why a row is as it is."""
        return []

    def above(self) -> Iterable[Widget]:
        """Yield what stands above all lines, such as totals."""
        return ()

    @property
    def flow(self) -> Flow:
        """What the screen works on; used only by actions that are available."""
        flow = self.session.flow
        if flow is None:
            raise K2kError("this is a recording")
        return flow

    @property
    def config(self) -> PipelineConfig:
        """The flow's settings; used only by actions that are available."""
        return self.flow.config

    def act(
        self,
        doing: str,
        job: Callable[[], T],
        done: Callable[[T], None],
        *,
        failed: Callable[[K2kError], None] | None = None,
        writes: bool = False,
        command: str = "",
        result: Callable[[T], str] = lambda _: "",
    ) -> bool:
        """Run an operation on a thread; until it ends, the screen starts no other one.

        Args:
            doing: what is done, for example "planning".
            job: does it.
            done: called on the UI thread with its result.
            failed: called on the UI thread with its error, which is shown already.
            writes: keep the screen open until it ends, and read what it changed afterwards.
            command: the command that does the same, for the event log.
            result: what came of it, in words, for the event log.

        Returns:
            Whether it was started.
        """

        def over(error: K2kError | None) -> None:
            self.busy, self._writing, self.error = "", False, error
            self._progress = ""

        events = self.console.events

        def finished(value: T) -> None:
            over(None)
            said = result(value)
            events.add(EventKind.DONE, f"{doing}: {said}" if said else doing, command)
            done(value)
            if writes:
                self.session.feed.refresh()
            self.show_state()

        def broken(error: K2kError) -> None:
            over(error)
            kind = EventKind.STOPPED if isinstance(error, Declined) else EventKind.FAILED
            events.add(kind, f"{doing}: {error}", command)
            if failed is not None:
                failed(error)
            self.show_state()

        ascii_only = glyphs_of(self).ascii

        def watched() -> T:
            with listening(ProgressTexts(self._report_progress, ascii_only=ascii_only)):
                return job()

        if not self.background(ACT, watched, finished, broken):
            return False
        self.busy, self._writing, self.error = doing, writes, None
        events.add(EventKind.STARTED, doing, command)
        self.show_state()
        return True

    def _report_progress(self, text: str) -> None:
        """Show how far the operation is; called on its thread."""
        self.post_message(self.Progressed(text))

    @on(Progressed)
    def _progressed(self, event: Progressed) -> None:
        if self.busy:
            self._progress = event.text
            self.show_texts()

    @property
    def is_composed(self) -> bool:
        """Whether all widgets are there; a change of size may come before, or while it closes."""
        tiles = len(self.query(Tile))  # none yet, while only the table is there
        return bool(self.query(Grid)) and 0 < tiles == len(self.query("Tile TextLines"))

    def show_state(self) -> None:
        """Update the texts and the keys."""
        self.refresh_bindings()
        self.show_texts()
        self.show_side()

    def show_texts(self) -> None:
        """Show the lines above and below the table."""
        # Not all widgets are mounted at once; see RowsScreen.show_side.
        if not (self.query("#facts") and self.query(Grid) and self.query("#detail")):
            return
        self.show_summary()
        self.query_one("#facts", TextLines).show([*self.facts(), *self.progress_lines()])
        most = 1 if self.size.height < _LOW else 2
        row = None if is_wide(self) else self.current
        below = [] if row is None else self.row_reason(row)
        if len(below) > most:
            below = [*below[: most - 1], (*below[most - 1], Cell(" …"))]
        self.query_one("#detail", TextLines).show(below[:most])

    def progress_lines(self) -> list[Line]:
        """Return the operation in progress, or the error of the last one."""
        glyphs = glyphs_of(self)
        if self.busy:
            far = f": {safe_message(self._progress)}" if self._progress else ""
            return [(Cell(f"{glyphs.status[1]} {self.busy}{far}…", Tone.INFO),)]
        if self.error is None:
            return []
        lines = self.wrap(str(self.error))
        more = (
            [f"… {len(lines) - _ERROR_LINES + 1} more lines"] if len(lines) > _ERROR_LINES else []
        )
        first, *rest = [*lines[: _ERROR_LINES - len(more)], *more]
        return [
            (Cell(f"{glyphs.status[4]} {first}", Tone.BAD),),
            *((Cell(f"  {line}"),) for line in rest),
        ]

    def warnings(self, notes: Iterable[str]) -> list[Line]:
        """Return notes with the sign of a warning, wrapped as :meth:`wrap` does."""
        sign = glyphs_of(self).status[Severity.WARN]
        return [(Cell(part, Tone.WARN),) for note in notes for part in self.wrap(f"{sign} {note}")]

    def wrap(self, text: str) -> list[str]:
        """Return a text wrapped to the screen's width; untrusted names in it are sanitized."""
        return wrap(text, max(20, self.size.width - 6))

    # Frame

    def body(self) -> Iterable[Widget]:
        """Yield the table with the texts above and below it."""
        yield from self.above()
        yield TextLines(id="facts")
        yield from super().body()
        yield TextLines(id="detail")

    def refresh_chrome(self) -> None:
        """Update the header, the banner and the ages in the texts."""
        super().refresh_chrome()
        self.show_texts()
        self.show_side()

    @on(Grid.Changed)
    def _cursor_moved(self) -> None:
        # Not the panel: it follows once the cursor rests.
        self.refresh_bindings()
        self.show_texts()

    def refusal(self, action: str) -> str:
        """Return why an action is unavailable now."""
        if action not in self.NEEDS | self.CHANGES:
            return super().refusal(action)
        if self.session.flow is None:
            return "this is a recording"
        if self.busy:
            return f"{self.busy}; wait for its end"
        return super().refusal(action)

    def reason_to_stay(self) -> str:
        """Keep the screen open during a write: its outcome is shown here."""
        return f"{self.busy}; wait for its end" if self._writing else ""
