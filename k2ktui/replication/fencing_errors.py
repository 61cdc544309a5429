"""Errors for operators: lost ownership of a pipeline and refusals by its coordinator."""

from __future__ import annotations

from collections.abc import Sequence

from k2ktui.engine.records.cluster_pair import Side
from k2ktui.engine.records.run_record import LARGEST_SLOTS, LARGEST_TERM, Run
from k2ktui.errors import ClusterRefused, K2kError, Refused, TimedOut
from k2ktui.kafka.admin.transaction_state import TransactionState, describe_partitions
from k2ktui.kafka.wire.cluster import CoordinatorError
from k2ktui.kafka.wire.codes import COORDINATOR_RETRIABLE, INCURABLE, REFUSALS, TOO_LARGE, Code
from k2ktui.text import counted, safe_text

TIMEOUT, MOST_TIMEOUT = "transaction.timeout.ms", "transaction.max.timeout.ms"


class Superseded(Refused):
    """Another driver has taken over the pipeline; this one must end."""


class LayoutChanged(Refused):
    """The slots into which runs share the pipeline have changed; this run's are no longer valid."""


class UnreadableRecords(Refused):
    """Records of this pipeline in the commit topic cannot be read."""


class OwnershipLost(TimedOut):
    """Ownership of the pipeline is unknown: nothing is written until ``take_over``."""


class TransactionUnfinished(TimedOut):
    """The last transaction of a slot does not end: a partition accepts no marker.

    Attributes:
        identity: number of the transactional id.
        state: the coordinator's state of it; None if unknown.
        fenced: whether no task can write with this transactional id until it is bumped again.
    """

    identity: int = -1
    state: TransactionState | None = None
    fenced: bool = False


def transaction_unfinished(
    name: str, identity: int, state: TransactionState | None, *, fenced: bool
) -> TransactionUnfinished:
    """Return the error of a slot whose last transaction does not end; ``name`` is its id."""
    blocked = describe_partitions(state.partitions if state else ())
    error = TransactionUnfinished(
        f"the last transaction of {name} on the target cannot end: {blocked} accepts no writes",
        unchanged="Nothing was written.",
        hint="Check the target's brokers and the partition's in-sync replicas "
        "(min.insync.replicas), then try again. A running pipeline tries again by itself.",
    )
    error.identity, error.state, error.fenced = identity, state, fenced
    return error


def superseded(pipeline: str) -> Superseded:
    """Return the error of a driver that another one has fenced."""
    return Superseded(
        f"another k2ktui has started pipeline {pipeline} and fenced this one",
        unchanged="This run stopped writing at once; the other continues from its positions.",
        hint="Run a pipeline in one place only.",
    )


def describe_changed(changed: Sequence[tuple[Side, str, str]]) -> str:
    """Return which clusters are others than those on record; see ``ClusterPair.find_changed``."""
    return "; ".join(
        f"the {side} cluster has id {safe_text(now)}, and the positions belong to "
        f"{safe_text(recorded)}"
        for side, recorded, now in changed
    )


def clusters_changed(pipeline: str, changed: Sequence[tuple[Side, str, str]]) -> Refused:
    """Return the error of a run whose clusters are not those that another one has recorded."""
    return Refused(
        f"pipeline {safe_text(pipeline)}: {describe_changed(changed)}",
        unchanged="This run copied nothing, and its positions stay.",
        hint="Check where bootstrap.servers lead to, then start it again: k2ktui check -f FILE "
        "tells the ways on.",
    )


def other_name(pipeline: str, other: str, group: str, where: str = "") -> Refused:
    """Return the error of a run whose commit group is in use by a pipeline of another name.

    Args:
        pipeline, other: the names.
        group: ``coordination.commit.group`` of both.
        where: the runs of the other one; "" if it is not known.
    """
    runs = f" ({where})" if where else ""
    return Refused(
        f"pipeline {safe_text(other)} is running{runs} with the same coordination.commit.group, "
        f"{safe_text(group)}: it has the positions that pipeline {safe_text(pipeline)} would use",
        unchanged="This run copied nothing.",
        hint="Give each pipeline a coordination.commit.group of its own; without one, it is the "
        "name. If this is the same pipeline under a new name, stop every run of the former name "
        "first.",
    )


def layout_changed(pipeline: str) -> LayoutChanged:
    """Return the error of a run that took a slot of an earlier layout over."""
    return LayoutChanged(
        f"the slots of pipeline {pipeline} were divided again, or a run copies it alone",
        unchanged="This run copied nothing of that slot.",
        hint="Nothing: it waits until the runs share the pipeline again.",
    )


def never_fenced(pipeline: str, slot: int | None) -> TimedOut:
    """Return the error of a slot that other runs took over again after each time it was fenced."""
    return TimedOut(
        f"slot {slot} of pipeline {pipeline} could not be fenced: other runs take it each time",
        unchanged="No position was changed.",
        hint="Start it again; if it happens again, stop the other runs of the pipeline first.",
    )


