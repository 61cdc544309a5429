"""Whether parity may change the target now, by the drills of both directions; pure."""

from __future__ import annotations

from collections.abc import Collection

from k2ktui.engine.drill.model import Drill
from k2ktui.engine.drill.pair_state import PairPhase, find_pair_state
from k2ktui.text import safe_text


def find_pause(
    own: Collection[Drill], opposite: Collection[Drill], named: str = "", unread: str = ""
) -> str:
    """Return why parity pauses; "" if it does not.

    It goes on only in the direction that copies: what a cluster has that was failed over from is
    the past. A drill over some topics pauses nothing: parity leaves these topics alone.

    Args:
        own: drills of this pipeline, on its target.
        opposite: drills of pipelines from its target to its source, on its source.
        named: id of the drill that the pipeline's run record names.
        unread: why the drills could not all be read.
    """
    for drill in (*own, *opposite):
        if not (drill.is_over or drill.topics):
            return f"drill {safe_text(drill.id)} is open"
    state = find_pair_state(own, opposite, named)
    if state.moved:
        return f"drill {safe_text(state.drill)} has opened the target: it is the primary now"
    if state.fenced_by:
        return f"drill {safe_text(state.fenced_by)} has fenced this pipeline: it copies nothing"
    if unread:
        return f"whether a drill is open is unknown: {unread}"
    return "" if state.phase is PairPhase.REPLICATING else f"the pair is {state.phase}"
