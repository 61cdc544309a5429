"""Screen 6: the pipeline's own replicated positions, and moving them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import ClassVar

from textual import on, work
from textual.binding import Binding, BindingType
from textual.widget import Widget

from k2ktui.config.scalars import parse_instant
from k2ktui.console.screens.base import ListScreen
from k2ktui.console.screens.partition import LOG, PartitionDetail, log_column, show_beside
from k2ktui.console.screens.positions_plan import MovesScreen
from k2ktui.console.visuals.panel import Panel
from k2ktui.console.widgets.grid import Grid
from k2ktui.console.widgets.selectable_grid import SelectableGrid
from k2ktui.console.widgets.styled_text import glyphs_of
from k2ktui.console.widgets.text_prompt import TextPrompt
from k2ktui.console.widgets.typed_keys import ASK
from k2ktui.engine.moves.journal import RunKind
from k2ktui.engine.moves.positions import PositionPlan
from k2ktui.engine.records.state import SourcePartition
from k2ktui.engine.severity import Severity
from k2ktui.present.columns import rank
from k2ktui.present.formatting import NOT_YET, Cell, Line, Tone
from k2ktui.present.partitions import partition_columns, stale_partition_columns
from k2ktui.sync.flow import why_nothing_to_start
from k2ktui.sync.positions.position_planner import PositionPlanner
from k2ktui.sync.positions.recovery import plan_to_recover
from k2ktui.text import counted, safe_text
from k2ktui.watch.model import PartitionRow, PartName, View
from k2ktui.watch.severity import judge_partition

_QUESTION = (
    "New position: earliest, latest, an offset, +N or -N records from the current one, or a time "
    "(2026-11-21T10:00:00Z)"
)


_DIGITS = 18
_MIRROR = "MirrorMaker 2 keeps the positions of this flow itself."

# The columns, and which of them a narrow terminal leaves out first.
_RANKS = {"partition": 0, "position": 0, "start": 2, "end": 1, "lag": 3, "state": 0, "target": 4}


class PositionsScreen(ListScreen):
    """The partitions to choose from."""

    ENTRY: ClassVar[str] = "positions"
    HELP: ClassVar[str | None] = """
        Positions. Each row is a partition of the source with the pipeline's own replicated
        position: the next source offset to copy. Space marks a partition; a marks all that pass the
        filter. Enter asks for the new position of the marked partitions, or of the one under the
        cursor, and plans it. c plans to clear positions: the partitions start as new ones. o plans
        to recover all positions that the commit topic has lost. Planning changes nothing.

        Back: records are copied again and are duplicates on the target. Forward: records are never
        copied, and translations report the gap. The plan shows how many. A applies it after you
        have typed the pipeline's name, and only while no process runs the pipeline.

        The strip is the log from its start to its end, as on Replication; the position lies where
        its dots begin. From 120 columns on, the panel beside the table shows the partition.
    """
    PANEL: ClassVar[str] = "Positions"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("c", "clear", "Clear", id="positions.clear"),
        Binding("o", "recover", "Recover", id="positions.recover"),
    ]
    DETAILS = (MovesScreen,)

    def choice(self) -> SelectableGrid[PartitionRow]:
        """The table of partitions."""
        return self.query_one(SelectableGrid)

    def make_grid(self) -> SelectableGrid[PartitionRow]:
        """Create the table of partitions."""
        glyphs = glyphs_of(self)
        return SelectableGrid(
            [*rank(partition_columns(glyphs), _RANKS), log_column(glyphs, rank=3)],
            key=lambda row: row.key,
            search=lambda row: f"{row.status.topic}-{row.status.partition} {row.status.state}",
            problem=lambda row: judge_partition(row).severity >= Severity.WARN,
            order=lambda row: (-judge_partition(row).severity, *row.key),
            opens="Move",
            sorts_first="lag",
            id="positions",
        )

    def side(self) -> Iterable[Widget]:
        """Yield the panel about the partition under the cursor."""
        yield Panel("Partition", PartitionDetail(can_focus=False), id="side")

    def show_side(self) -> None:
        """Show the partition under the cursor."""
        show_beside(self, self.choice().current)

    def show_view(self, view: View) -> None:
        """Show the view's partitions."""
        grid = self.choice()
        read = view.part(PartName.SOURCE).taken_at or view.part(PartName.TARGET).taken_at
        grid.empty = "No partition yet. Enter moves positions of those here." if read else NOT_YET
        stale = set(stale_partition_columns(view))
        grid.mark_stale(stale | ({LOG} if "coverage" in stale else set()))
        grid.show(view.partitions)
        self.show_side()

    def summary(self) -> Line:
        """Return how many partitions are marked, and where the pipeline runs."""
        grid, view = self.choice(), self.console.view
        marked = grid.marked_text
        now_ms = int(self.session.feed.now() * 1000)
        copying = [runner for runner in view.runners if runner.kind is RunKind.COPY] if view else []
        alive = [runner for runner in copying if runner.alive(now_ms)]
        # In this order: the end may be cut.
        cells = [
            Cell(f"{marked or 'none marked'}  ", Tone.WARN if marked else Tone.MUTED),
            Cell(counted(grid.total, "partition")),
        ]
        if self.session.pair.mirror:
            cells.insert(0, Cell(f"{_MIRROR}  ", Tone.MUTED))
        if alive:
            sign = glyphs_of(self).status[Severity.WARN]
            host = safe_text(alive[0].host, 40)
            where = f"{sign} runs on {host}, pid {alive[0].pid}: stop it first  "
            cells.insert(-1, Cell(where, Tone.WARN))
        return tuple(cells)

    @on(Grid.Opened)
    @work(group=ASK)
    async def _opened(self) -> None:
        chosen = {_source(row): row.status.position for row in self.choice().chosen}
        if not self._may_plan() or not chosen:
            return
        text = await self.ask(TextPrompt(_QUESTION))
        if not text:
            return
        try:
            plan = plan_of(text, chosen)
        except ValueError as error:
            self.inform(f"{safe_text(text, 60)}: {error}", "error")
            return
        self.app.push_screen(MovesScreen(plan))

    def action_clear(self) -> None:
        """Plan to clear the positions of the chosen partitions."""
        chosen = frozenset(_source(row) for row in self.choice().chosen)
        if self._may_plan() and chosen:
            self.app.push_screen(MovesScreen(lambda known: known.plan_clear(chosen.__contains__)))

    def action_recover(self) -> None:
        """Plan to rebuild the positions that the commit topic has lost."""
        if self._may_plan():
            self.app.push_screen(MovesScreen(lambda known: plan_to_recover(known.config)))

    def _may_plan(self) -> bool:
        flow, why = self.session.flow, ""
        if flow is None:
            why = "this is a recording"
        elif flow.pipeline is None and not flow.is_mirror:
            why = why_nothing_to_start(flow)
        elif flow.pipeline is None:
            why = f"{_MIRROR} k2ktui mm2 offsets shows, sets and clears them."
        if why:
            self.inform(why, "warning")
        return not why


