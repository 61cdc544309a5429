"""The frame of every screen: the pipeline pair and data age on top, problems below."""

from __future__ import annotations

from rich.cells import cell_len

from k2ktui.console.session import Session, who
from k2ktui.console.widgets.styled_text import fit
from k2ktui.present.formatting import NOT_YET, Cell, Glyphs, Line, Tone, age, name
from k2ktui.watch.feed import Feed
from k2ktui.watch.model import ClusterView, PartName, View
from k2ktui.watch.player import Player

_SHORT_ID = 8
_WIDE = 110


def header(session: Session, view: View | None, width: int, glyphs: Glyphs) -> Line:
    """Return the header: the pipeline pair, the user, the access mode and the age of the data."""
    may = session.access
    word = "READ-WRITE" if may.writable else "READ-ONLY"
    right = [
        Cell(who() if width >= 70 else who().split("@")[0], Tone.MUTED),
        Cell(f" {word} ", Tone.WARN if may.writable else Tone.OK),
        *_age(session.feed, view, glyphs),
    ]
    space = width - sum(cell_len(cell.text) for cell in right) - 2
    environment = f" {name(session.pair.environment)}" if session.pair.environment else ""
    pair = f"{name(session.pair.pipeline, 40)}{environment}"
    source, target = (view.source, view.target) if view else (ClusterView(), ClusterView())
    wide = width >= _WIDE
    clusters = f"  {_cluster(source, wide)} {glyphs.arrow} {_cluster(target, wide)}"
    pair = fit(pair, min(cell_len(pair), max(4, space)))
    clusters = fit(clusters, max(0, space - cell_len(pair)))
    return (Cell(pair, Tone.HEADING), Cell(clusters), Cell("  "), *right)


def _cluster(cluster: ClusterView, wide: bool) -> str:
    if not cluster.cluster_id:
        return f"{name(cluster.address)} {NOT_YET}" if wide and cluster.address else NOT_YET
    short = name(cluster.cluster_id)
    if not wide:
        return short[:_SHORT_ID]
    return f"{short} ({cluster.version})" if cluster.version else short


def _age(feed: Feed, view: View | None, glyphs: Glyphs) -> list[Cell]:
    if isinstance(feed, Player):
        place = f" replay {feed.number + 1}/{len(feed.times)}"
        return [Cell(place + (" paused" if feed.paused else ""), Tone.INFO)]
    if view is None:
        return [Cell(NOT_YET, Tone.MUTED)]
    ages = [view.age(part, feed.now()) for part in (PartName.SOURCE, PartName.TARGET)]
    known = [each for each in ages if each is not None]
    # MirrorMaker 2's part, used for comparison, is not part of the pipeline.
    stale = any(view.part(part).stale for part in PartName if part is not PartName.COMPARISON)
    text = age(max(known)) if known else NOT_YET
    if stale:
        text = f"{glyphs.stale}{text}"
    if feed.paused:
        text += " paused"
    late = stale or feed.paused or (bool(known) and max(known) > 3 * feed.interval)
    return [Cell(text, Tone.WARN if late else Tone.MUTED)]


def tabs(entries: list[tuple[str, str, bool]], width: int) -> Line:
    """Return the screens' keys and titles; ``entries`` are (key, title, whether it is active)."""
    for letters in (20, 5, 0):
        cells: list[Cell] = []
        for key, title, active in entries:
            text = f" {key} {title if active else title[:letters]}".rstrip()
            text += " " if active else ""
            cells.append(Cell(text, Tone.HEADING if active else Tone.MUTED))
        if sum(cell_len(cell.text) for cell in cells) <= width:
            break
    return tuple(cells)


def banner(session: Session, view: View | None, notes: list[str], glyphs: Glyphs) -> list[Line]:
    """Return warnings about the view itself: unreachable clusters, invalid user files."""
    lines: list[Line] = [
        (Cell(f"{glyphs.status[2]} {name(note)}", Tone.WARN),) for note in notes[:3]
    ]
    if view is None:
        return lines
    for part in PartName:
        state = view.part(part)
        if state.error:
            old = age(view.age(part, session.feed.now()))
            kept = f"; values are {glyphs.stale}{old} old" if state.taken_at else "; nothing known"
            text, tone = f"{glyphs.status[4]} {part} does not answer", Tone.BAD
            if part is PartName.COMPARISON:
                text, tone = f"{glyphs.status[2]} MirrorMaker 2 cannot be compared", Tone.WARN
            lines.append((Cell(text + kept, tone), Cell(f"  {name(state.error)}", Tone.MUTED)))
        elif state.pending_s > 3 * session.feed.interval or (
            state.stale and part is not PartName.COMPARISON
        ):
            text = f"{glyphs.status[2]} {part}: waiting for an answer for {state.pending_s:.0f} s"
            lines.append((Cell(text, Tone.WARN),))
    if view.source_down and not view.part(PartName.GROUPS).error:
        old = "" if view.commits_at is None else age(session.feed.now() - view.commits_at)
        text = (
            f"{glyphs.status[2]} groups of the source are {glyphs.stale}{old} old, kept on target"
        )
        lines.append((Cell(text, Tone.WARN),))
    if session.recorder and session.recorder.error:
        lines.append((Cell(f"{glyphs.status[2]} {session.recorder.error}", Tone.WARN),))
    return lines
