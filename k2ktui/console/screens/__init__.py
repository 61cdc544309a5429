"""The screens, in one table.

To add a screen, write ``console/screens/NAME.py`` with a subclass of
:class:`~k2ktui.console.screens.base.ConsoleScreen` (or ``ListScreen`` if it is a single table),
and add a line to :data:`ENTRIES`: key, module, title, class.

*Content.* ``body()`` yields the widgets, ``show_view(view)`` fills them. ``show_view`` is called on
the message ``ViewArrived`` of ``base`` (every few seconds, for every screen of the current stack;
queued older views are dropped), and once when the screen is mounted or resumed, if there is a view.
The widgets of ``console.widgets`` redraw only what has changed: always call their ``show`` with the
complete content. Texts are ``Cell`` and ``Line`` of ``present.formatting``, with tones; a name from
Kafka must pass through ``formatting.name`` first. Columns of tables are in ``present``, because
commands print them too. ``table()`` returns what ``e`` exports, ``text_to_copy()`` what ``y``
copies; ``HELP`` is the text of ``?``.

*Looks.* Everything stands in a ``Panel`` of ``console.visuals``: figures in a ``Tile``, a value
over time in a ``Chart``, shapes by the functions there. A ``ListScreen`` puts its table into a
panel with the title ``PANEL``, and ``side()`` beside it; a column with ``picture=True`` draws what
another one says. Below ``-wide`` (120 columns) or ``-high`` (32 lines), classes of a screen, panels
are rules.

*Slow work.* The UI thread must never touch the network, a disk that may hang, or thousands of rows
in a loop. ``self.background(group, job, done)`` runs ``job()`` on a thread and calls
``done(result)`` on the UI thread if the screen still exists; a ``K2kError`` becomes a notification,
or goes to the callback ``failed``. Two jobs of one group never run at once: a new one is refused
while the old one runs. A job creates and closes its own clients. ``self.session`` has ``config``
(None in a replay, which has no cluster to connect to), ``files`` and ``feed``.

*Changes to a cluster, starting or stopping a job.* Bind a capital letter and name the action in
``CHANGES``: in a read-only session its key is grayed out and explains why. Show what will happen,
then::

    if await self.ask(Confirm(title, lines, pipeline, "Apply")):
        self.background("apply", job, self._show_applied)

in a method with ``@work(group=ASK)`` (``ask`` needs a worker). The job must first call
``k2ktui.engine.access.require(self.session.access, "applying a plan")``. What is applied is exactly
what was shown, without planning again in between. A screen with a plan is a ``ChangeScreen``, which
does that: it makes and shows the plan, and returns the ``Change`` that it is.
"""

from __future__ import annotations

from k2ktui.console.screens.base import Entry

# Only where the pipelines of a directory are watched; there, drills are those of sites.
FLEET_ENTRY = Entry("0", "fleet", "Fleet", "FleetScreen")
SITES_ENTRY = Entry("8", "site_drills", "Drill", "SiteDrillsScreen", "drill")
ENTRIES = (
    Entry("1", "overview", "Overview", "OverviewScreen"),
    Entry("2", "replication", "Replication", "ReplicationScreen"),
    Entry("3", "groups", "Groups", "GroupsScreen"),
    Entry("4", "translate", "Translate", "TranslateScreen"),
    Entry("5", "jobs", "Jobs", "JobsScreen"),
    Entry("6", "positions", "Positions", "PositionsScreen"),
    Entry("7", "journal", "Journal", "JournalScreen"),
    Entry("8", "drill", "Drill", "DrillsScreen"),
)


def available() -> list[Entry]:
    """Return the entries whose modules exist."""
    return [entry for entry in ENTRIES if entry.available]