def _source(row: PartitionRow) -> SourcePartition:
    return SourcePartition(row.status.topic, row.status.partition)


def plan_of(
    text: str, chosen: Mapping[SourcePartition, int | None]
) -> Callable[[PositionPlanner], PositionPlan]:
    """Parse a destination that the operator typed, which clusters resolve to a plan.

    Args:
        text: ``earliest``, ``latest``, an offset, ``+N``, ``-N``, or a time.
        chosen: the partitions and their positions; None where there is none.

    Raises:
        ValueError: it is none of these; the text says what was expected.
    """
    text = text.strip()
    if text in ("earliest", "latest"):
        return lambda known: _to(known, chosen, text, None)
    digits = text.lstrip("+-").replace(",", "")
    if digits.isascii() and digits.isdecimal():
        if len(digits) > _DIGITS:
            raise ValueError("no offset is so large")
        if text[0] not in "+-":
            offsets = {source: int(digits) for source in chosen}
            return lambda known: known.plan_set(offsets)
        by = int(digits) if text[0] == "+" else -int(digits)
        missing = [source for source, position in chosen.items() if position is None]
        if missing:
            raise ValueError(f"{safe_text(missing[0])} has no position to count from")
        moved = {s: max(0, p + by) for s, p in chosen.items() if p is not None}
        return lambda known: known.plan_set(moved)
    at_ms = parse_instant(text)
    return lambda known: _to(known, chosen, "timestamp", at_ms)


def _to(
    known: PositionPlanner, chosen: Mapping[SourcePartition, object], kind: str, at_ms: int | None
) -> PositionPlan:
    """Plan for whole topics and keep the moves of the chosen partitions."""
    topics = {source.topic for source in chosen}
    change = known.plan_to(topics.__contains__, kind, at_ms)
    return replace(change, moves=tuple(move for move in change.moves if move.source in chosen))
