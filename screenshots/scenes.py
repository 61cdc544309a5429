"""The film of the demo: what is pressed, what is seen, and what it shows in a few words."""

from __future__ import annotations

from collections.abc import AsyncIterator

import kept
import svg
from stage import Stage
from svg import Frame

from k2ktui.console.drill_operator import OpenQuestion, ScreenOperator
from k2ktui.console.screens.drill_phases import DrillScreen
from k2ktui.drill.operator import step_question
from k2ktui.engine.drill.checks import DrillKind, DrillPhase
from k2ktui.engine.drill.model import Drill, PhaseStatus
from k2ktui.engine.drill.steps import describe_phase

NAME = tuple("demo")
# Phases of the switchover at whose last reading a frame is drawn; whether it asks; what it shows.
MOMENTS = (
    (DrillPhase.FENCE_PRODUCERS, False, "A switchover: the producers stop, and it is proved"),
    (DrillPhase.APPLY, True, "Each phase that changes something asks for its name"),
    (DrillPhase.VERIFY, False, "The groups are moved, and every next record is compared"),
    (DrillPhase.WATCH_CLIENTS, False, "The target is open: it waits until the groups read there"),
)
DONE = "Switched over: no record lost, none read twice, and the report says so"


async def film(stage: Stage) -> AsyncIterator[Frame]:
    """Yield the frames."""
    marks = kept.moments().marks
    for mark, seconds, key, text in (
        ("steady", 4.0, "1", "Two Kafka clusters and one pipeline, seen at a glance"),
        ("stopped", 2.5, "X", "The job is stopped: the arrow breaks, and lag rises"),
        ("rising", 2.0, "", "Lag rises: a failover now would lose these records"),
        ("high", 2.5, "J", "The job is started again"),
        ("caught", 3.0, "", "It catches up within seconds, exactly once"),
        ("planned", 3.0, "", "Nothing was lost, nothing was copied twice"),
    ):
        await stage.see(marks[mark])
        yield Frame(await stage.look(), text, key, seconds)
    await stage.press("3")
    yield Frame(await stage.look(), "One group diverges: it would read records again", "3")
    await stage.press("T")
    yield Frame(await stage.look(), "The plan of its move: nothing is written yet", "T", 4.5)
    await stage.press("A")
    yield Frame(await stage.look(), "What will be done is shown, and confirmed", "A", 3.5)
    await stage.press(*NAME)
    yield Frame(await stage.look(), "… by the name of the pipeline", "demo", 2.0)
    await stage.press("tab", "space")
    yield Frame(await stage.look(), "Every offset is written, read back, and journaled", "space")
    await stage.press("v")
    text = "The next record of each partition is compared on both clusters"
    yield Frame(await stage.look(), text, "v", 4.5)
    await stage.see(marks["applied"])
    await stage.press("7")
    yield Frame(await stage.look(), "Who changed what, before and after; U undoes it", "7", 3.5)
    await stage.press("8")
    text = "A rehearsal tries a failover: no application notices"
    yield Frame(await rehearsed(stage), text, "8", 3.5)
    for phase, asks, text in MOMENTS:
        key = phase.value if asks else ""
        yield Frame(await drill_at(stage, phase, asks=asks), text, key, 3.5)
    yield Frame(await drill_at(stage, None, asks=False), DONE, "", 5.0)


async def rehearsed(stage: Stage) -> svg.Screen:
    """Return the list of drills after the rehearsal."""
    drill = _drills(DrillKind.REHEARSE)[-1]
    await stage.see(kept.moments().marks["rehearsed"], [drill])
    return await stage.look()


async def drill_at(stage: Stage, phase: DrillPhase | None, *, asks: bool) -> svg.Screen:
    """Return the switchover at the last reading of a phase before its end; None: when it is over.

    The screen stays open.
    """
    drills = _drills(DrillKind.PLANNED)
    drill = drills[-1]
    if phase is not None:
        drill = _at(drills, phase, asks=asks)
    while len(stage.app.screen_stack) > 1:
        await stage.app.pop_screen()
    await stage.see(drill.beat_ms / 1000, [drill, _drills(DrillKind.REHEARSE)[-1]], exactly=True)
    screen = DrillScreen(drill)
    await stage.app.push_screen(screen)
    if not drill.is_over:
        screen.operator = ScreenOperator(lambda _: None, lambda _: None)
    screen.show_drill(drill)
    if asks and phase is not None:
        effect = describe_phase(phase, drill.options.fence)
        screen.post_message(DrillScreen.Asked(OpenQuestion(step_question(drill, phase, effect))))
    found = await stage.look()
    stage.app.workers.cancel_group(screen, "question")
    screen.operator = None
    return found


def _drills(kind: DrillKind) -> list[Drill]:
    return [drill for drill in kept.drills() if drill.kind is kind]


def _at(drills: list[Drill], phase: DrillPhase, *, asks: bool) -> Drill:
    """Return the drill as it was when a phase asked, or waited for something, or last ran."""
    during = [each for each in drills if each.record(phase).status is PhaseStatus.RUNNING]
    if asks:
        return during[0]
    waits = [each for each in during if "checks" not in (each.record(phase).live or "checks")]
    return (waits or during)[-1]


def drills_to_keep(drills: list[Drill]) -> list[Drill]:
    """Return the readings that pictures are drawn of."""
    planned = [each for each in drills if each.kind is DrillKind.PLANNED]
    rehearsals = [each for each in drills if each.kind is DrillKind.REHEARSE]
    return [
        rehearsals[-1],
        *(_at(planned, phase, asks=asks) for phase, asks, _ in MOMENTS),
        planned[-1],
    ]
