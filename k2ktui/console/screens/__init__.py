"""The screens, in one table.

How a screen is added: write ``console/screens/NAME.py`` with a subclass of
:class:`~k2ktui.console.screens.base.ConsoleScreen` (or ``ListScreen`` if it is one table). Its
entry stands in :data:`ENTRIES` already for the seven of the product; an entry whose module does
not exist has no tab, no key and no line in the palette.

*What it shows.* ``body()`` yields its widgets, ``show_view(view)`` fills them. ``show_view`` is
called on the message :class:`~k2ktui.console.messages.ViewArrived` (every few seconds, to every
screen of the current stack, older ones that still wait are dropped), and once when the screen is
mounted or shown again, if there is a view. Widgets of ``console.widgets`` draw what has changed
and nothing else: call their ``show`` with everything, every time. Texts are ``Cell`` and ``Line``
of ``console.marks``, with tones; a name from Kafka goes through ``marks.name`` first. ``table()``
and ``copied()`` say what ``e`` and ``y`` take, ``HELP`` is the text of ``?``.

*What takes time.* Nothing on the UI thread touches the network, a disk that may hang, or thousands
of rows in a loop. ``self.background(group, job, done)`` runs ``job()`` on a thread and calls
``done(result)`` on the UI thread if the screen still exists; a ``K2kError`` becomes a notice, or
goes to ``failed``. Two jobs of one group never run at once: a new one is refused while the old one
runs. A job makes its own clients and closes them. ``self.session`` has ``config`` (None in a
replay: there is nothing to connect to), ``files`` and ``feed``.

*What changes a cluster, or starts or stops a job.* Bind a capital letter, name the action in
``CHANGES``: in a read-only session it is greyed, and its key says why. Show what will happen,
then::

    if await self.app.push_screen_wait(Confirm(title, lines, pipeline, "Apply")):
        self.background("apply", job, self._applied)

in a method with ``@work`` (``push_screen_wait`` needs a worker). In the job, before anything else,
``k2ktui.engine.access.require(self.session.access, "applying a plan")``. Nothing is planned again
between what was shown and what is applied.
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from k2ktui.console.screens.base import ConsoleScreen


@dataclass(frozen=True, slots=True)
class Entry:
    """A screen: its key, its id (also the module's name), its title, and its class."""

    key: str
    id: str
    title: str
    screen: str

    @property
    def module(self) -> str:
        """Name of the module."""
        return f"{__name__}.{self.id}"

    @property
    def available(self) -> bool:
        """Whether its module is there."""
        return find_spec(self.module) is not None

    def make(self) -> ConsoleScreen:
        """Make the screen."""
        made: ConsoleScreen = getattr(import_module(self.module), self.screen)()
        return made


ENTRIES = (
    Entry("1", "overview", "Overview", "OverviewScreen"),
    Entry("2", "replication", "Replication", "ReplicationScreen"),
    Entry("3", "groups", "Groups", "GroupsScreen"),
    Entry("4", "translate", "Translate", "TranslateScreen"),
    Entry("5", "jobs", "Jobs", "JobsScreen"),
    Entry("6", "positions", "Positions", "PositionsScreen"),
    Entry("7", "journal", "Journal", "JournalScreen"),
)


def available() -> list[Entry]:
    """Return the screens whose modules are there."""
    return [entry for entry in ENTRIES if entry.available]
