"""What a drill changes on the target: offsets, shadow groups, rights, and what may copy to it."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import closing

from k2ktui.drill.changes.handler import ChangeHandler, read_change
from k2ktui.drill.session import Session
from k2ktui.engine.drill.changes import (
    digest_rows,
    read_digests,
    read_entries,
    read_moved_topics,
    read_plans,
)
from k2ktui.engine.drill.model import Change, ChangeKind, ChangeStatus
from k2ktui.engine.moves.apply import WriteOutcome
from k2ktui.engine.moves.journal import has_displaced
from k2ktui.engine.moves.written import OffsetWrite
from k2ktui.errors import K2kError
from k2ktui.replication.ownership.topic_moves import read_moved, release_topics
from k2ktui.sync.cluster_readers import TargetClusterReader
from k2ktui.sync.operations import JournalEntry, read_entry, read_journal, undo_entry
from k2ktui.text import list_names, safe_text

_NAMED = 20


class Offsets(ChangeHandler):
    """Committed offsets of groups."""

    kind = ChangeKind.OFFSETS

    def preview_restore(self, session: Session, change: Change) -> Iterable[str]:
        """Return the offsets that are still there."""
        entries, _ = _read_entries(session, change)
        for entry in entries:
            for write in _find_left(session, entry)[0]:
                at = f"group {safe_text(write.group)}, {safe_text(write.topic)}-{write.partition}"
                before = "no offset" if write.before is None else f"{write.before}"
                yield f"{at} on the target: {write.after} → {before}"

    def restore(self, session: Session, change: Change) -> list[str]:
        """Undo what the drill's plans committed; return what could not be undone.

        Rows that have their previous offset again are left alone, so that it can be repeated.
        """
        entries, problems = _read_entries(session, change)
        for entry in entries:
            left, moved = _find_left(session, entry)
            problems += moved
            if left:
                undo_entry(
                    session.config,
                    entry,
                    session.files,
                    session.may,
                    skip_moved=True,
                    drill=session.drill.id,
                )
        return problems


def recorded_digests(session: Session, change: Change | None) -> dict[str, str]:
    """Return the digests of the plans that the drill has applied before, or was about to."""
    return {} if change is None else read_change(session.drill, change, read_digests)


def _read_entries(session: Session, change: Change) -> tuple[list[JournalEntry], list[str]]:
    """Return the journal entries of the drill's plans, and what is known of those that are gone."""
    plans = read_change(session.drill, change, read_plans)
    journal = read_journal(session.config)
    headers = [header for header in journal if header.operation == "apply" and header.plan in plans]
    missing = [plan for plan in plans if plan not in {header.plan for header in headers}]
    groups = list_names([group.group for group in session.drill.groups], _NAMED) or "the groups"
    by_hand = f"compare the offsets of {groups} with the report, and correct them by hand"
    problems = []
    for plan in missing:
        name = safe_text(plan)
        if plan == plans[-1] and change.status is ChangeStatus.MADE:
            problems.append(
                f"the journal entry of plan {name} is gone, so what it committed was not undone: "
                f"{by_hand}"
            )
        elif has_displaced(journal):
            problems.append(
                f"the journal has no entry of plan {name}, and no longer has all entries: if the "
                f"plan was applied, it was not undone; {by_hand}"
            )
    digests = recorded_digests(session, change)
    entries = []
    for entry in (read_entry(session.config, header.id) for header in headers):
        if digests and digests.get(entry.header.plan) != _digest_entry(entry):
            name, plan = safe_text(entry.header.id), safe_text(entry.header.plan)
            problems.append(
                f"journal entry {name} does not have the rows of plan {plan}, so it was not "
                f"undone: {by_hand}"
            )
        else:
            entries.append(entry)
    return entries, problems


def _digest_entry(entry: JournalEntry) -> str:
    return digest_rows(
        (group, row.topic, row.partition, row.before, row.after) for group, row in entry.lines
    )


