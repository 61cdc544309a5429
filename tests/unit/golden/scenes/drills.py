"""Scenes of the transcript of screens: drills of a pipeline, and of a site."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from threading import Event
from typing import Any

from k2ktui.console.drill_operator import ScreenOperator
from k2ktui.console.screens.drill_phases import DrillScreen
from k2ktui.console.screens.drill_runs import DrillRun
from k2ktui.console.screens.site import SiteScreen
from k2ktui.console.session import DemoStep, Session
from k2ktui.drill.operator import (
    Question,
    QuestionKind,
    agree_question,
    step_question,
    take_over_question,
)
from k2ktui.engine.drill.checks import DrillKind, DrillPhase
from k2ktui.engine.drill.hooks import HookStatus, describe_hook
from k2ktui.engine.drill.model import Drill, DrillStatus
from k2ktui.engine.drill.site_selection import SiteFile
from k2ktui.engine.drill.steps import turn_into_disaster
from k2ktui.errors import ConnectionFailed, K2kError
from k2ktui.watch.model import PartName
from tests.console.test_drill import made
from tests.console.test_drill_runs import APPLYING, HOOK, with_hook
from tests.console.test_site import idle
from tests.support.console.sites import NAMES, half_way, mark, member, planned, site_session
from tests.support.console.transcript import Scene, Walk, pipeline_session
from tests.support.drill.made_drills import (
    NOON_MS,
    acted,
    fencing,
    listed,
    new_drill,
    opened,
    rehearsed,
    stopped,
    switched_over,
    through,
)

NO_TARGET = ConnectionFailed(
    "dst:9092 does not answer", unchanged="Nothing was changed.", hint="Look at the target."
)


async def shows_drill(walk: Walk, drill: Drill, what: str) -> None:
    """Show what another process wrote of the drill that is open."""
    walk.made.drills = (drill,)
    await walk.shows_view(what)


# The list


async def drills(walk: Walk) -> None:
    await walk.shows("drills of each kind", "8")
    await walk.shows("one that stopped", "down")
    await walk.shows("a rehearsal", "down")
    await walk.shows("its checks", "c")
    await walk.shows("no trend yet", "q", "t")
    walk.made.drills = ()
    await walk.press("escape")
    await walk.shows_view("no drill")
    await walk.shows("checks are refused", "c")


async def new_drills(walk: Walk) -> None:
    await walk.shows("which kind", "8", "N")
    for _ in range(5):
        await walk.shows("the next kind", "down")
    await walk.shows("a pattern that is wrong", "tab", "left_parenthesis", "enter")
    await walk.shows("a failback: asked", "backspace", *"bill", "enter")
    await walk.shows("declined", "escape")
    await walk.shows("a rehearsal: asked", "N", "enter")
    await walk.press("escape")
    await walk.shows("a planned drill: asked", "N", "down", "down", "enter")
    await walk.press("escape")
    await walk.shows("over some topics: which kind", "2", "space", "N")
    await walk.shows("asked", "down", "enter")
    await walk.press("escape")
    await walk.shows("canceled", "8", "N", "escape")


# A drill


async def watched(walk: Walk) -> None:
    await walk.shows("another operator acts on it", "8", "enter")
    await walk.shows("what is refused", *"RHDAFT")
    await walk.shows("abort: asked", "X")
    await walk.press("escape")
    await walk.shows("taken over: asked", "O")
    await walk.shows("declined", "escape")


async def left(walk: Walk) -> None:
    await walk.shows("nobody acts on it", "8", "enter")
    await walk.shows("take over is refused", "O")
    await walk.shows("resume: asked", "R")
    await walk.answers("it cannot be resumed", "orders")
    await walk.shows("continue without the source: asked", "D")
    await walk.press("escape")
    walk.made.errors = {PartName.SOURCE: "no answer"}
    await walk.shows_view("the source does not answer")


async def failed(walk: Walk) -> None:
    await walk.shows("a phase has failed", "8", "enter")
    await walk.shows("the phase", "enter")
    await walk.shows("the report", "escape", "v")
    await walk.shows("its checks", "escape", "c")
    await walk.shows("without those that passed", "z")
    await walk.shows("another check", "down")
    await walk.shows("accept: asked", "q", "A")
    await walk.shows("fence again is refused", "escape", "F")
    await walk.shows("abort: asked", "X")
    await walk.answers("it cannot be aborted", "orders")
    await walk.shows("tail and hold are refused", "T", "H")
    accepted = replace(stopped().options, accepted=("D39",))
    await shows_drill(walk, replace(stopped(), options=accepted, beat_ms=NOON_MS), "accepted")
    await walk.shows("accept is refused", "A")
    disaster = turn_into_disaster(replace(stopped(), beat_ms=NOON_MS))
    await shows_drill(walk, disaster, "it goes on as a disaster drill")
    await walk.shows("disaster is refused", "D")
    aborting = replace(stopped(), status=DrillStatus.ABORTING, beat_ms=NOON_MS)
    await shows_drill(walk, aborting, "it is being aborted")
    await walk.shows("what is refused", *"RFAT")
    over = replace(aborting, status=DrillStatus.ABORTED, ended_ms=NOON_MS)
    await shows_drill(walk, over, "it was aborted")
    await walk.shows("what is refused", *"RXODAFT")
    await walk.shows("its report", "v")


async def states(walk: Walk) -> None:
    """A drill in other states, each opened."""
    await walk.press("8")
    for what, drill in (
        ("the target is open", opened()),
        ("a tail is listed", listed()),
        ("failed over", switched_over()),
        ("rehearsed", rehearsed()),
        ("a hook has failed", hooked()),
        ("a disaster drill", disaster()),
    ):
        walk.made.drills = (drill,)
        await walk.shows_view(f"{what}, in the list")
        await walk.shows(what, "enter")
        if what == "the target is open":
            await walk.shows("what is refused", "X", "F", "D")
        if what == "a tail is listed":
            await walk.shows("what happens to it", "T")
            await walk.shows("asked", "down", "enter")
            await walk.press("escape")
        if what == "a hook has failed":
            await walk.shows("the hook", "enter")
            await walk.shows("abort: asked", "escape", "X")
            await walk.shows("fence again: asked", "escape", "F")
            await walk.press("escape")
        await walk.press("q")


def hooked() -> Drill:
    drill = replace(APPLYING, session="")
    return with_hook(drill, HookStatus.FAILED, result="exit code 3", output="no such host")


def disaster() -> Drill:
    return replace(through(new_drill(DrillKind.DISASTER), DrillPhase.LAG), session="")


async def no_changes(walk: Walk) -> None:
    await walk.shows("new drill is refused", "8", "N")
    await walk.shows("every change is refused", "enter", *"RXODAFT")


async def starts(walk: Walk) -> None:
    await walk.press("8", "N", "enter")
    await walk.answers("it cannot be begun", "")
    await walk.shows("back in the list", "q")


# A drill that runs here


def asks(question: Question, drill: Drill = APPLYING) -> DrillRun[Drill]:
    def job(operator: ScreenOperator[Drill]) -> Drill:
        operator.show(drill)
        if operator.ask(question):
            return replace(drill, status=DrillStatus.DONE, ended_ms=drill.started_ms + 60_000)
        return drill

    return DrillRun("drill", job, "k2ktui drill resume ID")


def confirms(step: Any, effect: str) -> DrillRun[Drill]:
    return asks(step_question(APPLYING, step, effect))


async def runs(walk: Walk) -> None:
    await walk.press("8", "enter")
    screen = walk.console.screen
    assert isinstance(screen, DrillScreen)
    effect = "commit 6 offsets of 4 groups"
    for what, run in (
        ("a phase", confirms(DrillPhase.APPLY, effect)),
        ("the point of no return", confirms(DrillPhase.OPEN_TARGET, "groups may start there")),
        ("a hook", confirms(HOOK.step, f"The {describe_hook(HOOK)}")),
        ("with remarks", confirms(DrillPhase.APPLY, f"{effect}\nbilling is ahead\nold commits")),
        ("topics", confirms("topics", "2 topics and 4 groups move")),
        ("taken over", asks(take_over_question(acted(APPLYING)))),
        ("an unproven record", asks(agree_question(APPLYING, UNPROVEN))),
    ):
        screen.run_drill(run)
        await walk.shows(f"it asks: {what}")
        await walk.shows(f"{what}: declined", "escape")
    screen.run_drill(confirms(DrillPhase.APPLY, effect))
    await walk.shows("a wrong name", *"orders", "tab")
    await walk.press(*["backspace"] * 6)
    await walk.answers("confirmed: it ends", "apply")


UNPROVEN = ("It is not proven that a drill wrote the record.", "  group billing: 500 → 7")


async def held(walk: Walk) -> None:
    """A drill that runs until it is held."""
    ended = Event()

    def job(operator: ScreenOperator[Drill]) -> Drill:
        while not ended.wait(0.05):
            operator.show(APPLYING)
        return APPLYING

    await walk.press("8", "enter")
    screen = walk.console.screen
    assert isinstance(screen, DrillScreen)
    walk.is_busy = True
    screen.run_drill(DrillRun("drill", job, "k2ktui drill resume ID"))
    await walk.console.sees("It runs here: H holds it.")
    await walk.console.sees("apply: 6 rows planned")  # what the job shows comes later
    await walk.shows("it runs here; it cannot be left, nor resumed", "q", "R")
    await walk.shows("leaving the console", "2", "q")
    await walk.press("s", "8", "H")
    walk.is_busy = False
    await walk.shows("it was held")


# The demo


async def demo(walk: Walk) -> None:
    await walk.shows("the key of the demo", "8")
    await walk.shows("what runs", "C")
    await walk.shows("done", "enter")
    await walk.shows("kill: asked", "C", "down", "enter")
    await walk.answers("killed", "orders")
    await walk.shows("it fails", "C", "down", "down", "enter")
    await walk.shows("canceled", "C", "escape")


def fails() -> str:
    raise K2kError("the consumers have not stopped within 30 s", hint="Look at their log.")


def demo_session() -> Session:
    session = pipeline_session(made(stopped()))
    text = "producers: 2 run\nconsumers: 3 run"
    session.demo_steps = (
        DemoStep("show", "show what runs", "", lambda: text),
        DemoStep("stop-producers", "stop the producers", "Nothing is written.", lambda: text),
        DemoStep("kill-source", "kill the source", "It is lost.", lambda: text, True),
        DemoStep("stop-consumers", "stop the consumers", "They commit and leave.", fails),
    )
    return session


# Site drills


async def site_drills(walk: Walk) -> None:
    await walk.shows("site drills", "8")
    await walk.shows("one of them", "enter")
    await walk.shows("what is refused", *"RFAT")
    await walk.shows("take over: asked", "O")
    await walk.answers("it cannot be taken over", "paris")
    await walk.shows("the next member", "down")
    await walk.shows("the member", "enter")
    await walk.shows("its phase", "enter")
    await walk.shows("its checks", "escape", "c")
    await walk.shows("checks of all", "q", "q", "c")
    await walk.shows("the report", "q", "v")


async def site_changes(walk: Walk) -> None:
    await walk.shows("nobody acts on it", "8", "enter")
    for key in "RXLDF":
        await walk.shows("asked", key)
        await walk.shows("declined", "escape")
    await walk.shows("accept and tail are refused", *"ATOH")
    await walk.press("R")
    await walk.answers("it cannot be resumed", "paris")


async def site_tail(walk: Walk) -> None:
    await walk.shows("a tail is listed", "8", "enter")
    await walk.shows("what happens to it", "T")
    await walk.shows("asked", "down", "enter")
    await walk.press("escape")


async def site_only_shows(walk: Walk) -> None:
    await walk.shows("site drills", "8")
    await walk.shows("it", "enter")
    await walk.shows("what is refused", *"RXLDFATO")


async def no_site(walk: Walk) -> None:
    await walk.shows("no site drill", "8")
    await walk.shows("which kind", "N")
    await walk.shows("which site", "down", "enter")
    await walk.shows("a topic has two targets: which pipelines", "enter")
    await walk.shows("a pattern that is wrong", "left_parenthesis", "enter")
    await walk.shows("leave out: asked", *"orders|clicks|typo", "enter")
    await walk.answers("start: asked", "paris")
    await walk.press("escape", "N", "enter", "enter", *"orders|clicks|typo")
    await walk.shows("a rehearsal: asked", "enter")
    await walk.answers("it cannot be begun", "")


async def unknown_sources(walk: Walk) -> None:
    await walk.shows("no source is known", "8", "N", "enter")


async def site_asks(walk: Walk) -> None:
    await walk.press("8", "enter")
    screen = walk.console.screen
    assert isinstance(screen, SiteScreen) and screen.drill is not None
    site, names = screen.drill, ("billing", "orders")
    lines = ("billing: 12 offsets of 2 groups", "orders: 40 offsets of 3 groups")
    for kind in QuestionKind:
        for step in ("apply", "open-target") if kind is QuestionKind.PHASE else ("",):
            question = Question(
                kind, site, "What happens then.", lines, "paris", step=step, pipelines=names
            )

            def job(operator: Any, question: Question = question) -> Any:
                operator.ask(question)
                return site

            screen.run_drill(DrillRun("site drill", job, "k2ktui drill resume ID"))
            await walk.shows(f"it asks: {kind} {step}".strip())
            await walk.shows("declined", "escape")


def site_file(name: str, topic: str, target: str, source: str = "paris", why: str = "") -> SiteFile:
    ids = ("", "") if why else (f"id-of-{source}", f"id-of-{target}")
    return SiteFile(f"/p/{name}.yaml", name, source, target, *ids, frozenset({topic}), why)


FILES = [
    site_file("orders", "payments", "rome"),
    site_file("clicks", "clicks", "rome"),
    site_file("billing", "payments", "oslo"),
    site_file("iot", "sensors", "paris", "rome"),
    site_file("typo", "", "", "", "typo.yaml:2: sorce: unknown key"),
]
READS = "k2ktui.console.screens.site_drills.read_site_files"


def over_all(drill: Drill) -> tuple[Drill, ...]:
    site = mark()
    return tuple(member(n, replace(drill, session=""), site) for n in range(1, len(NAMES) + 1))


def opened_site() -> tuple[Drill, ...]:
    drill = planned(DrillPhase.OPEN_TARGET)
    return over_all(replace(drill, figures=replace(drill.figures, opened_ms=NOON_MS)))


def aborting_site() -> tuple[Drill, ...]:
    return tuple(replace(drill, status=DrillStatus.ABORTING) for drill in idle(half_way()))


def of(*drills: Drill, **options: Any) -> Callable[[], Session]:
    return lambda: pipeline_session(made(*drills), **options)


NO_DRILL = {
    f"k2ktui.drill.operations.{verb}_drill": NO_TARGET for verb in ("start", "resume", "abort")
}

NO_SITE = {
    f"k2ktui.site.operations.{verb}_site": NO_TARGET for verb in ("start", "resume", "abort")
}

SCENES: dict[str, list[Scene]] = {
    "drills": [
        Scene("of a pipeline", drills, of(acted(fencing()), stopped(), rehearsed())),
        Scene("a new one", new_drills, of()),
        Scene("the target does not answer", starts, of(), NO_DRILL),
        Scene("the demo", demo, demo_session),
    ],
    "drill": [
        Scene("watched", watched, of(acted(fencing()))),
        Scene("left by its operator", left, of(acted(fencing(), seconds_ago=60)), NO_DRILL),
        Scene("failed", failed, of(stopped()), NO_DRILL),
        Scene("read-only", no_changes, of(stopped(), read_only=True)),
    ],
    "drill-states": [Scene("opened one after the other", states, of())],
    "drill-run": [
        Scene("it asks", runs, of(fencing())),
        Scene("it is held", held, of(fencing())),
    ],
    "site-drill": [
        Scene(
            "another operator acts on it", site_drills, lambda: site_session(*half_way()), NO_SITE
        ),
        Scene("nobody acts on it", site_changes, lambda: site_session(*idle(half_way())), NO_SITE),
        Scene("it asks", site_asks, lambda: site_session(*idle(half_way()))),
        Scene("a tail is listed", site_tail, lambda: site_session(*over_all(listed()))),
    ],
    "site-drill-refused": [
        Scene("targets are open", site_only_shows, lambda: site_session(*opened_site())),
        Scene("it is being aborted", site_only_shows, lambda: site_session(*aborting_site())),
        Scene(
            "read-only",
            site_only_shows,
            lambda: site_session(*idle(half_way()), read_only=True),
        ),
    ],
    "site-drill-new": [
        Scene("a site is left", no_site, lambda: site_session(), {READS: FILES, **NO_SITE}),
        Scene("no source is known", unknown_sources, lambda: site_session(), {READS: FILES[-1:]}),
        Scene(
            "its clusters cannot be read",
            unknown_sources,
            lambda: site_session(),
            {READS: NO_TARGET},
        ),
    ],
}
