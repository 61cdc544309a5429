"""``h`` on Replication: what it asks, what it does, and where it does not."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from k2ktui.console.screens import holding
from k2ktui.console.widgets.confirm import Confirm
from k2ktui.drill import operations
from k2ktui.engine.access import Access
from k2ktui.engine.moves.journal import HOLD, RELEASE
from k2ktui.engine.records.hold import Hold, HoldKey, Holds
from k2ktui.engine.records.moved_topic import MovedTopic, MovedTopics
from k2ktui.errors import ConfigError
from k2ktui.sync.holds import HoldChange
from tests.support.console.driver import ConsoleDriver, drive_session, made_session
from tests.support.console.views import NOON, Made, StubFeed, usual

WHO = "ann@bastion"
ALL = Hold("clicks", None, WHO, int(NOON * 1000), "it moves")


class Operations:
    """Takes the place of what changes holds on the target, and does so in a made pipeline."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, made: Made) -> None:
        self.made = made
        self.planned: list[tuple[str, list[str], str]] = []
        self.error: ConfigError | None = None
        plans = {operation: self._planner(operation) for operation in (HOLD, RELEASE)}
        monkeypatch.setattr(holding, "_PLANS", plans)
        monkeypatch.setattr(holding, "write_change", self.write)

    def _planner(self, operation: str) -> Any:
        def plan(config: object, keys: Sequence[HoldKey], why: str) -> HoldChange:
            self.planned.append((operation, [key.name for key in keys], why))
            if self.error is not None:
                raise self.error
            holds = tuple(Hold(key.topic, key.partition, WHO, 0, why) for key in keys)
            return HoldChange(operation, holds, why=why, notes=("its source is down",))

        return plan

    def write(self, config: object, change: HoldChange, may: Access) -> HoldChange:
        assert may.writable
        self.made.holds = Holds(change.holds if change.is_hold else ())
        return replace(change, entry="20261121-1")


async def chosen(console: ConsoleDriver, *keys: str, why: str = "") -> None:
    """Press ``h``, choose with these keys, and give a reason."""
    await console.press("h")
    await console.sees("Hold or release")
    await console.press(*keys, "enter")
    await console.sees("Reason, for the journal")
    await console.type(why)
    await console.press("enter")


