"""What is shown while clusters do not answer: the last values, their age, and what is down."""

from __future__ import annotations

import re

from k2ktui.engine.mapping.translate import Basis
from k2ktui.engine.records.state import SourcePartition
from k2ktui.engine.status import HeldBack
from k2ktui.present.partitions import stale_partition_columns
from k2ktui.watch.model import PartName
from tests.support.console.driver import ConsoleDriver, drive
from tests.support.console.views import Made, usual


def test_before_the_first_answer_nothing_is_zero() -> None:
    made = Made()
    made.unread = set(PartName)

    async def flow(console: ConsoleDriver) -> None:
        assert "No problem is known" not in console.text
        for key in ("1", "2", "3"):
            await console.press(key)
            figures = "\n".join(console.text.splitlines()[2:-1])
            assert "…" in figures
            assert not re.search(r"\b0\b", figures), figures

    drive(flow, made)


def below_header(console: ConsoleDriver) -> str:
    """What is on the screen below its first line, which has the health of each cluster."""
    return console.text.partition("\n")[2]


def test_a_source_that_dies_leaves_its_last_values_with_their_age() -> None:
    async def flow(console: ConsoleDriver) -> None:
        made = console.feed.made
        made.errors[PartName.SOURCE] = "src:9092 does not answer: timed out after 5 s"
        made.now += 400
        await console.show()
        assert (
            "✗ source: src:9092 does not answer: timed out after 5 s; values ≈6 m 40 s old"
            in console.text
        )
        assert "≈1,200 records" in console.panel("Lag")
        assert "✗ down" in console.line("Source  ")
        assert "src ✗" in console.text.splitlines()[0]
        assert "✗ cluster  source cluster" in console.text
        assert "— records/s" in console.panel("Lag")
        assert "≈6 caught-up" in console.panel("Partitions")
        await console.press("2")
        assert "≈1,200" in console.line("clicks-2")
        assert "≈ caught-up" in console.line("clicks-0")
        assert "●" not in below_header(console)  # where the target, which answers, is healthy
        assert "✗ source: src:9092 does not answer" in console.text
        await console.press("enter")
        assert "≈1,200 records" in console.line("Lag ") or "≈0 records" in console.line("Lag ")
        await console.press("escape")

        del made.errors[PartName.SOURCE]
        await console.show()
        assert "does not answer" not in console.text

    drive(flow)


def test_what_is_held_back_on_a_source_that_dies_looks_old() -> None:
    made = usual()
    at = SourcePartition("clicks", 0)
    made.held[at] = HeldBack(350, made.ends[at], 4711, 75.0)

    async def flow(console: ConsoleDriver) -> None:
        made.errors[PartName.SOURCE] = "src:9092 does not answer: timed out after 5 s"
        made.now += 400
        await console.press("2", "enter")
        await console.show()
        assert "clicks-0" in console.text
        assert "≈350 records held back" in console.line("Held back")
        assert "≈350 records held back" in console.line("Why")

    drive(flow, made)


def test_columns_from_a_stale_part_look_old() -> None:
    made = usual()
    made.view()
    made.errors[PartName.SOURCE] = "no route"
    assert "held-back" in stale_partition_columns(made.view())
    assert "mapped" not in stale_partition_columns(made.view())
    made.errors = {PartName.GROUPS: "no route"}
    assert stale_partition_columns(made.view()) == {"coverage", "unmapped", "mapped"}


def test_groups_of_a_target_that_dies_look_old() -> None:
    async def flow(console: ConsoleDriver) -> None:
        made = console.feed.made
        for name in PartName:
            if name is not PartName.SOURCE:
                made.errors[name] = "dst:9092 does not answer"
        made.now += 400
        await console.show()
        assert "≈ running" in console.line("Job   ")
        for key in ("3", "4"):
            await console.press(key)
            assert "✗ ≈skips" in console.line("billing")
            assert "≈ not moved" in console.line("fulfilment")
            assert not {"●", "○"} & set(below_header(console))
        del made.errors[PartName.GROUPS]
        await console.show()
        assert "≈ not moved" not in console.text

    drive(flow)


