"""The line of commands: ``:`` and a name, with completion and history."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from textual.widgets import Input

from k2ktui.console.commands import Command, NoCommand, complete, find, shared_beginning
from k2ktui.console.places import Place, list_places
from k2ktui.console.screens.groups import GroupsScreen
from k2ktui.console.screens.replication import ReplicationScreen
from k2ktui.console.session import LeaveChoice
from k2ktui.console.widgets.command_line import CommandLine
from k2ktui.console.widgets.grid import Grid
from k2ktui.engine.drill.checks import DrillKind
from k2ktui.engine.records.state import SourcePartition
from k2ktui.text import safe_text
from k2ktui.watch.model import PipelinePair
from tests.support.console.driver import ConsoleDriver, drive
from tests.support.console.views import Made, usual
from tests.support.drill.made_drills import new_drill

SIZES = [(80, 24), (120, 35), (200, 60)]


def command(name: str, *also: str, arguments: tuple[str, ...] = (), refusal: str = "") -> Command:
    return Command(name, f"do {name}", lambda _: None, also, "", arguments, refusal)


COMMANDS = [
    command("groups", "3"),
    command("problems"),
    command("pause"),
    command("theme", arguments=("k2k-dark", "k2k-light", "nord")),
    command("apply", refusal="the plan has expired"),
]


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ("", ["groups", "problems", "pause", "theme", "apply"]),
        ("p", ["problems", "pause"]),
        ("GR", ["groups"]),
        ("3", ["groups"]),
        ("theme k", ["theme k2k-dark", "theme k2k-light"]),
        ("theme ", ["theme k2k-dark", "theme k2k-light", "theme nord"]),
        ("groups x", []),
        ("x", []),
    ],
)
def test_what_can_become_of_a_text(text: str, lines: list[str]) -> None:
    assert [line for line, _ in complete(text, COMMANDS)] == lines


def test_the_shared_beginning_of_lines() -> None:
    assert shared_beginning(["theme k2k-dark", "theme k2k-light"]) == "theme k2k-"
    assert shared_beginning(["pause", "pause"]) == "pause"
    assert shared_beginning(["a", "ab"]) == "a"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("groups", ("groups", "")),
        ("3", ("groups", "")),
        ("g", ("groups", "")),
        ("theme nord", ("theme", "nord")),
        ("theme k2k-l", ("theme", "k2k-light")),
        ("theme", ("theme", "")),
    ],
)
def test_a_command_is_found_by_name_number_or_beginning(
    text: str, expected: tuple[str, str]
) -> None:
    what, argument = find(text, COMMANDS)
    assert (what.name, argument) == expected


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("gruops", "there is no command gruops; near: groups"),
        ("p", "p may be problems, pause: type more"),
        ("blems", "there is no command blems; near: problems"),
        ("groups now", "groups takes nothing behind it"),
        ("theme norf", "there is no theme norf; near: nord"),
        ("apply", "apply: the plan has expired"),
        ("%", "there is no command %; tab lists what there is"),
        ("a\x1b[31m", r"there is no command a\x1b[31m"),
    ],
)
def test_what_is_no_command_says_what_is_near(text: str, why: str) -> None:
    with pytest.raises(NoCommand) as caught:
        find(text, COMMANDS)
    assert str(caught.value).startswith(why)


def typed(console: ConsoleDriver) -> str:
    return console.screen.query_one(Input).value


@pytest.mark.parametrize("size", SIZES)
def test_a_screen_by_name_by_number_and_letters_of_one_packet(size: tuple[int, int]) -> None:
    async def flow(console: ConsoleDriver) -> None:
        await console.press_at_once("colon", *"groups", "enter")
        assert isinstance(console.screen, GroupsScreen)
        await console.press_at_once("colon", "2", "enter", "j", "j", "j")
        assert isinstance(console.screen, ReplicationScreen)
        assert console.screen.query_one(Grid).cursor == 3, "keys behind it reach the new screen"
        await console.press_at_once("colon", *"replication", "enter", "colon", *"drill", "enter")
        assert console.app.current_mode == "drill"

    drive(flow, size=size)


def test_escape_closes_it_and_the_row_is_the_same() -> None:
    async def flow(console: ConsoleDriver) -> None:
        await console.press("2", "j", "j")
        row = console.screen.query_one(Grid).current
        await console.press("colon", *"gro")
        assert "screen Groups" in console.text and ":gro" in console.text
        await console.press("escape")
        assert isinstance(console.screen, ReplicationScreen)
        assert console.screen.query_one(Grid).current == row
        await console.press("colon", "enter")  # nothing was typed
        assert isinstance(console.screen, ReplicationScreen)

    drive(flow)


def test_tab_completes_and_walks_and_up_is_what_was_typed_before() -> None:
    async def flow(console: ConsoleDriver) -> None:
        await console.press("colon", *"gr", "tab")
        assert typed(console) == "groups"
        await console.press("enter", "colon", *"them", "tab")
        assert typed(console) == "theme "
        await console.press(*"k2k", "tab")
        assert typed(console) == "theme k2k-"
        seen = []
        for _ in range(3):
            await console.press("tab")
            seen.append(typed(console))
        assert seen == sorted(set(seen)) and all(line.startswith("theme k2k-") for line in seen)
        await console.press("shift+tab")
        assert typed(console) == seen[-2]
        await console.press("enter", "colon", "up")
        assert typed(console) == seen[-2]
        assert console.app.theme == seen[-2].split()[1]
        await console.press("up")
        assert typed(console) == "groups"
        await console.press("down", "down")
        assert typed(console) == ""

    drive(flow)


def test_a_wrong_name_leaves_the_line_open() -> None:
    async def flow(console: ConsoleDriver) -> None:
        await console.press("colon", *"gruops", "enter")
        assert isinstance(console.screen, CommandLine)
        assert "there is no command gruops; near: groups" in console.text
        await console.press(*["backspace"] * 4, *"oups", "enter")
        assert isinstance(console.screen, GroupsScreen)
        await console.press("colon", *"theme k2k", "enter")
        assert "may be k2k" in console.text
        await console.press("escape")

    drive(flow)


def test_keys_of_the_screen_have_short_names_and_say_why_they_are_unavailable() -> None:
    async def flow(console: ConsoleDriver) -> None:
        await console.press("3", "colon", *"rows", "enter")
        assert "payments-0" in console.text
        await console.press("colon", *"groups.translate", "enter")
        assert "groups.translate: this is a recording" in console.text
        await console.press("escape", "colon", *"pause", "enter")
        assert console.feed.paused
        await console.press("colon", *"sort group", "enter")
        assert console.screen.query_one(Grid).sort == "group"
        await console.press("colon", *"filter", "enter", *"bill")
        assert console.screen.query_one(Grid).filter == "bill"

    drive(flow)


def test_q_leaves_from_everywhere_and_asks_if_that_ends_something() -> None:
    async def asks(console: ConsoleDriver) -> None:
        await console.press("2", "enter", "colon", "q", "enter")
        assert "The clusters are stopped." in console.text

    drive(asks, leave_choices=(LeaveChoice("e", "End", "The clusters are stopped.", 0),))

    async def leaves(console: ConsoleDriver) -> None:
        await console.press("2", "enter", "colon", "q", "enter")
        assert not console.app.is_running

    drive(leaves)


def test_it_is_not_opened_over_a_dialog_nor_in_an_input() -> None:
    async def flow(console: ConsoleDriver) -> None:
        await console.press("2", "slash", "colon")
        assert console.screen.query_one(Input).value == ":"
        await console.press("escape", "e", "colon")
        assert not isinstance(console.screen, CommandLine)

    drive(flow, usual())


HOSTILE = "bill\x1b]9;x\x07ing [red]x"


def named_alike() -> Made:
    """Return a pipeline with a group that has the name of a topic, and one of a hostile name."""
    made = usual()
    made.group("payments", SourcePartition("payments", 0))
    made.group(HOSTILE, SourcePartition("payments", 1))
    made.drills = (replace(new_drill(DrillKind.REHEARSE), id="20261130-101112-aaaa"),)
    return made


def test_places_have_their_shown_names_and_their_kinds_where_one_name_is_two() -> None:
    places = list_places(named_alike().view())
    assert places["clicks"] == Place("topic", "replication", ("clicks", 0))
    assert places["20261130-101112-aaaa"].entry == "drill"
    assert {"payments (topic)", "payments (group)"} <= set(places) and "payments" not in places
    assert all(name.isprintable() for name in places), "no name controls the terminal"
    assert places[safe_text(HOSTILE)].key == HOSTILE


def test_going_to_a_name_is_going_to_its_row() -> None:
    async def flow(console: ConsoleDriver) -> None:
        def row() -> Any:
            return console.screen.query_one(Grid).current

        await console.press("colon", *"go inv", "enter")
        assert console.app.current_mode == "replication" and row().key == ("invoices", 0)
        await console.press("3", "slash", *"nothing", "enter", "1")
        await console.press("colon", *"go billing", "enter")
        assert "may be billing" not in console.text, (
            "one that is whole is meant, however it goes on"
        )
        assert isinstance(console.screen, GroupsScreen) and row().group == "billing"
        await console.press("v", "enter", "colon", *"go arch", "enter")
        assert isinstance(console.screen, GroupsScreen) and row().group == "archive"
        await console.press("q")
        assert console.app.current_mode == "overview", "it goes back to where it came from"
        await console.press("colon", *"go 2026", "enter")
        assert console.app.current_mode == "drill" and row().id == "20261130-101112-aaaa"
        await console.press("colon", *"go pay", "enter")
        assert "pay may be payments (group), payments (topic): type more" in console.text
        await console.press(*["backspace"] * 3, *"invoice-s", "enter")
        assert "there is no topic, group or drill invoice-s; near: invoices" in console.text
        await console.press("escape", "colon", *"go bill", "tab", "tab", "tab")
        assert typed(console).isprintable()
        await console.press("escape", "colon", *"go", "enter")
        assert "where to? type the name behind :go" in console.notices

    drive(flow, named_alike(), size=(120, 35))


def test_nothing_is_to_be_gone_to_where_nothing_is() -> None:
    async def flow(console: ConsoleDriver) -> None:
        await console.press("colon", *"go x", "enter")
        assert "go: there is no topic, group or drill" in console.text

    drive(flow, Made(PipelinePair("orders")))
