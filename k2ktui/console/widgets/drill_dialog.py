"""A dialog that chooses a new drill: its kind, the fence of the producers, and the groups."""

from __future__ import annotations

import textwrap
from dataclasses import dataclass
from typing import Any, ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.widgets import Input

from k2ktui.console.widgets.choice_dialog import Choice as ListedChoice
from k2ktui.console.widgets.confirm import dialog_height
from k2ktui.console.widgets.dialog import Dialog
from k2ktui.console.widgets.grid import Grid
from k2ktui.console.widgets.text_lines import TextLines
from k2ktui.engine.drill.checks import DrillKind, DrillPhase
from k2ktui.engine.drill.model import DrillOptions, Fence
from k2ktui.engine.drill.steps import describe_phase
from k2ktui.engine.drill.tail import TailChoice
from k2ktui.engine.java_patterns import compile_pattern
from k2ktui.present.columns import Column
from k2ktui.present.formatting import Cell, Line, Tone
from k2ktui.text import safe_message

# Frame, title, groups, keys and the lines between them.
_OTHER_LINES = 9

Choice = tuple[DrillKind, DrillOptions]


@dataclass(frozen=True, slots=True)
class _Kind:
    kind: DrillKind
    fence: Fence
    title: str
    text: str
    tail: TailChoice = TailChoice.STOP


def _planned(fence: Fence, how: str) -> _Kind:
    text = (
        "Both clusters are up; nothing is lost. "
        f"{describe_phase(DrillPhase.FENCE_PRODUCERS, fence)} "
        "You can go back until the target is opened."
    )
    return _Kind(DrillKind.PLANNED, fence, f"planned switchover, producers {how}", text)


def _failback(tail: TailChoice, what: str, text: str) -> _Kind:
    text = (
        f"With the reverse pipeline's file. The old source is back; the groups return to it. {text}"
    )
    return _Kind(DrillKind.FAILBACK, Fence.HAND, f"failback: {what}", text, tail)


_NEVER = "Records that were never copied from the old source are"
# What happens to the tail of a failback, chosen when it begins or when it has listed them.
TAIL_CHOICES = (
    ListedChoice(
        str(TailChoice.REPLAY),
        "copy them",
        f"{_NEVER} copied first, after you have confirmed it.",
    ),
    ListedChoice(
        str(TailChoice.EXPORT),
        "export them to files",
        f"{_NEVER} written to files and left out, after you have confirmed it.",
    ),
    ListedChoice(
        str(TailChoice.DISCARD),
        "discard them",
        f"{_NEVER} left out, after you have confirmed it.",
    ),
)
_KINDS = (
    _Kind(
        DrillKind.REHEARSE,
        Fence.HAND,
        "rehearsal",
        "Touches no application and stops nothing. Tries everything on shadow groups on the "
        "target, and deletes them again. Says what a failover now would do.",
    ),
    _planned(Fence.HAND, "stopped by hand"),
    _planned(Fence.ACL, "denied by access rules"),
    _Kind(
        DrillKind.DISASTER,
        Fence.HAND,
        "disaster: the source is lost",
        "Uses the last known commits, whose age is shown. Refuses to continue while the source "
        "answers. Records that were not copied are lost.",
    ),
    _failback(
        TailChoice.STOP,
        "lists uncopied records",
        f"{_NEVER} listed; then you choose: copy, export or discard them.",
    ),
    *(
        _failback(TailChoice(tail_choice.id), f"{verb} uncopied records", tail_choice.text)
        for tail_choice, verb in zip(TAIL_CHOICES, ("copies", "exports", "discards"), strict=True)
    ),
)


class DrillDialog(Dialog[Choice | None]):
    """A dialog whose result is the chosen drill; None if it was canceled.

    Args:
        title: the heading.
        topics: pattern of the source topics; empty for the whole pipeline.
    """

    CANCELED: ClassVar[str] = "No drill was started."
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "cancel", "Cancel"),
        Binding("tab,shift+tab", "other", "Groups", show=False, priority=True),
    ]

    def __init__(self, title: str = "New drill", topics: str = "") -> None:
        super().__init__()
        self._title, self._topics = title, topics

    def compose(self) -> ComposeResult:
        """Build the dialog."""
        with Vertical(id="drill"):
            yield TextLines(id="drill-title")
            yield Grid(
                (
                    Column(
                        "kind", "kind of drill", lambda kind: Cell(kind.title), width=40, widest=80
                    ),
                ),
                key=lambda kind: kind.title,
                opens="Choose",
                id="drill-kinds",
            )
            yield TextLines(id="drill-text")
            yield Input(id="drill-groups")
            yield TextLines(id="drill-keys")

    def on_mount(self) -> None:
        """Show the kinds."""
        self.query_one("#drill-title", TextLines).show([(Cell(self._title, Tone.HEADING),)])
        field = self.query_one(Input)
        field.border_title = "groups: regular expression; empty for all"
        keys = "up, down choose; tab goes to the groups; enter continues; esc cancels"
        self.query_one("#drill-keys", TextLines).show([(Cell(keys, Tone.MUTED),)])
        grid: Grid[Any] = self.query_one(Grid)
        grid.show(_KINDS)
        grid.focus()
        self._show()

    def on_resize(self) -> None:
        """Wrap the text for the new width, and show as many kinds as there is room for."""
        self._show()
        room = dialog_height(self.app.size.height) - _OTHER_LINES - _height(self._width)
        self.query_one(Grid).styles.height = max(3, min(len(_KINDS) + 1, room))

    @property
    def _width(self) -> int:
        return max(30, min(86, self.app.size.width - 8))

    @on(Grid.Changed)
    def _show(self) -> None:
        chosen: _Kind | None = self.query_one(Grid).current
        width = self._width
        text = chosen.text if chosen else ""
        lines: list[Line] = [(Cell(part),) for part in textwrap.wrap(text, width)]
        # Of one height, so that the dialog does not jump.
        lines += [()] * (_height(width) - len(lines))
        self.query_one("#drill-text", TextLines).show(lines)

    def action_other(self) -> None:
        """Move between the kinds and the groups."""
        field = self.query_one(Input)
        self.set_focus(self.query_one(Grid) if field.has_focus else field)

    @on(Grid.Opened)
    @on(Input.Submitted)
    def _chosen(self) -> None:
        chosen: _Kind | None = self.query_one(Grid).current
        pattern = self.query_one(Input).value.strip()
        if chosen is None:
            return
        try:
            compile_pattern(pattern)
        except ValueError as error:
            text = f"expected {safe_message(error)}"
            self.query_one("#drill-keys", TextLines).show([(Cell(text, Tone.BAD),)])
            self.set_focus(self.query_one(Input))
            return
        options = DrillOptions(
            groups=pattern, fence=chosen.fence, tail=chosen.tail, topics=self._topics
        )
        self.dismiss((chosen.kind, options))

    def action_cancel(self) -> None:
        """Close the dialog without a result."""
        self.cancel()


def _height(width: int) -> int:
    """Return the number of lines of the longest text at a width."""
    return max(len(textwrap.wrap(kind.text, width)) for kind in _KINDS)
