"""The console calls: for what waits for a person, has ended, or has become serious."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

from k2ktui.console import terminal
from k2ktui.console.calls import CallKind, Calls, list_calls, list_fleet_calls
from k2ktui.console.settings import SettingsFile
from k2ktui.engine.drill.checks import DrillKind, DrillPhase
from k2ktui.engine.drill.model import Drill
from k2ktui.present.drills import describe_wait
from k2ktui.watch.model import PartName
from tests.support.clusters.kafka import eventually
from tests.support.console.driver import ConsoleDriver, drive
from tests.support.console.sites import NAMES, SITE, mark, member, rows
from tests.support.console.tmux import TMUX, Tmux
from tests.support.console.views import NOON, Made, StubFeed, usual
from tests.support.drill.made_drills import (
    acted,
    fencing,
    new_drill,
    opened,
    rehearsed,
    stopped,
    switched_over,
    through,
)

HOSTILE = "bill\x1b]0;owned\x07\x9c\u202eing"


def to_confirm() -> Drill:
    return acted(through(new_drill(DrillKind.PLANNED), DrillPhase.STOP_CONSUMERS))


@pytest.mark.parametrize(
    ("drill", "step", "text"),
    [
        (to_confirm(), "apply", "apply waits to be confirmed"),
        (acted(fencing()), "fence-producers by hand", "Stop the producers on the source."),
        (fencing(), "fence-producers stopped", "no operator acts on it"),
        (stopped(), f"fence-producers failed {int(NOON * 1000)}", "fence-producers failed"),
        (acted(opened()), "watch-clients by hand", "Start producers and consumers on the target."),
        (acted(through(new_drill(DrillKind.REHEARSE), DrillPhase.PLAN)), "", ""),
        (rehearsed(), "", ""),
    ],
)
def test_what_waits_for_a_person(drill: Drill, step: str, text: str) -> None:
    acting = bool(drill.session)
    wait = describe_wait(drill, acting=acting)
    assert (wait is not None) == bool(step)
    if wait is not None:
        assert wait[0] == step and text in wait[1] and drill.id in wait[1]


def with_lost_source(made: Made) -> Made:
    made.errors[PartName.SOURCE] = "the source does not answer"
    return made


def kinds(calls: Calls, made: Made, after: float = 0.0, *, whole: bool = True) -> list[str]:
    found = calls.find_new(list_calls(made.view()), NOON + after, whole=whole)
    return [str(call.kind) for call in found]


def test_what_stands_at_the_start_calls_only_if_it_waits_for_a_person() -> None:
    made, calls = with_lost_source(usual()), Calls()
    made.drills = (rehearsed(), to_confirm())
    assert kinds(calls, made, whole=False) == ["waiting"]
    made.drills = (rehearsed(9), rehearsed(), to_confirm())
    assert kinds(calls, made, 5) == [], "the first whole view belongs to the start, too"
    made.drills = (rehearsed(3), *made.drills)
    assert kinds(calls, made, 10) == ["ended"]


def test_a_start_that_is_never_whole_ends() -> None:
    made, calls = usual(), Calls()
    assert kinds(calls, made, whole=False) == kinds(calls, made, 60, whole=False) == []
    assert kinds(calls, with_lost_source(made), 65, whole=False) == ["problem"]


def test_a_state_calls_once_also_if_it_comes_back_soon() -> None:
    made, calls = usual(), Calls()
    assert kinds(calls, made) == []
    made = with_lost_source(made)
    assert [kinds(calls, made, after) for after in (5, 10)] == [["problem"], []]
    made.errors.clear()
    assert kinds(calls, made, 15) == []
    assert kinds(calls, with_lost_source(made), 200) == []
    made.errors.clear()
    assert [kinds(calls, made, after) for after in (205, 510)] == [[], []]
    assert kinds(calls, with_lost_source(made), 600) == ["problem"], "it was over for long"
    assert kinds(calls, made, 5_000) == [], "polling was paused, and the source is still lost"
    made.drills = (stopped(),)
    assert [kinds(calls, made, after) for after in (5_605, 5_610)] == [["waiting"], []]
    again = stopped().record(DrillPhase.FENCE_PRODUCERS)
    again = replace(again, ended_ms=(again.ended_ms or 0) + 9_000)
    made.drills = (stopped().with_phase(again),)
    assert kinds(calls, made, 5_615) == ["waiting"], "the phase was tried again, and failed again"


def test_a_site_drill_ends_with_its_last_member_and_in_its_pipeline_with_its_own_drill() -> None:
    done, left_out = switched_over(), mark(7)
    drills = [member(n, done, left_out) for n in range(1, len(NAMES))]
    made = usual()
    made.drills = (drills[0],)
    assert [call.key for call in list_calls(made.view()) if call.kind is CallKind.ENDED] == [
        drills[0].id
    ]
    open_ = member(1, replace(to_confirm(), session=""), left_out)

    def ended(*drills: Drill) -> set[object]:
        return {c.key for c in list_fleet_calls(rows(*drills)) if c.kind is CallKind.ENDED}

    assert ended(open_, *drills[1:]) == ended(*drills[1:]) == set(), "one is open, or not read"
    assert ended(*drills) == {SITE}


def test_names_cannot_control_the_terminal() -> None:
    made = usual()
    made.group(HOSTILE, next(iter(made.mapped)), divergence=4_000)
    calls = list_calls(made.view())
    text = next(
        call.text for call in calls if call.kind is CallKind.PROBLEM and "bill" in call.text
    )
    assert text.isprintable()
    for given in (text, HOSTILE):
        written = terminal.notify(given, {"TERM": "xterm-256color"})
        assert written.startswith("\x1b]9;") and written.endswith("\x07")
        assert written[4:-1].isascii() and written[4:-1].isprintable()


@pytest.mark.parametrize(
    ("answer", "error", "passes"),
    [
        ("on\n", "", True),
        ("all\n", "", True),
        ("off\n", "", False),
        ("", "invalid option: allow-passthrough", True),
        ("", "no server running", False),
    ],
)
def test_tmux_passes_a_notification_on_only_where_it_says_so(
    monkeypatch: pytest.MonkeyPatch, answer: str, error: str, passes: bool
) -> None:
    done = mock.Mock(stdout=answer, stderr=error)
    monkeypatch.setattr(subprocess, "run", lambda *_, **__: done)
    written = terminal.notify("a", {"TMUX": "/tmp/tmux,1,0", "TMUX_PANE": "%0"})
    assert written == ("\x1bPtmux;\x1b\x1b]9;a\x07\x1b\\" if passes else "")


@pytest.mark.parametrize(
    "environ",
    [{"TERM": "linux"}, {"TERM": "screen.xterm"}, {"STY": "1"}, {"TERM": "tmux-256color"}],
)
def test_where_a_notification_cannot_pass_none_is_written(environ: dict[str, str]) -> None:
    assert terminal.notify("a", environ) == ""


def test_the_console_rings_and_each_call_can_be_switched_off(tmp_path: Path) -> None:
    path = tmp_path / "console.json"
    rung: list[str] = []

    async def flow(console: ConsoleDriver) -> None:
        app: Any = console.app
        app.bell = lambda: rung.append("bell")
        app.write_terminal = lambda text: rung.append(text.partition("20261121")[0])
        console.feed.made.drills = (fencing(),)
        await console.show()
        await console.show()
        await console.until(lambda: len(rung) > 1, "a notification, which a thread writes")
        assert rung == ["bell", "\x1b]9;k2ktui orders: drill "]
        await console.press("colon", *"calls bell", "enter")
        assert "calls: bell is off" in console.notices
        console.feed.made.drills = (stopped(),)
        await console.show()
        await console.until(lambda: len(rung) > 2, "a notification")
        assert rung[2:] == ["\x1b]9;k2ktui orders: drill "]
        await console.press("colon", *"calls waiting", "enter", "colon", *"calls bell", "enter")
        console.feed.made.drills = (to_confirm(),)
        await console.show()
        assert len(rung) == 3, "what waits calls no more"
        await console.press("colon", *"calls problem", "enter")
        assert "calls: waiting, problem are off" in console.notices

    with mock.patch.dict("os.environ", {"TERM": "xterm", "TMUX": "", "STY": ""}):
        drive(flow, usual(), settings=path)
    assert SettingsFile(path).settings.silent == {"waiting", "problem"}


def test_a_recording_calls_for_nothing() -> None:
    async def flow(console: ConsoleDriver) -> None:
        app: Any = console.app
        app.bell = mock.Mock()
        console.feed.made.drills = (fencing(),)
        await console.show()
        assert not app.bell.called

    drive(flow, feed=StubFeed(usual(), replay=True))


CONSOLE = """
from k2ktui.console.app import open_console
from k2ktui.console.session import Options, Session
from tests.support.console.views import StubFeed, usual
from tests.support.drill.made_drills import fencing
made = usual()
made.drills = (fencing(),)
open_console(Session(StubFeed(made), made.pair, options=Options()))
"""


@pytest.mark.slow
@pytest.mark.skipif(TMUX is None, reason="there is no tmux")
def test_tmux_marks_the_window_of_a_console_that_waits(tmp_path: Path) -> None:
    program = tmp_path / "console.py"
    program.write_text(CONSOLE)
    env = {"XDG_CONFIG_HOME": str(tmp_path), "XDG_STATE_HOME": str(tmp_path), "LANG": "C.UTF-8"}
    env["PYTHONPATH"] = str(Path(__file__).parents[2])
    with Tmux([sys.executable, str(program)], env) as tmux:
        tmux.sees("Overview")
        eventually(lambda: tmux.asks("#{window_bell_flag}") == "1", "the window's flag")
