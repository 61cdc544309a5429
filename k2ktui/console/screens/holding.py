"""Hold partitions and topics, and release them: what Replication asks before it does.

Topics that a drill has moved are not copied either; they are released as ``drill release --topics``
does it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import TypeVar

from k2ktui.config.model import PipelineConfig
from k2ktui.console import cli_equivalent
from k2ktui.console.event_log import EventKind
from k2ktui.console.screens.base import ConsoleScreen
from k2ktui.console.widgets.choice_dialog import Choice, ChoiceDialog
from k2ktui.console.widgets.confirm import Confirm, list_first
from k2ktui.console.widgets.text_prompt import TextPrompt
from k2ktui.engine.moves.journal import HOLD, RELEASE
from k2ktui.engine.records.hold import HoldKey
from k2ktui.engine.records.moved_topic import MovedTopic
from k2ktui.errors import K2kError
from k2ktui.present.formatting import Cell, Line, Tone
from k2ktui.present.holds import change_text
from k2ktui.sync.holds import HoldChange, plan_hold, plan_release, write_change
from k2ktui.sync.moves.plans import whoami
from k2ktui.text import counted, list_names, safe_message, safe_text
from k2ktui.watch.model import PartitionRow

T = TypeVar("T")
_GROUP = "hold"
_NAMED = 3
_MOVED = "moved"
_UNCHANGED = "Nothing was held or released."
_COPY_AGAIN = (
    "Copied again, from where their copy ended. Only if nobody uses them on the target; to bring "
    "their groups back, use a failback instead."
)
_REASON = "Reason, for the journal and the views; Enter without one:"
_EFFECTS = {
    HOLD: "Not copied until they are released; position and mappings stay. Everything else is "
    "copied meanwhile. Runs follow within seconds.",
    RELEASE: "Copied again, from where they were held.",
}
_PLANS: dict[str, Callable[[PipelineConfig, Sequence[HoldKey], str], HoldChange]] = {
    HOLD: plan_hold,
    RELEASE: plan_release,
}

Named = dict[str, tuple[str, list[HoldKey]]]


async def hold_or_release(
    screen: ConsoleScreen, config: PipelineConfig, rows: Sequence[PartitionRow]
) -> None:
    """Ask what of these partitions to hold or release, and why; confirm, and do it.

    Call it in a worker of the group ``ask``.
    """
    choices, named = _offer(rows)
    moved = sorted({row.status.topic for row in rows if row.status.moved_by})
    if moved:
        what = safe_text(moved[0], 60) if len(moved) == 1 else counted(len(moved), "moved topic")
        choices.append(Choice(_MOVED, f"let {what} be copied again", _COPY_AGAIN))
    chosen = await screen.ask(ChoiceDialog("Hold or release", "what", choices))
    if chosen is None:
        return
    if chosen == _MOVED:
        await _copy_again(screen, moved)
        return
    operation, keys = named[chosen]
    why = await screen.ask(TextPrompt(_REASON, canceled=_UNCHANGED, optional=True))
    if why is None:
        return
    why = why.strip()
    files = screen.session.files
    command = cli_equivalent.hold(files, operation, [key.name for key in keys], why)
    title, name = operation.capitalize(), screen.session.pair.pipeline

    def describe(change: HoldChange) -> list[str | Line]:
        if change.holds:
            return [*_lines(change), "", (Cell(safe_message(command), Tone.MUTED),)]
        screen.inform("\n".join(change.notes), "warning")
        return []

    # What is copied after a release stays.
    dialog = Confirm(title, None, name, title, canceled=_UNCHANGED, undoable=operation == HOLD)
    change = await screen.ask_about(
        dialog, _reader(screen, lambda: _PLANS[operation](config, keys, why)), describe
    )
    if change is None:
        return
    may = screen.session.access
    done = await _on_thread(screen, lambda: write_change(config, change, may), command)
    if done is not None:
        what = list_names([hold.key.name for hold in done.holds], _NAMED)
        become = "held" if done.is_hold else "released"
        _report(screen, f"{what}: {become}, journal entry {done.entry}", command)


def _offer(rows: Sequence[PartitionRow]) -> tuple[list[Choice], Named]:
    """Return what can be done to these partitions, and what each choice means."""
    choices: list[Choice] = []
    named: Named = {}
    for operation, of_operation in (
        (HOLD, [row for row in rows if not (row.status.hold or row.status.moved_by)]),
        (RELEASE, [row for row in rows if row.status.hold]),
    ):
        if not of_operation:
            continue
        partitions = [HoldKey(*row.key) for row in of_operation]
        topics = [HoldKey(topic) for topic in dict.fromkeys(key.topic for key in partitions)]
        for kind, keys in (("partition", partitions), ("topic", topics)):
            what = safe_text(keys[0].name, 60) if len(keys) == 1 else counted(len(keys), kind)
            whole = ", all partitions" if kind == "topic" else ""
            choice_id = f"{operation}-{kind}"
            text = _EFFECTS[operation]
            choices.append(Choice(choice_id, f"{operation} {what}{whole}", text))
            named[choice_id] = operation, keys
    return choices, named


async def _copy_again(screen: ConsoleScreen, topics: Sequence[str]) -> None:
    """Confirm, and let a pipeline copy topics again that drills have moved."""
    # Imported late: what drills consist of is loaded when one is wanted.
    from k2ktui.drill import operations
    from k2ktui.drill.operator import UnaskedOperator
    from k2ktui.drill.ownership import Actor

    flow, files, may = screen.session.flow, screen.session.files, screen.session.access
    assert flow is not None
    pattern = cli_equivalent.pattern_of(topics)

    def plan() -> tuple[list[MovedTopic], list[str]]:
        moves = operations.find_released(flow, pattern)
        return moves, operations.preview_release(flow, moves)

    command = cli_equivalent.drill_release(files, topics)

    def describe(planned: tuple[list[MovedTopic], list[str]]) -> list[str | Line]:
        moves, kept = planned
        return [
            f"{_COPY_AGAIN} The other topics stop for seconds, in every run.",
            "",
            *list_first(
                moves, lambda move: f"{safe_text(move.topic)}: {safe_message(move.describe())}"
            ),
            "",
            *((Cell(line, Tone.WARN),) for line in kept),
            (Cell(safe_message(command), Tone.MUTED),),
        ]

    name = screen.session.pair.pipeline
    dialog = Confirm("Copy again", None, name, "Copy again", canceled=_UNCHANGED)
    planned = await screen.ask_about(dialog, _reader(screen, plan), describe)
    if planned is None:
        return
    moves, _ = planned

    def release() -> list[str]:
        return operations.release_moved(Actor(flow, files, may, UnaskedOperator()), moves)

    drills = await _on_thread(screen, release, command)
    if drills is not None:
        what = list_names([move.topic for move in moves], _NAMED)
        by = list_names(drills, _NAMED)
        _report(screen, f"{what}: copied again, moved by {by}", command)


def _lines(change: HoldChange) -> list[str | Line]:
    reason = f", because: {safe_text(change.why, 200)}" if change.why else ""
    return [
        _EFFECTS[change.operation],
        "",
        *list_first(change.holds, lambda hold: change_text(hold, change)),
        "",
        *((Cell(safe_message(note), Tone.WARN),) for note in change.notes),
        f"Journal: by {safe_text(whoami())}{reason}.",
    ]


def _report(screen: ConsoleScreen, text: str, command: str) -> None:
    screen.console.events.add(EventKind.DONE, safe_message(text), command)
    screen.inform(text, "information")
    screen.session.feed.refresh()


def _reader(
    screen: ConsoleScreen, job: Callable[[], T], command: str = ""
) -> Callable[[Callable[[T], None], Callable[[K2kError], None]], bool]:
    """Return what begins a job on a thread, whose failure is reported."""

    def read(done: Callable[[T], None], failed: Callable[[K2kError], None]) -> bool:
        def report(error: K2kError) -> None:
            screen.console.events.add(EventKind.FAILED, str(error), command)
            screen.inform_error(error)
            failed(error)

        return screen.background(_GROUP, job, done, report)

    return read


async def _on_thread(screen: ConsoleScreen, job: Callable[[], T], command: str) -> T | None:
    """Return what a job returns; None after it has failed, which is reported."""
    result: asyncio.Future[T | None] = asyncio.get_running_loop().create_future()

    def give(value: T | None) -> None:
        if not result.done():  # the worker that waits was canceled
            result.set_result(value)

    def failed(_: K2kError) -> None:
        screen.console.ignore_typing()
        give(None)

    return await result if _reader(screen, job, command)(give, failed) else None
