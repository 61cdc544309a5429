"""Make groups on the target what their members expect, before the members' name leads there.

A running member of the protocol ``consumer`` (KIP-848) that meets a classic group of its name ends
with GROUP_ID_NOT_FOUND, and commits make classic groups. In a consumer group, it joins anew.
"""

from __future__ import annotations

from k2ktui.drill.phases.moves import make_plan
from k2ktui.drill.session import PhaseResult, Session, failed
from k2ktui.engine.drill.checks import DrillKind, DrillPhase
from k2ktui.engine.moves.groups import EMPTY_STATES
from k2ktui.errors import ConnectionFailed, TimedOut
from k2ktui.kafka.properties.translation import wire
from k2ktui.kafka.wire.groups import ConsumerGroupClient, GroupListing
from k2ktui.text import safe_message, safe_text

_OPEN_S = 10.0
_CONSUMER = "consumer"


def ask_about_groups(session: Session) -> PhaseResult | None:
    """Prepare the groups; let a person agree where running members would end on the target."""
    unready = prepare_groups(session)
    if not unready:
        return None
    title = (
        "Running members of these groups would end with GROUP_ID_NOT_FOUND on the target, and have "
        "to be restarted there:"
    )
    if session.agree(DrillPhase.OPEN_TARGET, [title, *(f"  {text}" for text in unready)]):
        return None
    return failed("groups of the protocol consumer are not ready for their members", *unready)


def prepare_groups(session: Session) -> list[str]:
    """Make the groups of the protocol ``consumer`` such groups on the target.

    Where the source does not tell, this is every group: a classic member joins an empty one, too.

    Returns:
        The groups whose members would end, with the reasons.

    Raises:
        ConnectionFailed, TimedOut: the target does not answer.
    """
    plan = session.plan or make_plan(session)
    topics = {row.group: row.topic for row in plan.rows if row.proposed is not None}
    modern = _find_modern_on_source(session)
    chosen = topics if modern is None else {g: t for g, t in topics.items() if g in modern}
    with ConsumerGroupClient(wire(session.target.config, "admin"), session.target.label) as groups:
        groups.open(_OPEN_S)
        listed = groups.list()
        if groups.incomplete_reason:
            return [f"not all groups of the target are known: {groups.incomplete_reason}"]
        # One with members, which it would rebalance, is what they expect.
        made = groups.make_consumer_groups(
            {g: t for g, t in chosen.items() if g not in listed or _is_empty_classic(listed[g])}
        )
    if modern is None:  # most are classic groups, which need nothing
        return []
    return [
        f"{safe_text(group)}: {safe_message(reason)}"
        for group, reason in sorted(made.items())
        if reason
    ]


def _find_modern_on_source(session: Session) -> set[str] | None:
    """Return the groups of the protocol ``consumer`` on the source; None if it tells not all."""
    if session.drill.kind is DrillKind.DISASTER:
        return None
    source = session.source
    try:
        with ConsumerGroupClient(wire(source.config, "admin"), source.label) as groups:
            groups.open(_OPEN_S)
            modern = {name for name, one in groups.list().items() if one.kind == _CONSUMER}
            return None if groups.incomplete_reason else modern
    except (ConnectionFailed, TimedOut):
        return None


def _is_empty_classic(group: GroupListing) -> bool:
    return group.kind != _CONSUMER and group.state in EMPTY_STATES
