"""Apply offset writes to groups on the target: check, journal, write, read back.

The journal entry with the previous offsets is written before anything else, so an apply that is
interrupted can still be undone.
"""

from __future__ import annotations

import contextlib
import logging
import secrets
import threading
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from types import MappingProxyType

from k2ktui.config.model import PipelineConfig
from k2ktui.engine.moves.apply import (
    WriteOutcome,
    WriteResult,
    check_written,
    find_changed_metadata,
    find_conflicts,
    find_taken,
    judge_unreported,
    log_objections,
    make_deletions,
    make_writes,
    reverse_writes,
    without_mark,
)
from k2ktui.engine.moves.groups import ABSENT, GroupView
from k2ktui.engine.moves.journal import (
    APPLY,
    BEGUN,
    DELETE,
    SOURCE_RESET,
    SOURCE_UNDO,
    UNDO,
    EntryRow,
    JournalRow,
    JournalRows,
)
from k2ktui.engine.moves.plan import Action, Plan
from k2ktui.engine.moves.written import Commit, OffsetWrite, WrittenCommits, announce, read_back
from k2ktui.errors import K2kError, PartlyApplied, Refused
from k2ktui.kafka.clients import Cluster, source_cluster
from k2ktui.kafka.wire.groups import OUTCOME_UNKNOWN, GroupCommit
from k2ktui.progress import long_step
from k2ktui.sync.cluster_readers import TargetClusterReader
from k2ktui.sync.moves.journal_writer import JournalWriter
from k2ktui.sync.store import StateStore
from k2ktui.text import duration, safe_text

log = logging.getLogger(__name__)

_GROUPS_AT_ONCE = 100
_RECORDED_AT_ONCE = 1000
# Longer pauses between two steps mean that this process stood still: groups may have moved.
_STANDSTILL_S = 120.0
_SOURCE_ID_TIMEOUT_S = 5.0
_LISTED_ERRORS = 20

WriteKey = tuple[str, str, int]
_NOTHING: Mapping[WriteKey, str] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Applied:
    """The result of an apply or an undo; ``id`` is its journal entry."""

    id: str
    rows: tuple[WriteResult, ...]

    @property
    def counts(self) -> dict[str, int]:
        """Number of rows per result."""
        return dict(Counter(str(row.outcome) for row in self.rows))

    @property
    def complete(self) -> bool:
        """Whether every row was applied."""
        return all(row.outcome is WriteOutcome.APPLIED for row in self.rows)


def _log_refused(what: str, moved: Mapping[WriteKey, str]) -> None:
    """Log why nothing is written, or less than asked for."""
    log.info("%s: %d offsets or groups have changed", what, len(moved))
    for (group, topic, partition), why in list(moved.items())[:_LISTED_ERRORS]:
        log.info("group %s, %s-%d: %s", safe_text(group), safe_text(topic), partition, why)


def _log_result(result: WriteResult) -> None:
    write = result.write
    if result.outcome is not WriteOutcome.APPLIED:
        where = f"group {safe_text(write.group)}, {safe_text(write.topic)}-{write.partition}"
        log.info("%s: offset %s %s: %s", where, write.after, result.outcome, result.reason)


class OffsetsChanged(Refused):
    """Offsets or groups have changed since the plan was made; nothing was written.

    Attributes:
        moved: the reason per group, topic and partition.
    """

    moved: Mapping[WriteKey, str] = MappingProxyType({})


