"""Scenes of the transcript of screens: a pipeline, and what every screen offers."""

from __future__ import annotations

from dataclasses import replace

from k2ktui.config.model import PipelineConfig
from k2ktui.console.screens.records import RecordsScreen
from k2ktui.console.session import LeaveChoice, Session
from k2ktui.engine.records.hold import Hold, Holds
from k2ktui.engine.records.moved_topic import MovedTopic, MovedTopics
from k2ktui.engine.records.state import SourcePartition
from k2ktui.errors import ConnectionFailed
from k2ktui.mm2.mirror_flow import MirrorFlow
from k2ktui.sync.flow import Flow
from k2ktui.watch.model import PartName, PipelinePair
from tests.console.test_records import CONFIG as RECORDS_CONFIG
from tests.console.test_records import RECORDS, ROW
from tests.support.console.transcript import Scene, Walk, pipeline_session
from tests.support.console.views import (
    NOON,
    Made,
    after_a_minute,
    beside_mirrormaker,
    compared,
    runner,
    usual,
)

AT_MS = int(NOON * 1000)


def busy() -> Made:
    """A pipeline with a hold, a topic that was moved, and a comparison with differences."""
    made = after_a_minute()
    made.holds = Holds(
        [
            Hold("clicks", 2, "ann@bastion1", AT_MS),
            Hold("invoices", None, "ann@bastion1", AT_MS, "the new schema is not ready"),
        ]
    )
    made.comparison = compared(
        made, {SourcePartition("clicks", 1): (7, 0), SourcePartition("payments", 0): (0, 3)}
    )
    return made


def moved() -> Made:
    """A pipeline whose topic clicks was moved to the target."""
    made = usual()
    drill = "20261121-101500-3f2a"
    made.moved = MovedTopics([MovedTopic("clicks", "clicks", drill, AT_MS, "ann@bastion")])
    return made


# Overview


async def overview(walk: Walk) -> None:
    await walk.shows("a pipeline that copies")
    await walk.shows("the pair", "i")
    await walk.press("escape")
    walk.made.errors = {PartName.SOURCE: "src:9092 does not answer"}
    walk.made.now += 20
    await walk.shows_view("the source does not answer")
    await walk.shows("its whole text", "enter")
    await walk.press("escape")
    walk.made.errors = dict.fromkeys(PartName, "no answer")
    await walk.shows_view("nothing answers")
    walk.made.errors, walk.made.running = {}, False
    await walk.shows_view("no job runs")
    await walk.shows("paused", "p")


async def only_shows(walk: Walk) -> None:
    await walk.shows("opened")


def silent() -> Made:
    made = usual()
    made.running = True
    made.view()
    old = runner("bastion1", at_ms=AT_MS - 120_000, started_ms=AT_MS - 600_000)
    made.runners = (old,)
    return made


def unread() -> Made:
    made = usual()
    made.unread = set(PartName)
    return made


# Replication and its partitions


async def replication(walk: Walk) -> None:
    await walk.shows("a pipeline that copies", "2")
    await walk.shows("a row is marked", "down", "space")
    await walk.shows("only problems", "z")
    await walk.shows("a filter", "z", "slash", *"clicks")
    await walk.shows("a filter without a hit", *"xyz", "enter")
    await walk.shows("a cell is chosen", "escape", "home", "right")
    await walk.shows("the cell is copied", "y")
    await walk.shows("another order", "escape", "s")
    await walk.shows("a partition", "enter")
    await walk.shows("it is exported: asked", "q", "e")
    await walk.shows("canceled", "escape")


async def held(walk: Walk) -> None:
    await walk.shows("held and compared", "2")
    await walk.shows("a partition that was compared", "down", "enter")


async def moved_topic(walk: Walk) -> None:
    await walk.shows("a topic that was moved")
    await walk.shows("the same", "2")
    await walk.shows("the same", "3")


async def refused_on_replication(walk: Walk) -> None:
    await walk.shows("opened", "2")
    await walk.shows("every change is refused", "h", "N", "c", "d")


# Groups


