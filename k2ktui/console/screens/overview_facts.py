"""The figures of the overview: the lines of its tiles, and of the panel about the pair."""

from __future__ import annotations

from rich.cells import cell_len

from k2ktui.console.pair_drawing import judge_cluster
from k2ktui.console.visuals.cell_map import cell_map, legend
from k2ktui.console.visuals.shapes import bar, divergence, flow, sparkline
from k2ktui.engine.drill_report import find_last_rehearsal, tool_ms
from k2ktui.engine.journal import RunKind
from k2ktui.engine.translate import Basis
from k2ktui.engine.trend import Direction
from k2ktui.jobs.run_rows import RunRow
from k2ktui.present import formatting
from k2ktui.present.failover import group_cells, loss_cells
from k2ktui.present.formatting import Cell, Glyphs, Line, Tone
from k2ktui.present.pair_state import final_loss
from k2ktui.present.runs import judge_run
from k2ktui.present.view_lines import describe_others_of, reread_text
from k2ktui.text import counted
from k2ktui.watch.model import ClusterView, GroupSummary, PartName, View
from k2ktui.watch.severity import Severity, judge_mirror_flow, judge_partition

_LABEL = 12
_GOOD = (Basis.EXACT, Basis.END)

Room = tuple[int, int]


def pair_lines(
    view: View,
    now: float,
    glyphs: Glyphs,
    run: RunRow | None,
    sync: RunRow | None = None,
    *,
    compact: bool = False,
) -> list[Line]:
    """Return what is behind the tiles: positions, runs and clusters, one line each.

    Args:
        view: what is shown.
        now: the reference time for ages, in epoch seconds.
        glyphs: the character set.
        run: the run that copies.
        sync: the last run of ``k2ktui sync``.
        compact: whether the tiles have no room for all groups by what a failover would do.
    """
    failover = _line(
        "Failover", Cell("" if view.pair_state.moved else "now: "), *group_cells(view, glyphs)
    )
    return [
        *([failover] if compact else []),
        _line("RPO", *loss_cells(view, now, glyphs)),
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
    if view.pair_state.moved and totals.lag_records is None:
        moved = [Cell("none that counts:", Tone.MUTED), Cell("the workload is on the target")]
        return [*flow(moved, width, max(1, height - 1)), tuple(rate)]
    records = Cell(formatting.number(totals.lag_records, known=known), Tone.HEADING)
    behind = Cell(formatting.seconds(totals.lag_seconds, known=known), Tone.HEADING)
    size = [_aged(records, glyphs, view.copy_stale), Cell(" records")]
    if totals.unknown and totals.partitions:
        size.append(Cell(f"  {totals.unknown:,} unknown", Tone.UNKNOWN))
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
    """Return the shares that translate exactly: of retained offsets, and of groups' positions."""
    width, height = room
    known = _read(view, PartName.TARGET, PartName.GROUPS)
    lines: list[Line] = []
    for share, stale, long, short in (
        (
            view.totals.coverage,
            view.copy_stale or view.stale(PartName.GROUPS),
            "of retained offsets",
            "offsets",
        ),
        (view.totals.commit_coverage, view.groups_stale, "of group positions", "positions"),
    ):
        text = formatting.share(share, known=known)
        figure = _aged(Cell(text, Tone.HEADING), glyphs, stale)
        tone = Tone.MUTED if stale else Tone.OK
        if height > 2:
            lines += [(figure, Cell(f" {long}")), bar(share, width, glyphs, tone)]
        else:
            label = Cell(f" {short}".ljust(20 - cell_len(figure.text)))
            lines.append((figure, label, *bar(share, max(1, width - 20), glyphs, tone)))
    return lines


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
    if height > 1:
        return [*cell_map(topics, width, height - 1, glyphs, stale=stale), below]
    bad = {topic: found for topic, found in topics.items() if max(found) >= Severity.WARN}
    left = width - sum(cell_len(cell.text) for cell in below)
    return [
        (*below, *(cell for line in cell_map(bad, left, 1, glyphs, stale=stale) for cell in line))
    ]


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
    lines: list[Line] = [tuple(cells)]
    if not totals.diverging:
        return lines, severity
    skips = Cell(f"{old}{totals.skips:,} skipped", Tone.BAD if totals.skips else Tone.MUTED)
    rereads = Cell(f"{old}{totals.rereads:,} re-read", Tone.WARN if totals.rereads else Tone.MUTED)
    largest = max(totals.skips, totals.rereads)
    between = width - cell_len(skips.text) - cell_len(rereads.text)
    if height > 2:
        drawn = divergence(totals.skips, totals.rereads, largest, width, glyphs)
        numbers = (skips, Cell(" " * max(1, between)), rereads)
        return [*lines, _worst_group(view, glyphs, old), numbers, drawn], severity
    drawn = divergence(totals.skips, totals.rereads, largest, max(3, between - 2), glyphs)
    return [*lines, (skips, Cell(" "), *drawn, Cell(" "), rereads)], severity


def _worst_group(view: View, glyphs: Glyphs, old: str) -> Line:
    def rank(group: GroupSummary) -> tuple[int, int]:
        return group.skips, group.rereads

    group = max(view.summaries, key=rank, default=None)
    if group is None or not any(rank(group)):
        return ()
    verb, count = ("skips", group.skips) if group.skips else ("re-reads", group.rereads)
    tone = Tone.BAD if group.skips else Tone.WARN
    text = f"{formatting.name(group.group, 40)} {verb} {old}{count:,}"
    return (Cell(glyphs.text(text), tone),)


def failover_tile(
    view: View, now: float, glyphs: Glyphs, room: Room, *, recorded: bool
) -> tuple[list[Line], Severity | None]:
    """Return what a failover now would do and lose, and how long the last rehearsal took.

    A ``recorded`` view has no drills: whether there was a rehearsal is not known.
    """
    width, height = room
    cells = [_shorter(cell) for cell in group_cells(view, glyphs) if cell.text.strip()]
    room_for = max(1, height - 2)
    groups = flow(cells, width, room_for)
    if len(cells) > 2 and sum(cell_len(cell.text) for cell in groups[-1]) > width:
        # The worst and the best keep their words; the panel about the pair has all of them.
        middle = [Cell(" ".join(cell.text.split()[:2]), cell.tone) for cell in cells[1:-1]]
        groups = flow([cells[0], *middle, cells[-1]], width, room_for)
    found, stale = view.failover, view.copy_stale
    worst = {Tone.BAD: Severity.BAD, Tone.WARN: Severity.WARN}
    severity = next((worst[tone] for tone in worst if any(c.tone is tone for c in cells)), None)
    if found.failed_over:
        loss: Line = (Cell("RPO ", Tone.MUTED), Cell(final_loss(view), Tone.HEADING))
    else:
        known = _read(view, PartName.SOURCE, PartName.TARGET)
        records = _aged(
            Cell(formatting.number(found.rpo_records, known=known), Tone.HEADING), glyphs, stale
        )
        loss = (Cell("RPO ", Tone.MUTED), records, Cell(" records"))
        if found.rpo_records and found.rpo_s is not None:
            loss = (*loss, Cell(f", {formatting.seconds(found.rpo_s)}"))
    lines = [*groups, loss]
    return ([*lines, _rehearsed(view, now, recorded=recorded)] if height > 2 else lines), severity


def _shorter(cell: Cell) -> Cell:
    text = cell.text.replace("to stop first", "stop first").replace("safe to move", "safe")
    return Cell(text, cell.tone)


def _rehearsed(view: View, now: float, *, recorded: bool) -> Line:
    if recorded:
        return (Cell("RTO ", Tone.MUTED), Cell(formatting.NOT_AVAILABLE, Tone.MUTED))
    last = find_last_rehearsal(view.drills)
    if last is None:
        text = "not rehearsed yet" if view.part(PartName.STATE).taken_at else formatting.NOT_YET
        return (Cell("RTO ", Tone.MUTED), Cell(text, Tone.MUTED))
    ago = formatting.age(max(0.0, now - (last.ended_ms or 0) / 1000))
    return (
        Cell("RTO ", Tone.MUTED),
        Cell(formatting.seconds(tool_ms(last) / 1000), Tone.HEADING),
        Cell(f" rehearsed {ago} ago", Tone.MUTED),
    )


def _positions(view: View, glyphs: Glyphs) -> list[Cell]:
    """Return the committed offsets of all groups by the basis of their translation."""
    totals = view.totals
    if totals.groups is None:
        return [Cell(formatting.NOT_YET)]
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
    ours, theirs = view.again
    stale = formatting.STALE if view.audit_stale else ""
    return [
        Cell("k2ktui "),
        Cell(reread_text(ours), Tone.HEADING),
        Cell("  MirrorMaker 2 "),
        Cell(stale + reread_text(theirs), Tone.BAD if theirs.skipped else Tone.HEADING),
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
