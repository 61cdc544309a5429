"""The tables of a pipeline's state: its rows, read where the driver of Spark is."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager

from k2ktui.kafka.clients import target_cluster
from k2ktui.sync.flow import Flow
from k2ktui.sync.moves.plans import plan_options
from k2ktui.sync.operations import create_plan
from k2ktui.sync.store import PipelineState, StateStore
from k2ktui.tables.columns import Row, micros
from k2ktui.watch.once import read_once


def read_state(table: str, flow: Flow, files: Sequence[str]) -> Iterator[Row]:
    """Yield the rows of ``positions``, ``groups``, ``plan``, ``runs`` or ``journal``.

    Raises:
        K2kError: a cluster that the table needs does not answer, or nothing was copied yet.
    """
    return _TABLES[table](flow, files)


def _positions(flow: Flow, _: Sequence[str]) -> Iterator[Row]:
    for row in read_once(flow, groups=False, drills=True).view.partitions:
        status = row.status
        yield {
            "topic": status.topic,
            "partition": status.partition,
            "state": str(status.state),
            "path": status.path,
            "position": status.position,
            "source_start": status.source_start,
            "source_end": status.source_end,
            "lag_records": status.lag_records,
            "lag_s": status.lag_s,
            "copied_at": micros(status.copied_at),
            "target_topic": status.target_topic or None,
            "target_partition": status.target_partition,
            "target_end": status.target_end,
            "mapped_records": status.mapped_records,
            "coverage": status.coverage,
            "held_back": status.held_back,
            "hold": status.hold or None,
            "reason": row.why or None,
        }


def _groups(flow: Flow, _: Sequence[str]) -> Iterator[Row]:
    reading = read_once(flow, groups=True, drills=True)
    if reading.groups_error is not None:
        raise reading.groups_error
    for row in reading.view.groups:
        yield {
            "group": row.group,
            "topic": row.topic,
            "partition": row.partition,
            "state_source": row.state_source or None,
            "state_target": row.state_target or None,
            "source_offset": row.source_offset,
            "target_topic": row.target_topic or None,
            "target_partition": row.target_partition,
            "target_offset": row.target_offset,
            "translated_offset": row.translated_offset,
            "basis": str(row.basis),
            "reread": row.reread,
            "skipped": row.skipped,
            "reread_now": row.reread_now,
            "skipped_now": row.skipped_now,
            "divergence": row.divergence,
            "chosen_by": row.chosen_by or None,
            "reason": row.reason or None,
        }


def _plan(flow: Flow, files: Sequence[str]) -> Iterator[Row]:
    plan = create_plan(flow, plan_options(flow.config), files)
    for row in plan.rows:
        yield {
            "group": row.group,
            "topic": row.topic,
            "partition": row.partition,
            "source": row.source or None,
            "current": row.current,
            "proposed": row.proposed,
            "basis": str(row.basis),
            "action": str(row.action),
            "reread": row.reread,
            "skipped": row.skipped,
            "reason": row.reason or None,
        }


def _runs(flow: Flow, _: Sequence[str]) -> Iterator[Row]:
    with _open_state(flow, settled=True) as state:
        now_ms = int(time.time() * 1000)
        for run in state.runners:
            yield {
                "run": run.runner,
                "kind": str(run.kind),
                "host": run.host,
                "user": run.user,
                "pid": run.pid,
                "state": str(run.standing(now_ms)),
                "started_at": micros(run.started_ms / 1000),
                "heartbeat_at": micros(run.at_ms / 1000),
                "term": run.term,
                "lap": run.lap,
                "slots": run.slots,
                "lag_records": run.lag_records,
                "commit_ms": run.commit_ms,
                "last_error": run.last_error or None,
                "version": run.version,
            }


def _journal(flow: Flow, _: Sequence[str]) -> Iterator[Row]:
    with _open_state(flow) as state:
        for header in sorted(state.journal.values(), key=lambda header: header.order):
            entry = {
                "id": header.id,
                "sequence": header.sequence,
                "at": micros(header.at_ms / 1000),
                "who": header.who,
                "operation": header.operation,
                "plan": header.plan or None,
                "undoes": header.undoes or None,
            }
            for part in state.entry(header.id):
                for row in part.rows:
                    yield {
                        **entry,
                        "group": part.consumer_group,
                        "topic": row.topic,
                        "partition": row.partition,
                        "before": row.before,
                        "after": row.after,
                        "result": row.result,
                        "chosen_by": row.choice.by if row.choice else None,
                        "chosen": row.choice.value if row.choice else None,
                    }


@contextmanager
def _open_state(flow: Flow, *, settled: bool = False) -> Iterator[PipelineState]:
    target = target_cluster(flow.config)
    store = StateStore(flow.config, target)
    try:
        yield store.read_settled() if settled else store.read()
    finally:
        store.close()
        target.disconnect()


_TABLES: Mapping[str, Callable[[Flow, Sequence[str]], Iterator[Row]]] = {
    "positions": _positions,
    "groups": _groups,
    "plan": _plan,
    "runs": _runs,
    "journal": _journal,
}