def test_no_problem_is_known_only_when_all_is_read_and_current() -> None:
    made = Made()
    made.partition("clicks", 0, end=10)

    async def flow(console: ConsoleDriver) -> None:
        assert "No problem is known." in console.text
        made.unread = {PartName.GROUPS}
        made.forget(PartName.GROUPS)
        await console.show()
        assert "No problem is known." not in console.text

    drive(flow, made)


def test_with_everything_down_from_the_start() -> None:
    made = usual()
    made.unread = set(PartName)
    made.errors = {name: f"{name} is down" for name in PartName}

    async def flow(console: ConsoleDriver) -> None:
        assert "✗ source: source is down; nothing is known" in console.text
        for key in ("2", "3", "1"):
            await console.press(key)
        assert console.app.is_running

    drive(flow, made)


def test_ages_grow_while_nothing_arrives() -> None:
    async def flow(console: ConsoleDriver) -> None:
        assert "<10 s" in console.text.splitlines()[0]
        console.feed.clock = console.feed.made.now + 3700
        console.app.update_frame()
        await console.settle()
        assert "1 h 1 m" in console.text.splitlines()[0]

    drive(flow)


def test_a_warning_between_two_polls_has_its_line_at_once() -> None:
    async def flow(console: ConsoleDriver) -> None:
        console.app.session.watchdog = lambda: "the demo's traffic has ended"
        console.app.update_frame()
        await console.settle()
        between = console.text
        assert "the demo's traffic has ended" in between
        await console.show()
        assert console.text == between

    drive(flow)


def test_a_job_that_fell_silent_is_a_problem() -> None:
    async def flow(console: ConsoleDriver) -> None:
        console.feed.made.errors[PartName.STATE] = ""
        console.feed.clock = console.feed.made.now + 60
        await console.show()
        assert "✗ job" in console.text
        assert "no heartbeat for 1 m 0 s" in console.text

    drive(flow)


def test_no_job_is_a_problem_too() -> None:
    made = usual()
    made.running = False

    async def flow(console: ConsoleDriver) -> None:
        assert "no job is running" in console.text

    drive(flow, made)


def test_a_pair_without_groups_says_so() -> None:
    made = Made()
    made.partition("clicks", 0, end=10)

    async def flow(console: ConsoleDriver) -> None:
        assert (
            console.line("Positions   ").strip(" │|").endswith("no committed offset to translate")
        )

    drive(flow, made)


def test_before_anything_is_copied_no_line_is_red() -> None:
    made = Made()
    at = made.partition("clicks", 0, end=10)
    del made.positions[at], made.mapped[at]
    made.group("billing", at, basis=Basis.UNMAPPED)

    async def flow(console: ConsoleDriver) -> None:
        assert "new: nothing has been copied yet" in console.text
        assert "1 unmapped  (1 not copied yet)" in console.line("Positions   ")
        assert "✗" not in console.text
        made.partition("clicks", 0, end=10)
        await console.show()
        assert "✗ group" in console.text

    drive(flow, made)


def test_a_paused_console_looks_old_and_raises_no_alarm() -> None:
    async def flow(console: ConsoleDriver) -> None:
        feed = console.feed
        await console.press("p")
        assert "▲ paused" in console.line("paused: no figure")
        for part in ("Lag", "Partitions", "Coverage", "Group divergence", "Failover now"):
            assert "≈" in console.panel(part), part
        assert "— records/s" in console.panel("Lag")
        assert "? not polled" in console.line("Source  ")
        assert "●" not in console.text
        assert "No problem is known" not in console.text
        feed.clock = feed.made.now + 3_600  # an hour passes, and nothing is read
        console.app.update_frame()
        for screen in ("5", "2", "3", "1"):
            await console.press(screen)
            assert "no heartbeat" not in console.text and "silent" not in console.text
            assert "●" not in console.text, screen
        # The first view after it has parts from before it.
        await console.press("p")
        assert "paused: no figure" not in console.text
        assert "no heartbeat" not in console.text
        assert "≈1,200 records" in console.panel("Lag")
        feed.made.now += 3_600
        feed.clock = None
        await console.show()
        assert "≈" not in console.panel("Lag") and "● up" in console.line("Source  ")

    drive(flow, size=(120, 40))
