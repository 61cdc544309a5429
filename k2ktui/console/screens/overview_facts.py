"""The figures of the overview: the lines of its tiles, and of the panel about the pair."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from rich.cells import cell_len

from k2ktui.console.pair_drawing import judge_cluster
from k2ktui.console.visuals.cell_map import cell_map, legend
from k2ktui.console.visuals.shapes import bar, flow, sparkline
from k2ktui.drill.report import has_findings, misses_only_objectives
from k2ktui.engine.drill.model import Drill, find_last_rehearsal
from k2ktui.engine.mapping.translate import Basis
from k2ktui.engine.moves.journal import RunKind
from k2ktui.engine.severity import Severity, SeverityLabel
from k2ktui.jobs.run_rows import RunRow
from k2ktui.present import formatting
from k2ktui.present.failover import NOTHING_LEFT, failover_verdict, group_cells, loss_cells
from k2ktui.present.formatting import Cell, Glyphs, Line, Tone
from k2ktui.present.moved import moved_lines
from k2ktui.present.pair_state import final_loss
from k2ktui.present.runs import judge_run
from k2ktui.present.view_lines import describe_others_of, reread_text
from k2ktui.text import counted
from k2ktui.watch.model import ClusterView, Direction, PartName, View
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


def pair_lines(
    view: View,
    now: float,
    glyphs: Glyphs,
    run: RunRow | None,
    sync: RunRow | None = None,
    *,
    width: int = WIDEST,
    recorded: bool = False,
) -> list[Line]:
    """Return what is behind the tiles: groups, positions, runs and clusters, one line each.

    Args:
        view: what is shown.
        now: the reference time for ages, in epoch seconds.
        glyphs: the character set.
        run: the run that copies.
        sync: the last run of ``k2ktui sync``.
        width: cells of a line: as many groups are named as have room.
        recorded: whether it is a recording, which has no drills.
    """
    return [
        *_failover(view, now, glyphs, width, recorded=recorded),
        *([_line("Compared", *cells)] if (cells := _comparison_cells(view, now, glyphs)) else []),
        _line("Positions", *_positions(view, glyphs)),
        *([_line("Re-reads", *_again(view, now))] if view.compares else []),
        _line(
            "Job",
            *(_mirror(view, now, glyphs) if view.pair.mirror else _job(view, now, glyphs, run)),
        ),
        *([_line("Sync", *_sync(view, now, glyphs, sync))] if sync else []),
        _line("Source", *_cluster(view, view.source, PartName.SOURCE, now, glyphs)),
        _line("Target", *_cluster(view, view.target, PartName.TARGET, now, glyphs)),
        *_notes(view),
    ]


def _failover(
    view: View, now: float, glyphs: Glyphs, width: int, *, recorded: bool
) -> Iterator[Line]:
    """Yield what a failover now would do and lose, and what was moved before."""
    if view.is_left:
        yield _line("Failover", Cell(NOTHING_LEFT))
        yield from _moved(view)
        return
    when = "" if view.pair_state.moved else "now: "
    groups = _with_names(view, glyphs, (width - _LABEL - len(when), 2)) or [
        tuple(group_cells(view, glyphs))
    ]
    for number, line in enumerate(groups):
        yield _line("" if number else "Failover", Cell(" " * len(when) if number else when), *line)
    yield _line("RPO", *loss_cells(view, now, glyphs))
    yield from _moved(view)
    if not recorded:
        yield _line("Rehearsal", *rehearsal_cells(view, now, glyphs))


def _moved(view: View) -> list[Line]:
    lines = [formatting.message(line) for line in moved_lines(view)]
    if view.is_left:
        lines = lines[-1:]  # what to do now; Replication has the drills
    texts = [line.removeprefix("moved to the target: ") for line in lines]
    return [_line("Moved", Cell(text)) for text in texts[:_MOST_DRILLS]] + (
        [_line("", Cell(f"and by {counted(len(texts) - _MOST_DRILLS, 'more drill')}"))]
        if len(texts) > _MOST_DRILLS
        else []
    )


def _notes(view: View) -> list[Line]:
    # In a MirrorMaker 2 flow, the first notes describe its state and are not warnings.
    tone = Tone.PLAIN if view.pair.mirror else Tone.WARN
    return [_line("Note", Cell(formatting.message(note), tone)) for note in view.notes[:2]]


def _line(label: str, *cells: Cell) -> Line:
    return (Cell(f"{label:<{_LABEL}}", Tone.MUTED), *cells)


def _aged(cell: Cell, glyphs: Glyphs, stale: bool) -> Cell:
    return glyphs.aged(cell) if stale else cell


def _read(view: View, *names: PartName) -> bool:
    return all(view.part(name).taken_at is not None for name in names)


def lag_tile(view: View, glyphs: Glyphs, room: Room) -> list[Line]:
    """Return the lag, its trend, and the rate of copying."""
    width, height = room
    totals, known = view.totals, _read(view, PartName.SOURCE, PartName.TARGET)
    text = formatting.number(totals.rate, known=len(view.points) > 1 or view.copy_stale)
    rate = [Cell(text, Tone.HEADING), Cell(" records/s")]
    if (view.pair_state.moved and totals.lag_records is None) or view.is_left:
        what = EVERY_MOVED if view.is_left else "the workload is on the target"
        moved = [Cell("none that counts:", Tone.MUTED), Cell(what)]
        return [*flow(moved, width, max(1, height - 1)), tuple(rate)]
    records = Cell(formatting.number(totals.lag_records, known=known), Tone.HEADING)
    behind = Cell(formatting.seconds(totals.lag_seconds, known=known), Tone.HEADING)
    size = [_aged(records, glyphs, view.copy_stale), Cell(" records")]
    if totals.unknown and totals.partitions:
        size.append(Cell(f"  {totals.unknown:,} unknown", Tone.UNKNOWN))
    if totals.held_partitions:
        size.append(Cell(f"  {formatting.number(totals.held_records)} held", Tone.MUTED))
    late = [_aged(behind, glyphs, view.copy_stale), Cell(" behind")]
    values = [point.lag_records for point in view.points]
    trend = _trend(view, glyphs)
    if height > 2:
        lines: list[Line] = [tuple(size), (*late, Cell("  "), *trend), tuple(rate)]
        return [*lines, sparkline(values, width, glyphs)]
    second = [*rate, Cell("  "), *trend, Cell("  ")]
    left = width - sum(cell_len(cell.text) for cell in second)
    return [(*size, Cell("  "), *late), (*second, *sparkline(values, left, glyphs))]


def _trend(view: View, glyphs: Glyphs) -> list[Cell]:
    totals, cells = view.totals, []
    if totals.direction is not Direction.UNKNOWN:
        cells.append(Cell(f"{glyphs.direction(totals.direction)} {totals.direction}", Tone.MUTED))
    if totals.lag_records and totals.eta_s and totals.eta_s >= 1:
        cells.append(Cell(f", {formatting.duration(totals.eta_s)} left", Tone.MUTED))
    if totals.arrived_records:
        cells.append(Cell(f"  {totals.arrived_records:,} of them from the target", Tone.MUTED))
    return cells


def coverage_tile(view: View, glyphs: Glyphs, room: Room) -> list[Line]:
    """Return the shares that translate exactly, of retained offsets and of groups' positions.

    Where offsets are missing, it says which: a share alone reads as a loss.
    """
    width, height = room
    known = _read(view, PartName.TARGET, PartName.GROUPS)
    offsets, positions = view.totals.coverage, view.totals.commit_coverage
    stale = view.copy_stale or view.stale(PartName.GROUPS)
    figures = [
        _aged(Cell(formatting.share(share, known=known), Tone.HEADING), glyphs, old)
        for share, old in ((offsets, stale), (positions, view.groups_stale))
    ]
    tones = [Tone.MUTED if old else Tone.OK for old in (stale, view.groups_stale)]
    missing = _missing_offsets(view)
    if height > 2:
        below = (missing,) if missing else bar(positions, width, glyphs, tones[1])
        lines: list[Line] = [
            (figures[0], Cell(" of retained offsets")),
            bar(offsets, width, glyphs, tones[0]),
            (figures[1], Cell(" of group positions")),
        ]
        return [*lines[:2], below, lines[2]] if missing else [*lines, below]
    return [
        _share_line(figures[0], "offsets", missing, offsets, width, glyphs, tones[0]),
        _share_line(figures[1], "positions", None, positions, width, glyphs, tones[1]),
    ]


def _share_line(
    figure: Cell,
    what: str,
    missing: Cell | None,
    share: float | None,
    width: int,
    glyphs: Glyphs,
    tone: Tone,
) -> Line:
    """Return a share with its bar on one line; what is missing of it is more than the bar."""
    label = Cell(f" {what}".ljust(20 - cell_len(figure.text)))
    left = width - 20 - (cell_len(missing.text) + 1 if missing else 0)
    if missing is None:
        return (figure, label, *bar(share, max(1, left), glyphs, tone))
    if left >= _LEAST_BAR:
        return (figure, label, *bar(share, left, glyphs, tone), Cell(" "), missing)
    line = (figure, Cell(f" {what}, "), missing)
    if sum(cell_len(cell.text) for cell in line) <= width:
        return line
    return (figure, Cell(", "), missing)


def _missing_offsets(view: View) -> Cell | None:
    """Return the offsets that have no translation, and why; None if none is missing.

    Those not copied yet are the lag. Copied ones without a mapping matter where a group stands.
    """
    share = view.totals.coverage
    if share is None or share >= 1:
        return None
    unmapped = sum(row.status.unmapped or 0 for row in view.partitions)
    if unmapped:
        positions = view.totals.commit_coverage
        matters = positions is None or positions < 1
        text = f"{unmapped:,} unmapped{'' if matters else ', no group'}"
        return Cell(text, Tone.WARN if matters else Tone.MUTED)
    left = view.totals.lag_records
    return Cell(f"{left:,} to copy", Tone.MUTED) if left else None


def partition_map(view: View, glyphs: Glyphs, room: Room) -> list[Line]:
    """Return a cell for each partition, by topic, and what the cells mean.

    On one line, only the topics with problems have cells.
    """
    if not _read(view, PartName.SOURCE) and not _read(view, PartName.TARGET):
        return [(Cell(formatting.NOT_YET),)]
    width, height = room
    topics: dict[str, list[Severity]] = {}
    counts: dict[tuple[Severity, str], int] = {}
    for row in view.partitions:
        verdict = judge_partition(row)
        topics.setdefault(row.status.topic, []).append(verdict.severity)
        key = verdict.severity, verdict.word
        counts[key] = counts.get(key, 0) + 1
    order = sorted(counts, key=lambda key: (-key[0], key[1]))
    stale = view.copy_stale
    below = legend([(*key, counts[key]) for key in order], glyphs, stale=stale)
    below = (*below, *_furthest(view, width - sum(cell_len(cell.text) for cell in below)))
    if height > 1:
        return [*cell_map(topics, width, height - 1, glyphs, stale=stale), below]
    bad = {
        topic: severities
        for topic, severities in topics.items()
        if max(severities) >= Severity.WARN
    }
    left = width - sum(cell_len(cell.text) for cell in below)
    return [
        (*below, *(cell for line in cell_map(bad, left, 1, glyphs, stale=stale) for cell in line))
    ]


def _furthest(view: View, room: int) -> list[Cell]:
    """Return the partition with the largest lag, if there is room and more than one lags."""
    behind = [row for row in view.partitions if row.status.lag_records and not row.status.hold]
    if len(behind) < 2:
        return []
    worst = max(behind, key=lambda row: row.status.lag_records or 0)
    name = formatting.name(f"{worst.status.topic}-{worst.status.partition}", 60)
    text = f"most in {name}: {worst.status.lag_records:,}"
    return [Cell(text, Tone.MUTED)] if cell_len(text) <= room else []


def group_tile(view: View, glyphs: Glyphs, room: Room) -> tuple[list[Line], Severity | None]:
    """Return the groups whose offset on the target is not the translated one, and how bad it is."""
    totals = view.totals
    if totals.groups is None:
        return [(Cell(formatting.NOT_YET),)], None
    width, height = room
    stale = view.groups_stale
    old = glyphs.stale if stale else ""
    cells = [_aged(Cell(f"{totals.groups:,}", Tone.HEADING), glyphs, stale)]
    cells.append(Cell(" group  " if totals.groups == 1 else " groups  "))
    severity = None
    if totals.diverging:
        severity = Severity.BAD if totals.skips else Severity.WARN
        verb = "diverges" if totals.diverging == 1 else "diverge"
        text = f"{glyphs.status[severity]} {old}{totals.diverging:,} {verb}"
        cells.append(Cell(text, formatting.tone_of(severity)))
    elif totals.bases:
        cells.append(Cell(f"{old}none diverges", Tone.MUTED))
    # As in Groups: a group of which nothing is known is in no sum.
    groups = view.summaries
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
    if sum(cell_len(cell.text) for cell in whole) <= width:
        return whole
    shown = [part for part, n in zip(parts, (sums.skips, sums.rereads), strict=True) if n]
    return [when, *(shown or parts)[:1], *((Cell(", "), shown[1]) if len(shown) > 1 else ())]


def failover_title(view: View, glyphs: Glyphs) -> str:
    """Return the title of the tile, which answers whether a failover is safe now."""
    groups = view.failover.groups
    if view.is_left:
        return "Failover"
    if groups is None or not groups.total or view.failover.failed_over:
        return "Failover now"
    verdict = failover_verdict(groups)
    old = glyphs.stale if view.groups_stale else ""
    return f"Failover now: {old}{glyphs.status[verdict.severity]} {verdict.word}"


def failover_tile(
    view: View, now: float, glyphs: Glyphs, room: Room, *, recorded: bool
) -> tuple[list[Line], Severity | None]:
    """Return what a failover now would do and lose, and how long the last rehearsal took.

    A ``recorded`` view has no drills: whether there was a rehearsal is not known.
    """
    width, height = room
    if view.is_left:
        return [*flow([Cell("nothing is left:", Tone.MUTED), Cell(EVERY_MOVED)], *room)], None
    cells = [_shorter(cell, width) for cell in group_cells(view, glyphs) if cell.text.strip()]
    room_for = max(1, height - 2)
    groups = flow(cells, width, room_for)
    if len(cells) > 2 and sum(cell_len(cell.text) for cell in groups[-1]) > width:
        groups = _in_fewer_words(cells, width, room_for)
    else:
        groups = _with_names(view, glyphs, (width, room_for)) or groups
    estimate, stale = view.failover, view.copy_stale
    worst = {Tone.BAD: Severity.BAD, Tone.WARN: Severity.WARN}
    severity = next((worst[tone] for tone in worst if any(c.tone is tone for c in cells)), None)
    if estimate.failed_over:
        loss: Line = (Cell("RPO ", Tone.MUTED), Cell(final_loss(view), Tone.HEADING))
    else:
        known = _read(view, PartName.SOURCE, PartName.TARGET)
        records = _aged(
            Cell(formatting.number(estimate.rpo_records, known=known), Tone.HEADING), glyphs, stale
        )
        loss = (_figure("RPO", view.missed_rpo, glyphs), records, Cell(" records"))
        if estimate.rpo_records and estimate.rpo_s is not None:
            loss = (*loss, Cell(f", {formatting.seconds(estimate.rpo_s)}"))
        if estimate.held_partitions:
            held = formatting.number(estimate.held_records)
            loss = (*loss, Cell(f", {held} more held", Tone.MUTED))
        if view.missed_rpo:
            severity = max(severity or Severity.WARN, Severity.WARN)
    lines = [*groups, loss]
    return (
        [*lines, _rehearsed(view, now, glyphs, width, recorded=recorded)] if height > 2 else lines
    ), severity


def _figure(name: str, missed: Sequence[str], glyphs: Glyphs) -> Cell:
    """Return the name of a figure, with a sign if it misses an objective; Problems has both."""
    if missed:
        return Cell(f"{name} {glyphs.status[Severity.WARN]} ", Tone.WARN)
    return Cell(f"{name} ", Tone.MUTED)


def _in_fewer_words(cells: list[Cell], width: int, height: int) -> list[Line]:
    """Return groups with a word each; first those after the worst, whose number is kept longest.

    The panel about the pair has all of them.
    """
    short = [Cell(" ".join(cell.text.split()[:3]), cell.tone) for cell in cells]
    groups = flow([cells[0], *short[1:]], width, height)
    if sum(cell_len(cell.text) for cell in groups[-1]) > width:
        groups = flow(short, width, height)
    return groups


def _with_names(view: View, glyphs: Glyphs, room: Room) -> list[Line]:
    """Return the groups with as many names as have room; nothing if there is none for any."""
    width, height = room
    named: list[Line] = []
    for names in range(1, width):
        cells = [_shorter(c, width) for c in group_cells(view, glyphs, names) if c.text.strip()]
        lines = flow(cells, width, height)
        is_wider = any(sum(cell_len(cell.text) for cell in line) > width for line in lines)
        if is_wider or lines == named:
            break
        named = lines
    return named


def _shorter(cell: Cell, width: int) -> Cell:
    if width > _ROOMY:
        return cell
    # Once: the names of groups follow.
    text = cell.text
    for words, fewer in (
        ("to stop first", "stop first"),
        ("safe to move", "safe"),
        ("would lose", "loses"),
    ):
        text = text.replace(words, fewer, 1)
    return Cell(text, cell.tone)


def _rehearsed(view: View, now: float, glyphs: Glyphs, width: int, *, recorded: bool) -> Line:
    if recorded:
        return (Cell("RTO ", Tone.MUTED), Cell(formatting.NOT_AVAILABLE, Tone.MUTED))
    last = find_last_rehearsal(view.drills)
    if last is None:
        text = "not rehearsed yet" if view.part(PartName.STATE).taken_at else formatting.NOT_YET
        return (Cell("RTO ", Tone.MUTED), Cell(text, Tone.MUTED))
    ago = formatting.age(max(0.0, now - (last.ended_ms or 0) / 1000))
    severity = _rehearsal_severity(last)
    # Its result is in the panel about the pair, too: a good one needs no sign here.
    mark = Cell(glyphs.status[severity], formatting.tone_of(severity))
    tool = Cell(formatting.seconds(last.tool_ms / 1000), Tone.HEADING)
    how = [Cell(" "), mark] if severity > Severity.OK else [Cell(" rehearsed", Tone.MUTED)]
    line = (_figure("RTO", view.missed_rto, glyphs), tool, *how, Cell(f" {ago} ago", Tone.MUTED))
    if sum(cell_len(cell.text) for cell in line) <= width:
        return line
    return (*line[:2], Cell(","), line[-1])


def _rehearsal_severity(drill: Drill) -> Severity:
    if drill.blockers and not misses_only_objectives(drill):
        return Severity.BAD
    return Severity.WARN if has_findings(drill) else Severity.OK


def _comparison_cells(view: View, now: float, glyphs: Glyphs) -> list[Cell]:
    """Return when all records were compared last, and what was found; none if they never were."""
    last = view.last_comparison
    if last is None:
        return []
    severity = Severity.BAD if last.differences else Severity.OK
    word = f"{last.differences:,} different" if last.differences else "no difference"
    unproven = f", {last.unproven:,} unproven" if last.unproven else ""
    what = "every record" if last.is_whole else "some records"
    age = formatting.age(max(0.0, now - last.at_ms / 1000))
    return [
        glyphs.mark(SeverityLabel(severity, word)),
        Cell(f"{unproven}, {what}, {age} ago", Tone.MUTED),
    ]


def rehearsal_cells(view: View, now: float, glyphs: Glyphs) -> list[Cell]:
    """Return when a failover was rehearsed last, and what came of it."""
    last = find_last_rehearsal(view.drills)
    if last is None:
        known = view.part(PartName.STATE).taken_at is not None
        return [Cell("none yet; 8, N starts one" if known else formatting.NOT_YET, Tone.MUTED)]
    ago = formatting.age(max(0.0, now - (last.ended_ms or 0) / 1000))
    word = f"stopped by {counted(len(last.blockers), 'finding')}" if last.blockers else "passed"
    if last.blockers and misses_only_objectives(last):
        word = "missed an objective"
    tool = formatting.seconds(last.tool_ms / 1000)
    lost = last.figures.rpo_records
    figures = f"RTO {tool}" + ("" if lost is None else f", RPO {lost:,}")
    return [
        glyphs.mark(SeverityLabel(_rehearsal_severity(last), word)),
        Cell(f"  {ago} ago"),
        Cell(f"  {figures}", Tone.MUTED),
        *(Cell(f"  {text}", Tone.WARN) for text in view.missed_rto),
        Cell(f"  by {formatting.name(last.started_by, 40)}", Tone.MUTED),
    ]


def _positions(view: View, glyphs: Glyphs) -> list[Cell]:
    """Return the committed offsets of all groups by the basis of their translation."""
    totals = view.totals
    if totals.groups is None:
        return [Cell(formatting.NOT_YET)]
    if not totals.bases:
        return [_aged(Cell("no committed offset to translate"), glyphs, view.groups_stale)]
    total = Cell(f"{sum(totals.bases.values()):,}", Tone.HEADING)
    cells = [_aged(total, glyphs, view.groups_stale), Cell(":")]
    waiting = view.waiting.total()
    for basis, count in totals.bases.items():
        tone = Tone.PLAIN if basis in _GOOD else Tone.WARN
        is_bad = basis == Basis.UNMAPPED and count > waiting
        cells.append(Cell(f"  {count:,} {basis}", Tone.BAD if is_bad else tone))
    if waiting:
        cells.append(Cell(f"  ({waiting:,} not copied yet)", Tone.MUTED))
    return cells


def _again(view: View, now: float) -> list[Cell]:
    """Return the records that groups would re-read on the target now: k2ktui and MirrorMaker 2."""
    audit = view.audit
    if audit is None:
        failed = view.part(PartName.COMPARISON).error
        return [Cell(formatting.NOT_AVAILABLE if failed else formatting.NOT_YET)]
    by_k2ktui, by_mirror_maker = view.again
    stale = formatting.STALE if view.audit_stale else ""
    return [
        Cell("k2ktui "),
        Cell(reread_text(by_k2ktui), Tone.HEADING),
        Cell("  MirrorMaker 2 "),
        Cell(
            stale + reread_text(by_mirror_maker),
            Tone.BAD if by_mirror_maker.skipped else Tone.HEADING,
        ),
        Cell(
            f"  {formatting.name(audit.flow, 40)}, read {formatting.age(now - audit.taken_at)} ago",
            Tone.MUTED,
        ),
    ]


def _mirror(view: View, now: float, glyphs: Glyphs) -> list[Cell]:
    if not _read(view, PartName.TARGET):
        return [Cell(formatting.NOT_YET)]
    mark = _aged(glyphs.mark(judge_mirror_flow(view, now)), glyphs, view.stale(PartName.TARGET))
    return [mark, Cell("  MirrorMaker 2 copies; k2ktui runs no job of this flow", Tone.MUTED)]


def _job(view: View, now: float, glyphs: Glyphs, run: RunRow | None) -> list[Cell]:
    if run is None:
        text = "no run yet" if _read(view, PartName.STATE) else formatting.NOT_YET
        return [Cell(text, Tone.MUTED)]
    # This host's own record of a job is not as old as the last heartbeat that was read.
    stale = view.stale(PartName.STATE) and run.job is None
    mark = _aged(glyphs.mark(judge_run(run)), glyphs, stale)
    if run.heartbeat_at is None:
        return [mark, Cell(f"  {_where(run)}  no heartbeat yet")]
    lap, lived = formatting.number(run.lap), formatting.age(max(0.0, now - run.heartbeat_at))
    slots, more = counted(run.slots, "slot"), _at_once(view, now, RunKind.COPY)
    return [mark, Cell(f"  {_where(run)}  lap {lap}, {slots}{more}, heartbeat {lived} ago")]


def _sync(view: View, now: float, glyphs: Glyphs, run: RunRow) -> list[Cell]:
    stale = view.stale(PartName.STATE) and run.job is None
    mark = _aged(glyphs.mark(judge_run(run)), glyphs, stale)
    if run.heartbeat_at is None:
        return [mark, Cell(f"  {_where(run)}  no heartbeat yet")]
    lived, more = formatting.age(max(0.0, now - run.heartbeat_at)), _at_once(view, now, run.kind)
    return [mark, Cell(f"  {_where(run)}  heartbeat {lived} ago{more}")]


def _where(run: RunRow) -> str:
    return f"{formatting.name(run.user, 20)}@{formatting.name(run.host, 40)}"


def _at_once(view: View, now: float, kind: RunKind) -> str:
    text = describe_others_of(view, now, kind)
    return f", {text}" if text else ""


def _cluster(
    view: View, cluster: ClusterView, part: PartName, now: float, glyphs: Glyphs
) -> list[Cell]:
    age = view.age(part, now)
    version = f"Kafka {formatting.name(cluster.version)}" if cluster.version else ""
    old = f"read {formatting.age(age)} ago" if age is not None else ""
    about = [formatting.name(cluster.cluster_id) or formatting.NOT_YET, version, old]
    return [
        glyphs.mark(judge_cluster(view, part)),
        Cell("  " + "  ".join(text for text in about if text)),
        Cell(f"  {formatting.name(cluster.address)}", Tone.MUTED),
    ]