async def groups(walk: Walk) -> None:
    await walk.shows("groups", "3")
    await walk.shows("a group", "enter")
    await walk.shows("a partition of a group, from a group", "enter")
    await walk.shows("each partition has a row", "q", "q", "v")
    await walk.shows("the audit is not there", "m")
    walk.made.rows = [row for row in walk.made.rows if row.group != "billing"]
    await walk.shows("one of them", "v", "home", "enter")
    walk.made.rows = []
    walk.made.source_groups.clear()
    walk.made.target_groups.clear()
    await walk.shows_view("the group is gone")
    await walk.shows("no group", "q")


async def audit(walk: Walk) -> None:
    await walk.shows("beside MirrorMaker 2")
    await walk.shows("both columns", "3")
    await walk.shows("the audit", "m")
    await walk.shows("a row", "down")
    walk.made.audited = [
        replace(row, checkpoint_offset=None, checkpoint_reread=None, checkpoint_skipped=None)
        for row in walk.made.audited
    ]
    await walk.shows_view("no checkpoint yet")
    walk.made.errors = {PartName.COMPARISON: "the flow has no checkpoints topic"}
    await walk.shows_view("it cannot be compared")


CONTENTS = Flow(RECORDS_CONFIG)


async def records(walk: Walk) -> None:
    await walk.press("3")
    await walk.app.push_screen(RecordsScreen(ROW, RECORDS))
    await walk.shows("masked")
    await walk.shows("contents, of which no picture is taken", "v", "ctrl+s")
    await walk.shows("masked again", "v")


async def records_fail(walk: Walk) -> None:
    await walk.shows("they cannot be read", "3", "enter", "enter")


async def records_refused(walk: Walk) -> None:
    await walk.press("3")
    await walk.app.push_screen(RecordsScreen(ROW, RECORDS))
    await walk.shows("contents are refused", "v")


# MirrorMaker 2 alone


def mirrored() -> Made:
    made = usual(PipelinePair("A->B", mirror=True))
    made.heartbeat_at = made.now - 1
    made.compares = True
    return made


MIRROR = MirrorFlow(PipelineConfig.model_construct(name="A->B"), None)  # type: ignore[arg-type]


async def mirror(walk: Walk) -> None:
    await walk.shows("MirrorMaker 2 copies")
    await walk.shows("replication, and what is refused", "2", "h", "N", "c", "d")
    await walk.shows("groups", "3")
    await walk.shows("translate", "4")
    await walk.shows("a job is refused", "5", "J")
    await walk.shows("positions are refused", "6", "c", "o")
    await walk.shows("journal", "7")
    await walk.shows("drills are refused", "8", "N")
    walk.console.feed.clock = walk.made.now + 100
    await walk.shows("it is silent", "1")


# What every screen offers


async def every_screen(walk: Walk) -> None:
    await walk.shows("help", "question_mark")
    await walk.shows("the rest of it", *["j"] * 12)
    await walk.shows("the command line", "escape", "colon")
    await walk.shows("a beginning", *"re")
    await walk.shows("several of them", "tab")
    await walk.shows("no such command", *"xx", "enter")
    await walk.shows("the palette", "escape", "ctrl+p")
    await walk.press("escape")
    await walk.shows("an interval", "plus")
    await walk.shows("the shortest", *["minus"] * 8)
    await walk.shows("polling pauses and continues", "p", "p")
    await walk.shows("nothing to lock", "u")
    await walk.shows("a theme", "colon", *"theme", "space", *"k2k", "minus", *"light", "enter")
    await walk.shows("settings are forgotten", "colon", *"forget", "enter")
    await walk.shows("export: asked", "e")
    await walk.shows("nothing to copy", "escape", "7", "y")


async def production(walk: Walk) -> None:
    await walk.shows("production", "5", "J")
    await walk.confirms("unlocked", "u", "orders")
    await walk.shows("locked again", "u")
    await walk.shows("unlock: asked", "u")
    await walk.shows("declined", "escape")


async def read_only(walk: Walk) -> None:
    await walk.shows("each screen of a read-only session", "1")
    for key in "2345678":
        await walk.shows("read-only", key)
    await walk.shows("cannot be unlocked", "u")


