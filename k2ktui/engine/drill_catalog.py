"""The catalog of drill checks: when each passes, who asks it in which phase, and what it stops."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from k2ktui.engine.drill_checks import (
    CheckGroup,
    CheckResult,
    DrillCheck,
    DrillKind,
    DrillPhase,
    Phases,
)

_R, _P, _D, _F = DrillKind
_PRE, _LAG, _REV = DrillPhase.PREFLIGHT, DrillPhase.LAG, DrillPhase.REVERSE
_APPLY, _VERIFY, _REPORT = DrillPhase.APPLY, DrillPhase.VERIFY, DrillPhase.REPORT
_CONTENT = DrillPhase.CONTENT
_STOP, _CLIENTS = DrillPhase.STOP_CONSUMERS, DrillPhase.WATCH_CLIENTS
_FENCE, _DRAIN, _FENCED = DrillPhase.FENCE_PRODUCERS, DrillPhase.DRAIN, DrillPhase.FENCE_REPLICATOR

# Ids, and the phases in which each kind of drill asks them.
_ASKED: tuple[tuple[str, Phases], ...] = (
    (
        "D01 D02 D03 D04 D05 D12 D16 D17 D25 D28 D31 D32 D33 D34",
        {_R: (_PRE,), _P: (_PRE,), _D: (_PRE,), _F: (_PRE,)},
    ),
    ("D07 D11 D13 D23 D26 D27 D29 D30", {_R: (_PRE,), _P: (_PRE,), _F: (_PRE,)}),
    ("D06", {_R: (_PRE,), _P: (_PRE, _LAG), _D: (_PRE,), _F: (_PRE, _LAG)}),
    ("D08 D09", {_R: (_PRE,), _P: (_PRE, _LAG), _F: (_PRE, _LAG)}),
    ("D10", {_R: (_PRE,), _P: (_PRE, _FENCE), _F: (_PRE, _FENCE)}),
    (
        "D14 D15 D20 D21 D24",
        {_R: (_PRE,), _P: (_PRE, _APPLY), _D: (_PRE, _APPLY), _F: (_PRE, _APPLY)},
    ),
    ("D18", {_R: (_PRE,), _P: (_PRE, _STOP), _D: (_PRE,), _F: (_PRE, _STOP)}),
    ("D19", {_R: (_PRE,), _P: (_PRE, _APPLY), _F: (_PRE, _APPLY)}),
    ("D22", {_R: (_CONTENT,), _P: (_APPLY, _VERIFY), _D: (_APPLY,), _F: (_APPLY, _VERIFY)}),
    ("D35 D36 D38", {_R: (_CONTENT,), _P: (_VERIFY,), _F: (_VERIFY,)}),
    ("D37", {_R: (_CONTENT,), _P: (_VERIFY,), _D: (_VERIFY,), _F: (_VERIFY,)}),
    ("D39", {_P: (_FENCE,), _F: (_FENCE,)}),
    ("D40", {_P: (_DRAIN,), _F: (_DRAIN,)}),
    ("D41", {_P: (_VERIFY,), _D: (_VERIFY,), _F: (_VERIFY,)}),
    ("D42", {_P: (_FENCED,), _D: (_FENCED,), _F: (_FENCED,)}),
    ("D43", {_R: (_PRE,), _P: (_PRE, _REV), _D: (_REPORT,), _F: (_PRE, _REV)}),
    ("D44", {_R: (DrillPhase.SHADOW,), _P: (_CLIENTS,), _D: (_CLIENTS,), _F: (_CLIENTS,)}),
    ("D45", {_P: (_CLIENTS,), _D: (_CLIENTS,), _F: (_CLIENTS,)}),
    ("D46", {_R: (_REPORT,), _P: (_REPORT,), _D: (_REPORT,), _F: (_REPORT,)}),
    ("D47", {_P: (_REV,), _D: (_REPORT,), _F: (_REV,)}),
    ("D48", {_P: (_REPORT,), _D: (_REPORT,), _F: (DrillPhase.TAIL,)}),
)

# Ids, and the kinds of drill that a failure stops.
_BLOCKS: tuple[tuple[str, frozenset[DrillKind]], ...] = (
    ("D01 D02 D05 D12 D15 D16 D20 D32 D41 D42", frozenset({_P, _D, _F})),
    (
        "D03 D06 D07 D08 D09 D10 D11 D13 D18 D26 D34 D35 D36 D38 D39 D40",
        frozenset({_P, _F}),
    ),
)

_LAST: tuple[tuple[int, CheckGroup], ...] = tuple(
    zip((5, 13, 17, 25, 34, 38, 43, 48), CheckGroup, strict=True)
)

# Title, and a clause after "Passes if".
_TEXTS: Mapping[str, tuple[str, str]] = {
    "D01": (
        "cluster identity",
        "both clusters answer with the cluster ids that the pipeline or the drill recorded",
    ),
    "D02": (
        "broker versions",
        "the source's brokers can be read and the target's written to, with transactions",
    ),
    "D03": (
        "credentials and rights",
        "every client role can log in and has the rights that it needs",
    ),
    "D04": (
        "clock skew",
        "the clocks of both clusters and of this machine differ by at most a bound",
    ),
    "D05": (
        "two clusters",
        "source and target are different clusters",
    ),
    "D06": (
        "lag",
        "records and seconds not copied are within bounds on every partition",
    ),
    "D07": (
        "heartbeat",
        "the process that copies has sent a heartbeat recently",
    ),
    "D08": (
        "copying makes progress",
        "the pipeline runs, and a second reading shows that it copies or has nothing to copy",
    ),
    "D09": (
        "stalled partitions",
        "no partition stands still while it has records to copy",
    ),
    "D10": (
        "open transactions on the source",
        "no transaction holds back records for longer than a bound; after the fence, none at all",
    ),
    "D11": (
        "truncation and gaps",
        "the source still has every record from the replicated position on",
    ),
    "D12": (
        "topic ids",
        "no topic was deleted and created again on either cluster since it was first copied; "
        "could-not-check where topics have no id (before Kafka 2.8)",
    ),
    "D13": (
        "retention headroom",
        "the source does not soon delete a record that is not copied yet",
    ),
    "D14": (
        "mapping coverage",
        "every committed offset translates, with the basis exact, end or ahead",
    ),
    "D15": (
        "mapping end",
        "the mapping of every partition reaches its replicated position",
    ),
    "D16": (
        "mapping and target agree",
        "sampled mapped records are on the target, with the same content if the source answers",
    ),
    "D17": (
        "age of the newest commit",
        "every partition with records to copy was committed within a bound",
    ),
    "D18": (
        "groups on the source",
        "every group can be read; once consumers are to be stopped, none has members",
    ),
    "D19": (
        "committed offsets in range",
        "every committed offset is within its log on the source, and in no gap",
    ),
    "D20": (
        "groups inactive on the target",
        "no group has members on the target or commits there without any",
    ),
    "D21": (
        "commits on the target",
        "no group's commit on the target is ahead of its translated offset",
    ),
    "D22": (
        "re-reads, skips and next records",
        "no group would read again or skip a record, and the next record is the same on both sides",
    ),
    "D23": (
        "types of groups",
        "no share or streams group reads replicated topics: their positions cannot be moved",
    ),
    "D24": (
        "partitions without an offset",
        "every partition that a group would read on the target has an offset there after the move",
    ),
    "D25": (
        "partition of each key",
        "records keep their partition, and new producers choose the same one for a key",
    ),
    "D26": (
        "partition counts",
        "every topic has as many partitions on the target as on the source",
    ),
    "D27": (
        "topic settings",
        "settings that change what is kept or accepted are equal on both clusters",
    ),
    "D28": (
        "retention on the target",
        "the target keeps records for the replay window and has deleted none that a group needs",
    ),
    "D29": (
        "ACLs",
        "the target has every ACL of the source on these topics, groups and transactional ids",
    ),
    "D30": (
        "client quotas",
        "no client has a lower quota on the target than on the source",
    ),
    "D31": (
        "schema ids",
        "the registry for the target has every schema id in sampled records",
    ),
    "D32": (
        "replicas on the target",
        "every partition on the target has a leader and all replicas in sync",
    ),
    "D33": (
        "disk space on the target",
        "every log directory of the target has a share of its space free",
    ),
    "D34": (
        "topic names",
        "every source topic has one target topic, and no other topic has the name clients expect",
    ),
    "D35": (
        "record counts",
        "the newest copied offsets hold as many records on the target as on the source",
    ),
    "D36": (
        "checksums",
        "the checksum of the newest copied records is the same on both clusters",
    ),
    "D37": (
        "duplicates and order",
        "the target has the copied records once, in source order, and no others between them",
    ),
    "D38": (
        "aborted records",
        "no record of an aborted transaction on the source is mapped to the target",
    ),
    "D39": (
        "producers fenced",
        "the source's end offsets do not move for a time, and no transaction is open",
    ),
    "D40": (
        "drained",
        "replicated position, last stable offset and high watermark are equal on every partition",
    ),
    "D41": (
        "offsets applied",
        "the target returns every offset that the drill committed",
    ),
    "D42": (
        "replicator fenced",
        "no run is alive, and every transactional id has the epoch that the drill left",
    ),
    "D43": (
        "loop guard",
        "the reverse pipeline copies no record back that came from its target",
    ),
    "D44": (
        "records that groups read",
        "the first records that each group read on the target are its next records on the source",
    ),
    "D45": (
        "lag on the target",
        "the lag on the target of every group that was active falls or is zero",
    ),
    "D46": (
        "measured RTO and RPO",
        "the measured times and losses are within bounds",
    ),
    "D47": (
        "reverse pipeline",
        "the reverse pipeline copies every target topic, from the first record after the move on",
    ),
    "D48": (
        "records not copied",
        "every record of the source that was not copied is listed",
    ),
}


def _make_check(check_id: str) -> DrillCheck:
    (phases,) = [found for ids, found in _ASKED if check_id in ids.split()]
    blocks = [kinds for ids, kinds in _BLOCKS if check_id in ids.split()]
    group = next(group for last, group in _LAST if int(check_id[1:]) <= last)
    title, rule = _TEXTS[check_id]
    return DrillCheck(check_id, group, title, rule, phases, frozenset().union(*blocks))


CATALOG: Mapping[str, DrillCheck] = {check_id: _make_check(check_id) for check_id in _TEXTS}
"""All checks by id, in order."""


def ids_asked(kind: DrillKind, phase: DrillPhase | None = None) -> tuple[str, ...]:
    """Return the ids of the checks that a kind of drill asks, in one phase or in any."""
    return tuple(
        check.id
        for check in CATALOG.values()
        if kind in check.phases and (phase is None or phase in check.phases[kind])
    )


def blocking(results: Iterable[CheckResult], kind: DrillKind) -> list[CheckResult]:
    """Return the failures that stop a drill of a kind."""
    return [each for each in results if each.failed and kind in CATALOG[each.id].blocks]
