"""From choosing groups to a plan that is applied, verified and undone, on real clusters."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer

from k2ktui.console.screens.group_reset import ResetScreen
from k2ktui.console.screens.translate_plan import PlanScreen
from k2ktui.console.widgets.grid import Grid
from k2ktui.engine.moves.plan import load_plan
from k2ktui.runtime.node import KafkaNode
from tests.support.clusters.kafka import (
    START_S,
    Out,
    client,
    create_topic,
    eventually,
    produce,
    unique_name,
)
from tests.support.commands.cli import k2ktui, k2ktui_json
from tests.support.console.driver import ConsoleDriver, copied_session, drive_session
from tests.support.oracle.group_offsets import commit_offsets
from tests.support.pipelines.copied import Copied, committed

pytestmark = pytest.mark.slow


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
    commit_offsets(source, name, {(topic, 0): 5, (topic, 1): 30})
    return name


def plan_of(console: ConsoleDriver) -> PlanScreen:
    assert isinstance(console.screen, PlanScreen)
    return console.screen


async def planned(console: ConsoleDriver) -> None:
    """Open Translate, and plan the first group."""
    await console.press("4")
    await console.until(
        lambda: console.screen.query(Grid) and console.screen.query_one(Grid).rows, "up"
    )
    await console.press("enter")
    await console.until(lambda: plan_of(console).shown, "planned")
    await console.settle()


def test_from_a_plan_to_applied_verified_and_undone(
    copied: Copied, topic: str, group: str, target: KafkaNode
) -> None:
    where = [(topic, 0), (topic, 1)]
    before = {(topic, 0): None, (topic, 1): 8}
    commit_offsets(target, group, {(topic, 1): 8}, "there before")

    async def steps(console: ConsoleDriver) -> None:
        await planned(console)
        await console.sees("(1 create, 1 advance) of 1 group on the target")
        assert committed(target, group, where) == before
        shown = plan_of(console).shown
        assert shown is not None and shown.path is not None
        assert load_plan(shown.path.read_text(), 0).id == shown.plan.id
        await console.press("A")
        await console.until(lambda: console.screen.query("#confirm-do"), "asked")
        # Enter, hit by habit, changes nothing; nor does the space bar: it is typed.
        await console.press("enter", "enter", "space", "escape")
        await console.until(lambda: isinstance(console.screen, PlanScreen), "closed")
        assert committed(target, group, where) == before
        await console.press("A")
        await console.confirm(copied.name)
        await console.until(lambda: plan_of(console).applied, "applied")
        await console.sees("2 rows applied")
        assert committed(target, group, where) == {(topic, 0): 12, (topic, 1): 37}
        await console.press("v")
        await console.sees("2 same, 0 re-read, 0 different")
        await console.sees("● same")
        await console.press("U")
        await console.confirm(copied.name)
        await console.sees("2 rows undone.")
        assert committed(target, group, where) == before
        await console.press("7")
        await console.sees("undo of")
        await console.press("j", "enter")
        await console.sees("2 rows applied")
        await console.until(lambda: console.screen.query_one(Grid).rows, "read")
        await console.press("G", "enter")
        await console.sees("8 (metadata “there before”)")

    drive_session(copied_session(copied), steps, (110, 30))
    reported = k2ktui_json("journal", "-f", copied.file)["journal"]
    assert [entry["operation"] for entry in reported] == ["undo", "apply"]


def test_an_offset_that_moves_after_the_plan_is_reported_and_planned_again(
    copied: Copied, topic: str, group: str, target: KafkaNode
) -> None:
    async def steps(console: ConsoleDriver) -> None:
        await planned(console)
        commit_offsets(target, group, {(topic, 0): 9})
        await console.press("A")
        await console.confirm(copied.name)
        await console.sees("offsets or groups have changed since")
        await console.sees("is now 9")
        await console.sees("▲ moved")
        assert committed(target, group, [(topic, 1)]) == {(topic, 1): None}
        await console.press("A")
        await console.until(lambda: "n plans again" in console.notices, "the reason is shown")
        await console.press("n")
        await console.sees("(1 create, 1 advance) of 1 group on the target")
        await console.press("A")
        await console.confirm(copied.name)
        await console.sees("2 rows applied")

    drive_session(copied_session(copied), steps)
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
    async def steps(console: ConsoleDriver) -> None:
        await planned(console)
        member.subscribe([topic])
        eventually(lambda: member.poll(0.2) is None and member.assignment(), "joined")
        await console.press("A")
        await console.confirm(copied.name)
        await console.sees("the group is now Stable")
        await console.press("n")
        await console.sees("2 blocked")
        await console.press("A")
        await console.until(lambda: "nothing to apply" in console.notices, "the reason is shown")

    drive_session(copied_session(copied), steps)
    assert committed(target, group, [(topic, 0)]) == {(topic, 0): None}


def test_undo_undoes_what_has_not_moved(
    copied: Copied, topic: str, group: str, target: KafkaNode
) -> None:
    async def steps(console: ConsoleDriver) -> None:
        await planned(console)
        await console.press("A")
        await console.confirm(copied.name)
        await console.sees("2 rows applied")
        commit_offsets(target, group, {(topic, 0): 20})
        await console.press("7")
        await console.sees("● done")
        await console.press("U")
        await console.confirm(copied.name)
        await console.sees("Undo the others")
        await console.confirm(copied.name)
        await console.sees("○ undone")

    drive_session(copied_session(copied), steps)
    offsets = committed(target, group, [(topic, 0), (topic, 1)])
    assert offsets == {(topic, 0): 20, (topic, 1): None}


def test_without_the_source_a_plan_is_made_of_its_kept_commits(
    copied: Copied, topic: str, group: str, source: KafkaNode, target: KafkaNode
) -> None:
    k2ktui("sync", "-f", copied.file, "--once")
    commit_offsets(target, group, {(topic, 0): 7})  # as if it had never been moved
    source.kill()

    async def steps(console: ConsoleDriver) -> None:
        await planned(console)
        await console.sees("the source did not answer: its commits are of 20")
        await console.press("A")
        await console.confirm(copied.name)
        await console.sees("1 row applied")
        await console.press("v")
        await console.sees("Fix: Repeat when both clusters answer")

    try:
        drive_session(copied_session(copied), steps, (110, 30))
    finally:
        source.restart(START_S)
    assert committed(target, group, [(topic, 0)]) == {(topic, 0): 12}


def test_hostile_names_are_shown_and_moved(
    copied: Copied, topic: str, source: KafkaNode, target: KafkaNode
) -> None:
    stems = ("a[/b]", "\x1b[31mred", "\u202eback", "x" * 200, "q'\"$(x)")
    names = [copied.group(stem) for stem in stems]
    for name in names:
        commit_offsets(source, name, {(topic, 0): 5})

    async def steps(console: ConsoleDriver) -> None:
        await console.press("4")
        await console.sees("5 groups")
        await console.press("a", "enter")
        await console.sees("5 create")
        await console.press("A")
        await console.until(lambda: console.screen.query("#confirm-do"), "asked")
        for screen in (console.text, plan_of_stack(console).text_to_copy()):
            assert "\x1b" not in screen
            assert "\u202e" not in screen
        await console.confirm(copied.name)
        await console.sees("5 rows applied")

    drive_session(copied_session(copied), steps)
    for name in names:
        assert committed(target, name, [(topic, 0)]) == {(topic, 0): 12}


def plan_of_stack(console: ConsoleDriver) -> PlanScreen:
    (plan_screen,) = [
        screen for screen in console.app.screen_stack if isinstance(screen, PlanScreen)
    ]
    return plan_screen


def test_a_group_of_the_target_is_reset_and_put_back(
    copied: Copied, topic: str, group: str, target: KafkaNode
) -> None:
    """Its offsets are copied from the group under the cursor, then set; each is undone."""
    where = [(topic, 0), (topic, 1)]
    commit_offsets(target, group, {(topic, 0): 12, (topic, 1): 37})
    new = f"{group}-new"
    copy = {(topic, 0): 12, (topic, 1): 37}

    async def asked(console: ConsoleDriver, name: str, value: str) -> ResetScreen:
        await console.press("o")
        await console.sees("Group on the target")
        await console.type(name)
        await console.press("enter")
        await console.sees("or to another group's offsets")
        if value:
            await console.press("ctrl+u")
            await console.type(value)
        await console.press("enter")
        await console.until(lambda: isinstance(console.screen, ResetScreen), "opened")
        screen = console.screen
        assert isinstance(screen, ResetScreen)
        await console.until(lambda: not screen.busy, "planned")
        return screen

    async def steps(console: ConsoleDriver) -> None:
        await console.press("3")
        await console.until(lambda: console.screen.query_one(Grid).current, "shown")
        screen = await asked(console, new, "")
        assert screen.shown, screen.error
        assert f"k2ktui groups reset {new} -f {copied.file} --copy-from={group}" in (
            screen.text_to_copy()
        )
        await console.press("A")
        await console.confirm(copied.name)
        await console.sees("2 rows applied")
        assert committed(target, new, where) == copy
        await console.press("U")
        await console.confirm(copied.name)
        await console.sees("2 rows undone")
        assert committed(target, new, where) == dict.fromkeys(where)
        await console.press("escape")

        screen = await asked(console, group, "earliest")
        assert screen.error is not None and "plan --set" in screen.error.hint
        await console.press("escape")

    drive_session(copied_session(copied), steps, (120, 35))
    assert committed(target, group, where) == copy
