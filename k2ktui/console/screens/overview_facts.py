"""The figures of the overview as lines."""

from __future__ import annotations

from k2ktui.engine.journal import RunKind
from k2ktui.engine.translate import Basis
from k2ktui.engine.trend import Direction
from k2ktui.jobs.run_rows import RunRow
from k2ktui.present import formatting
from k2ktui.present.failover import group_cells, loss_cells
from k2ktui.present.formatting import Cell, Glyphs, Line, Tone
from k2ktui.present.runs import judge_run
from k2ktui.present.view_lines import describe_others_of, reread_text
from k2ktui.text import counted
from k2ktui.watch.model import ClusterView, PartName, View
from k2ktui.watch.severity import (
    Severity,
    SeverityLabel,
    judge_mirror_flow,
)

_LABEL = 12
_SPARK = 24
_GOOD = (Basis.EXACT, Basis.END)


def facts(
    view: View,
    now: float,
    glyphs: Glyphs,
    width: int,
    run: RunRow | None,
    sync: RunRow | None = None,
) -> list[Line]:
    """Return the totals of a view as lines; ``sync`` is the last run of ``k2ktui sync``."""
    spark = max(0, min(_SPARK, width - 70)) if width < 110 else 2 * _SPARK
    return [
        _line("Lag", *_lag(view, glyphs, spark)),
        _line("Throughput", *_throughput(view, glyphs, spark)),
        _line("Coverage", *_coverage(view, glyphs)),
        _line("Partitions", *_partitions(view, glyphs)),
        _line("Groups", *_groups(view, glyphs)),
        _line("Positions", *_positions(view, glyphs)),
        _line(
            "Failover", Cell("" if view.pair_state.moved else "now: "), *group_cells(view, glyphs)
        ),
        _line("RPO", *loss_cells(view, now, glyphs)),
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


def _lag(view: View, glyphs: Glyphs, spark: int) -> list[Cell]:
    totals, known = view.totals, _read(view, PartName.SOURCE, PartName.TARGET)
    if view.pair_state.moved and totals.lag_records is None:
        return [Cell("none that counts: the workload is on the target", Tone.MUTED)]
    stale = view.copy_stale
    cells = [
        _aged(
            Cell(formatting.number(totals.lag_records, known=known), Tone.HEADING), glyphs, stale
        ),
        Cell(" records, oldest "),
        _aged(
            Cell(formatting.seconds(totals.lag_seconds, known=known), Tone.HEADING), glyphs, stale
        ),
    ]
    if totals.direction is not Direction.UNKNOWN:
        cells.append(Cell(f"  {glyphs.direction(totals.direction)} {totals.direction}"))
    if totals.lag_records and totals.eta_s and totals.eta_s >= 1:
        cells.append(Cell(f", {formatting.duration(totals.eta_s)} left", Tone.MUTED))
    if totals.unknown and totals.partitions:
        cells.append(Cell(f"  {totals.unknown:,} unknown", Tone.UNKNOWN))
    if totals.arrived_records:
        cells.append(Cell(f"  {totals.arrived_records:,} of them from the target", Tone.MUTED))
    values = [p.lag_records for p in view.points]
    return [*cells, Cell(f"  {glyphs.spark(values, spark)}", Tone.INFO)]


def _throughput(view: View, glyphs: Glyphs, spark: int) -> list[Cell]:
    text = formatting.number(view.totals.rate, known=len(view.points) > 1 or view.copy_stale)
    values = [p.rate for p in view.points]
    return [
        Cell(text, Tone.HEADING),
        Cell(" records/s"),
        Cell(f"  {glyphs.spark(values, spark)}", Tone.INFO),
    ]


def _coverage(view: View, glyphs: Glyphs) -> list[Cell]:
    known = _read(view, PartName.TARGET, PartName.GROUPS)
    offsets = Cell(formatting.share(view.totals.coverage, known=known), Tone.HEADING)
    commits = Cell(formatting.share(view.totals.commit_coverage, known=known), Tone.HEADING)
    return [
        _aged(offsets, glyphs, view.copy_stale or view.stale(PartName.GROUPS)),
        Cell(" of retained offsets, "),
        _aged(commits, glyphs, view.groups_stale),
        Cell(" of group positions"),
    ]


def _partitions(view: View, glyphs: Glyphs) -> list[Cell]:
    if not _read(view, PartName.SOURCE) and not _read(view, PartName.TARGET):
        return [Cell(formatting.NOT_YET)]
    from k2ktui.watch.severity import judge_partition

    cells = [Cell(f"{view.totals.partitions:,}", Tone.HEADING), Cell(":")]
    verdicts: dict[str, tuple[SeverityLabel, int]] = {}
    for row in view.partitions:
        verdict = judge_partition(row)
        _, count = verdicts.get(verdict.word, (verdict, 0))
        verdicts[verdict.word] = (verdict, count + 1)
    for verdict, count in sorted(verdicts.values(), key=lambda each: -each[0].severity):
        mark = _aged(glyphs.mark(verdict), glyphs, view.copy_stale)
        cells.append(Cell(f"  {count:,} {mark.text}", mark.tone))
    return cells


def _groups(view: View, glyphs: Glyphs) -> list[Cell]:
    totals = view.totals
    if totals.groups is None:
        return [Cell(formatting.NOT_YET)]
    stale = view.groups_stale
    cells = [_aged(Cell(f"{totals.groups:,}", Tone.HEADING), glyphs, stale), Cell(":")]
    if totals.diverging:
        severity = Severity.BAD if totals.skips else Severity.WARN
        verb = "diverges" if totals.diverging == 1 else "diverge"
        old = glyphs.stale if stale else ""
        text = f"  {glyphs.status[severity]} {old}{totals.diverging:,} {verb}"
        sums = ((totals.skips, "skipped"), (totals.rereads, "re-read"))
        amounts = [f"{counted(count, 'record')} {verb}" for count, verb in sums if count]
        text += f" ({', '.join(amounts)})" if amounts else ""
        cells.append(Cell(text, formatting.tone_of(severity)))
    elif totals.bases:
        cells.append(Cell(f"  {glyphs.stale if stale else ''}none diverges", Tone.MUTED))
    return cells


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
    state, age = view.part(part), view.age(part, now)
    if state.error:
        severity = Severity.BAD
        word = "down"
    elif state.is_paused:
        severity, word = Severity.UNKNOWN, "not polled"
    elif state.stale:
        severity, word = Severity.UNKNOWN, "silent"
    elif state.taken_at is None:
        severity, word = Severity.INFO, "connecting"
    else:
        severity, word = Severity.OK, "up"
    version = f"Kafka {formatting.name(cluster.version)}" if cluster.version else ""
    old = f"read {formatting.age(age)} ago" if age is not None else ""
    about = [formatting.name(cluster.cluster_id) or formatting.NOT_YET, version, old]
    return [
        glyphs.mark(SeverityLabel(severity, word)),
        Cell("  " + "  ".join(text for text in about if text)),
        Cell(f"  {formatting.name(cluster.address)}", Tone.MUTED),
    ]
