"""Site drills: columns of their list and of their members."""

from __future__ import annotations

from collections.abc import Mapping

from k2ktui.drill.progress import describe_loss, rto_ms
from k2ktui.engine.drill.model import DrillStatus
from k2ktui.engine.drill.site import MemberState, MemberStatus, SiteDrill
from k2ktui.engine.severity import Severity, SeverityLabel
from k2ktui.present.columns import Column, begun_column, name_column, sentence_column
from k2ktui.present.formatting import NOT_AVAILABLE, Cell, Glyphs, duration
from k2ktui.site.report import describe_member, site_has_findings, summarize_site

_MEMBERS: Mapping[MemberStatus, Severity] = {
    MemberStatus.WAITING: Severity.INFO,
    MemberStatus.RUNNING: Severity.INFO,
    MemberStatus.HELD: Severity.BAD,
    MemberStatus.READY: Severity.OK,
    MemberStatus.OPENED: Severity.INFO,
    MemberStatus.DONE: Severity.OK,
    MemberStatus.LEFT_OUT: Severity.WARN,
    MemberStatus.ABORTING: Severity.BAD,
    MemberStatus.ABORTED: Severity.OK,
}


def judge_member(state: MemberState) -> SeverityLabel:
    """Rate a member by where it is."""
    return SeverityLabel(_MEMBERS[state.status], str(state.status))


def judge_site(site: SiteDrill) -> SeverityLabel:
    """Rate a site drill by its status, its members and its findings."""
    word = str(site.status)
    if any(state.status is MemberStatus.HELD for state in site.moving):
        return SeverityLabel(Severity.BAD, word)
    if site.status is DrillStatus.ABORTING:
        return SeverityLabel(Severity.BAD, word)
    if site.status is DrillStatus.OPEN:
        return SeverityLabel(Severity.INFO, word)
    return SeverityLabel(Severity.WARN if site_has_findings(site) else Severity.OK, word)


def member_columns(glyphs: Glyphs) -> tuple[Column[MemberState], ...]:
    """Return the columns of a site drill's members."""

    def loss(state: MemberState) -> Cell:
        text = describe_loss(state.drill) if state.drill is not None else ""
        return Cell(text or glyphs.text(NOT_AVAILABLE))

    def recovered(state: MemberState) -> Cell:
        took = rto_ms(state.drill) if state.drill is not None else None
        return Cell(glyphs.text(NOT_AVAILABLE) if took is None else duration(took / 1000))

    return (
        name_column("pipeline", lambda s: s.pipeline, longest=40, width=10),
        Column("status", "status", lambda s: glyphs.mark(judge_member(s)), width=9),
        Column("rpo", "RPO", loss, width=10, rank=2),
        Column("rto", "RTO", recovered, width=6, rank=3),
        sentence_column("phase", describe_member, heading="phase, or why it is held"),
    )


def site_columns(glyphs: Glyphs) -> tuple[Column[SiteDrill], ...]:
    """Return the columns of a list of site drills."""
    return (
        name_column("id", lambda s: s.id, longest=40, width=20, rank=2),
        name_column("site", lambda s: s.name, longest=40, width=6),
        Column("kind", "kind", lambda s: Cell(str(s.kind)), lambda s: s.kind, width=8),
        Column("status", "status", lambda s: glyphs.mark(judge_site(s)), width=10),
        begun_column(lambda s: s.started_ms),
        Column(
            "pipelines",
            "pipelines",
            lambda s: Cell(f"{len(s.members):,}"),
            lambda s: len(s.members),
            right=True,
            width=9,
        ),
        sentence_column("result", lambda s: summarize_site(s)[0]),
    )
