"""What every consumer group would read again after a failover now: by us, and by MirrorMaker 2."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from rich import box
from rich.table import Table
from rich.text import Text

from k2ktui.errors import K2kError
from k2ktui.text import safe_text

_EVERY_SECONDS = 5.0
_UNKNOWN = "-"


@dataclass(frozen=True, slots=True)
class GroupLine:
    """A consumer group, and the records that it would read again; None is unknown.

    ``without`` counts the partitions that MirrorMaker 2 has no translation for at all.
    """

    group: str
    ours: int | None
    theirs: int | None
    without: int = 0


class Comparison:
    """Looks every few seconds, in a thread of its own; ``lines`` is what it saw last.

    Args:
        look: reads both clusters, and raises K2kError when they do not answer.
        every: seconds between two looks.
    """

    def __init__(
        self, look: Callable[[], Sequence[GroupLine]], every: float = _EVERY_SECONDS
    ) -> None:
        self._look, self._every = look, every
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self.lines: Sequence[GroupLine] = ()
        self.note = "MirrorMaker 2 has not translated any group yet"

    def start(self) -> None:
        """Begin to look."""
        self._thread.start()

    def stop(self) -> None:
        """End; waits for the look that is under way."""
        self._ended.set()
        if self._thread.is_alive():
            self._thread.join()

    def _run(self) -> None:
        while not self._ended.is_set():
            try:
                self.lines, self.note = self._look(), ""
            except K2kError as error:
                self.note = error.what.splitlines()[0]
            self._ended.wait(self._every)


def total(counts: Iterable[int | None]) -> int | None:
    """Return the sum, None if one of them is not known."""
    whole = 0
    for count in counts:
        if count is None:
            return None
        whole += count
    return whole


def render(lines: Sequence[GroupLine], note: str = "") -> Table:
    """Return the table; ``note`` is printed below it."""
    table = Table(
        title="records read again after a failover now",
        caption=Text(safe_text(note)) if note else None,
        title_justify="left",
        caption_justify="left",
        box=box.SIMPLE_HEAD,
        pad_edge=False,
    )
    table.add_column("group", no_wrap=True)
    for heading in ("k2ktui", "MirrorMaker 2"):
        table.add_column(heading, justify="right", no_wrap=True)
    for line in lines:
        theirs = _number(line.theirs)
        if line.without:
            partitions = "1 partition" if line.without == 1 else f"{line.without} partitions"
            theirs += f", {partitions} not translated"
        table.add_row(*map(Text, (safe_text(line.group, 30), _number(line.ours), theirs)))
    return table


def _number(count: int | None) -> str:
    return _UNKNOWN if count is None else f"{count:,}"
