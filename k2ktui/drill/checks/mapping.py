"""The mapping covers the groups, reaches the copy's end, and agrees with the target."""

from __future__ import annotations

import time
from collections import Counter

from k2ktui.drill.checks.context import CheckContext
from k2ktui.drill.checks.registration import ALL, MOVES, check
from k2ktui.engine.drill.checks import CheckFinding, DrillPhase, could_not_check, fails, passes
from k2ktui.engine.mapping.translate import Basis
from k2ktui.engine.records.state import Position
from k2ktui.errors import ConnectionFailed
from k2ktui.log.content import AbsenceReason, ContentReader
from k2ktui.sync.verify.groups import sample_ranges, verify
from k2ktui.sync.verify.record_comparison import Compaction
from k2ktui.sync.verify.schema_id_comparison import open_record_comparison
from k2ktui.sync.verify.verification import Verification
from k2ktui.text import counted, duration, first_names, safe_message, safe_text

_SEED = 0
_PIECES = 20


@check("D14", "mapping coverage", {DrillPhase.PREFLIGHT: ALL, DrillPhase.APPLY: MOVES})
def check_coverage(context: CheckContext) -> CheckFinding:
    """Pass if every committed offset translates, with the basis exact, end or ahead."""
    rows = context.rows()
    if not rows:
        return could_not_check("no group has committed an offset on a replicated topic")
    bases = Counter(str(row.basis) for row in rows)
    text = f"{counted(len(rows), 'committed offset')}: " + ", ".join(
        f"{bases[basis]:,} {basis}" for basis in map(str, Basis) if bases[basis]
    )
    poor = [row for row in rows if row.basis in (Basis.BOUNDED, Basis.UNMAPPED)]
    if not poor:
        return passes(text)
    named = first_names(f"{row.group} {row.topic}-{row.partition}" for row in poor)
    reason = next((row.reason for row in poor if row.reason), "")
    return fails(
        f"{text}; {named}" + (f": {reason}" if reason else ""),
        "k2ktui groups -f FILE explains each row; unmapped offsets are never applied, set them "
        "yourself: k2ktui translate.",
    )


@check("D15", "mapping end", {DrillPhase.PREFLIGHT: ALL, DrillPhase.APPLY: MOVES}, blocks=MOVES)
def check_mapping_end(context: CheckContext) -> CheckFinding:
    """Pass if the mapping of every partition reaches its replicated position.

    Of a partition whose mapping has expired, the position may say where its last record landed.
    """
    replicas = {at: r for at, r in context.snapshot().replicas.items() if r.position is not None}
    if not replicas:
        return could_not_check("nothing is copied yet")
    short, holes, expired = [], 0, 0
    for at, replica in replicas.items():
        position = replica.position
        assert position is not None
        end = position.offset
        lost = (replica.complete_from or 0) >= end > position.start
        if lost and not replica.behind and _names_end(context, position):
            expired += 1
        elif replica.behind or lost or any(last == end for _, last in replica.holes):
            short.append(str(at))
        holes += sum(last - first for first, last in replica.holes)
    total = counted(len(replicas), "partition")
    inside = f"; {counted(holes, 'offset')} without a mapping further back" if holes else ""
    if expired:
        inside += (
            f"; the mapping of {counted(expired, 'partition')} has expired, and their positions "
            "name the end of the copy"
        )
    if short:
        return fails(
            f"the mapping of {len(short):,} of {total} ends before the replicated position: "
            f"{first_names(short)}{inside}",
            f"If the pipeline runs, check again. If it does not, mapping records of "
            f"{first_names(short)} are lost: see k2ktui status -f FILE.",
        )
    return passes(f"the mapping of {total} reaches the replicated position{inside}")


def _names_end(context: CheckContext, position: Position) -> bool:
    """Whether translation uses the end that a position names."""
    if position.target_partition is None or context.config.features.bidirectional_replication:
        return False
    target = position.target_topic, position.target_partition
    return position.end_of_copies(target) is not None


