"""The audit of MirrorMaker 2 in the console, without clusters."""

from __future__ import annotations

import json
from typing import Any

from textual.pilot import Pilot

from k2ktui.console.app import ConsoleApp
from k2ktui.console.screens.audit import AuditScreen
from k2ktui.console.session import Options, Session
from k2ktui.mm2.audit import Audit, AuditRow
from tests.console.acting import drive, text_of, until
from tests.support.views import Made, StubFeed


def session() -> Session:
    made = Made()
    return Session(StubFeed(made), made.pair, None, ("mm2.properties",), Options())


def row(group: str, again: int) -> AuditRow:
    return AuditRow(
        group,
        "t",
        0,
        "A.t",
        "Empty",
        120,
        100 - again,
        118,
        30.0,
        100,
        100,
        "exact",
        again,
        0,
        0,
        0,
    )


def test_it_says_what_checkpoints_would_read_again() -> None:
    found = Audit("A->B", 0.0, (row("fine", 0), row("\x1b[31mlate", 40)), ("a note",))

    async def steps(app: ConsoleApp, pilot: Pilot[Any]) -> None:
        await pilot.press("3")
        screen = AuditScreen()
        await app.push_screen(screen)
        await until(app, pilot, lambda: "no flow of MirrorMaker 2" in text_of(app), "it says so")
        screen.error = None
        screen.found(found)
        screen.show_state()
        await until(app, pilot, lambda: "1 of 2 would not" in text_of(app), "shown")
        text = text_of(app)
        assert "40 again" in text and "a note" in text and "\\x1b[31mlate" in text
        assert text.index("late") < text.index("fine")
        assert json.loads(screen.document() or "")["totals"]["checkpoint_reread"] == 40

    drive(session(), steps, (120, 30))


def test_it_is_offered_only_where_mirrormaker_copies() -> None:
    async def steps(app: ConsoleApp, pilot: Pilot[Any]) -> None:
        await pilot.press("3")
        await pilot.press("m")
        await pilot.pause()
        assert not isinstance(app.screen, AuditScreen)

    drive(session(), steps, (120, 30))
