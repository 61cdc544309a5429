"""Preflight of both directions: the opposite pipeline, its registrations, and rings of clusters.

Everything is read from commit topics: the opposite pipeline's is on our source. A third cluster
that writes to both our source and our target closes a ring: its records arrive on the target
twice, and producer ids cannot tell that they are the same.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping

from k2ktui.config.model import PipelineConfig
from k2ktui.engine.records.cluster_pair import Side, find_ids
from k2ktui.engine.records.run_record import Run
from k2ktui.errors import K2kError
from k2ktui.kafka.wire.cluster import NotSent, OutcomeUnknown
from k2ktui.replication.copying.registration_reader import (
    RegistrationReader,
    RegistrationsUnavailable,
)
from k2ktui.replication.preflight.checks import Check
from k2ktui.replication.preflight.clusters import SIDES, ClusterReadings
from k2ktui.replication.preflight.rights import selected_topics, target_topics
from k2ktui.text import counted, first_names, safe_text

_NAME = "opposite pipeline"
_RING = "ring of clusters"
_READ_S = 20.0
_UPDATE = "Run this pipeline with the release of the pipelines that write there."
_REVERSE = "Write its file with k2ktui config reverse -f FILE, and start it."


def check_opposite(readings: ClusterReadings) -> Iterator[Check]:
    """Check that records of the opposite direction can be recognized; nothing in one direction."""
    config = readings.config
    if not config.features.bidirectional_replication:
        return
    topic, mode = config.opposite.commit_topic, config.bidirectional.mode
    try:
        on_source = _read(readings, "source", topic)
    except (RegistrationsUnavailable, NotSent, OutcomeUnknown) as error:
        yield _unreadable(topic, error, fatal=mode == "provenance")
        return
    try:
        topics = selected_topics(config, readings.topic_names("source"))
        on_target = _read(readings, "target", config.coordination.commit.topic)
    except K2kError as error:
        yield Check.error(_NAME, error)
        return
    except (RegistrationsUnavailable, NotSent, OutcomeUnknown) as error:
        yield Check.unknown(_NAME, str(error))
        return
    pairs = [run.pair for read in (on_source, on_target) for run in read.runs.values()]
    source_ids, target_ids = (find_ids(readings.cluster_id(side), pairs) for side in SIDES)
    opposite = {
        name: run
        for name, run in on_source.runs.items()
        if run.pair.source in target_ids
        and run.pair.target in source_ids
        and _shares(on_source, name, topics)
    }
    yield _compare(
        config, opposite, on_source, on_target.runs.get(config.coordination.commit.group)
    )
    if mode == "provenance":
        into_source = _sources(on_source, source_ids, topics) - target_ids
        targets = target_topics(config, topics)
        yield _check_ring(into_source, _sources(on_target, target_ids, targets))


def _read(readings: ClusterReadings, side: Side, topic: str) -> RegistrationReader:
    reader = RegistrationReader(topic, with_positions=True)
    readings.probe(side, "consumer").run(lambda wire: reader.read(wire, _READ_S))
    return reader


def _unreadable(topic: str, error: Exception, *, fatal: bool) -> Check:
    reason = f"its registered producer ids cannot be read: {error}"
    if isinstance(error, RegistrationsUnavailable) and error.unauthorized:
        return Check.fails(
            _NAME,
            reason,
            f"Grant the source principal Read on topic {safe_text(topic)} of the source cluster.",
            fatal=fatal,
        )
    return Check.fails(_NAME, reason, "Check the source cluster's health.", fatal=fatal)


def _compare(
    config: PipelineConfig,
    opposite: Mapping[str, Run],
    on_source: RegistrationReader,
    own: Run | None,
) -> Check:
    """Compare the opposite pipeline's runs with the configuration; ``own`` is our last run.

    A misfit is fatal unless our own last run does not fit either: one of the two has to start
    first.
    """
    topic = safe_text(config.opposite.commit_topic)
    if not opposite:
        return _explain_none(config, on_source, topic)
    mode = config.bidirectional.mode
    problems = [_problem(name, run, mode) for name, run in sorted(opposite.items())]
    if any(problems):
        return Check.fails(
            _NAME,
            "; ".join(filter(None, problems)),
            "In its file, set features.bidirectionalReplication: enabled, "
            f"bidirectional.mode: {mode} and features.exactlyOnce: enabled, and start it again. "
            "k2ktui config reverse -f FILE prints such a file.",
            fatal=own is None or not _problem("", own, mode),
        )
    names = first_names(opposite)
    if mode != "provenance":
        return Check.passes(_NAME, f"{names} uses the same mode, {mode}")
    pairs = [run.pair for run in opposite.values()]
    if on_source.newer_ids:
        return Check.warns(
            _NAME,
            f"{names}: topic {topic} has {counted(len(on_source.newer_ids), 'producer id')} "
            "registered in a version that this release does not read; a partition with batches "
            "of them stops",
            _UPDATE,
        )
    sources = {cluster for pair in pairs for cluster in pair.sources}
    targets = {cluster for pair in pairs for cluster in pair.targets}
    ids = [
        r for r in on_source.registrations.values() if r.source in sources and r.target in targets
    ]
    return Check.passes(
        _NAME, f"{names} has registered {counted(len(ids), 'producer id')} in {topic}"
    )


def _explain_none(config: PipelineConfig, on_source: RegistrationReader, topic: str) -> Check:
    """Return the check if no run of an opposite pipeline is known.

    One of the two starts first. It is a warning only where the file names the opposite pipeline's
    topics, or others have written to the topic where its runs are looked for.
    """
    if on_source.newer_runs:
        return Check.unknown(
            _NAME,
            f"the runs of {first_names(on_source.newer_runs)} in topic {topic} on the source are "
            "of a version that this release does not read",
            _UPDATE,
        )
    unclear = [name for name, run in on_source.runs.items() if not run.pair.is_known]
    if unclear:
        return Check.unknown(
            _NAME,
            f"the clusters of {first_names(unclear)} in topic {topic} on the source are "
            "unknown: their runs are of an earlier release",
            "Start them again.",
        )
    text = (
        f"no pipeline has copied from the target to the source yet, by topic {topic} on the source"
    )
    named = any(config.bidirectional.opposite.model_dump().values())
    if not named and not on_source.runs:
        return Check.passes(_NAME, text)
    return Check.warns(
        _NAME,
        text,
        f"{_REVERSE} If its commit topic has another name, set bidirectional.opposite.commitTopic.",
    )


def _problem(name: str, run: Run, mode: str) -> str:
    """Return why a run of the opposite pipeline does not fit; "" if it does."""
    who = safe_text(name)
    if mode == "provenance" and not run.registers:
        return (
            f"{who} registers no producer ids (features.exactlyOnce is disabled, or its release "
            "is older), so its records would be copied back"
        )
    if mode == "provenance" and run.has_unregistered:
        return (
            f"the positions of {who} were recovered (k2ktui offsets recover) after mappings had "
            "expired, so that some of its producer ids are not registered, and records of it would "
            "be copied back"
        )
    if run.bidirectional != mode:
        what = f"uses mode {safe_text(run.bidirectional)}" if run.bidirectional else "copies all"
        return f"{who} {what}, so it would copy this pipeline's records back"
    return ""


def _check_ring(into_source: set[str], into_target: set[str]) -> Check:
    both = into_source & into_target
    if both:
        return Check.fails(
            _RING,
            f"cluster {first_names(both)} is copied to the source and to the target: its records "
            "would arrive on the target twice, directly and through the source, and "
            "bidirectional.mode provenance leaves out only records of the target",
            "Remove one of the ways, so that the clusters form a ring or a star; for a ring, set "
            "bidirectional.mode: cluster in the files of all its pipelines.",
            fatal=True,
        )
    if into_source:
        return Check.warns(
            _RING,
            f"records of cluster {first_names(into_source)} are copied to the source, and from "
            "there to the target; if the target's records reach it in another way than through the "
            "source, they circle",
            "For a ring of clusters, set bidirectional.mode: cluster in the files of all its "
            "pipelines.",
        )
    return Check.passes(_RING, "none is visible")


def _sources(
    read: RegistrationReader, targets: Collection[str], topics: Collection[str]
) -> set[str]:
    """Return the clusters that are copied to a cluster, into one of these topics.

    ``targets`` are the ids that this cluster has had.
    """
    return {
        run.pair.source
        for name, run in read.runs.items()
        if run.pair.target in targets and _shares(read, name, topics)
    }


def _shares(read: RegistrationReader, group: str, topics: Collection[str]) -> bool:
    """Return whether a pipeline writes to one of these topics; one without positions may."""
    written = read.target_topics(group)
    return not written or not written.isdisjoint(topics)
