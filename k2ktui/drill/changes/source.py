"""What keeps producers from writing to the source: access rules, and quotas of earlier drills."""

from __future__ import annotations

from collections.abc import Iterable

from k2ktui.drill.changes.handler import ChangeHandler, read_change
from k2ktui.drill.session import Session
from k2ktui.engine.drill.changes import (
    EVERYONE,
    LOWERED_RATE,
    Entity,
    read_denied_topics,
    read_quota_rates,
)
from k2ktui.engine.drill.model import Change, ChangeKind
from k2ktui.kafka.admin.acls import allow_writes, denied_topics
from k2ktui.kafka.admin.quotas import Quota, producer_quotas, set_producer_quotas
from k2ktui.text import safe_text


class AccessRules(ChangeHandler):
    """Rules that deny Write on topics of the source to everyone."""

    kind = ChangeKind.ACLS

    def preview_restore(self, session: Session, change: Change) -> Iterable[str]:
        """Return the topics to which Write is denied."""
        topics, denied = _read_denials(session, change)
        for topic in topics:
            if topic in denied:
                yield f"{_write_on(topic)}: denied → not denied"

    def preview_repeat(self, session: Session, change: Change) -> Iterable[str]:
        """Return the topics to which Write is not denied."""
        topics, denied = _read_denials(session, change)
        for topic in topics:
            if topic not in denied:
                yield f"{_write_on(topic)}: not denied → denied"

    def restore(self, session: Session, change: Change) -> list[str]:
        """Delete the rules that the drill added; those that existed before stay."""
        topics = read_change(session.drill, change, read_denied_topics)
        allow_writes(session.source, topics)
        return []

    def blocks_return(self, session: Session) -> bool:
        """Return whether everyone is denied to write to the topics that came from there."""
        topics = sorted({at.topic for at in session.forward.read_positions()})
        return bool(denied_topics(session.target, topics))


def _read_denials(session: Session, change: Change) -> tuple[list[str], frozenset[str]]:
    topics = read_change(session.drill, change, read_denied_topics)
    return sorted(set(topics)), denied_topics(session.source, topics)


def _write_on(topic: str) -> str:
    return f"Write on topic {safe_text(topic)} of the source to User:*"


class Quotas(ChangeHandler):
    """Producer quotas of the source that drills lowered before ``--fence quota`` was given up."""

    kind = ChangeKind.QUOTAS

    def preview_restore(self, session: Session, change: Change) -> Iterable[str]:
        """Return the quotas that are not as before."""
        rates = read_change(session.drill, change, read_quota_rates)
        now = {quota.entity: quota.rate for quota in producer_quotas(session.source)}
        for entity in rates.after:
            rate, before = now.get(entity), rates.before.get(entity)
            if rate != before:
                yield f"{_name(entity)}: {_rate(rate)} → {_rate(before)}"

    def restore(self, session: Session, change: Change) -> list[str]:
        """Set the quotas that were in force before the drill; return why they stay."""
        with session.peers.fencing():
            if why := session.peers.explain_kept_fence():
                return [f"the producer quotas of the source stay at 1 byte per second: {why}"]
            rates = read_change(session.drill, change, read_quota_rates)
            quotas = [Quota(entity, rates.before.get(entity)) for entity in rates.after]
            set_producer_quotas(session.source, quotas)
        return []

    def blocks_return(self, session: Session) -> bool:
        """Return whether all producers are slowed."""
        quotas = producer_quotas(session.target)
        return any(quota.entity == EVERYONE and quota.rate == LOWERED_RATE for quota in quotas)


def _name(entity: Entity) -> str:
    parts = (
        f"{kind} {safe_text(name) if name is not None else 'default'}" for kind, name in entity
    )
    return f"producer quota of {', '.join(parts)} on the source"


def _rate(rate: float | None) -> str:
    return "none" if rate is None else f"{rate:g} bytes/s"
