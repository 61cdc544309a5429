"""The page of an audit for a ticket: what it says, and that no name becomes markup."""

from __future__ import annotations

import difflib
import os
import re
from dataclasses import replace
from pathlib import Path

from k2ktui.drill.report_html import render_html
from k2ktui.engine.moves.audit import Audit, AuditRow
from k2ktui.present.audits import make_audit_report, summarize_audit
from k2ktui.secret_values import forget_secrets, remember_secrets
from k2ktui.text import safe_text
from k2ktui.version import __version__
from tests.support.console.views import NOON, beside_mirrormaker
from tests.support.drill.pages import HOSTILE, Page

KEPT = Path(__file__).with_name("audit_page.html")


def audit(*rows: AuditRow) -> Audit:
    notes = ("the syncs are 35 s old",)
    return Audit("A->B", NOON, rows or tuple(beside_mirrormaker().audited), notes)


def page_of(made: Audit) -> str:
    return render_html(make_audit_report(made, ("records produced before it starts are skipped",)))


def test_the_page_is_the_kept_one() -> None:
    """``K2KTUI_TRANSCRIPT=write`` writes it again; without its style, which all reports share."""
    text = re.sub(r"(?s)<style>.*?</style>", "", page_of(audit()))
    text = text.replace(f"k2ktui {__version__}", "k2ktui VERSION")
    if os.environ.get("K2KTUI_TRANSCRIPT") == "write":
        KEPT.write_text(text)
    kept = KEPT.read_text()
    assert text == kept, "\n".join(difflib.unified_diff(kept.splitlines(), text.splitlines()))


def test_it_says_all_that_the_command_prints() -> None:
    made = audit()
    shown = "".join(Page(page_of(made)).texts)
    assert summarize_audit(made) in shown and made.notes[0] in shown
    for row in made.rows:
        assert row.group in shown and f"{row.topic}-{row.partition}" in shown
    assert "default-src 'none'" in page_of(made)
    assert not re.search(r"<script|src=|href=|url\(|@import|https?://", page_of(made))


def test_the_worst_groups_come_first() -> None:
    (row, *_) = beside_mirrormaker().audited
    again = replace(row, group="again", checkpoint_reread=9, checkpoint_skipped=0)
    right = replace(row, group="right", checkpoint_reread=0, synced_reread=0)
    lost = replace(row, group="lost", checkpoint_reread=0, checkpoint_skipped=1)
    groups = make_audit_report(audit(right, again, lost)).sections[1]
    assert groups.title == "Groups"
    assert [cells[0] for cells in groups.rows] == ["lost", "again", "right"]


def test_hostile_names_are_text() -> None:
    (row, *_) = beside_mirrormaker().audited
    hostile = replace(row, group=HOSTILE, topic=HOSTILE, note=safe_text(HOSTILE))
    page = Page(page_of(replace(audit(hostile), flow=HOSTILE)))
    assert "script" not in page.tags and "img" not in page.tags
    assert {name for name, _ in page.attributes} <= {
        *("lang", "charset", "http-equiv", "content", "name", "class", "data-label")
    }
    shown = "".join(page.texts)
    assert shown.count(safe_text(HOSTILE)) >= 5 and "\x1b" not in shown


def test_a_note_has_no_secret() -> None:
    remember_secrets([("ssl.key.password", "of-the-file")])
    page = render_html(make_audit_report(audit(), ("ssl.key.password: of-the-file is unused",)))
    forget_secrets()
    assert "is unused" in page and "of-the-file" not in page


def test_a_page_of_many_partitions_says_how_many_it_leaves_out() -> None:
    (row, *_) = beside_mirrormaker().audited
    rows = [replace(row, group=f"g{n // 9}", partition=n % 9) for n in range(2_700)]
    shown = "".join(Page(page_of(audit(*rows))).texts)
    assert "and 700 more" in shown and "and 100 more" in shown
    assert shown.count("with --json") == 2


def test_a_flow_without_groups_has_a_page() -> None:
    made = replace(audit(), rows=())
    shown = "".join(Page(page_of(made)).texts)
    assert "No group has committed on what MirrorMaker 2 copies." in shown and "Groups" not in shown