async def recording(walk: Walk) -> None:
    await walk.shows("each screen of a recording")
    for key in "2345678":
        await walk.shows("a recording", key)
    await walk.shows("what is refused", "7", "U", "5", "J", "4", "enter", "6", "enter", "8", "N")
    await walk.shows("unlock", "u")


async def leaves(walk: Walk) -> None:
    await walk.shows("leaving the demo", "q")
    await walk.shows("stay", "s")


async def too_small(walk: Walk) -> None:
    await walk.console.pilot.resize_terminal(50, 12)
    await walk.shows("a terminal that is too small")
    await walk.console.pilot.resize_terminal(60, 20)
    await walk.shows("the smallest terminal")


async def before_anything(walk: Walk) -> None:
    await walk.shows("nothing is read yet")
    for key in "2345678":
        await walk.shows("nothing is read yet", key)


def leave_session() -> Session:
    session = pipeline_session(usual())
    session.leave_choices = (
        LeaveChoice("e", "End", "The clusters are stopped.", 0),
        LeaveChoice("d", "Detach", "The demo keeps running.", 1),
    )
    return session


def noted_session() -> Session:
    session = pipeline_session(usual())
    session.notes = ("keys: there is no id grup; did you mean groups.rows?",)
    session.watchdog = lambda: "the demo's traffic has ended: exit code 1"
    return session


# Event log


async def events(walk: Walk) -> None:
    for number in range(6):
        walk.made.now += 5
        walk.made.copy(10)
        if number == 3:
            walk.made.errors[PartName.SOURCE] = "src:9092 does not answer"
        walk.console.feed.tell()
        await walk.settle()
    walk.made.errors.clear()
    await walk.shows("the event log", "L")
    await walk.shows("an event", "end")
    await walk.shows("its whole text", "enter")
    await walk.shows("it is copied", "y")


SCENES: dict[str, list[Scene]] = {
    "overview": [
        Scene("a pipeline", overview, lambda: pipeline_session(after_a_minute())),
        Scene("a job that is silent", only_shows, lambda: pipeline_session(silent())),
    ],
    "replication": [
        Scene("a pipeline", replication, lambda: pipeline_session(after_a_minute())),
        Scene("held and compared", held, lambda: pipeline_session(busy())),
        Scene("a moved topic", moved_topic, lambda: pipeline_session(moved())),
        Scene(
            "read-only",
            refused_on_replication,
            lambda: pipeline_session(usual(), read_only=True),
        ),
    ],
    "groups": [Scene("a pipeline", groups, lambda: pipeline_session(after_a_minute(), flow=None))],
    "audit": [Scene("beside MirrorMaker 2", audit, lambda: pipeline_session(beside_mirrormaker()))],
    "records": [
        Scene("of a group", records, lambda: pipeline_session(usual(), flow=CONTENTS)),
        Scene(
            "a source that does not answer",
            records_fail,
            lambda: pipeline_session(usual(), flow=CONTENTS),
            {
                "k2ktui.console.screens.records.list_group_records": ConnectionFailed(
                    "src:9092 does not answer", hint="Check that it is up."
                )
            },
        ),
        Scene(
            "read-only",
            records_refused,
            lambda: pipeline_session(usual(), flow=CONTENTS, read_only=True),
        ),
    ],
    "event-log": [Scene("a pipeline", events, lambda: pipeline_session(usual()))],
    "every-screen": [
        Scene("a pipeline", every_screen, lambda: pipeline_session(usual())),
        Scene(
            "production",
            production,
            lambda: pipeline_session(usual(PipelinePair("orders", "production"))),
        ),
        Scene("notes and a watchdog", only_shows, noted_session),
        Scene("the demo", leaves, leave_session),
        Scene("a small terminal", too_small, lambda: pipeline_session(usual())),
    ],
    "read-only": [Scene("read-only", read_only, lambda: pipeline_session(usual(), read_only=True))],
    "recording": [
        Scene(
            "a recording",
            recording,
            lambda: pipeline_session(usual(), flow=None, replay=True),
        )
    ],
    "mirrormaker": [Scene("a flow", mirror, lambda: pipeline_session(mirrored(), flow=MIRROR))],
    "unread": [Scene("nothing read", before_anything, lambda: pipeline_session(unread()))],
}