class Applier:
    """Writes committed offsets of groups on the target.

    What is written is recorded on the state topic (:mod:`k2ktui.engine.moves.written`), by which
    it is known as ours later.

    Args:
        config: the pipeline.
        target: reader of its target cluster.
        store: state store that holds the journal.
        on_result: callback for each row as soon as its result is known.
        records: whether to record what is written; not for groups that are deleted again, nor for
            those of the source.
        side: the cluster of ``target``; ``source`` for groups that are reset there.
    """

    def __init__(
        self,
        config: PipelineConfig,
        target: TargetClusterReader,
        store: StateStore,
        on_result: Callable[[WriteResult], None] = lambda _: None,
        *,
        records: bool = True,
        side: str = "target",
    ) -> None:
        self._config, self._target, self._store, self._on_result = config, target, store, on_result
        self._records, self._side = records and side == "target", side
        self._journal = JournalWriter(store.put, config.name)
        self._open_entry = ""
        self._writer = secrets.token_hex(4)
        # The newest records after the groups were read, and the numbers of those that were the
        # newest before, too.
        self._looked: Mapping[str, WrittenCommits] = {}
        self._unchanged: dict[str, int] = {}
        self._stood_still = _Standstill()

    def look(
        self, groups: Collection[str]
    ) -> tuple[dict[str, GroupView], Mapping[str, WrittenCommits]]:
        """Read groups on the target, then what was written for them, before they are written.

        Raises:
            Refused: the state topic cannot be read.
            ConnectionFailed, TimedOut: the target does not answer.
        """
        if self._side == "source":  # what was written for a group of this name is on the target
            self._stood_still.step()
            return self._target.views(groups), {}
        before = self._store.read_written(groups)
        self._stood_still.step()
        views = self._target.views(groups)
        written = self._looked = self._store.read_written(groups)
        self._unchanged = {
            group: _number(written.get(group))
            for group in groups
            if _number(written.get(group)) == _number(before.get(group))
        }
        return views, written

    def apply(self, plan: Plan, left_alone: Mapping[WriteKey, str] = _NOTHING) -> Applied:
        """Apply a plan exactly as it is, or write nothing.

        A row in ``left_alone`` must not be written, for the reason there.

        I6: no offset is committed beyond the target's end, or for a group with members there. The
        translation has no offset beyond the end (``_check_end`` in ``engine.mapping.translate``),
        and what has changed since the plan is refused here. Brokers refuse a commit from outside
        while the group has members, so one that joins after this check is safe as well.

        Raises:
            Refused: the plan belongs to another pipeline or cluster, or something has moved since.
            ConnectionFailed, TimedOut: the target does not answer; nothing was changed.
            PartlyApplied: the target stopped answering during the write.
        """
        self._check_plan(plan)
        views, written = self.look(sorted({row.group for row in plan.applied}))
        # A row that is left out stays whatever becomes of its group.
        applied = [row for row in plan.applied if row.action is not Action.LEAVE_OUT]
        expected = {row.key: row.current for row in applied}
        prefix = self._config.groups.offset_guard_prefix
        guarded = self._config.features.apply_mappings_guard
        moved = {
            **self._log_objections(plan),
            **find_taken(plan.changes, views, written, prefix, guarded=guarded),
            **find_conflicts(expected, views),
            **{row.key: left_alone[row.key] for row in plan.changes if row.key in left_alone},
        }
        if moved:
            _log_refused(f"plan {plan.id}", moved)
            raise _changed_error(moved, "Make a new plan with k2ktui plan.")
        writes = make_writes(plan.applied, views, written, prefix)
        action = SOURCE_RESET if self._side == "source" else APPLY
        return self._report_if_interrupted(writes, action, plan=plan.id)

    def _check_plan(self, plan: Plan) -> None:
        refuse_other_pipeline(plan.pipeline, self._config)
        source = _ClusterIdLookup(source_cluster(self._config))
        _require_cluster(self._side, plan.target_cluster, self._target.cluster.cluster_id())
        # Failover must work without the source, so an unreachable source is not an error.
        source_id = source.result(_SOURCE_ID_TIMEOUT_S)
        # A plan of kept commits says whose they are: another cluster may answer in its place.
        if source_id and plan.source_cluster and plan.commits_at is None:
            _require_cluster("source", plan.source_cluster, source_id)

    def _log_objections(self, plan: Plan) -> dict[WriteKey, str]:
        """Return the rows whose target log was replaced since the plan was made."""
        places = {(row.topic, row.partition) for row in plan.changes}
        ids = self._target.topic_ids(topic for topic, _ in places)
        logs = self._target.logs([at for at in places if at[0] in ids])
        return log_objections(plan.changes, plan.logs, logs, ids)

    def undo(
        self,
        entry: str,
        rows: Sequence[WriteResult],
        *,
        skip_moved: bool,
        left_alone: Mapping[WriteKey, str] = _NOTHING,
    ) -> Applied:
        """Undo what a journal entry applied.

        Args:
            entry: id of the entry.
            rows: the rows it wrote.
            skip_moved: skip rows that have moved since, instead of refusing.
            left_alone: rows that must not be written, with the reason.

        Raises:
            Refused: a group has moved since, or there is nothing to undo.
        """
        prefix = self._config.groups.offset_guard_prefix
        writes = [without_mark(write, prefix) for write in reverse_writes(rows)]
        if not writes:
            raise Refused(
                f"journal entry {entry} changed nothing", unchanged="Nothing was changed."
            )
        views, _ = self.look(sorted({write.group for write in writes}))
        changing = [write for write in writes if not write.changes_nothing]
        moved = {
            **find_changed_metadata(changing, views, prefix),
            **find_conflicts({_key(write): write.before for write in changing}, views),
            **{_key(write): why for write in writes if (why := left_alone.get(_key(write)))},
        }
        if moved:
            _log_refused(f"undo of {entry}", moved)
        if moved and not skip_moved:
            hint = (
                "To undo the other rows, repeat with --skip-moved; or compare the offsets "
                "yourself: k2ktui plan."
            )
            raise _changed_error(moved, hint)
        kept = [write for write in writes if _key(write) not in moved]
        if not kept:
            raise _changed_error(moved, "Compare the offsets yourself: k2ktui plan.")
        action = SOURCE_UNDO if self._side == "source" else UNDO
        return self._report_if_interrupted(kept, action, undoes=entry)

    def delete(
        self,
        group: str,
        expected: Mapping[tuple[str, int], int],
        left_alone: Mapping[WriteKey, str] = _NOTHING,
    ) -> Applied:
        """Delete committed offsets of a group without members, or nothing if one has moved since.

        Args:
            group: its name; it is deleted with its last offset.
            expected: the offsets, as they were shown.
            left_alone: rows that must not be written, with the reason.

        Raises:
            Refused: the group has members, or an offset has moved since.
            ConnectionFailed, TimedOut: the target does not answer; nothing was changed.
            PartlyApplied: the target stopped answering during the write.
        """
        views, written = self.look([group])
        view = views.get(group, ABSENT)
        keys = {(group, *at): offset for at, offset in expected.items()}
        moved = {
            **find_conflicts(keys, views),
            **{key: left_alone[key] for key in keys if key in left_alone},
        }
        if moved:
            _log_refused(f"deletion of {safe_text(group)}", moved)
            raise _changed_error(moved, "Show what is there: k2ktui groups delete --dry-run.")
        prefix = self._config.groups.offset_guard_prefix
        writes = make_deletions(group, view, expected, written.get(group), prefix)
        done = self._report_if_interrupted(writes, DELETE)
        if done.complete and len(writes) == len(view.offsets):
            self._delete_empty(group)
        return done

    def _delete_empty(self, group: str) -> None:
        """Delete a group without offsets, which brokers would do themselves some minutes later."""
        try:
            # Its clients may have committed since its offsets were deleted.
            view = self._target.views([group]).get(group)
            if view is None or view.offsets or view.unsettled or view.error:
                return
            why = self._target.groups.delete([group]).get(group, "")
        except K2kError as error:
            why = error.message
        if why:
            log.info("group %s not deleted, it has no offset: %s", safe_text(group), why)

    def _report_if_interrupted(
        self, writes: Sequence[OffsetWrite], action: str, *, plan: str = "", undoes: str = ""
    ) -> Applied:
        """Write; an interruption after the journal entry was begun raises ``PartlyApplied``."""
        try:
            return self.write(writes, action, plan=plan, undoes=undoes)
        except K2kError as error:
            if not self._open_entry:
                raise
            raise PartlyApplied(
                f"{error.message}: journal entry {self._open_entry} was started and its outcome is "
                "unknown",
                hint="Check the committed offsets with k2ktui groups; revert with k2ktui "
                f"undo {self._open_entry}.",
            ) from error

    def write(
        self, writes: Sequence[OffsetWrite], action: str, *, plan: str = "", undoes: str = ""
    ) -> Applied:
        """Journal, write and read back; the caller has checked the preconditions."""
        begun = [WriteResult(write, WriteOutcome.UNKNOWN, BEGUN) for write in writes]
        header = self._journal.begin(action, _journal_rows(begun), plan=plan, undoes=undoes)
        self._open_entry = entry = header.id
        log.info("%s: journal entry %s begun with %d offsets", action, entry, len(writes))
        done = Applied(entry, tuple(self.write_only(writes)))
        self._journal.end(header, _journal_rows(done.rows), done.counts)
        log.info("%s: journal entry %s ended: %s", action, entry, done.counts)
        self._open_entry = ""
        return done

    def journal_unwritten(self, writes: Sequence[OffsetWrite], what: str, why: str) -> None:
        """Journal writes that were not made, with the reason.

        Raises:
            K2kError: the journal cannot be written.
        """
        rows = [WriteResult(write, WriteOutcome.NOT_WRITTEN, why) for write in writes]
        counts = {str(WriteOutcome.NOT_WRITTEN): len(rows)}
        self._journal.record(what, _journal_rows(rows), counts=counts)

    def write_only(self, writes: Sequence[OffsetWrite]) -> list[WriteResult]:
        """Write and read back without a journal entry."""
        with long_step("offsets written and read back", len(writes)) as advance:
            return self._write_in_blocks(writes, advance)

    def _write_in_blocks(
        self, writes: Sequence[OffsetWrite], advance: Callable[[int], None]
    ) -> list[WriteResult]:
        rows: list[WriteResult] = []
        by_group = [list(grouped) for _, grouped in groupby(writes, key=lambda write: write.group)]
        for begin in range(0, len(by_group), _RECORDED_AT_ONCE):
            block = by_group[begin : begin + _RECORDED_AT_ONCE]
            recorded = self._announce(block)
            current: dict[str, GroupView] = {}
            results: list[WriteResult] = []
            for first in range(0, len(block), _GROUPS_AT_ONCE):
                chunk = [w for of_group in block[first : first + _GROUPS_AT_ONCE] for w in of_group]
                for written in self._write_groups(chunk, current):
                    _log_result(written)
                    results.append(written)
                    self._on_result(written)
                    advance(len(rows) + len(results))
            self._record_read_back(results, current, recorded)
            rows += results
        return rows

    def _announce(self, block: Sequence[Sequence[OffsetWrite]]) -> Mapping[str, WrittenCommits]:
        """Record what is about to be written; return the records."""
        if not self._records:
            return {}
        now_ms = int(time.time() * 1000)
        by_group = {writes[0].group: writes for writes in block}

        def change(known: Mapping[str, WrittenCommits]) -> list[WrittenCommits]:
            records = []
            for group, writes in by_group.items():
                record = known.get(group)
                is_current = self._unchanged.get(group) == _number(record)
                made = announce(record, group, writes, self._writer, now_ms, is_current=is_current)
                if made is not None:
                    records.append(made)
            return records

        return self._store.put_written(list(by_group), change)

    def _record_read_back(
        self,
        results: Sequence[WriteResult],
        current: Mapping[str, GroupView],
        recorded: Mapping[str, WrittenCommits],
    ) -> None:
        if not self._records:
            return
        now_ms = int(time.time() * 1000)
        seen: dict[str, list[tuple[OffsetWrite, Commit | None, bool]]] = {}
        for result in results:
            view = current.get(result.write.group)
            if view is not None and not view.error and not view.unsettled:
                is_known = not result.reason.endswith(OUTCOME_UNKNOWN)
                outcome = (result.write, _committed(view, result.write), is_known)
                seen.setdefault(result.write.group, []).append(outcome)

        def change(known: Mapping[str, WrittenCommits]) -> list[WrittenCommits]:
            records = [
                read_back(
                    known.get(group),
                    group,
                    outcomes,
                    self._writer,
                    now_ms,
                    looked=self._looked.get(group),
                    announced=recorded.get(group),
                )
                for group, outcomes in seen.items()
            ]
            return [record for record in records if record is not None]

        # Without this, both the commit before and this one count as ours until the next write.
        with contextlib.suppress(K2kError):
            self._store.put_written(list(seen), change)

    def _write_groups(
        self, writes: Sequence[OffsetWrite], current: dict[str, GroupView]
    ) -> list[WriteResult]:
        """Write and read back; adds the state of the groups after it to ``current``."""
        paused = self._stood_still.step()
        if paused > _STANDSTILL_S:
            why = f"this process stood still for {duration(paused)}, the group may have moved since"
            return [WriteResult(write, WriteOutcome.NOT_WRITTEN, why) for write in writes]
        refused = _send(self._target, writes)
        views: Mapping[str, GroupView] = self._target.views(sorted({w.group for w in writes}))
        # Deleting the last offset of a group may delete the group, which is the intended result.
        gone = {w.group for w in writes} - views.keys()
        current |= {**views, **{group: GroupView("") for group in gone}}
        self._stood_still.step()
        return check_written(writes, refused, current)


