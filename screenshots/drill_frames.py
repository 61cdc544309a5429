"""Screen 8 during a drill of the real demo: one picture, and a moving one of several moments."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from textual.pilot import Pilot

from k2ktui.console.app import ConsoleApp
from k2ktui.console.drill_operator import Question, ScreenOperator
from k2ktui.console.screens.drill_phases import DrillScreen
from k2ktui.engine.drill import Drill, PhaseStatus
from k2ktui.engine.drill_checks import DrillPhase
from k2ktui.engine.drill_steps import describe_phase
from k2ktui.engine.journal import DrillKey
from k2ktui.engine.journal_format import read_state_value, state_value

# In the JSON of a change, which is a text in the JSON of the drill.
_DIRECTORY = re.compile(rb'(\\"cwd\\": \\")[^"\\]*')

# Phases at whose last record before their end a frame is drawn, and whether it asks.
MOMENTS = (
    (DrillPhase.PREFLIGHT, False),
    (DrillPhase.FENCE_PRODUCERS, False),
    (DrillPhase.APPLY, True),
    (DrillPhase.VERIFY, False),
    (DrillPhase.FENCE_REPLICATOR, True),
    (DrillPhase.OPEN_TARGET, True),
    (DrillPhase.WATCH_CLIENTS, False),
)
SECONDS = 4.0
STILL = 1  # the moment of the picture that does not move
_EPOCH_MS = re.compile(rb"\b\d{13}\b")
_VIEW = re.compile(r'viewBox="0 0 ([\d.]+) ([\d.]+)"')


def keep(polled: Path, kept: Path, who: str) -> None:
    """Keep the moments of a drill, with somebody else's name and no path of this machine in it.

    Args:
        polled: lines of a drill's id and its record on the target, in the order of their reading.
        kept: the file to write, in the same form.
        who: the name.
    """
    drills = read(polled)
    last = drills[-1]
    found = []
    for phase, _ in MOMENTS:
        during = [each for each in drills if each.record(phase).status is PhaseStatus.RUNNING]
        lives = [each.record(phase).live for each in during]
        waits = [d for d, live in zip(during, lives, strict=True) if live and "checks" not in live]
        found += (waits or during)[-1:]
    host, who_host = last.started_by.partition("@")[2], who.partition("@")[2]
    here = f"{Path(last.files[0]).parent}/".encode()
    with kept.open("wb") as file:
        for each in (*found, last):
            value = state_value(replace(each, session=""))
            value = value.replace(here, b"").replace(last.started_by.encode(), who.encode())
            value = re.sub(rb"\b%s\b" % re.escape(host.encode()), who_host.encode(), value)
            value = _DIRECTORY.sub(rb"\1/srv/k2ktui", value)  # of the job that was stopped
            file.write(each.id.encode() + b" " + value + b"\n")


def read(path: Path, end_ms: int = 0) -> list[Drill]:
    """Read the records of a drill, with all times moved so that the last one is of ``end_ms``."""
    found = _read(path, 0)
    return _read(path, end_ms - found[-1].beat_ms) if end_ms else found


def _read(path: Path, shift_ms: int) -> list[Drill]:
    def moved(time: re.Match[bytes]) -> bytes:
        return b"%d" % (int(time[0]) + shift_ms)

    found = []
    for line in path.read_bytes().splitlines():
        drill_id, _, value = line.partition(b" ")
        value = _EPOCH_MS.sub(moved, value) if shift_ms else value
        drill = read_state_value(DrillKey(drill_id.decode()), value)
        assert isinstance(drill, Drill)
        found.append(drill)
    return found


async def draw(app: ConsoleApp, pilot: Pilot[int], drills: Sequence[Drill]) -> list[str]:
    """Return screen 8 at each of these moments as SVG."""
    pictures = []
    await pilot.press("8")
    await pilot.pause()
    below = app.screen
    for drill, (phase, asks) in zip(drills, (*MOMENTS, (None, False)), strict=True):
        # As of the moment at which it was recorded.
        app.session.feed.now = lambda at=drill.beat_ms / 1000: at
        screen = DrillScreen(drill)
        await app.push_screen(screen)
        await pilot.pause()
        if not drill.is_over:
            screen.operator = ScreenOperator(lambda _: None, lambda _: None)
        screen.show_drill(drill)
        if asks and phase is not None:
            effect = describe_phase(phase, drill.options.fence)
            screen.post_message(DrillScreen.Asked(Question(drill, phase, effect)))
        await pilot.pause()
        await pilot.pause()
        pictures.append(app.export_screenshot(title="k2ktui", simplify=True))
        app.workers.cancel_group(screen, "question")
        screen.operator = None
        while app.screen is not below:
            app.pop_screen()
            await pilot.pause()
    return pictures


def animate(pictures: Sequence[str]) -> str:
    """Return one SVG that shows pictures of the same size in turn, without end."""
    match = _VIEW.search(pictures[0])
    assert match is not None
    width, height = match.groups()
    count = len(pictures)
    rules = [".frame { visibility: hidden; }"]
    frames = []
    for number, picture in enumerate(pictures):
        begin, end = 100 * number / count, 100 * (number + 1) / count
        name = f"frame-{number}"
        rules.append(
            f"@keyframes {name} {{ 0% {{ visibility: {'hidden' if number else 'visible'}; }} "
            f"{begin:.3f}% {{ visibility: visible; }} {end:.3f}% {{ visibility: hidden; }} }}\n"
            f"#{name} {{ animation: {name} {count * SECONDS:g}s step-end infinite; }}"
        )
        inner = picture.replace("terminal-", f"t{number}-")
        frames.append(f'<g class="frame" id="{name}">{inner}</g>')
    style = "\n".join(rules)
    return (
        f'<svg viewBox="0 0 {width} {height}" xmlns="http://www.w3.org/2000/svg">\n'
        f"<style>{style}</style>\n" + "\n".join(frames) + "\n</svg>\n"
    )
