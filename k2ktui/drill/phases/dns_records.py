"""The redirect's records of DNS: whether they can move, whether they have, and what caches have."""

from __future__ import annotations

from dataclasses import replace
from time import time

from k2ktui.drill.dns_server import DnsError, NoAnswer, Unreachable, prove_move, read_records
from k2ktui.drill.session import Session
from k2ktui.engine.drill.checks import DrillKind, DrillPhase
from k2ktui.engine.drill.dns import (
    DnsMove,
    describe_move,
    explain_not_source,
    has_moved,
    longest_ttl,
)
from k2ktui.engine.drill.hook_steps import find_hook, put_hook
from k2ktui.engine.drill.hooks import Hook
from k2ktui.engine.drill.redirects import kept_ttl
from k2ktui.text import duration

_LATE_S = 60.0
OTHER_SERVER = (
    "If that server is lost, resume the drill with a file that has another one in "
    "drill.redirect.dns, or command in place of dns"
)


def explain_unmovable(session: Session, hook: Hook) -> str:
    """Return why records of DNS could not be moved, "" if they could: their TTL is then kept.

    A disaster may have taken their server, too: the target is opened all the same, and the question
    says that nothing is proven.
    """
    session.unproven_move = ""
    if hook.dns is None:
        return ""
    try:
        with session.peers.idle():
            ttl_s = prove_move(hook.dns)
    except DnsError as error:
        is_lost = session.drill.kind is DrillKind.DISASTER and may_be_lost(error)
        session.unproven_move = str(error) if is_lost else ""
        return "" if is_lost else str(error)
    _keep_ttl(session, hook, ttl_s)
    return ""


def describe_records(session: Session, move: DnsMove | None) -> str:
    """Return what the question before the target is opened says about the records; "" for none."""
    if move is None:
        return ""
    if not session.unproven_move:
        return describe_move(move, kept_ttl(session.drill))
    return (
        f"It is not proven that the records can be moved: {session.unproven_move}. The target may "
        f"be opened; the redirect fails while this is so. {OTHER_SERVER}."
    )


def are_moved(session: Session, hook: Hook, move: DnsMove) -> bool:
    """Return whether the records lead to the target; before that, keep the TTL that they have.

    Raises:
        DnsError: the server does not say, or the records lead elsewhere.
    """
    with session.peers.idle():
        stand = read_records(move)
    if has_moved(move, stand):
        _keep_ttl(session, hook, kept_ttl(session.drill) or longest_ttl(stand))
        return True
    if problem := explain_not_source(move, stand):
        raise DnsError(problem)
    _keep_ttl(session, hook, longest_ttl(stand))
    return False


def explain_unmoved(session: Session, hook: Hook) -> str:
    """Return how records of DNS stand that another member has moved; "" if they have moved."""
    try:
        if hook.dns is None or are_moved(session, hook, hook.dns):
            return ""
    except DnsError as error:
        return str(error)
    return "the records lead to the source"


def await_caches(session: Session, hook: Hook) -> None:
    """Wait until no cache may have the records as they stood before the redirect."""
    record = find_hook(session.drill, hook.digest)
    ttl_s = kept_ttl(session.drill)
    if hook.dns is None or record is None or not ttl_s:
        return
    now = time()
    ended = now if record.ended_ms is None else record.ended_ms / 1000
    until = min(now, ended) + ttl_s  # another host's clock may have been ahead

    def look() -> tuple[bool, str]:
        left = until - time()
        return left <= 0, (
            f"the records have moved; caches may have the former ones for {duration(left)} more "
            f"(TTL {ttl_s:,} s)"
        )

    session.wait(DrillPhase.REDIRECT, look, hint="Wait.", timeout=ttl_s + _LATE_S)
    session.write(
        f"no cache has the former records any more: their TTL of {ttl_s:,} s is over",
        phase=str(DrillPhase.REDIRECT),
    )


def may_be_lost(error: DnsError) -> bool:
    """Return whether the server of the records may be lost, and not only refuse."""
    return isinstance(error, Unreachable | NoAnswer)


def _keep_ttl(session: Session, hook: Hook, ttl_s: int) -> None:
    """Keep how long caches may have the records that stand now; the next write contains it.

    A TTL that was made shorter meanwhile is not that of what caches got before.
    """
    record = find_hook(session.drill, hook.digest)
    if record is not None:
        kept = replace(record, ttl_s=max(ttl_s, kept_ttl(session.drill)))
        session.change_drill(lambda drill: put_hook(drill, kept))
