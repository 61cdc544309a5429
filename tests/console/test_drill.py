"""Screen 8 with made drills: what it shows, and which keys are possible."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from k2ktui.config.drill import DrillHaproxy, DrillRedirect, DrillSettings
from k2ktui.config.model import PipelineConfig
from k2ktui.console.screens.drill_facts import is_taken_back, time_phases, took_cell
from k2ktui.console.screens.drill_phases import DrillScreen
from k2ktui.console.session import Options, Session
from k2ktui.console.widgets.drill_dialog import DrillDialog
from k2ktui.console.widgets.text_dialog import TextDialog
from k2ktui.console.widgets.text_lines import TextLines
from k2ktui.drill import operations
from k2ktui.drill.progress import list_phases
from k2ktui.engine.drill.checks import DrillKind, DrillPhase
from k2ktui.engine.drill.model import (
    Change,
    ChangeKind,
    ChangeStatus,
    Drill,
    DrillStatus,
    new_phases,
)
from k2ktui.engine.drill.steps import turn_into_disaster
from k2ktui.kafka.properties.translation import load_checked
from k2ktui.present.drills import read_share
from k2ktui.present.formatting import UNICODE
from k2ktui.sync.flow import Flow
from k2ktui.watch.model import PartName, PipelinePair
from k2ktui.watch.player import Player
from k2ktui.watch.recording import Recorder
from tests.support.console.driver import ConsoleDriver, Steps, drive, drive_session, made_session
from tests.support.console.pictures import ONE, SIZES, THEMES, compare_screen, each_screen
from tests.support.console.views import Made, StubFeed, usual
from tests.support.drill.made_drills import (
    NOON_MS,
    acted,
    denied,
    fencing,
    listed,
    opened,
    rehearsed,
    stopped,
    switched_over,
)

FLOW = Flow(PipelineConfig.model_construct(name="orders"))
DRILLS = {
    "drills": (acted(fencing()), stopped(), rehearsed()),
    "drill-new": (),
    "drill-fencing": (acted(fencing()),),
    "drill-failed": (stopped(),),
    "drill-opened": (opened(),),
    "drill-report": (stopped(),),
    "drill-done": (rehearsed(),),
    "drill-checks": (stopped(),),
}
KEYS = {
    "drills": (),
    "drill-checks": ("c",),
    "drill-new": ("N", "down"),
    "drill-report": ("enter", "v"),
}
# What differs from another state in its texts.
TEXTS = ("drill-failed", "drill-opened", "drill-done")


def made(*drills: Drill) -> Made:
    made_view = usual()
    made_view.drills = drills
    return made_view


@each_screen(DRILLS)
def test_screens_look_as_they_did(screen: str) -> None:
    async def opens(console: ConsoleDriver) -> None:
        await console.press("8")
        # Not waiting for workers: one waits for the answer of a dialog.
        await console.pilot.press(*KEYS.get(screen, ("enter",)))
        await console.pilot.pause()

    compare_screen(
        opens,
        made(*DRILLS[screen]),
        screen,
        sizes=ONE if screen in TEXTS else SIZES,
        themes=THEMES if screen == "drill-fencing" else (),
        files=("orders.yaml",),
        flow=FLOW,
    )


def watch(steps: Steps, *drills: Drill, **options: Any) -> None:
    """Open screen 8 on drills that nothing runs; dialogs may stay open."""
    drive_session(made_session(made(*drills), **options), steps, screen="8")


async def opens(console: ConsoleDriver) -> None:
    await console.press("enter")
    await console.until(lambda: isinstance(console.screen, DrillScreen), "opened")
    await console.settle()


@pytest.mark.parametrize("key", ["R", "D", "F"])
def test_a_second_operator_watches_and_cannot_act(key: str) -> None:
    async def steps(console: ConsoleDriver) -> None:
        await opens(console)
        await console.sees("ann@bastion2 acts on it", "You watch; O takes it over")
        await console.press(key)
        await console.sees("ann@bastion2 acts on it; O takes it over")
        assert isinstance(console.screen, DrillScreen)
        changed = console.feed.made.drills[0]
        record = replace(changed.phases[2], live="no write for 29 s of 30 s")
        console.feed.made.drills = (changed.with_phase(record),)
        await console.show()
        await console.sees("no write for 29 s of 30 s")
        await console.press("O")
        await console.sees("changes nothing from then on", "type orders to take over")
        await console.press("escape")

    watch(steps, acted(fencing()))


def test_a_drill_without_an_operator_is_resumed_after_the_name_is_typed() -> None:
    async def steps(console: ConsoleDriver) -> None:
        await opens(console)
        await console.sees("No operator acts on it: R resumes it.")
        assert "▲ stopped" in console.line("3 fence-producers")
        await console.press("O")
        await console.sees("no other operator acts on it")
        await console.press("R")
        await console.sees("k2ktui drill resume", "type orders to resume")
        await console.press("escape")
        await console.until(lambda: isinstance(console.screen, DrillScreen), "closed")

    watch(steps, acted(fencing(), seconds_ago=60))


def test_after_the_target_was_opened_there_is_no_way_back() -> None:
    async def steps(console: ConsoleDriver) -> None:
        await opens(console)
        await console.sees("You cannot go back: the target is open.")
        await console.press("X")
        await console.sees("Abort: the target is open; the report says what is left")
        await console.press("F")
        await console.sees("Fence again: the target is open")

    watch(steps, opened())


def test_an_abort_shows_what_it_restores_with_escaped_names() -> None:
    async def steps(console: ConsoleDriver) -> None:
        await opens(console)
        await console.sees("X aborts, and restores 1 change")
        await console.press("X")
        await console.sees("Restores, the last change first:", r"on payments\x1b[31m\u202e to")
        assert denied().what not in console.text
        await console.press("escape")
        await console.until(lambda: isinstance(console.screen, DrillScreen), "closed")
        await console.press("v")
        await console.sees("12 records were written to", r"payments\x1b[31m\u202e-0 in 30 s")
        await console.press("escape")
        await console.until(lambda: isinstance(console.screen, DrillScreen), "closed")
        await console.press("enter")
        await console.sees("3 fence-producers: failed", "Denies Write", "D10 open transactions")

    watch(steps, stopped())


@pytest.mark.parametrize(("owner", "named"), [("", "another operator"), ("a" * 99, "a" * 59 + "…")])
def test_nobody_acts_beside_an_operator_whose_record_has_no_name_or_a_long_one(
    owner: str, named: str
) -> None:
    async def steps(console: ConsoleDriver) -> None:
        await opens(console)
        screen = console.screen
        assert isinstance(screen, DrillScreen)
        assert screen.refusal("resume") == f"{named} acts on it; O takes it over"
        assert screen.refusal("take_over") == ""

    watch(steps, replace(acted(stopped()), owner=owner))


def test_a_planned_drill_whose_source_is_lost_offers_to_continue_without_it() -> None:
    async def steps(console: ConsoleDriver) -> None:
        await opens(console)
        assert "D continues without it" not in console.text
        console.feed.made.errors = {PartName.SOURCE: "no answer"}
        await console.show()
        await console.sees("The source does not answer: D continues without it.")
        console.feed.made.drills = (acted(stopped()),)
        await console.show()
        await console.sees("The source does not answer.", "You watch; O takes it over")
        await console.press("D")
        await console.sees("ann@bastion2 acts on it; O takes it over")
        console.feed.made.drills = (replace(stopped(), beat_ms=NOON_MS),)
        await console.show()
        await console.press("D")
        await console.sees("--as disaster", "type orders to continue without the source")
        await console.press("escape")
        console.feed.made.drills = (turn_into_disaster(replace(stopped(), beat_ms=NOON_MS)),)
        await console.show()
        await console.sees("2 source-lost")
        await console.press("D")
        await console.sees("only a planned drill or a failback continues")

    watch(steps, stopped())


@pytest.mark.parametrize("size", SIZES)
def test_the_checks_of_a_drill_are_a_table_with_what_failed_first(size: tuple[int, int]) -> None:
    async def steps(console: ConsoleDriver) -> None:
        await console.press("c")  # from the list
        lines = console.panel("Checks").splitlines()
        assert lines[1].split()[:3] == ["✗", "fail", "D39"]
        assert [line.split()[1] for line in lines[2:5]] == ["not", "fail", "pass"]
        assert "1 failed, blocking" in console.text
        if size[0] < 120:
            await console.press("enter")
        shown = " ".join(console.panel("D39 producers fenced").split())
        for text in ("Passes if the source", "Found 12 records", "Fix Stop the producers that"):
            assert text in shown, shown
        assert "Stops failback, planned" in shown
        await console.press(*["escape"] * (2 if size[0] < 120 else 1))
        await console.press("enter", "c", "z")  # from the drill; those that passed are hidden
        assert "D01" not in console.panel("Checks") and "D28" in console.panel("Checks")

    drive_session(made_session(made(stopped())), steps, size, screen="8")


def test_a_failed_check_is_shown_with_its_fix_and_can_be_accepted() -> None:
    async def steps(console: ConsoleDriver) -> None:
        await opens(console)
        await console.sees("fence-producers failed: records were written", "accept D39 with A")
        await console.press("enter")
        await console.sees("Fix: Stop the producers")
        await console.press("escape")
        await console.press("A")
        await console.sees("in spite of these findings", "D39 producers fenced: 12 records")
        await console.sees("--accept D39", "type orders to accept")
        await console.press("escape")
        accepted = replace(stopped().options, accepted=("D39",))
        console.feed.made.drills = (replace(stopped(), options=accepted),)
        await console.show()
        await console.sees("Correct it and press R.")
        await console.press("A")
        await console.sees("Accept: no failed check has stopped the drill")

    watch(steps, stopped())


def test_changes_are_refused_in_a_read_only_session_and_in_a_recording() -> None:
    async def steps(console: ConsoleDriver) -> None:
        await console.press("N")
        await console.sees("New drill: ")
        assert not isinstance(console.screen, DrillDialog)
        await opens(console)
        await console.press("X")
        await console.sees("Abort: ")
        assert isinstance(console.screen, DrillScreen)

    watch(steps, stopped(), read_only=True)

    async def replayed(console: ConsoleDriver) -> None:
        await console.press("8")
        await console.sees("No drill is in this recording.")

    drive(replayed, feed=StubFeed(usual(), replay=True))


def test_what_is_not_known_yet_is_not_called_none() -> None:
    unread = made()
    unread.unread = {PartName.STATE}

    async def steps(console: ConsoleDriver) -> None:
        await console.press("8")
        assert "No drill yet" not in console.text
        console.feed.made.unread = set()
        await console.show()
        await console.sees("No drill yet. N starts one")

    drive(steps, unread)


def test_a_new_drill_is_chosen_and_shown_before_it_begins() -> None:
    async def steps(console: ConsoleDriver) -> None:
        await console.press("N")
        await console.sees("Touches no application and stops nothing.")
        await console.press("down", "down", "tab", "(", "enter")
        await console.sees("expected a valid regular expression")
        await console.press("backspace")
        await console.type("bill")
        await console.press("enter")
        await console.sees("Start a planned drill of the groups that match bill")
        await console.sees("12 phases: preflight, lag, fence-producers, drain")
        await console.sees("You confirm each of these when it is next: fence-producers, apply,")
        await console.sees("--fence acl", "type orders to start")
        await console.press("escape")

    watch(steps)


def test_a_new_drill_of_a_file_with_a_name_cuts_clients_off() -> None:
    proxy = DrillHaproxy(socket="/run/h.sock", source=("kafka/east",), target=("kafka/west",))
    redirect = DrillRedirect(name="kafka:9092", haproxy=proxy)
    config = PipelineConfig.model_construct(name="orders", drill=DrillSettings(redirect=redirect))
    session = made_session(made())
    session.flow = Flow(config)

    async def steps(console: ConsoleDriver) -> None:
        await console.press("N", "down", "enter")
        await console.sees("13 phases: preflight, lag, fence-producers, drain")
        await console.sees("cut-off, close the clients' way to the source by")
        await console.sees("redirect, lead clients of kafka:9092 to the target", "--fence cutoff")
        await console.press("escape")

    drive_session(session, steps, screen="8", size=(120, 40))


@pytest.mark.parametrize("environment", ["", "production"])
def test_a_rehearsal_asks_once_and_for_the_name_in_production_only(
    environment: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun: list[DrillKind] = []

    def start(_: object, kind: DrillKind, *__: object) -> Drill:
        begun.append(kind)
        return rehearsed()

    monkeypatch.setattr(operations, "start_drill", start)

    async def steps(console: ConsoleDriver) -> None:
        await console.press("N", "enter")
        await console.sees("no application is touched")
        if environment:
            await console.sees("type orders to start", "then Enter, or Tab and space")
        else:
            assert not console.screen.query("#confirm-name")
            await console.sees("Enter or space applies; Esc cancels")
        assert not begun
        await console.confirm("orders")
        await console.until(lambda: begun, "begun")
        assert begun == [DrillKind.REHEARSE]

    session = made_session(usual(PipelinePair("orders", environment)))
    session.unlocked = bool(environment)
    drive_session(session, steps, screen="8")


def test_enter_confirms_the_phases_of_the_manual() -> None:
    manual = (Path(__file__).parents[2] / "docs" / "console.md").read_text()
    listed_there = re.search(r"what an abort takes back \(([^)]*)\)", manual)
    assert listed_there
    phases = {phase for phase in DrillPhase if is_taken_back(phase)}
    assert {f"`{phase}`" for phase in phases} == set(re.split(r",\s+", listed_there[1]))
    assert DrillPhase.OPEN_TARGET not in phases
    assert not is_taken_back("before-apply") and not is_taken_back("")


def test_dialogs_show_their_fields_and_buttons_on_a_small_terminal() -> None:
    async def steps(console: ConsoleDriver) -> None:
        await console.press("N")
        await console.sees("groups: regular expression", "up, down choose")
        await console.press("down", "enter")
        await console.sees("12 phases", "type orders to start", "Start  ", "Cancel")
        await console.press("escape")

    drive_session(made_session(made()), steps, (60, 20), screen="8")


def test_dialogs_are_ascii_where_the_terminal_is() -> None:
    async def steps(console: ConsoleDriver) -> None:
        await console.press("N")
        await console.sees("New drill")
        assert console.text.isascii(), ascii(console.text)
        await console.press("down", "enter")
        await console.sees("type orders to start")
        assert console.text.isascii(), ascii(console.text)
        assert console.widget("#confirm-name").region.height == 3
        await console.press("escape")

    watch(steps, ascii=True)


def test_the_report_is_exported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)

    async def steps(console: ConsoleDriver) -> None:
        await opens(console)
        await console.press("e", "enter")
        await console.sees("written:")

    watch(steps, rehearsed())
    files = {path.suffix: path.read_text() for path in tmp_path.iterdir()}
    assert set(files) == {".json", ".csv", ".md"}
    assert json.loads(files[".json"])["id"] == rehearsed().id
    assert files[".md"].startswith(f"# Drill {rehearsed().id}: rehearse of")
    assert "shadow-groups" in files[".csv"]


def test_a_failback_is_chosen_with_what_happens_to_uncopied_records() -> None:
    async def steps(console: ConsoleDriver) -> None:
        await console.press("N")
        await console.until(lambda: isinstance(console.screen, DrillDialog), "a dialog")
        await console.pilot.press(*["down"] * 5)
        await console.sees("failback: copies uncopied records", "With the reverse pipeline's file.")
        await console.press("enter")
        await console.sees(
            "Start a failback drill", "14 phases: source-back, tail", "--tail replay"
        )
        await console.press("escape")

    watch(steps)


def test_what_happens_to_a_listed_tail_is_chosen_later() -> None:
    async def steps(console: ConsoleDriver) -> None:
        await opens(console)
        await console.sees(
            "tail waits for your choice: 13,128", "T chooses what happens to these records."
        )
        await console.press("T")
        await console.sees("copy them", "export them to files", "discard them")
        await console.sees("are copied first,")
        await console.press("down", "enter")
        await console.sees("k2ktui drill resume", "--tail export", "type orders to continue")
        await console.press("escape")
        await console.until(lambda: isinstance(console.screen, DrillScreen), "closed")

    watch(steps, listed())


def test_without_a_listed_tail_there_is_nothing_to_choose() -> None:
    async def steps(console: ConsoleDriver) -> None:
        await opens(console)
        await console.press("T")
        await console.sees("Tail: no records wait for a choice")

    watch(steps, stopped())


def test_after_a_switchover_the_way_back_is_shown_and_not_how_to_copy_again() -> None:
    async def steps(console: ConsoleDriver) -> None:
        await opens(console)
        await console.sees("The pipeline is fenced. The way back: k2ktui jobs start -f p-reverse")
        await console.sees("k2ktui drill failback -f p-reverse.yaml")
        assert "drill release" not in console.text

    watch(steps, switched_over())


@pytest.mark.parametrize("size", [(80, 24), (120, 35)])
@pytest.mark.parametrize("status", [ChangeStatus.MADE, ChangeStatus.UNDONE])
def test_a_drill_over_some_topics_shows_their_way_back(
    tmp_path: Path, size: tuple[int, int], status: ChangeStatus
) -> None:
    """Until they were led back, or are copied again."""
    phase, kind = DrillPhase.MOVE_TOPICS, ChangeKind.MOVED_TOPICS
    drill = replace(
        switched_over(),
        topics=("clicks",),
        phases=new_phases(DrillKind.PLANNED, ("clicks",)),
        changes=(Change(phase, kind, "move", "", "", "", status),),
    )
    command = "k2ktui drill failback -f p-reverse.yaml --topics clicks"

    async def steps(console: ConsoleDriver) -> None:
        await opens(console)
        said = " ".join(console.panel("Result").split())
        assert (command in said) is (status is ChangeStatus.MADE), said

    file = tmp_path / "p.yaml"
    file.write_text(
        """
        name: orders
        source: {kafka: {common: {bootstrap.servers: 'a:1'}}}
        target: {kafka: {common: {bootstrap.servers: 'b:1'}}}
        replication: [{source: {topic: ['.*']}}, {sink: {topic: source, partition: source}}]
        """
    )
    session = made_session(made(drill))
    session.flow = Flow(load_checked((str(file),)).config)
    drive_session(session, steps, size, screen="8")


@pytest.mark.parametrize("ascii_only", [False, True])
def test_what_happens_now_stands_beside_the_phases_with_its_evidence(ascii_only: bool) -> None:
    async def steps(console: ConsoleDriver) -> None:
        await opens(console)
        now = console.panel("Now")
        for text in (
            "D39 producers fenced: 12 records",
            "Fix: Stop the producers",
            "Correct it and press R",
        ):
            assert text in now, now
        assert "1 failed, blocking" in console.panel("Checks")
        assert "2 to look at" in console.panel("Checks")
        assert "bound 10,000" in console.panel("RPO so far")
        assert "last rehearsal 7.5 s" in console.panel("RTO so far")
        assert "about to: deny Write" in console.panel("Journal")
        await console.press("up")
        await console.sees("lag 1,200 records, at most 10,000")
        assert "done" in console.panel("2 lag")
        if ascii_only:
            assert console.text.isascii(), ascii(console.text)

    session = made_session(made(stopped(), rehearsed()), ascii=ascii_only)
    drive_session(session, steps, (120, 35), screen="8")


def test_the_drill_under_the_cursor_is_shown_in_time_beside_the_list() -> None:
    async def steps(console: ConsoleDriver) -> None:
        assert "fence-producers" in console.panel(stopped().id)
        await console.press("down")
        # Once the cursor rests.
        await console.until(lambda: "shadow-groups" in console.text, "the phases of the rehearsal")
        beside = console.panel(rehearsed().id)
        assert "shadow-groups" in beside and "▇" in beside, beside

    drive_session(made_session(made(stopped(), rehearsed())), steps, (120, 35), screen="8")


def test_the_time_of_a_running_phase_changes_once_a_second() -> None:
    drill = fencing()
    rows = list_phases(drill)
    at = [time_phases(rows, drill.beat_ms, NOON_MS + ms, 20, UNICODE) for ms in (0, 900, 1000)]
    assert at[0] == at[1] != at[2]
    assert [took_cell(phase).text for phase in at[2][:4]] == ["1.5 s", "1.5 s", "21 s", ""]


@pytest.mark.parametrize(
    ("live", "share"),
    [
        ("no write for 12 s of 30 s", 0.4),
        ("no write for 1 m 30 s of 3 m 0 s", 0.5),
        ("2 of 4 groups read on the target", 0.5),
        ("1,200 of 12,000 shadow groups read", 0.1),
        ("commit 6 offsets of 4 groups", None),
        ("5 of 4", None),
        ("", None),
    ],
)
def test_how_far_a_phase_is_is_read_from_what_it_shows(live: str, share: float | None) -> None:
    assert read_share(live) == share


def test_an_opened_phase_follows_the_drill_and_phases_not_reached_say_so() -> None:
    async def steps(console: ConsoleDriver) -> None:
        await opens(console)
        await console.press("end", "enter")
        await console.until(lambda: isinstance(console.screen, TextDialog), "its texts")
        await console.sees("waiting")
        drill = console.feed.made.drills[0]
        over = replace(drill, status=DrillStatus.ABORTED, ended_ms=NOON_MS, beat_ms=NOON_MS)
        console.feed.made.drills = (over,)
        await console.show()
        # Of the dialog only: the screen below it is drawn at its own time.
        title, body = (
            console.screen.query_one("#text-title", TextLines),
            console.widget("#text-body"),
        )
        await console.until(lambda: "not run" in title.text, "what became of it")
        assert "waiting" not in f"{title.text}\n{body.render()}"
        await console.press("escape")
        # A covered screen is drawn again once it is uncovered.
        await console.until(lambda: "waiting" not in console.text, "the phases")
        assert "· not run" in console.text

    watch(steps, acted(fencing()))


def test_a_night_is_replayed_frame_by_frame(tmp_path: Path) -> None:
    made, recorder = usual(), Recorder(tmp_path / "night.k2k")
    for drill in (acted(fencing()), stopped(), rehearsed()):
        made.drills = (drill,)
        recorder.add(made.view())
        made.now += 5
    recorder.close()
    player = Player(tmp_path / "night.k2k", paused=True)

    async def steps(console: ConsoleDriver) -> None:
        await console.sees("replay 1/3")
        await console.press("8", "enter")
        await console.sees("ann@bastion2 acts on it", "no write for 12 s of")
        assert "O takes it over" not in console.text
        await console.press("]")
        await console.sees("replay 2/3", "D10 open transactions", "No operator acts on it.")
        assert "press R" not in console.text
        await console.press("R")
        await console.sees("this is a recording")
        await console.press("[")
        await console.sees("replay 1/3", "no write for 12 s of")
        await console.press("q", "]", "]")
        await console.sees("replay 3/3", "last rehearsed")

    drive_session(Session(player, player.pair, options=Options()), steps, (120, 35))