def unreadable_moves(topic: str, records: int) -> UnreadableRecords:
    """Return the error of a run that cannot read which topics drills have moved.

    Args:
        topic: the commit topic.
        records: how many of its records cannot be read.
    """
    return UnreadableRecords(
        f"{counted(records, 'record')} of moved topics in {safe_text(topic)} cannot be read: a "
        "topic whose clients were moved to the target could be copied again",
        unchanged="Nothing was copied.",
        hint="Use the release that wrote them; k2ktui drill list -f FILE shows which drills have "
        "moved topics.",
    )


def refuse_unreadable(run: Run, topic: str) -> None:
    """Refuse to write a run record that no run could read.

    Args:
        run: what the record would hold.
        topic: the commit topic.

    Raises:
        Refused: its term or its number of slots is too large.
    """
    if run.term <= LARGEST_TERM and run.slots <= LARGEST_SLOTS:
        return
    raise Refused(
        f"the next run of pipeline {run.name} would have term {run.term} and {run.slots} slots; "
        f"the largest that can be read are {LARGEST_TERM} and {LARGEST_SLOTS}",
        unchanged="No run record was written, and nothing was copied.",
        hint=f"Find out who may write to {safe_text(topic)} on the target: no run has written a "
        "record like that. Then set another coordination.commit.group, and give it the positions "
        "that k2ktui offsets show printed before, with k2ktui offsets set.",
    )


def outcome_unknown(topic: str, reason: str) -> TimedOut:
    """Return the error of records of the driver that may or may not have been written."""
    return TimedOut(
        f"writing to {topic} on the target: {reason}",
        unchanged="Whether it was written is unknown.",
        hint="Start again: the state is read from the target.",
    )


def ownership_lost(*, has_expired: bool = False) -> OwnershipLost:
    """Return the error of a driver whose epoch was raised without a run that takes its place.

    It got no response to a bump of its own, or topics of its pipeline were moved; or the
    coordinator has forgotten its id, which is known then.
    """
    if has_expired:
        cause = (
            "the target has forgotten the driver's transactional id, which was not used for "
            "transactional.id.expiration.ms of its brokers"
        )
    else:
        cause = (
            "the driver's epoch was raised: a response of the transaction coordinator was lost, or "
            "topics were moved"
        )
    return OwnershipLost(
        cause,
        unchanged="No records are written until the run has taken over the pipeline again.",
        hint="Start the pipeline again unless it is running: then it takes over by itself.",
    )


def records_refused(topic: str, code: int, reason: str) -> ClusterRefused:
    """Return the error of records of the driver that the target refused.

    Args:
        topic: the commit topic.
        code: the error code.
        reason: the code's name, with the broker's message if there is one.
    """
    hint = "See the target broker's log."
    if code == Code.TOPIC_AUTHORIZATION_FAILED:
        hint = f"Grant the target principal Describe and Write on topic {safe_text(topic)}."
    elif code in TOO_LARGE:
        hint = f"Raise max.message.bytes of topic {safe_text(topic)} on the target."
    return ClusterRefused(
        f"writing to {topic} on the target: {reason}",
        unchanged="The records are in no committed transaction.",
        hint=hint,
    )


def coordinator_refused(error: CoordinatorError, group: str, timeout_ms: int = 0) -> K2kError:
    """Return the error of a request that the transaction coordinator did not fulfill.

    It is ``ClusterRefused`` if a change on the target may cure it, plain ``Refused`` if not.

    Args:
        error: the coordinator's error.
        group: the commit group, the prefix of all transactional ids.
        timeout_ms: timeout of the pipeline's transactions, which only the driver requests.
    """
    if error.code in REFUSALS:
        kind = Refused if error.code in INCURABLE else ClusterRefused
        text, hint = describe_coordinator_refusal(error, group, timeout_ms)
        return kind(text, unchanged="Nothing was written.", hint=hint)
    waited = error.code in COORDINATOR_RETRIABLE
    return TimedOut(
        "the target's transaction coordinator "
        + (f"is not available: {error}" if waited else f"failed: {error}"),
        hint="Check the target cluster's health, then start again.",
    )


def describe_coordinator_refusal(
    error: CoordinatorError, group: str, timeout_ms: int
) -> tuple[str, str]:
    """Return what a transaction coordinator refused, and the fix; arguments as above."""
    if error.code == Code.TRANSACTIONAL_ID_AUTHORIZATION_FAILED:
        return (
            f"the target principal may not use transactional id {group}.*",
            f"Grant it Describe and Write on transactional ids prefixed {group}.",
        )
    if error.code == Code.INVALID_TRANSACTION_TIMEOUT:
        return (
            f"the target refuses every transaction: transaction.timeout.ms is {timeout_ms:,} ms, "
            "above its transaction.max.timeout.ms",
            timeout_fix(),
        )
    if error.code == Code.CLUSTER_AUTHORIZATION_FAILED:
        return (
            f"the target refuses the producer: {error}",
            "Grant the target principal IdempotentWrite on the cluster (brokers before 3.0).",
        )
    return f"the target's transaction coordinator refused: {error}", "See the target broker's log."


def timeout_fix(limit_ms: int | None = None) -> str:
    """Return how to make the target accept the pipeline's transactions."""
    at_most = f"at most {limit_ms} (ms)" if limit_ms else "a smaller value"
    return (
        f"Set {TIMEOUT} in target.kafka.producer to {at_most}, or raise {MOST_TIMEOUT} of the "
        "target's brokers."
    )
