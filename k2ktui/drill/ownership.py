"""The owner of a drill: one process at a time, asked for before it is taken over."""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from time import sleep, time

import psutil

from k2ktui.drill.operator import Operator
from k2ktui.drill.session import Session
from k2ktui.drill.store import DrillStore
from k2ktui.engine.access import Access
from k2ktui.engine.drill import Drill
from k2ktui.engine.drill_steps import is_acting
from k2ktui.errors import K2kError, Refused
from k2ktui.kafka.clients import target_cluster
from k2ktui.runtime.host import pid_space
from k2ktui.sync.flow import Flow
from k2ktui.text import safe_text

_UNCHANGED = "Nothing was changed."
_OBSERVE_S = 6.0
_OBSERVE_AGAIN_S = 0.5


@contextmanager
def own_drill(
    flow: Flow,
    drill_id: str,
    files: Sequence[str],
    may: Access,
    operator: Operator,
    take_over: Callable[[Drill], bool],
    text: str,
    *,
    also_over: bool = False,
) -> Iterator[Session]:
    """Become the owner of a drill, asking first if another process acts on it."""
    store = DrillStore(flow.config, target_cluster(flow.config))
    try:
        drill = store.read(drill_id)
    except K2kError:
        store.close()
        raise
    session = Session(flow, drill, store, operator, may, files)
    try:
        if drill.is_over and not also_over:
            raise Refused(
                f"drill {safe_text(drill_id)} is {drill.status}",
                unchanged=_UNCHANGED,
                hint=f"Read its report: k2ktui drill report {safe_text(drill_id)} -f FILE",
            )
        if _is_owned(store, drill):
            if not take_over(drill):
                raise Refused(
                    f"{safe_text(drill.owner)} acts on drill {safe_text(drill_id)}",
                    unchanged=_UNCHANGED,
                    hint=f"Watch it with k2ktui drill show {safe_text(drill_id)} -f FILE, or take "
                    "it over with --take-over.",
                )
            text = f"taken over from {safe_text(drill.owner)}, {text}"
        session.drill = store.read(drill_id)
        session.open(new_token(), text)
        yield session
    finally:
        session.close()


def new_token() -> str:
    """Return an id of this process, which shows on this host whether it still exists."""
    return f"{pid_space()}:{os.getpid()}:{secrets.token_hex(8)}"


def has_ended(token: str) -> bool:
    """Return whether the process of a token is known to have ended."""
    space, _, rest = token.partition(":")
    pid = rest.partition(":")[0]
    return space == pid_space() and pid.isdigit() and not psutil.pid_exists(int(pid))


def is_acted_on(drill: Drill) -> bool:
    """Return whether a process acts on a drill, by its last record and by what this host knows."""
    return is_acting(drill, int(time() * 1000)) and not has_ended(drill.session)


def _is_owned(store: DrillStore, drill: Drill) -> bool:
    """Return whether a process acts on the drill: whether its record changes while it is watched.

    The clocks of two hosts may disagree, so its time alone does not decide.
    """
    if not drill.session or has_ended(drill.session):
        return False
    until = time() + _OBSERVE_S
    while time() < until:
        now = store.read(drill.id)
        if (now.session, now.beat_ms) != (drill.session, drill.beat_ms):
            return bool(now.session)
        sleep(_OBSERVE_AGAIN_S)
    return False
