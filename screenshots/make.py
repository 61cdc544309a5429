"""Draw the README's pictures from a recording of the real demo: ``python screenshots/make.py``.

``--check`` compares them with the files and fails where one differs; ``--take RECORDING`` makes
``demo.k2k`` of a longer recording (``k2ktui -f FILE --record RECORDING`` while a demo runs), with
``--as mirrormaker.k2k`` that of a demo with MirrorMaker 2 (``--compare mm2.properties`` too);
``--plan PLAN`` makes ``plan.json`` of a plan of the same demo (``k2ktui plan -f FILE -o PLAN``);
``--drill RECORDS`` makes ``drill.jsonl`` of the records of a drill, read each second while it runs.
"""

from __future__ import annotations

import argparse
import asyncio
import re
import sys
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import drill_frames
from textual.pilot import Pilot

from k2ktui.config.model import PipelineConfig
from k2ktui.console import header
from k2ktui.console.app import ConsoleApp
from k2ktui.console.screens.translate_plan import PlanScreen, Shown
from k2ktui.console.session import Options, Session
from k2ktui.console.themes import shipped_directory
from k2ktui.engine.plan import dump_plan, load_plan
from k2ktui.sync.flow import PipelineFlow
from k2ktui.watch.model import View
from k2ktui.watch.player import Player
from k2ktui.watch.recording import Recorder, Recording

HERE = Path(__file__).parent
DEMO, MIRRORMAKER, PLAN = "demo.k2k", "mirrormaker.k2k", "plan.json"
DRILL = "drill.jsonl"
KEPT = 60
SOMEBODY = ("ops", "bastion1")
# Web fonts would be fetched from elsewhere by whoever looks at a picture.
_FONTS = re.compile(r"@font-face \{.*?\}\s*", re.DOTALL)
_IDS = re.compile(r"terminal-\d+-")


@dataclass(frozen=True, slots=True)
class Picture:
    """A picture: what is pressed, and how large and in which theme it is drawn.

    With ``plan`` it is of a plan that was made of the real demo, kept under that name.
    """

    name: str
    keys: tuple[str, ...] = ()
    size: tuple[int, int] = (110, 34)
    theme: str = "k2k-dark"
    ascii: bool = False
    recording: str = DEMO
    plan: str = ""


PICTURES = (
    Picture("overview"),
    Picture("replication", ("2",)),
    Picture("partition", ("2", "enter")),
    Picture("groups", ("3",), (110, 16)),
    Picture("group", ("3", "enter"), (110, 16)),
    Picture("help", ("2", "question_mark"), (80, 24)),
    Picture("light", (), (80, 24), "k2k-light"),
    Picture("contrast", ("3",), (80, 24), "k2k-contrast"),
    Picture("ascii", (), (80, 24), "k2k-mono", True),
    Picture("translate", ("4",), (110, 30), plan=PLAN),
    Picture("jobs", ("5",), (110, 16)),
    Picture("compared", ("3",), (110, 16), recording=MIRRORMAKER),
    Picture("audit", ("3", "m"), (110, 30), recording=MIRRORMAKER),
)


class _Live:
    """A recording as if it was read now, because what acts is off in a recording."""

    replay = paused = False

    def __init__(self, player: Player) -> None:
        self._player = player

    def __getattr__(self, name: str) -> Any:
        return getattr(self._player, name)


_STILL_S = 0.3


async def drawn(picture: Picture) -> str:
    """Return a picture as SVG."""

    async def opens(app: ConsoleApp, pilot: Pilot[int]) -> list[str]:
        for key in picture.keys:
            await pilot.press(key)
            await pilot.pause()
        if picture.plan:
            await app.push_screen(_plan_screen(picture.plan, app.session.feed.now()))
        await app.workers.wait_for_complete()
        await pilot.pause()
        # Charts are drawn after the layout, and a panel follows the cursor once it rests.
        before, text = "", app.export_screenshot(title="k2ktui", simplify=True)
        while _IDS.sub("", before) != _IDS.sub("", text):
            await pilot.pause(_STILL_S)
            before, text = text, app.export_screenshot(title="k2ktui", simplify=True)
        return [text]

    return (await _open(picture, opens))[0]


