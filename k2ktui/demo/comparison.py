"""The records that each group would re-read after a failover now: k2ktui and MirrorMaker 2."""

from __future__ import annotations

from collections.abc import Sequence

from rich import box
from rich.table import Table
from rich.text import Text

from k2ktui.present.formatting import NOT_AVAILABLE
from k2ktui.present.view_lines import reread_text
from k2ktui.text import safe_message, safe_text
from k2ktui.watch.model import GroupSummary, PartName, View


class Comparison:
    """The latest result.

    Attributes:
        groups: every group with the records it would re-read; empty until known.
        note: why the result is missing or outdated.
    """

    def __init__(self) -> None:
        self.groups: Sequence[GroupSummary] = ()
        self.note = "MirrorMaker 2 has not translated any group yet"

    def take(self, view: View) -> None:
        """Take the result from a view of the pipeline with its comparison."""
        failed = view.part(PartName.COMPARISON).error or view.part(PartName.GROUPS).error
        if view.audit is not None and view.audit.rows:
            self.groups, self.note = view.summaries, failed
        elif failed:
            self.note = failed


def render(groups: Sequence[GroupSummary], note: str = "") -> Table:
    """Return the comparison as a table, with ``note`` below it."""
    table = Table(
        title="records read again after a failover now",
        caption=Text(safe_message(note)) if note else None,
        title_justify="left",
        caption_justify="left",
        box=box.SIMPLE_HEAD,
        pad_edge=False,
    )
    table.add_column("group", no_wrap=True)
    for heading in ("k2ktui", "MirrorMaker 2"):
        table.add_column(heading, justify="right", no_wrap=True)
    for group in groups:
        theirs = reread_text(group.theirs) if group.theirs else NOT_AVAILABLE
        table.add_row(*map(Text, (safe_text(group.group, 30), reread_text(group.ours), theirs)))
    return table
