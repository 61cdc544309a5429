"""Read what a snapshot needs of each cluster, over connections kept between snapshots."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace

from confluent_kafka.admin import OffsetSpec

from k2ktui.config.model import PipelineConfig
from k2ktui.engine.mapping.replica import TargetLog, TargetPartition
from k2ktui.engine.moves.groups import CommittedOffset, GroupView
from k2ktui.engine.records.state import SourcePartition
from k2ktui.kafka.admin.broker_settings import broker_values
from k2ktui.kafka.clients import (
    Cluster,
    TopicDescription,
    describe_readable,
    source_cluster,
    target_cluster,
)
from k2ktui.kafka.properties.translation import wire
from k2ktui.kafka.wire.groups import ConsumerGroupClient, GroupListing
from k2ktui.log.content import ContentReader
from k2ktui.sync.log_bounds import available_bounds

# A topic's id, the offset after the last copied record, and the bounds of the log.
_ClearKey = tuple[str, int, TargetLog]
_METADATA_SETTING = "offset.metadata.max.bytes"
_OPEN_S = 10.0
_COMMITS = "__consumer_offsets"
_CLEAR_S = 10.0
_NO_ID = (
    "its id is empty, and brokers refuse to describe it and to delete its offsets: it is not "
    "moved; give the application a group.id"
)
_SHARE = (
    "a share group has this name there and takes no committed offsets: delete it, or leave the "
    "group out of groups.consumerGroups"
)


class ConsumerGroupReader:
    """Consumer groups of one cluster; connects on first use and reconnects after a failure.

    Args:
        config: the pipeline.
        side: the cluster, ``source`` or ``target``.
        writes_source: whether groups of the source may be written.
    """

    def __init__(self, config: PipelineConfig, side: str, *, writes_source: bool = False) -> None:
        cluster = config.source if side == "source" else config.target
        self._options, self._side = wire(cluster, "admin"), side
        self._writes_source = writes_source
        self._groups: ConsumerGroupClient | None = None

    @property
    def groups(self) -> ConsumerGroupClient:
        """The group client, connected if necessary.

        Raises:
            ConnectionFailed: no broker answered.
        """
        if self._groups is None:
            opened = ConsumerGroupClient(
                self._options, self._side, writes_source=self._writes_source
            )
            try:
                opened.open(_OPEN_S)
            except BaseException:
                opened.close()
                raise
            self._groups = opened
        return self._groups

    def close(self) -> None:
        """Disconnect; the next request reconnects."""
        if self._groups is not None:
            self._groups.close()
            self._groups = None

    @property
    def incomplete_reason(self) -> str:
        """Why groups may be missing from the last listing; empty if it was complete."""
        return self._groups.incomplete_reason if self._groups is not None else ""

    def views(self, names: Collection[str]) -> dict[str, GroupView]:
        """Return the existing groups with their states, members and committed offsets.

        Share groups of the source are left out: they have no committed offsets. On the target, one
        that has the name of another group cannot take its offsets: it carries that as its error.

        A group that cannot be described, or whose offsets cannot be read, carries its error.
        """
        return self.views_of(self.groups.list(), names)

    def views_of(
        self, listed: Mapping[str, GroupListing], names: Collection[str]
    ) -> dict[str, GroupView]:
        """Return views as :meth:`views`; ``listed`` are the groups as just listed."""
        chosen = sorted(n for n in names if n in listed and listed[n].kind != "share")
        hidden = [n for n in names if n not in listed]
        # Brokers from 4.0 on take no description of the empty id, and 4.0.0 not of others with it.
        asked = [name for name in [*chosen, *sorted(hidden)] if name]
        states = self.groups.describe(asked, listed)
        offsets = self.groups.read_committed(chosen, listed)
        # Groups that exist but are hidden from the principal.
        views = {
            name: GroupView("", None, error=states[name].error)
            for name in hidden
            if name in states and states[name].error
        }
        for name in chosen:
            state, committed = states.get(name), offsets.get(name)
            errors = [
                answer.error for answer in (state, committed) if answer is not None and answer.error
            ]
            errors += [] if name else [_NO_ID]
            views[name] = GroupView(
                state=(state.state if state else "") or listed[name].state,
                members=None if state is None or state.error else len(state.members),
                offsets={
                    where: CommittedOffset(commit.offset, commit.metadata)
                    for where, commit in (committed.offsets if committed else {}).items()
                },
                error="; ".join(dict.fromkeys(errors)),
                unsettled=committed.unsettled if committed else {},
                named=tuple(member.named for member in state.members) if state else (),
            )
        if self._side == "target":
            for name in names:
                if name in listed and listed[name].kind == "share":
                    views[name] = GroupView(listed[name].state, None, error=_SHARE)
        return views

    def read_moved(self, views: Mapping[str, GroupView]) -> dict[str, GroupView]:
        """Read the committed offsets of groups again; return the groups whose offsets changed.

        States and members stay as they were; a group that cannot be read now is left out.
        """
        moved = {}
        for name, committed in (self.groups.read_committed(sorted(views)) if views else {}).items():
            offsets = {
                where: CommittedOffset(commit.offset, commit.metadata)
                for where, commit in committed.offsets.items()
            }
            is_known = not committed.error and not committed.unsettled
            if is_known and offsets != views[name].offsets:
                moved[name] = replace(views[name], offsets=offsets)
        return moved


@dataclass(frozen=True, slots=True)
class SourceView:
    """The source at one moment, read now or kept on the target; ``at`` is epoch seconds.

    ``ends`` are high watermarks, read after the commits: of partitions with a commit that may be
    past its log's end. ``incomplete_reason`` is the reason why groups may be missing, if some
    brokers did not answer.
    """

    cluster: str
    at: float
    groups: Mapping[str, GroupView] = field(default_factory=dict)
    starts: Mapping[SourcePartition, int] = field(default_factory=dict)
    ends: Mapping[SourcePartition, int] = field(default_factory=dict)
    topic_ids: Mapping[str, str] = field(default_factory=dict)
    incomplete_reason: str = ""


class SourceClusterReader:
    """Reads groups and logs of the source cluster.

    Args:
        config: the pipeline.
        cluster: its source, if others use it, too; a new connection by default.
    """

    def __init__(self, config: PipelineConfig, cluster: Cluster | None = None) -> None:
        self._config = config
        self.cluster, self._is_shared = cluster or source_cluster(config), cluster is not None
        self._reader = ConsumerGroupReader(config, "source")
        self._has_groups = False

    def read(self, replicated: Collection[SourcePartition]) -> SourceView:
        """Read the selected groups and the logs of the replicated partitions.

        Raises:
            ConnectionFailed, TimedOut: the source does not answer.
        """
        at = time.time()
        groups = self._read_groups()
        logs = self.read_logs(replicated)
        return replace(logs, at=at, groups=groups, incomplete_reason=self._reader.incomplete_reason)

    def read_committed(self, topics: Callable[[str], bool]) -> SourceView:
        """Read the selected groups and the logs of the matching topics they have committed on.

        Raises:
            ConnectionFailed, TimedOut: the source does not answer.
        """
        at = time.time()
        groups = self._read_groups()
        where = {w for group in groups.values() for w in group.offsets if topics(w[0])}
        committed = [SourcePartition(*topic_partition) for topic_partition in where]
        logs = self.read_logs(committed)
        return replace(
            logs,
            at=at,
            groups=groups,
            ends=self.read_ends(committed),
            incomplete_reason=self._reader.incomplete_reason,
        )

    def find_gone(self, names: Collection[str]) -> set[str]:
        """Return which groups, which the last listing lacked, are gone or no longer selected.

        Brokers create their topic of commits when a coordinator is looked for, and nothing is
        created on the source: where it is not known to exist, no group is gone.

        Raises:
            ConnectionFailed, TimedOut: the source does not answer.
        """
        selected = {name for name in names if self._config.consumer_groups.matches(name)}
        known = self._has_groups
        if selected and not known:
            known = isinstance(self.cluster.describe([_COMMITS])[_COMMITS], TopicDescription)
        try:
            gone = self._reader.groups.find_gone(selected) if known else set()
        except BaseException:
            self._reader.close()
            raise
        return (set(names) - selected) | gone

    def read_later(self, groups: Mapping[str, GroupView]) -> dict[str, GroupView]:
        """Read the committed offsets of groups again; return the groups whose offsets changed.

        Raises:
            ConnectionFailed, TimedOut: the source does not answer.
        """
        try:
            return self._reader.read_moved(groups)
        except BaseException:
            self._reader.close()
            raise

    def _read_groups(self) -> dict[str, GroupView]:
        try:
            chosen, listed = self._config.consumer_groups, self._reader.groups.list()
            self._has_groups = bool(listed)
            return self._reader.views_of(listed, [name for name in listed if chosen.matches(name)])
        except BaseException:
            self._reader.close()
            raise

    def read_logs(self, replicated: Collection[SourcePartition]) -> SourceView:
        """Read the cluster id and the logs of the replicated partitions, without groups.

        Raises:
            ConnectionFailed, TimedOut: the source does not answer.
        """
        present = describe_readable(self.cluster, {s.topic for s in replicated})
        where = [(s.topic, s.partition) for s in replicated if s.topic in present]
        starts = self.cluster.offsets(where, OffsetSpec.earliest())
        return SourceView(
            cluster=self.cluster.cluster_id(),
            at=time.time(),
            starts={SourcePartition(*partition): start for partition, start in starts.items()},
            topic_ids={name: topic.topic_id for name, topic in present.items()},
        )

    def read_ends(self, partitions: Collection[SourcePartition]) -> dict[SourcePartition, int]:
        """Return high watermarks; partitions that cannot be read are left out.

        Read them after the commits that they are compared with: a group that commits what was just
        written must not seem to be past the end.

        Raises:
            ConnectionFailed, TimedOut: the source does not answer.
        """
        where = [(partition.topic, partition.partition) for partition in partitions]
        ends = self.cluster.offsets(where, OffsetSpec.latest())
        return {SourcePartition(*at): end for at, end in ends.items()}

    def close(self) -> None:
        """Disconnect from the source, unless others use the connection, too."""
        self._reader.close()
        if not self._is_shared:
            self.cluster.disconnect()


class TargetClusterReader:
    """Reads groups and logs of the cluster whose groups are written; usually the target.

    Args:
        config: the pipeline.
        cluster: that cluster, if others use it, too; a new connection by default.
        side: ``source`` for groups that are reset there.
    """

    def __init__(
        self, config: PipelineConfig, cluster: Cluster | None = None, side: str = "target"
    ) -> None:
        own = source_cluster if side == "source" else target_cluster
        self.cluster, self._is_shared = cluster or own(config), cluster is not None
        self.contents = ContentReader(self.cluster)
        self.reader = ConsumerGroupReader(config, side, writes_source=side == "source")
        self._clear: dict[TargetPartition, tuple[_ClearKey, TargetLog]] = {}
        self._longest_metadata: int | None = None

    @property
    def groups(self) -> ConsumerGroupClient:
        """The target's group client, also used for writing."""
        return self.reader.groups

    def views(self, names: Collection[str]) -> dict[str, GroupView]:
        """Return the groups of these names that exist.

        Raises:
            ConnectionFailed, TimedOut: the target does not answer.
        """
        try:
            return self.reader.views(names)
        except BaseException:
            self.reader.close()
            raise

    def longest_metadata(self, needed: int) -> int | None:
        """Return the length of the longest commit metadata that the brokers accept.

        Args:
            needed: the longest that is to be committed. The setting is read again, brokers may
                have been restarted with a higher one, only if what is known is shorter.

        Returns:
            None if it may not be read: the brokers decide.

        Raises:
            ConnectionFailed, TimedOut: the target does not answer.
        """
        known = self._longest_metadata
        if needed and (known is None or needed > known):
            # One broker stands for all: another limit elsewhere is seen by that broker's refusal.
            values = broker_values(self.cluster, _METADATA_SETTING, most=1) or {}
            limits = [int(value) for value in values.values() if value.isdecimal()]
            self._longest_metadata = min(limits, default=None)
        return self._longest_metadata

    def topic_ids(self, topics: Iterable[str]) -> dict[str, str]:
        """Return the ids of the topics that exist."""
        return {n: t.topic_id for n, t in describe_readable(self.cluster, topics).items()}

    def logs(self, partitions: Collection[TargetPartition]) -> dict[TargetPartition, TargetLog]:
        """Return the bounds of target partitions; partitions that cannot be read are left out."""
        return available_bounds(self.cluster, partitions)

    def high_watermarks(
        self, partitions: Collection[TargetPartition]
    ) -> dict[TargetPartition, int]:
        """Return the high watermarks of partitions; those that cannot be read are left out."""
        return self.cluster.offsets(sorted(partitions), OffsetSpec.latest()) if partitions else {}

    def read_high(
        self,
        logs: Mapping[TargetPartition, TargetLog],
        reached: Mapping[TargetPartition, int],
    ) -> dict[TargetPartition, TargetLog]:
        """Return the logs, with high watermarks where something reaches beyond their ends.

        A mapping proves that its records were below the high watermark; so read it after the
        mapping. A partition whose high watermark cannot be read then is left out.

        Args:
            logs: bounds of target partitions, read before the mapping.
            reached: the highest offset that a mapping, or a commit, leads to on each.
        """
        beyond = [at for at, log in logs.items() if reached.get(at, 0) > log.end]
        highs = self.high_watermarks(beyond)
        known = {at: replace(logs[at], high=highs[at]) for at in beyond if at in highs}
        return {
            at: known.get(at, log) for at, log in logs.items() if at not in beyond or at in known
        }

    def find_clear_ends(
        self,
        logs: Mapping[TargetPartition, TargetLog],
        ends: Mapping[TargetPartition, int],
        ids: Mapping[str, str],
    ) -> dict[TargetPartition, TargetLog]:
        """Return the logs, with ``clear_from`` set where only control records follow.

        Args:
            logs: bounds of target partitions.
            ends: offset after the last copied record, for the partitions to check.
            ids: ids of the target's topics, read before the bounds: records of a log that has the
                same bounds as before are not fetched again.

        Raises:
            ConnectionFailed: the target does not answer.
        """
        asked = {
            at: (ids.get(at[0], ""), end, logs[at])
            for at, end in ends.items()
            if at in logs and end < logs[at].end
        }
        known = {at: self._clear[at][1] for at, key in asked.items() if self._is_clear(at, key)}
        answers = self.contents.next_records(
            [(*at, end) for at, (_, end, _) in asked.items() if at not in known], _CLEAR_S
        )
        for at, (_, end, log) in asked.items():
            if at not in known and answers[(*at, end)] is None:
                stable = self.contents.bounds[at].stable
                known[at] = replace(log, end=max(end, stable), clear_from=end)
        self._clear = {at: (asked[at], log) for at, log in known.items()}
        return {**logs, **known}

    def _is_clear(self, at: TargetPartition, key: _ClearKey) -> bool:
        before = self._clear.get(at)
        return before is not None and before[0] == key and bool(key[0])

    def close(self) -> None:
        """Disconnect from the target, unless others use the connection, too."""
        self.contents.close()
        self.reader.close()
        if not self._is_shared:
            self.cluster.disconnect()