def _find_left(session: Session, entry: JournalEntry) -> tuple[list[OffsetWrite], list[str]]:
    """Return the writes of an entry whose offsets are still there, and which moved since."""
    written = [row.write for row in entry.rows if row.outcome is WriteOutcome.APPLIED]
    with closing(TargetClusterReader(session.config)) as reader:
        views = reader.views(sorted({write.group for write in written}))
    left: list[OffsetWrite] = []
    problems = []
    for write in written:
        view = views.get(write.group)
        now = view.committed(write.at) if view else None
        offset = None if now is None else now.offset
        if offset == write.after and write.after != write.before:
            left.append(write)
        elif offset != write.before:
            problems.append(
                f"{safe_text(write.group)} {safe_text(write.topic)}-{write.partition}: is at "
                f"{offset}, the drill had committed {write.after}; it was left there"
            )
    return left, problems


class ShadowGroups(ChangeHandler):
    """Groups of the drill's own: nothing of them is shown."""

    kind = ChangeKind.SHADOW_GROUPS

    def restore(self, session: Session, change: Change) -> list[str]:
        """Delete them."""
        delete_shadow_groups(session)
        return []


def shadow_prefix(session: Session) -> str:
    """Return how the names of this drill's shadow groups begin."""
    return f"{session.config.coordination.commit.group}.drill.{session.drill.id}."


def delete_shadow_groups(session: Session) -> None:
    """Delete this drill's shadow groups, whichever exist.

    Raises:
        K2kError: a group cannot be deleted, or some may not have been found.
    """
    prefix = shadow_prefix(session)
    with closing(TargetClusterReader(session.config)) as reader:
        names = sorted(name for name in reader.groups.list() if name.startswith(prefix))
        not_found = reader.groups.incomplete_reason
        deleted = reader.groups.delete(names)
    for name, why in deleted.items():
        if why:
            raise K2kError(
                f"shadow group {safe_text(name)} was not deleted: {why}",
                hint="If a right is missing, grant the target principal Delete on groups with this "
                f"prefix: {safe_text(prefix)}",
            )
    if not_found:
        raise K2kError(
            f"not every broker of the target listed its shadow groups: {not_found}",
            unchanged="Those that were listed are deleted.",
            hint="Continue when all brokers of the target answer.",
        )


class Rights(ChangeHandler):
    """ACLs that were created, with the entries of the journal that take them back."""

    kind = ChangeKind.RIGHTS

    def restore(self, session: Session, change: Change) -> list[str]:
        """Return how to undo them: they stay, although the target was not opened."""
        entries = read_change(session.drill, change, read_entries)
        undo = "; ".join(f"k2ktui parity undo {safe_text(entry)} -f FILE" for entry in entries)
        how = undo or "its entry is in k2ktui journal -f FILE"
        return [f"{change.what}: they stay. Undo them: {how}"]


class Epochs(ChangeHandler):
    """Raised producer epochs: a start takes over, and is allowed as soon as the drill is aborting.

    So there is nothing to restore.
    """

    kind = ChangeKind.EPOCHS

    def preview_restore(self, session: Session, change: Change) -> Iterable[str]:
        """Return that the pipeline may start."""
        yield f"starts of {safe_text(session.config.name)}: refused → allowed"


class MovedTopics(ChangeHandler):
    """Topics of a drill over some topics, which no run copies any more."""

    kind = ChangeKind.MOVED_TOPICS

    def preview_restore(self, session: Session, change: Change) -> Iterable[str]:
        """Return the topics that the drill has moved."""
        for topic in _find_moved(session, session.drill.topics):
            yield f"{safe_text(topic)} by {safe_text(session.config.name)}: moved → copied"

    def restore(self, session: Session, change: Change) -> list[str]:
        """Let the pipeline copy the topics again that the drill has moved."""
        topics = read_change(session.drill, change, read_moved_topics)
        ours = _find_moved(session, sorted(set(session.drill.topics).intersection(topics)))
        if ours:
            release_topics(session.config, session.target, ours)
        return []


def _find_moved(session: Session, topics: Iterable[str]) -> list[str]:
    """Return those of these topics that this drill has moved."""
    topics = list(topics)
    others = read_moved(session.config, session.target).not_by(session.drill.id, topics)
    return [topic for topic in topics if topic not in others]
