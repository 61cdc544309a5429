"""From choosing groups to a plan that is applied, verified and taken back, on real clusters."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer
from textual.pilot import Pilot

from k2ktui.console.app import ConsoleApp
from k2ktui.console.screens.translate_plan import PlanScreen
from k2ktui.console.widgets.grid import Grid
from k2ktui.engine.plan import load_plan
from k2ktui.runtime.node import KafkaNode
from tests.console.acting import confirm, drive, notices, session_of, shows, text_of, until
from tests.support.cli import k2ktui, k2ktui_json
from tests.support.copied import Copied, commit, committed
from tests.support.kafka import Out, client, create_topic, eventually, produce, unique_name

pytestmark = pytest.mark.slow
App, Driver = ConsoleApp, Pilot[Any]


@pytest.fixture
def copied(
    source: KafkaNode, target: KafkaNode, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Copied:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    return Copied(tmp_path, source, target, name=unique_name("c"))


@pytest.fixture
def topic(source: KafkaNode, copied: Copied) -> str:
    name = create_topic(source, unique_name("t"), 2)
    for partition in (0, 1):
        produce(source, name, [Out(b"%d" % n, b"k%d" % n, partition) for n in range(40)])
    copied.copy(name)
    return name


@pytest.fixture
def group(source: KafkaNode, copied: Copied, topic: str) -> str:
    """A group that has read some; its copies are 7 offsets further on."""
    name = copied.group("g")
    commit(source, name, {(topic, 0): 5, (topic, 1): 30})
    return name


def plan_of(app: App) -> PlanScreen:
    assert isinstance(app.screen, PlanScreen)
    return app.screen


async def planned(app: App, pilot: Driver) -> None:
    """Open Translate, and plan the first group."""
    await pilot.press("4")
    await until(
        app, pilot, lambda: app.screen.query(Grid) and app.screen.query_one(Grid).rows, "up"
    )
    await pilot.press("enter")
    await until(app, pilot, lambda: plan_of(app).shown, "planned")
    await pilot.pause()


def test_from_a_plan_to_applied_verified_and_taken_back(
    copied: Copied, topic: str, group: str, target: KafkaNode
) -> None:
    where = [(topic, 0), (topic, 1)]
    before = {(topic, 0): None, (topic, 1): 8}
    commit(target, group, {(topic, 1): 8}, "there before")

    async def steps(app: App, pilot: Driver) -> None:
        await planned(app, pilot)
        await shows(app, pilot, "1 create  1 advance")
        assert committed(target, group, where) == before
        shown = plan_of(app).shown
        assert shown is not None and shown.path is not None
        assert load_plan(shown.path.read_text(), 0).id == shown.plan.id
        await pilot.press("A")
        await until(app, pilot, lambda: app.screen.query("#confirm-do"), "asked")
        # Enter, hit by habit, changes nothing; nor does the space bar on Cancel, which has focus.
        await pilot.press("enter", "enter", "space")
        await until(app, pilot, lambda: isinstance(app.screen, PlanScreen), "closed")
        assert committed(target, group, where) == before
        await pilot.press("A")
        await confirm(app, pilot, copied.name)
        await until(app, pilot, lambda: plan_of(app).applied, "applied")
        await shows(app, pilot, "2 rows applied")
        assert committed(target, group, where) == {(topic, 0): 12, (topic, 1): 37}
        await pilot.press("v")
        await shows(app, pilot, "2 same, 0 re-read, 0 different")
        await shows(app, pilot, "● same")
        await pilot.press("U")
        await confirm(app, pilot, copied.name)
        await shows(app, pilot, "2 rows undone.")
        assert committed(target, group, where) == before
        await pilot.press("7")
        await shows(app, pilot, "undo of")
        await pilot.press("j", "enter")
        await shows(app, pilot, "2 rows applied")
        await until(app, pilot, lambda: app.screen.query_one(Grid).rows, "read")
        await pilot.press("G")
        await shows(app, pilot, "8 (metadata “there before”) → 37")

    drive(session_of(copied), steps, (110, 30))
    told = k2ktui_json("journal", "-f", copied.file)["journal"]
    assert [each["operation"] for each in told] == ["undo", "apply"]


def test_an_offset_that_moves_after_the_plan_is_told_and_planned_again(
    copied: Copied, topic: str, group: str, target: KafkaNode
) -> None:
    async def steps(app: App, pilot: Driver) -> None:
        await planned(app, pilot)
        commit(target, group, {(topic, 0): 9})
        await pilot.press("A")
        await confirm(app, pilot, copied.name)
        await shows(app, pilot, "offsets or groups have changed since")
        await shows(app, pilot, "is now 9")
        await shows(app, pilot, "▲ moved")
        assert committed(target, group, [(topic, 1)]) == {(topic, 1): None}
        await pilot.press("A")
        await until(app, pilot, lambda: "n plans again" in notices(app), "told why not")
        await pilot.press("n")
        await shows(app, pilot, "1 create  1 advance")
        await pilot.press("A")
        await confirm(app, pilot, copied.name)
        await shows(app, pilot, "2 rows applied")

    drive(session_of(copied), steps)
    assert committed(target, group, [(topic, 0)]) == {(topic, 0): 12}


@pytest.fixture
def member(target: KafkaNode, group: str) -> Iterator[Consumer]:
    """A consumer that will join the group on the target."""
    settings = {"auto_offset_reset": "earliest", "enable_auto_commit": False}
    consumer = Consumer(client(target, group_id=group, **settings))
    yield consumer
    consumer.close()


def test_a_group_that_joins_after_the_plan_is_left_alone(
    copied: Copied, topic: str, group: str, target: KafkaNode, member: Consumer
) -> None:
    async def steps(app: App, pilot: Driver) -> None:
        await planned(app, pilot)
        member.subscribe([topic])
        eventually(lambda: member.poll(0.2) is None and member.assignment(), "joined")
        await pilot.press("A")
        await confirm(app, pilot, copied.name)
        await shows(app, pilot, "the group is now Stable")
        await pilot.press("n")
        await shows(app, pilot, "2 skip")
        await pilot.press("A")
        await until(app, pilot, lambda: "nothing to apply" in notices(app), "told why not")

    drive(session_of(copied), steps)
    assert committed(target, group, [(topic, 0)]) == {(topic, 0): None}


def test_undo_takes_back_what_has_not_moved(
    copied: Copied, topic: str, group: str, target: KafkaNode
) -> None:
    async def steps(app: App, pilot: Driver) -> None:
        await planned(app, pilot)
        await pilot.press("A")
        await confirm(app, pilot, copied.name)
        await shows(app, pilot, "2 rows applied")
        commit(target, group, {(topic, 0): 20})
        await pilot.press("7")
        await shows(app, pilot, "● done")
        await pilot.press("U")
        await confirm(app, pilot, copied.name)
        await shows(app, pilot, "Undo the others")
        await confirm(app, pilot, copied.name)
        await shows(app, pilot, "○ undone")

    drive(session_of(copied), steps)
    found = committed(target, group, [(topic, 0), (topic, 1)])
    assert found == {(topic, 0): 20, (topic, 1): None}


def test_without_the_source_a_plan_is_made_of_its_kept_commits(
    copied: Copied, topic: str, group: str, source: KafkaNode, target: KafkaNode
) -> None:
    k2ktui("sync", "-f", copied.file, "--once")
    commit(target, group, {(topic, 0): 7})  # as if it had never been moved
    source.kill()

    async def steps(app: App, pilot: Driver) -> None:
        await planned(app, pilot)
        await shows(app, pilot, "the source did not answer: its commits are of 20")
        await pilot.press("A")
        await confirm(app, pilot, copied.name)
        await shows(app, pilot, "1 row applied")
        await pilot.press("v")
        await shows(app, pilot, "verify needs both clusters")

    try:
        drive(session_of(copied), steps, (110, 30))
    finally:
        source.restart()
    assert committed(target, group, [(topic, 0)]) == {(topic, 0): 12}


def test_hostile_names_are_shown_and_moved(
    copied: Copied, topic: str, source: KafkaNode, target: KafkaNode
) -> None:
    stems = ("a[/b]", "\x1b[31mred", "\u202eback", "x" * 200, "q'\"$(x)")
    names = [copied.group(each) for each in stems]
    for name in names:
        commit(source, name, {(topic, 0): 5})

    async def steps(app: App, pilot: Driver) -> None:
        await pilot.press("4")
        await shows(app, pilot, "5 groups")
        await pilot.press("a", "enter")
        await shows(app, pilot, "5 create")
        await pilot.press("A")
        await until(app, pilot, lambda: app.screen.query("#confirm-do"), "asked")
        for screen in (text_of(app), plan_of_stack(app).text_to_copy()):
            assert "\x1b" not in screen
            assert "\u202e" not in screen
        await confirm(app, pilot, copied.name)
        await shows(app, pilot, "5 rows applied")

    drive(session_of(copied), steps)
    for name in names:
        assert committed(target, name, [(topic, 0)]) == {(topic, 0): 12}


def plan_of_stack(app: App) -> PlanScreen:
    (found,) = [each for each in app.screen_stack if isinstance(each, PlanScreen)]
    return found