def test_marked_partitions_are_held_and_their_topic_released(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    made = usual()
    operations = Operations(monkeypatch, made)

    async def steps(console: ConsoleDriver) -> None:
        await console.press("2", "slash", *"clicks-1", "enter", "space")
        await console.press("escape", "slash", *"payments", "enter", "a", "escape")
        assert "3 marked" in console.text
        await chosen(console, why="it moves")
        await console.sees("payments:1", "its source is down", "because: it moves")
        assert "k2ktui hold -f p.yaml clicks:1 payments:0" in console.text
        await console.confirm("orders")
        await console.sees("held, journal entry 20261121-1")
        names = ["clicks:1", "payments:0", "payments:1"]
        assert operations.planned == [(HOLD, names, "it moves")]
        assert [hold.key.name for hold in made.holds.all] == names

        operations.planned.clear()
        await chosen(console, "down")
        await console.sees("Copied again")
        await console.confirm("orders")
        await console.sees("released, journal entry")
        assert operations.planned == [(RELEASE, ["clicks", "payments"], "")]
        assert not made.holds

    drive_session(made_session(made), steps, (120, 35))


def test_what_is_held_and_what_is_not_are_offered_apart() -> None:
    made = usual()
    made.holds = Holds([ALL])

    async def steps(console: ConsoleDriver) -> None:
        await console.press("2", "a", "h")
        await console.sees("release 4 partitions")
        for text in ("hold 3 partitions", "hold 2 topics, all", "release clicks, all partitions"):
            assert text in console.text, text
        await console.press("escape")
        await console.sees("Nothing was changed")

    drive_session(made_session(made), steps)


def test_nothing_is_written_before_the_name_or_after_an_error(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    made = usual()
    operations = Operations(monkeypatch, made)

    async def steps(console: ConsoleDriver) -> None:
        await console.press("2")
        await chosen(console)
        await console.until(lambda: isinstance(console.screen, Confirm), "asked")
        await console.press("escape")
        await console.sees("Nothing was held or released")
        operations.error = ConfigError("clicks is not copied", hint="Hold another.")
        await chosen(console)
        await console.sees("Hold another.")

    drive_session(made_session(made), steps)
    assert len(operations.planned) == 2 and not made.holds


def test_of_many_holds_only_those_that_are_listed_are_put_into_words(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    holds = tuple(Hold("clicks", partition, WHO, 0) for partition in range(2000))
    said: list[Hold] = []

    def change_text(hold: Hold, change: HoldChange) -> str:
        said.append(hold)
        return hold.key.name

    monkeypatch.setattr(holding, "_PLANS", {HOLD: lambda *_: HoldChange(HOLD, holds)})
    monkeypatch.setattr(holding, "change_text", change_text)

    async def steps(console: ConsoleDriver) -> None:
        await console.press("2")
        await chosen(console)
        await console.sees("clicks:7", "and 1,992 more")

    drive_session(made_session(usual()), steps, (120, 35))
    assert said == list(holds[:8])


@pytest.mark.parametrize(
    ("options", "config", "replay", "why"),
    [
        ({"read_only": True}, True, False, "read-only"),
        ({}, False, True, "recording"),
    ],
)
def test_where_nothing_can_be_held(
    options: dict[str, Any], config: bool, replay: bool, why: str
) -> None:
    made = usual()
    session = made_session(made, config=config, **options)
    session.feed = StubFeed(made, replay=replay)

    async def steps(console: ConsoleDriver) -> None:
        await console.press("2")
        screen = console.screen
        await console.press("h")
        await console.until(lambda: why in console.notices, "refused")
        assert console.screen is screen

    drive_session(session, steps)


MOVE = MovedTopic("clicks", "clicks", "20261121-101500-3f2a", int(NOON * 1000), WHO)


def test_moved_topics_are_copied_again_after_the_name(monkeypatch: pytest.MonkeyPatch) -> None:
    made = usual()
    made.moved = MovedTopics([MOVE])
    released: list[Sequence[MovedTopic]] = []
    kept = "1 topic of the source stays denied to all producers"

    def release(actor: object, moves: Sequence[MovedTopic]) -> list[str]:
        released.append(moves)
        made.moved = MovedTopics()
        return [MOVE.drill]

    monkeypatch.setattr(operations, "find_released", lambda flow, pattern: [MOVE])
    monkeypatch.setattr(operations, "preview_release", lambda flow, moves: [kept])
    monkeypatch.setattr(operations, "release_moved", release)

    async def steps(console: ConsoleDriver) -> None:
        await console.press("2", "slash", *"clicks-1", "enter", "h")
        await console.sees("let clicks be copied again")
        assert "hold clicks" not in console.text, "nothing of it is copied"
        await console.press("enter")
        await console.sees(MOVE.drill, kept, "k2ktui drill release -f p.yaml --topics clicks")
        await console.press("escape")
        await console.sees("Nothing was held or released")
        assert not released

        await console.press("h", "enter")
        await console.confirm("orders")
        await console.sees(f"clicks: copied again, moved by {MOVE.drill}")
        assert released == [[MOVE]]

    drive_session(made_session(made), steps, (120, 35))


def test_rows_of_both_kinds_are_offered_apart() -> None:
    made = usual()
    made.moved = MovedTopics([MOVE])

    async def steps(console: ConsoleDriver) -> None:
        await console.press("2", "a", "h")
        await console.sees("hold 3 partitions", "hold 2 topics, all", "let clicks be copied again")

    drive_session(made_session(made), steps, (80, 24))
