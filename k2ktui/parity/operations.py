"""Operations of parity, one call each: plan, apply, undo.

Commands and screens call these and make no decisions themselves. Each call opens its own
connections and closes them before it returns.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager

from k2ktui.config.inputs import absolute_files
from k2ktui.config.model import PipelineConfig
from k2ktui.engine.access import Access, require
from k2ktui.engine.moves.journal import PARITY, JournalHeader
from k2ktui.engine.parity.journal import APPLY, UNDO, read_results
from k2ktui.engine.parity.model import (
    ParityItem,
    ParityResult,
    ParityWrite,
    find_moved,
    find_moved_writes,
    reverse,
)
from k2ktui.engine.parity.moved import concerns_moved
from k2ktui.engine.parity.plan import ParityPlan, summarize
from k2ktui.engine.parity.rules import ParityKind
from k2ktui.engine.strict_json import MalformedRecord
from k2ktui.errors import Refused
from k2ktui.parity.reader import ParityReader
from k2ktui.parity.writer import ParityApplied, ParityWriter
from k2ktui.sync.moves.apply import refuse_other_pipeline
from k2ktui.sync.moves.entry_files import remember
from k2ktui.sync.moves.plan_files import digest_files
from k2ktui.sync.moves.plans import whoami
from k2ktui.text import duration, safe_text

log = logging.getLogger(__name__)

_UNCHANGED = "Nothing was changed."
_LISTED = 20

OnResult = Callable[[ParityResult], None]


def create_plan(
    config: PipelineConfig,
    files: Sequence[str],
    *,
    valid_s: float = 900.0,
    kinds: Sequence[ParityKind] = tuple(ParityKind),
) -> ParityPlan:
    """Compare both clusters, and plan; changes nothing.

    Args:
        config: the pipeline.
        files: its files, which the plan remembers.
        valid_s: seconds until the plan expires.
        kinds: what is compared.

    Raises:
        Refused: it is paused because of a drill, or another cluster answers.
        ConnectionFailed, TimedOut: a cluster does not answer.
    """
    require_pipeline(config)
    with _open(config) as reader:
        parity = reader.read(kinds)
    if parity.pause:
        raise _paused(parity.pause)
    now = time.time()
    paths = absolute_files(files)
    plan = ParityPlan(
        pipeline=config.name,
        source_cluster=parity.clusters[0],
        target_cluster=parity.clusters[1],
        created_at=now,
        expires_at=now + valid_s,
        made_by=whoami(),
        rows=parity.differences,
        files=paths,
        files_digest=digest_files(paths) if paths else "",
        notes=parity.notes,
    )
    log.info("parity plan %s: %s", plan.id, summarize(plan.rows))
    return plan


def apply_plan(
    config: PipelineConfig,
    plan: ParityPlan,
    files: Sequence[str],
    may: Access,
    on_result: OnResult = lambda _: None,
) -> ParityApplied:
    """Apply a plan exactly as it is, or write nothing.

    Args:
        config: the pipeline.
        plan: the plan that was shown and confirmed.
        files: the pipeline's files, remembered on this machine for ``undo``.
        may: the caller's access rights.
        on_result: callback for each row as soon as its result is known.

    Raises:
        Refused: not allowed, expired, of another pipeline or cluster, paused, or something has
            moved.
        ConnectionFailed, TimedOut: a cluster does not answer.
        PartlyApplied: the target stopped answering during the write.
    """
    require(may, "applying a parity plan")
    refuse_other_pipeline(plan.pipeline, config)
    late = time.time() - plan.expires_at
    if late > 0:
        raise Refused(
            f"parity plan {plan.id} expired {duration(late)} ago",
            unchanged=_UNCHANGED,
            hint="Make a new plan with k2ktui parity plan.",
        )
    with _open(config) as reader:
        parity = reader.read({row.item.kind for row in plan.changes})
        if parity.pause:
            raise _paused(parity.pause)
        if parity.clusters != (plan.source_cluster, plan.target_cluster):
            raise Refused(
                "the plan is for other clusters than those that answer",
                unchanged=_UNCHANGED,
                hint="Make a new plan with k2ktui parity plan.",
            )
        moved = {
            **find_moved(plan.changes, parity.differences),
            **_of_moved_topics((row.item for row in plan.changes), parity.moved),
        }
        if moved:
            raise _moved_error(moved, "Make a new plan with k2ktui parity plan.")
        writer = ParityWriter(config, reader.target, reader.store, on_result)
        applied = writer.write([row.write for row in plan.changes], APPLY, plan=plan.id)
    remember(applied.id, config.name, files)
    return applied


def read_undo(config: PipelineConfig, entry: str) -> tuple[JournalHeader, list[ParityWrite], str]:
    """Return a journal entry of parity, the writes that undo it, and which entry already did.

    Raises:
        ConfigError: there is no entry with this id.
        Refused: it is not an entry of parity, or is damaged.
        ConnectionFailed, TimedOut: the target does not answer.
    """
    with _open(config) as reader:
        state = reader.store.read()
        header = state.find_header(entry, config.name)
        if not header.operation.startswith(PARITY):
            raise Refused(
                f"entry {safe_text(entry)} is no entry of parity",
                unchanged=_UNCHANGED,
                hint=f"To undo it: k2ktui undo {safe_text(entry)}",
            )
        try:
            lines = [line for part in state.entry(entry) for line in part.lines]
            writes = reverse(read_results(lines))
        except MalformedRecord as error:
            raise Refused(
                f"entry {safe_text(entry)} is damaged: {error}", unchanged=_UNCHANGED
            ) from error
        later = [other.id for other in state.journal.values() if other.undoes == entry]
    return header, writes, max(later, default="")


def undo_entry(
    config: PipelineConfig,
    entry: str,
    files: Sequence[str],
    may: Access,
    *,
    skip_moved: bool = False,
    on_result: OnResult = lambda _: None,
) -> ParityApplied:
    """Undo what a journal entry of parity changed; arguments as for :func:`apply_plan`.

    ``skip_moved`` skips values that have changed since, instead of refusing.

    Raises:
        Refused: not allowed, not an entry of parity, or something has moved.
        ConnectionFailed, TimedOut: the target does not answer.
    """
    require(may, "undoing a change of parity")
    _, writes, _ = read_undo(config, entry)
    if not writes:
        raise Refused(f"journal entry {safe_text(entry)} changed nothing", unchanged=_UNCHANGED)
    with _open(config) as reader:
        writer = ParityWriter(config, reader.target, reader.store, on_result)
        moved = {
            **find_moved_writes(writes, writer.read([write.item for write in writes])),
            **_of_moved_topics((write.item for write in writes), reader.find_moved()),
        }
        if moved and (not skip_moved or len(moved) == len(writes)):
            hint = "To undo the others, repeat with --skip-moved." if not skip_moved else ""
            raise _moved_error(moved, hint or "Compare the clusters: k2ktui parity plan.")
        kept = [write for write in writes if write.item not in moved]
        applied = writer.write(kept, UNDO, undoes=entry)
    remember(applied.id, config.name, files)
    return applied


def require_pipeline(config: PipelineConfig) -> None:
    """Refuse a file that does not say which topics are copied.

    Raises:
        Refused: it has no ``replication`` section.
    """
    if not config.replicates:
        raise Refused(
            f"the file of {safe_text(config.name)} has no replication section: which topics are "
            "copied is unknown",
            unchanged=_UNCHANGED,
            hint="Name the file of the pipeline that copies.",
        )


def _of_moved_topics(items: Iterable[ParityItem], moved: Collection[str]) -> dict[ParityItem, str]:
    """Return the values that parity leaves alone, with the reason."""
    why = "it is of a topic that was moved to the target: change it there yourself"
    return {item: why for item in items if concerns_moved(item, moved)}


def _paused(why: str) -> Refused:
    return Refused(
        f"parity is paused: {why}",
        unchanged=_UNCHANGED,
        hint="It goes on by itself in the direction that copies: k2ktui drill list -f FILE.",
    )


def _moved_error(moved: Mapping[ParityItem, str], hint: str) -> Refused:
    lines = [f"{item}: {why}" for item, why in sorted(moved.items())]
    more = [f"… and {len(lines) - _LISTED} more"] if len(lines) > _LISTED else []
    return Refused(
        "what the plan depends on has changed since:\n    " + "\n    ".join(lines[:_LISTED] + more),
        unchanged=_UNCHANGED,
        hint=hint,
    )


@contextmanager
def _open(config: PipelineConfig) -> Iterator[ParityReader]:
    reader = ParityReader(config)
    try:
        yield reader
    finally:
        reader.close()