class _Standstill:
    """Measures pauses between steps, also those of a suspended machine."""

    def __init__(self) -> None:
        self._last = time.monotonic(), time.time()

    def step(self) -> float:
        """Return the seconds since the last step."""
        now = time.monotonic(), time.time()
        before, self._last = self._last, now
        return max(now[0] - before[0], now[1] - before[1])


class _ClusterIdLookup:
    """Reads a cluster's id in the background."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._id = ""
        # A daemon thread: an unreachable cluster must not delay the exit of the process.
        self._thread = threading.Thread(target=self._read, name="cluster-id", daemon=True)
        self._thread.start()

    def result(self, timeout: float) -> str:
        """Return the cluster id, "" if it did not arrive within ``timeout`` seconds."""
        self._thread.join(timeout)
        return self._id

    def _read(self) -> None:
        try:
            with contextlib.suppress(K2kError):
                self._id = self._cluster.cluster_id()
        finally:
            self._cluster.disconnect()


def _require_cluster(side: str, planned: str, configured: str) -> None:
    if planned != configured:
        raise Refused(
            f"the plan is for {side} cluster {safe_text(planned)}; the configured cluster is "
            f"{safe_text(configured)}",
            unchanged="Nothing was changed.",
            hint="Make a new plan with k2ktui plan.",
        )


def refuse_other_pipeline(pipeline: str, config: PipelineConfig) -> None:
    """Refuse a plan of another pipeline.

    Raises:
        Refused: the plan belongs to another pipeline.
    """
    if pipeline != config.name:
        raise Refused(
            f"the plan is for pipeline {safe_text(pipeline)}, and the configuration is "
            f"for {safe_text(config.name)}",
            unchanged="Nothing was changed.",
        )


def _send(target: TargetClusterReader, writes: Sequence[OffsetWrite]) -> dict[OffsetWrite, str]:
    """Commit and delete offsets; return the rejected writes with the reason."""
    by_key = {_key(write): write for write in writes}
    commits: dict[str, dict[tuple[str, int], GroupCommit]] = {}
    deletes: dict[str, list[tuple[str, int]]] = {}
    for write in writes:
        at = (write.topic, write.partition)
        if write.changes_nothing:
            continue
        if write.after is None:
            deletes.setdefault(write.group, []).append(at)
        else:
            commits.setdefault(write.group, {})[at] = GroupCommit(
                write.after, write.after_metadata, -1
            )
    none: dict[str, Mapping[tuple[str, int], str]] = {}
    refused: dict[OffsetWrite, str] = {}
    for answers in (
        target.groups.commit(commits) if commits else none,
        target.groups.delete_offsets(deletes) if deletes else none,
    ):
        for group, answer in answers.items():
            for (topic, partition), why in answer.items():
                if why:
                    refused[by_key[group, topic, partition]] = why
    return refused


def _key(write: OffsetWrite) -> WriteKey:
    return write.group, write.topic, write.partition


def _number(written: WrittenCommits | None) -> int:
    return written.number if written is not None else 0


def _committed(view: GroupView, write: OffsetWrite) -> Commit | None:
    commit = view.committed(write.at)
    return None if commit is None else (commit.offset, commit.metadata)


def _changed_error(moved: Mapping[WriteKey, str], hint: str) -> OffsetsChanged:
    lines = [
        f"{safe_text(group)} {safe_text(topic)}-{partition}: {why}"
        for (group, topic, partition), why in sorted(moved.items())
    ]
    more = [f"… and {len(lines) - _LISTED_ERRORS} more"] if len(lines) > _LISTED_ERRORS else []
    error = OffsetsChanged(
        "offsets or groups have changed since:\n    "
        + "\n    ".join(lines[:_LISTED_ERRORS] + more),
        unchanged="Nothing was changed.",
        hint=hint,
    )
    error.moved = dict(moved)
    return error


def _journal_rows(results: Iterable[WriteResult]) -> list[EntryRow]:
    return [(result.write.group, _journal_row(result)) for result in results]


def _journal_row(result: WriteResult) -> JournalRow:
    write = result.write
    return JournalRow(
        write.topic,
        write.partition,
        write.before,
        write.before_metadata,
        write.after,
        write.after_metadata,
        f"{result.outcome}: {result.reason}" if result.reason else str(result.outcome),
        write.before_version,
        write.after_version,
        write.choice,
    )


def judge_entry(parts: Sequence[JournalRows], target: TargetClusterReader) -> list[JournalRows]:
    """Return an entry's parts; unreported results are derived from the target's current offsets.

    Raises:
        ConnectionFailed, TimedOut: the target does not answer.
    """
    interrupted = f"{WriteOutcome.UNKNOWN}: {BEGUN}"
    open_groups = {p.consumer_group for p in parts if any(r.result == interrupted for r in p.rows)}
    views = target.views(sorted(open_groups)) if open_groups else {}
    judged_parts: list[JournalRows] = []
    for part in parts:
        if part.consumer_group not in open_groups:
            judged_parts.append(part)
            continue
        view = views.get(part.consumer_group, ABSENT)
        judged = [
            written if row.result != interrupted else judge_unreported(written.write, view)
            for row, written in zip(part.rows, read_results([part]), strict=True)
        ]
        judged_parts.append(replace(part, rows=tuple(map(_journal_row, judged))))
    return judged_parts


def read_results(parts: Iterable[JournalRows]) -> list[WriteResult]:
    """Return the rows of a journal entry as they were written.

    Rows of an entry that was begun and not finished count as applied; :func:`judge_entry` checks
    them against the target.
    """
    results = []
    for part in parts:
        for row in part.rows:
            write = OffsetWrite(
                part.consumer_group,
                row.topic,
                row.partition,
                row.before,
                row.before_metadata,
                row.after,
                row.after_metadata,
                row.before_version,
                row.after_version,
                row.choice,
            )
            name, _, why = row.result.partition(": ")
            if name not in list(WriteOutcome):  # another program's: nothing is undone because of it
                results.append(WriteResult(write, WriteOutcome.UNKNOWN, row.result))
                continue
            result = WriteOutcome.APPLIED if why == BEGUN else WriteOutcome(name)
            results.append(WriteResult(write, result, why))
    return results