@check("D16", "mapping and target agree", {DrillPhase.PREFLIGHT: ALL}, blocks=MOVES)
def check_mapping_content(context: CheckContext) -> CheckFinding:
    """Pass if sampled mapped records are on the target, with the same content if the source
    answers.
    """
    replicas = context.snapshot().replicas
    if context.down("source") is not None:
        return _check_target_only(context)
    source, target = context.cluster("source"), context.cluster("target")

    def read() -> Verification:
        with open_record_comparison(context.config) as records:
            return verify(
                source,
                target,
                (),
                replicas=replicas,
                sample=_PIECES,
                seed=_SEED,
                records=records,
                timeout=context.limits.reading_s / 2,
            )

    verification = context.read("sampled mapped records", read)
    totals = verification.records
    asked = totals.same + totals.different + totals.could_not_check
    text = (
        f"{counted(asked, 'sampled record')} of {verification.mapped:,} mapped: "
        f"{totals.same:,} equal, {totals.different:,} different, "
        f"{totals.could_not_check:,} could not be compared"
    )
    if totals.different:
        first = next(check for check in verification.checks if check.records.different)
        at = first.pair
        where = f"{at.source} to {at.target[0]}-{at.target[1]}"
        return fails(
            f"{text}; {safe_text(where)}: {safe_message(first.why)}",
            "Do not move groups with this mapping; compare everything: k2ktui verify -f FILE.",
        )
    if totals.could_not_check or not asked:
        why = "; ".join(safe_message(reason) for reason in list(verification.unchecked_records)[:2])
        return could_not_check(f"{text}{'; ' if why else ''}{why}")
    return passes(text)


def _check_target_only(context: CheckContext) -> CheckFinding:
    """Without the source: every sampled mapped offset holds a record on the target."""
    replicas, cluster = context.snapshot().replicas, context.cluster("target")
    pieces = sample_ranges(replicas, _PIECES, _SEED)

    def read() -> tuple[int, list[str]]:
        compacted, lost = Compaction(cluster), []
        where = [((*piece.pair.target, piece.pair.target_offset), piece.count) for piece in pieces]
        with ContentReader(cluster) as reader:
            ranges = reader.stretches(where, context.limits.reading_s / 2)
        for piece, stretch in zip(pieces, ranges, strict=True):
            for step in range(piece.count):
                at = piece.pair.target_offset + step
                why = stretch.absence(at)
                gone = why is AbsenceReason.NONE and not compacted.may(piece.pair.target[0])
                if at not in stretch.records and (gone or why is AbsenceReason.BEYOND):
                    lost.append(f"{piece.pair.target[0]}-{piece.pair.target[1]} at {at}: {why}")
        return sum(len(stretch.records) for stretch in ranges), lost

    present, lost = context.read("sampled mapped records of the target", read)
    asked = sum(piece.count for piece in pieces)
    text = f"{present:,} of {counted(asked, 'sampled mapped record')} found on the target"
    if lost:
        return fails(
            f"{text}; {first_names(lost)}", "Do not move groups with this mapping: k2ktui verify."
        )
    error = context.down("source")
    assert error is not None
    return could_not_check(f"{text}; not compared with the source: {error.message}")


@check("D17", "age of the newest commit", {DrillPhase.PREFLIGHT: ALL})
def check_commit_age(context: CheckContext) -> CheckFinding:
    """Pass if every partition with records to copy was committed within a bound."""
    snapshot = context.snapshot()
    stamps = [r.position.at_ms / 1000 for r in snapshot.replicas.values() if r.position]
    newest = max((at for at in stamps if at), default=0.0)
    if not newest:
        return could_not_check("no commit of the pipeline has a time")
    now, limit = time.time(), context.limits.heartbeat_s
    text = f"newest commit {duration(max(0.0, now - newest))} ago"
    if context.down("source") is not None:
        return could_not_check(f"{text}; whether there was more to copy is unknown")
    try:
        rows = [row.status for row in context.view().partitions]
    except ConnectionFailed as error:
        return could_not_check(f"{text}; {error.message}")
    late = [
        f"{row.topic}-{row.partition}"
        for row in rows
        if row.lag_records and row.copied_at and now - row.copied_at > limit
    ]
    if late:
        return fails(
            f"{text}; {counted(len(late), 'partition')} with records to copy not committed for "
            f"more than {limit:g} s: {first_names(late)}",
            f"See why {first_names(late)} is not copied: k2ktui status -f FILE.",
        )
    return passes(f"{text}; no partition with records to copy is older than {limit:g} s")
