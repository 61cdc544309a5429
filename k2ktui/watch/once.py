"""One view of a pipeline, for commands that read both clusters once and end."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, suppress
from dataclasses import asdict, dataclass, replace
from typing import Any

from k2ktui.engine.compare.record import ComparedPartition, ComparisonRecord
from k2ktui.engine.drill.objectives import Objectives
from k2ktui.engine.drill.pair_state import PairState
from k2ktui.engine.mapping.strange_records import OtherWriters
from k2ktui.engine.status import PartitionStatus
from k2ktui.errors import ConnectionFailed, K2kError, TimedOut
from k2ktui.sync.flow import Flow
from k2ktui.sync.store import StateStore
from k2ktui.text import safe_text
from k2ktui.watch.facts import TargetFacts
from k2ktui.watch.model import PartName, View
from k2ktui.watch.pipeline_reader import PipelineReader, make_assembler
from k2ktui.watch.readers import Clusters, MappingReader, StateReader, make_readers


@dataclass(frozen=True, slots=True)
class Reading:
    """A view of one moment.

    Attributes:
        view: what could be read.
        source_error: why the source could not be read; None if it was.
        groups_error: the same for the groups, or for the mappings, which a pipeline that never ran
            does not have.
    """

    view: View
    source_error: K2kError | None = None
    groups_error: K2kError | None = None

    def status(self) -> PipelineStatus:
        """Return what ``k2ktui status`` shows of it."""
        view, compared = self.view, self.view.compared
        return PipelineStatus(
            pipeline=view.pair.pipeline,
            taken_at=view.taken_at,
            pair_state=view.pair_state,
            objectives=view.objectives,
            missed=(*view.missed_rpo, *view.missed_rto),
            source_down=self.source_error.message if self.source_error else "",
            notes=(*view.notes, *_unread_groups(view)),
            partitions=tuple(row.status for row in view.partitions),
            lag_records=view.totals.lag_records,
            lag_s=view.totals.lag_seconds,
            mappings_expire_at=view.mappings_expire_at,
            moved_topics=view.moved_topics,
            can_be_retired=view.is_left,
            last_comparison=view.last_comparison,
            compared=tuple(compared.get(row.key) for row in view.partitions),
            other_writers=view.other_writers,
        )


@dataclass(frozen=True, slots=True)
class PipelineStatus:
    """A pipeline's partitions at one moment; times are epoch seconds, None is unknown.

    Attributes:
        pipeline: its name.
        taken_at: when the clusters were read.
        pair_state: which cluster the workload uses.
        objectives: what a failover may cost at most, by the pipeline's file.
        missed: the objectives that a failover now, or the last rehearsal, misses.
        source_down: why the source does not answer; empty if it does. The partitions then have
            what the target knows.
        notes: messages for the operator.
        partitions: the source partitions.
        lag_records: source offsets that are not copied yet, without held and moved partitions.
        lag_s: age of the oldest record that is not copied yet.
        mappings_expire_at: when the first mapping that a group needs expires, unless it is written
            again; None if none is needed or expires, or if it is not known.
        moved_topics: source topics whose clients were moved to the target, by the drill that did.
        can_be_retired: whether those are all topics.
        last_comparison: the last comparison of all records; None if there was none.
        compared: what it has found on each of ``partitions``; None where that is unknown.
        other_writers: who else has written to the target partitions; None if the pair is not
            replicating.
    """

    pipeline: str
    taken_at: float
    pair_state: PairState
    objectives: Objectives
    missed: tuple[str, ...]
    source_down: str
    notes: tuple[str, ...]
    partitions: tuple[PartitionStatus, ...]
    lag_records: int | None
    lag_s: float | None
    mappings_expire_at: float | None
    moved_topics: Mapping[str, tuple[str, ...]]
    can_be_retired: bool
    last_comparison: ComparisonRecord | None
    compared: tuple[ComparedPartition | None, ...]
    other_writers: OtherWriters | None = None

    def as_json(self) -> dict[str, Any]:
        """Return the object that ``k2ktui status --json`` prints."""
        last = self.last_comparison
        return {
            "pipeline": self.pipeline,
            "taken_at": self.taken_at,
            "pair_state": self.pair_state.as_json(),
            "objectives": {**self.objectives.as_json(), "missed": list(self.missed)},
            "source_down": self.source_down,
            "notes": list(self.notes),
            "lag_records": self.lag_records,
            "lag_s": self.lag_s,
            "mappings_expire_at": self.mappings_expire_at,
            "moved_topics": {drill: list(topics) for drill, topics in self.moved_topics.items()},
            "can_be_retired": self.can_be_retired,
            "last_comparison": None if last is None else last.as_json(),
            "other_writers": None if self.other_writers is None else self.other_writers.as_json(),
            "partitions": [
                {**asdict(row), "compared": None if compared is None else compared.as_json()}
                for row, compared in zip(self.partitions, self.compared, strict=True)
            ],
        }


def _unread_groups(view: View) -> list[str]:
    """Return why groups could not be read, on either cluster."""
    return [
        f"group {safe_text(summary.group)} on the {side}: {half.error}"
        for summary in view.summaries
        for side, half in (("source", summary.source), ("target", summary.target))
        if half.error
    ]


def read_once(flow: Flow, *, groups: bool, drills: bool = False) -> Reading:
    """Read a flow now; without the source, the view has what the target knows.

    The source is read after the positions, so that lag is of one moment.

    Args:
        flow: what is read.
        groups: whether consumer groups are read, too.
        drills: whether the state of the pair is read; what it makes of lag and groups is in the
            view then.

    Raises:
        K2kError: the target could not be read.
    """
    clusters = Clusters.of(flow.config)
    parts = (PartName.TARGET, PartName.SOURCE, PartName.GROUPS)
    readers = make_readers(flow, parts, groups=groups, clusters=clusters)
    if drills:
        # By a store of its own: it does not wait until the groups were read.
        store = StateStore(flow.config, clusters.target)
        readers[PartName.STATE] = StateReader(store, settle=False)
    reader = PipelineReader(readers, make_assembler(flow))
    with ExitStack() as stack:
        stack.callback(clusters.disconnect)
        stack.callback(reader.close)
        reader.read(PartName.TARGET)
        if (error := reader.error(PartName.TARGET)) is not None:
            raise error
        with ThreadPoolExecutor(2) as pool:
            # At the same time, so that an unreachable source costs its time-out once.
            beside = [pool.submit(_read_groups, flow, clusters, reader)]
            beside += [pool.submit(reader.read, PartName.STATE)] if drills else []
            reader.read(PartName.SOURCE)
            for reading in beside:
                reading.result()
        copied = reader.facts(PartName.TARGET)
        assert isinstance(copied, TargetFacts)
        if drills and copied.other_writers is not None and copied.other_writers.awaits_mapping:
            reader.read(PartName.TARGET)  # with the mappings, which tell more
    if copied.nothing_copied is not None and reader.error(PartName.GROUPS) is None:
        reader.note(PartName.GROUPS, copied.nothing_copied)
    view = reader.view()
    unread = reader.error(PartName.STATE) if drills else None
    # The state's own error is said by the pair's.
    read = (*parts, PartName.STATE) if drills and unread is None else parts
    view = replace(view, parts={name: view.part(name) for name in read})
    if unread is not None:
        pair = PairState(fenced_by=copied.fenced_by, unread=unread.message)
        view = replace(view, pair_state=pair)
    return Reading(view, reader.error(PartName.SOURCE), reader.error(PartName.GROUPS))


def _read_groups(flow: Flow, clusters: Clusters, reader: PipelineReader) -> None:
    """Read the groups; the mappings alone if a cluster that only groups need does not answer."""
    reader.read(PartName.GROUPS)
    error = reader.error(PartName.GROUPS)
    if isinstance(error, (ConnectionFailed, TimedOut)):
        with closing(MappingReader(flow, clusters)) as mappings, suppress(K2kError):
            reader.note(PartName.GROUPS, error, mappings.read({}))
