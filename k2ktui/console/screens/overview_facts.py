"""The figures of the overview: the lines of its tiles, and of the panel about the pair."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

from rich.cells import cell_len

from k2ktui.console.pair_drawing import judge_cluster
from k2ktui.console.visuals.cell_map import cell_map, legend
from k2ktui.console.visuals.shapes import bar, flow, sparkline
from k2ktui.drill.report import has_findings, misses_only_objectives
from k2ktui.engine.drill.model import Drill, find_last_rehearsal
from k2ktui.engine.drill.pair_state import describe_final_loss
from k2ktui.engine.mapping.translate import Basis
from k2ktui.engine.moves.journal import RunKind
from k2ktui.engine.severity import Severity, SeverityLabel
from k2ktui.engine.trend import Direction
from k2ktui.jobs.run_rows import RunRow
from k2ktui.present import formatting
from k2ktui.present.failover import NOTHING_LEFT, failover_verdict, group_cells, loss_cells
from k2ktui.present.formatting import Cell, Glyphs, Line, Tone
from k2ktui.present.pair_state import RETIRE, list_moved
from k2ktui.present.runs import judge_run
from k2ktui.present.view_lines import describe_others_of, reread_text
from k2ktui.text import counted
from k2ktui.watch.model import ClusterView, PartName, View
from k2ktui.watch.severity import judge_mirror_flow, judge_partition

_LABEL = 12
# Drills that moved topics, with a line each.
_MOST_DRILLS = 3
# Cells of a bar that says anything.
_LEAST_BAR = 4
# So wide that every group is named.
WIDEST = 10_000
# So wide that nothing is said in fewer words.
_ROOMY = 200
_GOOD = (Basis.EXACT, Basis.END)

EVERY_MOVED = "every topic was moved"

Room = tuple[int, int]


class OverviewFigures:
    """The figures of a view, for the room that its overview has.

    Args:
        view: what is shown.
        now: the reference time for ages, in epoch seconds.
        glyphs: the character set.
        recorded: whether it is a recording; one without any drill may be of an early release.
    """

    def __init__(self, view: View, now: float, glyphs: Glyphs, *, recorded: bool = False) -> None:
        self._view, self._now, self._glyphs = view, now, glyphs
        self._recorded = recorded and not (view.drills or view.rehearsals)
        self._old_groups = glyphs.stale if view.groups_stale else ""

    # What several figures need

    def _read(self, *names: PartName) -> bool:
        return all(self._view.part(name).taken_at is not None for name in names)

    def _aged(self, cell: Cell, stale: bool) -> Cell:
        return self._glyphs.aged(cell) if stale else cell

    def _ago(self, at: float) -> str:
        return formatting.age(max(0.0, self._now - at))

    # The panel about the pair

    def pair_lines(
        self, run: RunRow | None, sync: RunRow | None = None, *, width: int = WIDEST
    ) -> list[Line]:
        """Return what is behind the tiles: groups, positions, runs and clusters, one line each.

        Args:
            run: the run that copies.
            sync: the last run of ``k2ktui sync``.
            width: cells of a line: as many groups are named as have room.
        """
        view = self._view
        # Where another program copies, the first notes describe its state and are not warnings.
        others = view.pair.mirror or view.pair.equal_offsets
        tone = Tone.PLAIN if others else Tone.WARN
        lines = {
            "Compared": self._comparison(),
            "Positions": self._positions(),
            "Re-reads": self._rereads() if view.compares else [],
            "Job": self._mirror() if view.pair.mirror else self._job(run),
            "Sync": self._run(sync) if sync else [],
            "Source": self._cluster(view.source, PartName.SOURCE),
            "Target": self._cluster(view.target, PartName.TARGET),
        }
        return [
            *self._failover(width),
            *(_line(label, *cells) for label, cells in lines.items() if cells),
            *(_line("Note", Cell(formatting.message(note), tone)) for note in view.notes[:2]),
        ]

    def _failover(self, width: int) -> Iterator[Line]:
        """Yield what a failover now would do and lose, and what was moved before."""
        view = self._view
        if view.is_left:
            yield _line("Failover", Cell(NOTHING_LEFT))
            yield from self._moved()
            return
        when = "" if view.pair_state.moved else "now: "
        groups = self._with_names((width - _LABEL - len(when), 2)) or [
            tuple(group_cells(view, self._glyphs))
        ]
        for number, line in enumerate(groups):
            said = Cell(" " * len(when) if number else when)
            yield _line("" if number else "Failover", said, *line)
        yield _line("RPO", *loss_cells(view, self._now, self._glyphs))
        yield from self._moved()
        if not self._recorded:
            yield _line("Rehearsal", *self._rehearsal())

    def _moved(self) -> Iterator[Line]:
        # Of a pipeline that is left, what to do now; Replication has the drills.
        lines = [RETIRE] if self._view.is_left else list_moved(self._view)
        for line in lines[:_MOST_DRILLS]:
            yield _line("Moved", Cell(formatting.message(line)))
        if (more := len(lines) - _MOST_DRILLS) > 0:
            yield _line("", Cell(f"and by {counted(more, 'more drill')}"))

    def _comparison(self) -> list[Cell]:
        """Return when all records were compared last, and the result; none if they never were."""
        last = self._view.last_comparison
        if last is None:
            return []
        severity = Severity.BAD if last.differences else Severity.OK
        word = f"{last.differences:,} different" if last.differences else "no difference"
        unproven = f", {last.unproven:,} unproven" if last.unproven else ""
        what = "every record" if last.is_whole else "some records"
        return [
            self._glyphs.mark(SeverityLabel(severity, word)),
            Cell(f"{unproven}, {what}, {self._ago(last.at_ms / 1000)} ago", Tone.MUTED),
        ]

    def _rehearsal(self) -> list[Cell]:
        """Return when a failover was rehearsed last, and what came of it."""
        last = find_last_rehearsal(self._view.drills)
        if last is None:
            known = self._read(PartName.STATE)
            return [Cell("none yet; 8, N starts one" if known else formatting.NOT_YET, Tone.MUTED)]
        word = f"stopped by {counted(len(last.blockers), 'finding')}" if last.blockers else "passed"
        if last.blockers and misses_only_objectives(last):
            word = "missed an objective"
        lost = last.figures.rpo_records
        rpo = "" if lost is None else f", RPO {lost:,}"
        return [
            self._glyphs.mark(SeverityLabel(_rehearsal_severity(last), word)),
            Cell(f"  {self._ago((last.ended_ms or 0) / 1000)} ago"),
            Cell(f"  RTO {formatting.seconds(last.tool_ms / 1000)}{rpo}", Tone.MUTED),
            *(Cell(f"  {text}", Tone.WARN) for text in self._view.missed_rto),
            Cell(f"  by {formatting.name(last.started_by, 40)}", Tone.MUTED),
        ]

    def _positions(self) -> list[Cell]:
        """Return the committed offsets of all groups by the basis of their translation."""
        totals, stale = self._view.totals, self._view.groups_stale
        if totals.groups is None:
            return [Cell(formatting.NOT_YET)]
        if not totals.bases:
            return [self._aged(Cell("no committed offset to translate"), stale)]
        total = Cell(f"{sum(totals.bases.values()):,}", Tone.HEADING)
        cells = [self._aged(total, stale), Cell(":")]
        waiting = self._view.waiting.total()
        for basis, count in totals.bases.items():
            tone = Tone.PLAIN if basis in _GOOD else Tone.WARN
            is_bad = basis == Basis.UNMAPPED and count > waiting
            cells.append(Cell(f"  {count:,} {basis}", Tone.BAD if is_bad else tone))
        if waiting:
            cells.append(Cell(f"  ({waiting:,} not copied yet)", Tone.MUTED))
        return cells

    def _rereads(self) -> list[Cell]:
        """Return what groups would re-read on the target now, by k2ktui and by MirrorMaker 2."""
        audit = self._view.audit
        if audit is None:
            failed = self._view.part(PartName.COMPARISON).error
            return [Cell(formatting.NOT_AVAILABLE if failed else formatting.NOT_YET)]
        by_k2ktui, by_mirror_maker = self._view.again
        stale = formatting.STALE if self._view.audit_stale else ""
        tone = Tone.BAD if by_mirror_maker.skipped else Tone.HEADING
        read = formatting.age(self._now - audit.taken_at)
        return [
            Cell("k2ktui "),
            Cell(reread_text(by_k2ktui), Tone.HEADING),
            Cell("  MirrorMaker 2 "),
            Cell(stale + reread_text(by_mirror_maker), tone),
            Cell(f"  {formatting.name(audit.flow, 40)}, read {read} ago", Tone.MUTED),
        ]

    def _mirror(self) -> list[Cell]:
        if not self._read(PartName.TARGET):
            return [Cell(formatting.NOT_YET)]
        mark = self._glyphs.mark(judge_mirror_flow(self._view, self._now))
        about = "  MirrorMaker 2 copies; k2ktui runs no job of this flow"
        return [self._aged(mark, self._view.stale(PartName.TARGET)), Cell(about, Tone.MUTED)]

    def _job(self, run: RunRow | None) -> list[Cell]:
        if run is not None:
            return self._run(run)
        if self._view.pair.equal_offsets:
            return [Cell("another program copies; k2ktui runs no job of it", Tone.MUTED)]
        text = "no run yet" if self._read(PartName.STATE) else formatting.NOT_YET
        return [Cell(text, Tone.MUTED)]

    def _run(self, run: RunRow) -> list[Cell]:
        # This host's own record of a job is not as old as the last heartbeat that was read.
        stale = self._view.stale(PartName.STATE) and run.job is None
        where = f"  {formatting.name(run.user, 20)}@{formatting.name(run.host, 40)}  "
        text = "no heartbeat yet"
        if run.heartbeat_at is not None:
            others = describe_others_of(self._view, self._now, run.kind)
            more, text = (
                f", {others}" if others else "",
                f"heartbeat {self._ago(run.heartbeat_at)} ago",
            )
            if run.kind is RunKind.COPY:
                lap = f"lap {formatting.number(run.lap)}, {counted(run.slots, 'slot')}"
                text = f"{lap}{more}, {text}"
            else:
                text += more
        return [self._aged(self._glyphs.mark(judge_run(run)), stale), Cell(where + text)]

    def _cluster(self, cluster: ClusterView, part: PartName) -> list[Cell]:
        age = self._view.age(part, self._now)
        version = f"Kafka {formatting.name(cluster.version)}" if cluster.version else ""
        old = f"read {formatting.age(age)} ago" if age is not None else ""
        about = [formatting.name(cluster.cluster_id) or formatting.NOT_YET, version, old]
        return [
            self._glyphs.mark(judge_cluster(self._view, part)),
            Cell("  " + "  ".join(text for text in about if text)),
            Cell(f"  {formatting.name(cluster.address)}", Tone.MUTED),
        ]

    # Lag and coverage

    def lag_tile(self, room: Room) -> list[Line]:
        """Return the lag, its trend, and the rate of copying."""
        (width, height), view, totals = room, self._view, self._view.totals
        known, stale = self._read(PartName.SOURCE, PartName.TARGET), view.copy_stale
        text = formatting.number(totals.rate, known=len(view.points) > 1 or stale)
        rate = [Cell(text, Tone.HEADING), Cell(" records/s")]
        if (view.pair_state.moved and totals.lag_records is None) or view.is_left:
            what = EVERY_MOVED if view.is_left else "the workload is on the target"
            moved = [Cell("none that counts:", Tone.MUTED), Cell(what)]
            return [*flow(moved, width, max(1, height - 1)), tuple(rate)]
        records = Cell(formatting.number(totals.lag_records, known=known), Tone.HEADING)
        behind = Cell(formatting.seconds(totals.lag_seconds, known=known), Tone.HEADING)
        size = [self._aged(records, stale), Cell(" records")]
        if totals.unknown and totals.partitions:
            size.append(Cell(f"  {totals.unknown:,} unknown", Tone.UNKNOWN))
        if totals.held_partitions:
            size.append(Cell(f"  {formatting.number(totals.held_records)} held", Tone.MUTED))
        late = [self._aged(behind, stale), Cell(" behind")]
        values = [point.lag_records for point in view.points]
        trend = self._trend()
        if height > 2:
            lines: list[Line] = [tuple(size), (*late, Cell("  "), *trend), tuple(rate)]
            return [*lines, sparkline(values, width, self._glyphs)]
        second = [*rate, Cell("  "), *trend, Cell("  ")]
        drawn = sparkline(values, width - _cells_of(second), self._glyphs)
        return [(*size, Cell("  "), *late), (*second, *drawn)]

    def _trend(self) -> list[Cell]:
        totals, texts = self._view.totals, []
        if totals.direction is not Direction.UNKNOWN:
            texts.append(f"{self._glyphs.direction(totals.direction)} {totals.direction}")
        if totals.lag_records and totals.eta_s and totals.eta_s >= 1:
            texts.append(f", {formatting.duration(totals.eta_s)} left")
        if totals.arrived_records:
            texts.append(f"  {totals.arrived_records:,} of them from the target")
        return [Cell(text, Tone.MUTED) for text in texts]

    def coverage_tile(self, room: Room) -> list[Line]:
        """Return the shares that translate exactly, of retained offsets and of groups' positions.

        Where offsets are missing, it says which: a share alone reads as a loss.
        """
        (width, height), view = room, self._view
        known = self._read(PartName.TARGET, PartName.GROUPS)
        shares = view.totals.coverage, view.totals.commit_coverage
        stale = view.copy_stale or view.stale(PartName.GROUPS), view.groups_stale
        tones = [Tone.MUTED if old else Tone.OK for old in stale]
        figures = [
            self._aged(Cell(formatting.share(share, known=known), Tone.HEADING), old)
            for share, old in zip(shares, stale, strict=True)
        ]
        bars = [
            partial(bar, share, glyphs=self._glyphs, tone=tone)
            for share, tone in zip(shares, tones, strict=True)
        ]
        missing = self._missing_offsets()
        if height > 2:
            lines: list[Line] = [
                (figures[0], Cell(" of retained offsets")),
                bars[0](width=width),
                (figures[1], Cell(" of group positions")),
            ]
            return [*lines[:2], (missing,), lines[2]] if missing else [*lines, bars[1](width=width)]
        return [
            _share_line(figures[0], "offsets", missing, bars[0], width),
            _share_line(figures[1], "positions", None, bars[1], width),
        ]

    def _missing_offsets(self) -> Cell | None:
        """Return the offsets that have no translation, and why; None if none is missing.

        Those not copied yet are the lag. Copied ones without a mapping matter where a group stands.
        """
        totals = self._view.totals
        if totals.coverage is None or totals.coverage >= 1:
            return None
        unmapped = sum(row.status.unmapped or 0 for row in self._view.partitions)
        if unmapped:
            matters = totals.commit_coverage is None or totals.commit_coverage < 1
            text = f"{unmapped:,} unmapped{'' if matters else ', no group'}"
            return Cell(text, Tone.WARN if matters else Tone.MUTED)
        left = totals.lag_records
        return Cell(f"{left:,} to copy", Tone.MUTED) if left else None

    def partition_map(self, room: Room) -> list[Line]:
        """Return a cell for each partition, by topic, and what the cells mean.

        On one line, only the topics with problems have cells.
        """
        if not self._read(PartName.SOURCE) and not self._read(PartName.TARGET):
            return [(Cell(formatting.NOT_YET),)]
        (width, height), glyphs, stale = room, self._glyphs, self._view.copy_stale
        topics: dict[str, list[Severity]] = {}
        counts: Counter[tuple[Severity, str]] = Counter()
        for row in self._view.partitions:
            verdict = judge_partition(row)
            topics.setdefault(row.status.topic, []).append(verdict.severity)
            counts[verdict.severity, verdict.word] += 1
        order = sorted(counts, key=lambda key: (-key[0], key[1]))
        below = legend([(*key, counts[key]) for key in order], glyphs, stale=stale)
        below = (*below, *self._furthest(width - _cells_of(below)))
        if height > 1:
            return [*cell_map(topics, width, height - 1, glyphs, stale=stale), below]
        bad = {topic: all_ for topic, all_ in topics.items() if max(all_) >= Severity.WARN}
        drawn = cell_map(bad, width - _cells_of(below), 1, glyphs, stale=stale)
        return [(*below, *(cell for line in drawn for cell in line))]

    def _furthest(self, room: int) -> list[Cell]:
        """Return the partition with the largest lag, if there is room and more than one lags."""
        statuses = [row.status for row in self._view.partitions]
        behind = [status for status in statuses if status.lag_records and not status.hold]
        if len(behind) < 2:
            return []
        worst = max(behind, key=lambda status: status.lag_records or 0)
        name = formatting.name(f"{worst.topic}-{worst.partition}", 60)
        text = f"most in {name}: {worst.lag_records:,}"
        return [Cell(text, Tone.MUTED)] if cell_len(text) <= room else []

    # Groups and the failover

    def group_tile(self, room: Room) -> tuple[list[Line], Severity | None]:
        """Return the groups whose offset on the target is not the translated one, and how bad."""
        totals, (width, height), old = self._view.totals, room, self._old_groups
        if totals.groups is None:
            return [(Cell(formatting.NOT_YET),)], None
        number = self._aged(Cell(f"{totals.groups:,}", Tone.HEADING), self._view.groups_stale)
        cells = [number, Cell(" group  " if totals.groups == 1 else " groups  ")]
        severity = None
        if totals.diverging:
            severity = Severity.BAD if totals.skips else Severity.WARN
            verb = "diverges" if totals.diverging == 1 else "diverge"
            text = f"{self._glyphs.status[severity]} {old}{totals.diverging:,} {verb}"
            cells.append(Cell(text, formatting.tone_of(severity)))
        elif totals.bases:
            cells.append(Cell(f"{old}none diverges", Tone.MUTED))
        # As in Groups: a group of which nothing is known is in no sum.
        groups = self._view.summaries
        unknown_now = sum(g.unknown_now for g in groups if g.unknown_now < g.partitions)
        unknown_moved = sum(g.unknown_moved for g in groups if g.unknown_moved < g.partitions)
        sums = (
            _Sums("now", totals.skips, totals.rereads, unknown_now),
            _Sums("after move", totals.moved_skips, totals.moved_rereads, unknown_moved),
        )
        lines: list[Line] = [tuple(cells)]
        if not any((totals.diverging, totals.moved_skips, totals.skips)):
            return lines, severity
        severity = severity or Severity.WARN
        if height > 2:
            return [*lines, *_sums_table(sums, width, old)], severity
        # There is no room for the number of groups.
        return [tuple(_sums_line(row, width, old)) for row in sums], severity

    def failover_title(self) -> str:
        """Return the title of the tile, which answers whether a failover is safe now."""
        groups = self._view.failover.groups
        if self._view.is_left:
            return "Failover"
        if groups is None or not groups.total or self._view.failover.failed_over:
            return "Failover now"
        verdict = failover_verdict(groups)
        sign = self._glyphs.status[verdict.severity]
        return f"Failover now: {self._old_groups}{sign} {verdict.word}"

    def failover_tile(self, room: Room) -> tuple[list[Line], Severity | None]:
        """Return what a failover now would do and lose, and how long the last rehearsal took.

        Of a recorded view without drills it is not known whether there was a rehearsal.
        """
        (width, height), view = room, self._view
        if view.is_left:
            return flow([Cell("nothing is left:", Tone.MUTED), Cell(EVERY_MOVED)], *room), None
        cells = self._short_groups(width)
        room_for = max(1, height - 2)
        groups = flow(cells, width, room_for)
        if len(cells) > 2 and _cells_of(groups[-1]) > width:
            groups = _in_fewer_words(cells, width, room_for)
        else:
            groups = self._with_names((width, room_for)) or groups
        worst = {Tone.BAD: Severity.BAD, Tone.WARN: Severity.WARN}
        severity = next((worst[tone] for tone in worst if any(c.tone is tone for c in cells)), None)
        if view.missed_rpo and not view.failover.failed_over:
            severity = max(severity or Severity.WARN, Severity.WARN)
        lines = [*groups, self._loss()]
        return [*lines, self._rehearsed(width)] if height > 2 else lines, severity

    def _loss(self) -> Line:
        estimate = self._view.failover
        if estimate.failed_over:
            return (
                Cell("RPO ", Tone.MUTED),
                Cell(describe_final_loss(self._view.pair_state), Tone.HEADING),
            )
        known = self._read(PartName.SOURCE, PartName.TARGET)
        records = Cell(formatting.number(estimate.rpo_records, known=known), Tone.HEADING)
        loss = [
            self._figure("RPO", self._view.missed_rpo),
            self._aged(records, self._view.copy_stale),
            Cell(" records"),
        ]
        if estimate.rpo_records and estimate.rpo_s is not None:
            loss.append(Cell(f", {formatting.seconds(estimate.rpo_s)}"))
        if estimate.held_partitions:
            held = formatting.number(estimate.held_records)
            loss.append(Cell(f", {held} more held", Tone.MUTED))
        return tuple(loss)

    def _figure(self, name: str, missed: Sequence[str]) -> Cell:
        """Return the name of a figure, with a sign if it misses an objective; Problems has both."""
        if missed:
            return Cell(f"{name} {self._glyphs.status[Severity.WARN]} ", Tone.WARN)
        return Cell(f"{name} ", Tone.MUTED)

    def _short_groups(self, width: int, names: int = 0) -> list[Cell]:
        cells = group_cells(self._view, self._glyphs, names, is_short=width <= _ROOMY)
        return [cell for cell in cells if cell.text.strip()]

    def _with_names(self, room: Room) -> list[Line]:
        """Return the groups with as many names as have room; nothing if there is none for any."""
        width, height = room
        named: list[Line] = []
        for names in range(1, width):
            lines = flow(self._short_groups(width, names), width, height)
            if lines == named or any(_cells_of(line) > width for line in lines):
                break
            named = lines
        return named

    def _rehearsed(self, width: int) -> Line:
        last = find_last_rehearsal(self._view.drills)
        if last is None or self._recorded:
            text = "not rehearsed yet" if self._read(PartName.STATE) else formatting.NOT_YET
            if self._recorded:
                text = formatting.NOT_AVAILABLE
            return (Cell("RTO ", Tone.MUTED), Cell(text, Tone.MUTED))
        ago = Cell(f" {self._ago((last.ended_ms or 0) / 1000)} ago", Tone.MUTED)
        severity = _rehearsal_severity(last)
        # Its result is in the panel about the pair, too: a good one needs no sign here.
        mark = Cell(self._glyphs.status[severity], formatting.tone_of(severity))
        how = [Cell(" "), mark] if severity > Severity.OK else [Cell(" rehearsed", Tone.MUTED)]
        name = self._figure("RTO", self._view.missed_rto)
        tool = Cell(formatting.seconds(last.tool_ms / 1000), Tone.HEADING)
        line = (name, tool, *how, ago)
        return line if _cells_of(line) <= width else (name, tool, Cell(","), ago)


def _line(label: str, *cells: Cell) -> Line:
    return (Cell(f"{label:<{_LABEL}}", Tone.MUTED), *cells)


def _cells_of(line: Iterable[Cell]) -> int:
    return sum(cell_len(cell.text) for cell in line)


def _share_line(
    figure: Cell, what: str, missing: Cell | None, drawn: Callable[..., Line], width: int
) -> Line:
    """Return a share with its bar on one line; what is missing of it is more than the bar."""
    label = Cell(f" {what}".ljust(20 - cell_len(figure.text)))
    left = width - 20 - (cell_len(missing.text) + 1 if missing else 0)
    if missing is None:
        return (figure, label, *drawn(width=max(1, left)))
    if left >= _LEAST_BAR:
        return (figure, label, *drawn(width=left), Cell(" "), missing)
    line = (figure, Cell(f" {what}, "), missing)
    return line if _cells_of(line) <= width else (figure, Cell(", "), missing)


@dataclass(frozen=True, slots=True)
class _Sums:
    """What all groups would skip and read again; ``unknown`` positions are not in the sums."""

    when: str
    skips: int
    rereads: int
    unknown: int

    def cells(self, old: str) -> tuple[Cell, Cell]:
        """Return both sums as text."""
        skips, rereads = (formatting.at_least(n, self.unknown) for n in (self.skips, self.rereads))
        bad = Tone.BAD if self.when == "now" else Tone.WARN
        return (
            Cell(f"{old}{skips}", bad if self.skips else Tone.MUTED),
            Cell(f"{old}{rereads}", Tone.WARN if self.rereads else Tone.MUTED),
        )


def _sums_table(sums: Sequence[_Sums], width: int, old: str) -> list[Line]:
    """Return what groups would skip and read again, now and after a move, as a small table."""
    left = max(len(row.when) for row in sums)
    texts = [row.cells(old) for row in sums]
    first, second = (
        max(len(word), *(cell_len(cells[n].text) for cells in texts))
        for n, word in enumerate(("skip", "re-read"))
    )
    room = max(1, min(3, (width - left - first - second) // 2))
    lines: list[Line] = [
        (Cell(f"{'':{left + room}}{'skip':>{first}}{'':{room}}{'re-read':>{second}}", Tone.MUTED),)
    ]
    for row, (skips, rereads) in zip(sums, texts, strict=True):
        lines.append(
            (
                Cell(f"{row.when:<{left}}{'':{room}}", Tone.MUTED),
                Cell(f"{skips.text:>{first}}", skips.tone),
                Cell(f"{'':{room}}{rereads.text:>{second}}", rereads.tone),
            )
        )
    return lines


def _sums_line(sums: _Sums, width: int, old: str) -> list[Cell]:
    """Return what groups would skip and read again on one line; without zeros if it is short."""
    skips, rereads = sums.cells(old)
    when = Cell(f"{sums.when}: ", Tone.MUTED)
    parts = [
        Cell(f"{skips.text} skipped", skips.tone),
        Cell(f"{rereads.text} re-read", rereads.tone),
    ]
    whole = [when, parts[0], Cell(", "), parts[1]]
    if _cells_of(whole) <= width:
        return whole
    shown = [part for part, n in zip(parts, (sums.skips, sums.rereads), strict=True) if n]
    return [when, *(shown or parts)[:1], *((Cell(", "), shown[1]) if len(shown) > 1 else ())]


def _in_fewer_words(cells: list[Cell], width: int, height: int) -> list[Line]:
    """Return groups with a word each; first those after the worst, whose number is kept longest.

    The panel about the pair has all of them.
    """
    short = [Cell(" ".join(cell.text.split()[:3]), cell.tone) for cell in cells]
    groups = flow([cells[0], *short[1:]], width, height)
    if _cells_of(groups[-1]) > width:
        groups = flow(short, width, height)
    return groups


def _rehearsal_severity(drill: Drill) -> Severity:
    if drill.blockers and not misses_only_objectives(drill):
        return Severity.BAD
    return Severity.WARN if has_findings(drill) else Severity.OK
