"""Nothing is written to the source, everything is copied, nothing copies later."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Sequence
from contextlib import closing
from dataclasses import replace
from time import monotonic, sleep
from typing import TypeVar

from k2ktui.config.model import PipelineConfig
from k2ktui.drill.checks.context import CheckContext
from k2ktui.drill.checks.evidence import decide
from k2ktui.drill.checks.findings import Route, find_loops
from k2ktui.drill.checks.registration import MOVES, SWITCHOVERS, WITH_SOURCE, check
from k2ktui.drill.checks.topic_pairs import read_names
from k2ktui.drill.copier import watch_copier
from k2ktui.drill.logs import KnownLogs, SourceLogEnd, SourceLogs, count_written
from k2ktui.engine.drill.checks import (
    CheckFinding,
    DrillKind,
    DrillPhase,
    could_not_check,
    fails,
    passes,
)
from k2ktui.engine.moves.groups import GroupView
from k2ktui.engine.producers import UNKNOWN, Writers, name_writers
from k2ktui.engine.records.state import SourcePartition
from k2ktui.errors import K2kError
from k2ktui.kafka.admin.probe import Probe
from k2ktui.kafka.admin.topics import abort_command
from k2ktui.kafka.admin.transaction_state import TransactionState, describe_transaction
from k2ktui.kafka.clients import Cluster, source_cluster
from k2ktui.kafka.properties.translation import wire
from k2ktui.kafka.wire.cluster import Wire
from k2ktui.replication.ownership.topic_moves import read_moved
from k2ktui.replication.preflight.clusters import SIDES
from k2ktui.sync.cluster_readers import ConsumerGroupReader
from k2ktui.sync.flow import CopierObservation
from k2ktui.text import counted, first_names, safe_text

_CONNECT_S = 10.0
_DESCRIBE_S = 5.0
T = TypeVar("T")


@check("D39", "producers fenced", {DrillPhase.FENCE_PRODUCERS: SWITCHOVERS}, blocks=SWITCHOVERS)
def check_producers(context: CheckContext) -> CheckFinding:
    """Pass if the source's end offsets do not move for a time, no topic of the pipeline appears or
    goes, and no transaction is open.
    """
    seconds = context.limits.frozen_s

    def read(logs: SourceLogs) -> tuple[KnownLogs, KnownLogs, Writers]:
        before, writers = logs.read_known(), Writers()
        writers.add((), monotonic())
        sleep(seconds)
        after = logs.read_known()
        changed = count_written(before.ends, after.ends)
        written = [end for end in before.ends if end.at in changed]
        # Of what is open, the first offset tells who has not ended it.
        written += [replace(e, high=e.stable) for e in after.ends if e.in_transactions]
        writers.add(logs.read_writers(written), monotonic())
        return before, after, writers

    before, after, writers = _read_logs(context, "the source's end offsets twice", read)
    unknown = {*before.unread, *after.unread}
    was, now = ({end.at for end in logs.ends} for logs in (before, after))
    known = {at for at in was | now if at not in unknown and at.topic not in unknown}
    moved = count_written(before.ends, after.ends, unknown)
    held = [end for end in after.ends if end.in_transactions]
    text = (
        f"{len(moved):,} of {counted(len(known), 'partition')} moved in {seconds:g} s, "
        f"{len(held):,} with an open transaction"
    )
    who = name_writers(writers.list())
    by = f"; written by {who}; {UNKNOWN}" if who else ""
    if moved:
        appeared = moved.keys() - was
        gone = moved.keys() - now
        shown = [f"{at} by {moved[at]:,}" for at in moved.keys() & was & now]
        shown += [f"{at} appeared" for at in appeared] + [f"{at} is gone" for at in gone]
        return fails(f"{text}: {first_names(shown)}{by}", _stop_changes(moved, appeared | gone))
    if held:
        first = held[0]
        return fails(
            f"{text}: {first_names(end.at for end in held)}{by}",
            "Wait for the time-outs of these transactions, or abort them, first: "
            + abort_command(
                context.config.source, first.at.topic, first.at.partition, first.stable
            ),
        )
    if unknown or not known:
        return could_not_check(f"{text}; some end offsets are unknown")
    return passes(text)


def _stop_changes(
    moved: Collection[SourcePartition], came_or_went: Collection[SourcePartition]
) -> str:
    """Say who has to stop what: producers that write, or what creates and deletes topics."""
    written = {at.topic for at in moved if at not in came_or_went}
    other = {at.topic for at in came_or_went}
    parts = []
    if written:
        parts.append(
            f"Stop the producers that still write to {first_names(written)} on the source."
        )
    if other:
        parts.append(
            "Stop what creates or deletes topics on the source until the drill is over: "
            f"{first_names(other)}."
        )
    return " ".join(parts)


def _read_logs(context: CheckContext, name: str, read: Callable[[SourceLogs], T]) -> T:
    source, target = context.cluster("source"), context.cluster("target")

    def run() -> T:
        with closing(SourceLogs(context.flow, source, target)) as logs:
            return read(logs)

    return context.read(name, run)


@check("D40", "drained", {DrillPhase.DRAIN: SWITCHOVERS}, blocks=SWITCHOVERS)
def check_drained(context: CheckContext) -> CheckFinding:
    """Pass if replicated position, last stable offset and high watermark are equal on every
    partition.
    """
    logs = _read_logs(context, "how far the copy is", SourceLogs.read_known)
    ends, unread = logs.ends, [*logs.unread, *logs.gone]
    if not ends and not unread:
        return could_not_check("no partition is selected")
    left = [end for end in ends if not end.is_drained]
    text = (
        f"{len(ends) - len(left):,} of {counted(len(ends) + len(unread), 'partition')} drained; "
        f"{counted(sum(end.to_copy for end in left), 'record')} to copy, "
        f"{sum(end.in_transactions for end in left):,} in open transactions"
    )
    return decide(text, map(_describe_left, left), _finish(context, left), unread)


def _describe_left(end: SourceLogEnd) -> str:
    if end.lag:
        return f"{end.at}: {end.lag:,}"
    return f"{end.at}: position {end.position or 0:,}, and the log ends at {end.high:,}"


def _finish(context: CheckContext, left: Sequence[SourceLogEnd]) -> str:
    """Say what has to happen to the records that are not copied."""
    pipeline = safe_text(context.config.name, 60)
    parts = []
    if behind := [end.at for end in left if end.to_copy]:
        parts.append(f"Wait until pipeline {pipeline} has copied {first_names(behind)}.")
    if held := [end.at for end in left if end.in_transactions]:
        parts.append(f"End the transactions that are open on {first_names(held)}.")
    if other := [end.at for end in left if not end.lag]:
        parts.append(
            f"See k2ktui status -f FILE: the positions of {first_names(other)} are not in the logs."
        )
    return " ".join(parts)


@check("D41", "offsets applied", {DrillPhase.VERIFY: MOVES}, blocks=MOVES)
def check_applied(context: CheckContext) -> CheckFinding:
    """Pass if the target returns every offset that the drill committed."""
    applied = context.facts.applied
    if applied is None:
        return could_not_check("it is not known which offsets the drill has committed")
    context.cluster("target")

    def read() -> dict[str, GroupView]:
        with closing(ConsumerGroupReader(context.config, "target")) as reader:
            return reader.views(sorted({group for group, _, _ in applied}))

    views = context.read("the applied offsets", read)
    unread = {name: view.error for name, view in views.items() if view.error}
    other, changed = [], []
    for (group, topic, partition), offset in sorted(applied.items()):
        view = views.get(group)
        if group in unread:
            continue
        commit = view.offsets.get((topic, partition)) if view else None
        if commit is None or commit.offset != offset:
            now = "none" if commit is None else f"{commit.offset:,}"
            place = safe_text(f"{group} {topic}-{partition}")
            other.append(f"{place}: {now}, not {offset:,}")
            changed.append(group)
    text = (
        f"{len(applied) - len(other):,} of {counted(len(applied), 'offset')} read back as committed"
    )
    if other:
        return fails(
            f"{text}; {first_names(other)}",
            f"Stop what else commits for {first_names(dict.fromkeys(changed))} on the target, and "
            "apply again.",
        )
    if unread:
        return could_not_check(f"{text}; {next(iter(unread.values()))}")
    return passes(text)


@check("D42", "replicator fenced", {DrillPhase.FENCE_REPLICATOR: MOVES}, blocks=MOVES)
def check_replicator(context: CheckContext) -> CheckFinding:
    """Pass if no run is alive, and every transactional id has the epoch that the drill left; of
    MirrorMaker 2, if nothing shows that it runs, and its copies receive no records.
    """
    if context.flow.pipeline is None:
        return _check_other_copier(context)
    now_ms = int(time.time() * 1000)
    alive = context.state().alive(now_ms)
    runs = f"{counted(len(alive), 'run')} alive"
    if alive:
        hosts = first_names(f"{run.user}@{run.host} pid {run.pid}" for run in alive)
        where = first_names(dict.fromkeys(run.host for run in alive))
        stop = f"Stop the pipeline {safe_text(context.config.name)} on {where}: k2ktui jobs stop."
        return fails(f"{runs}: {hosts}", stop)
    fenced = context.facts.fenced
    if fenced is None:
        return could_not_check(f"{runs}; the drill has not raised the producer epochs yet")
    states = _read_states(context, sorted(fenced))
    other, unknown = [], []
    for name, (producer_id, epoch) in sorted(fenced.items()):
        state = states[name]
        if state is None:
            unknown.append(name)
        elif (state.producer_id, state.epoch) != (producer_id, epoch):
            other.append(
                f"{name}: producer id {state.producer_id} epoch {state.epoch}, not {producer_id} "
                f"epoch {epoch}"
            )
    text = (
        f"{runs}; {len(fenced) - len(other) - len(unknown):,} of "
        f"{counted(len(fenced), 'transactional id')} as the drill left them"
    )
    return decide(
        text,
        other,
        f"Stop the driver that has taken pipeline {safe_text(context.config.name, 60)} over since "
        "(k2ktui jobs on its host), and fence again.",
        unknown,
        unknown_after="; unknown (brokers before Kafka 3.0, or no Describe): ",
    )


@check("D50", "topics moved", {DrillPhase.MOVE_TOPICS: MOVES}, blocks=MOVES)
def check_moved(context: CheckContext) -> CheckFinding:
    """Pass if the pipeline's record says of every topic of the drill that this drill has moved it,
    so that no run copies it.
    """
    topics, drill = context.facts.topics, context.facts.drill
    if not topics:
        return could_not_check("no drill over some topics is in this phase")
    target = context.cluster("target")
    moved = context.read("the moved topics", lambda: read_moved(context.config, target))
    others = [
        f"{topic}: {'not moved' if move is None else move.describe()}"
        for topic, move in moved.not_by(drill, topics).items()
    ]
    text = f"{len(topics) - len(others):,} of {counted(len(topics), 'topic')} moved by this drill"
    return decide(
        text,
        others,
        "Resume the drill: it moves them again. If something releases them, find out what.",
    )


def _check_other_copier(context: CheckContext) -> CheckFinding:
    target = context.cluster("target")

    def read() -> CopierObservation | None:
        source = source_cluster(context.config)  # may be down
        # Another cluster under its address is no source that answers.
        source.expected_id = context.facts.cluster_ids[0]
        try:
            watched = watch_copier(context.flow, source, target)
        except K2kError as error:
            # What it says of itself counts, also if the ends of its copies cannot be read.
            seen = context.flow.observe_copier(target)
            why = f"whether its copies receive records is unknown: {error.message}"
            return seen and replace(seen, unproven=seen.unproven or why)
        finally:
            source.disconnect()
        return watched and watched[0]

    seen = context.read("what copies", read)
    if seen is None:
        return could_not_check("another program copies: stop it, and see that it stays stopped")
    if seen.signs:
        return fails(f"{seen.name} still copies: {'; '.join(seen.signs)}", seen.how_to_stop)
    if seen.unproven:
        return could_not_check(seen.unproven, seen.how_to_stop)
    return passes(f"{seen.name} is stopped: {seen.evidence}")


def _read_states(context: CheckContext, ids: list[str]) -> dict[str, TransactionState | None]:
    context.cluster("target")

    def read() -> dict[str, TransactionState | None]:
        with Probe(wire(context.config.target, "producer"), "target") as probe:
            probe.open(_CONNECT_S)
            return probe.run(lambda connection: _describe_all(connection, ids))

    return context.read("the transactional ids", read)


async def _describe_all(connection: Wire, ids: list[str]) -> dict[str, TransactionState | None]:
    return {id_: await describe_transaction(connection, id_, _DESCRIBE_S) for id_ in ids}


@check(
    "D43",
    "loop guard",
    {
        DrillPhase.PREFLIGHT: WITH_SOURCE,
        DrillPhase.REVERSE: SWITCHOVERS,
        DrillPhase.REPORT: {DrillKind.DISASTER},
    },
)
def check_loops(context: CheckContext) -> CheckFinding:
    """Pass if the reverse pipeline copies no record back that came from its target."""
    reverse = context.facts.reverse
    if reverse is None:
        return could_not_check(
            "no reverse pipeline is named", "Name its file: k2ktui drill check --reverse FILE."
        )
    other = _find_other_ends(context, reverse)
    if other:
        return fails(other, "Correct the clusters in the reverse pipeline's file.")
    names = read_names(context)
    forward = _route(context.config)
    loops = find_loops(names, forward, _route(reverse))
    guard = f"; guard: {forward.guard}" if forward.guard else ""
    text = f"{len(loops):,} of {counted(len(names), 'topic')} would come back{guard}"
    return decide(
        text,
        [topic if topic == back else f"{topic} as {back}" for topic, back in loops],
        "Set features.bidirectionalReplication: enabled in both files, with the same "
        "bidirectional section, or give the topics of one direction another name.",
        bad_after=": ",
    )


def _find_other_ends(context: CheckContext, reverse: PipelineConfig) -> str:
    """Return why a pipeline does not lead from our target to our source; empty if it does."""
    for side, own in zip(SIDES, reversed(SIDES), strict=True):
        cluster = Cluster(getattr(reverse, side), f"reverse pipeline's {side}")
        cluster_id = context.read(f"the reverse pipeline's {side}", cluster.cluster_id)
        if context.down(own) is None and cluster_id != context.cluster_id(own):
            return (
                f"the {side} of the reverse pipeline {safe_text(reverse.name)} is not the {own} "
                f"of this one, but cluster {safe_text(cluster_id)}"
            )
    return ""


def _route(config: PipelineConfig) -> Route:
    guard = ""
    if config.features.bidirectional_replication:
        guard = f"{config.bidirectional.mode}, header {config.bidirectional.header}"
    return Route(config.topics.matches, config.topic_mapping.targets_for, guard)