async def drawn_drill() -> dict[str, str]:
    """Return the pictures of a drill, one of them moving, by name."""

    async def opens(app: ConsoleApp, pilot: Pilot[int]) -> list[str]:
        drills = drill_frames.read(HERE / DRILL, int(app.session.feed.now() * 1000))
        return await drill_frames.draw(app, pilot, drills)

    frames = await _open(Picture("drill", size=(80, 24), plan=PLAN), opens)
    return {"drill": frames[drill_frames.STILL], "drill-moving": drill_frames.animate(frames)}


async def _open(
    picture: Picture, opens: Callable[[ConsoleApp, Pilot[int]], Awaitable[list[str]]]
) -> list[str]:
    """Open the console on a recording, and return what ``opens`` has drawn."""
    player = Player(HERE / picture.recording, paused=True)
    player.number = len(player.times) - 1
    player.refresh()
    options = Options(
        theme=picture.theme, ascii=picture.ascii, themes=(shipped_directory(),), keys=HERE / "none"
    )
    feed = _Live(player) if picture.plan else player
    session = Session(feed, player.pair, files=("pipeline.yaml",), options=options)
    if picture.plan:
        config = PipelineConfig.model_construct(name=player.pair.pipeline)
        session.flow = PipelineFlow(config)
    app = ConsoleApp(session)
    try:
        async with app.run_test(size=picture.size) as pilot:
            while app.view is None or app.view.taken_at < player.times[-1]:
                await pilot.pause(0.05)
            pictures = await opens(app, pilot)
    finally:
        player.close()
    return [_IDS.sub("terminal-", _FONTS.sub("", text)) for text in pictures]


def _plan_screen(name: str, now: float) -> PlanScreen:
    """Return the screen of a plan that is kept, as if it had been made a moment ago."""
    plan = load_plan((HERE / name).read_text(), 0)
    plan = replace(plan, created_at=now, expires_at=now + 900, made_by="@".join(SOMEBODY))
    return PlanScreen(None, plan.rewind, Shown(plan))


def take(path: Path, end: int, name: str) -> None:
    """Keep the views of a recording before number ``end``, with somebody else's name in them."""
    kept = HERE / name
    recording = Recording(path)
    end = min(end, len(recording))
    kept.unlink(missing_ok=True)
    recorder = Recorder(kept)
    for number in range(max(0, end - KEPT), end):
        recorder.add(_of_somebody(recording.view(number)))
    recorder.close()
    kept.chmod(0o644)


def take_plan(path: Path) -> None:
    """Keep a plan, with somebody else's name and no path of this machine in it."""
    plan = load_plan(path.read_text(), 0)
    plan = replace(plan, made_by="@".join(SOMEBODY), files=("pipeline.yaml",))
    (HERE / PLAN).write_text(dump_plan(plan))


def _of_somebody(view: View) -> View:
    user, host = SOMEBODY
    runners = tuple(
        replace(
            runner,
            user=user,
            host=host,
            runner="-".join((host, *runner.runner.rsplit("-", 2)[1:])),  # host, pid, random
        )
        for runner in view.runners
    )
    return replace(view, runners=runners)


def main() -> int:
    """Return 1 if a picture is not as it should be."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--take", type=Path, metavar="RECORDING")
    parser.add_argument("--end", type=int, default=sys.maxsize, metavar="NUMBER")
    parser.add_argument("--plan", type=Path, metavar="PLAN")
    parser.add_argument("--drill", type=Path, metavar="RECORDS")
    parser.add_argument("--as", dest="name", default=DEMO, choices=(DEMO, MIRRORMAKER))
    options = parser.parse_args()
    if options.take:
        take(options.take, options.end, options.name)
    if options.plan:
        take_plan(options.plan)
    if options.drill:
        drill_frames.keep(options.drill, HERE / DRILL, "@".join(SOMEBODY))
    header.who = lambda: "@".join(SOMEBODY)
    different = []
    found = {picture.name: asyncio.run(drawn(picture)) for picture in PICTURES}
    found |= asyncio.run(drawn_drill())
    for name, text in found.items():
        path = HERE / f"{name}.svg"
        if options.check and (not path.exists() or path.read_text() != text):
            different.append(path.name)
        elif not options.check:
            path.write_text(text)
    if different:
        print(f"not as drawn now: {', '.join(different)}", file=sys.stderr)
    return 1 if different else 0


if __name__ == "__main__":
    sys.exit(main())
