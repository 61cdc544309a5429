"""A poll of the sync application as JSON, and as lines of text."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from itertools import islice
from typing import TYPE_CHECKING, Any

from k2ktui.engine.moves.plan import Action
from k2ktui.text import counted, safe_message, safe_text

if TYPE_CHECKING:
    from k2ktui.sync.loop.poll import SyncPoll

# Number of groups whose reread bound is shown, the largest first.
_SHOWN = 10


def poll_event(turn: SyncPoll) -> dict[str, Any]:
    """Return a poll as a JSON object; lags are for the metrics."""
    event = {"event": "turn", **asdict(turn)}
    del event["lags"]
    return event


def is_worth_reporting(turn: SyncPoll) -> bool:
    """Whether a poll committed something or failed to."""
    return bool(turn.applied or turn.failed)


def poll_lines(event: Mapping[str, Any]) -> list[str]:
    """Return the lines that describe a poll, from its JSON object."""
    words = {str(action): action.word for action in Action}
    actions = sorted((words.get(name, name), count) for name, count in event["actions"].items())
    planned = ", ".join(f"{count:,} {action}" for action, count in actions)
    stopped = f", {len(event['stopped']):,} not written" if event["stopped"] else ""
    bases = ", ".join(f"{count:,} {basis}" for basis, count in sorted(event["bases"].items()))
    lines = [
        f"{counted(event['groups'], 'group')}: {safe_message(planned) or 'nothing to translate'}; "
        f"{event['applied']:,} committed{stopped}" + (f"; {safe_message(bases)}" if bases else "")
    ]
    rereads = event["rereads"]
    for group, count in islice(rereads.items(), _SHOWN):
        lines.append(f"  {safe_text(group)} re-reads at most {counted(count, 'record')}")
    if (more := len(rereads) - _SHOWN) > 0:
        lines.append(f"  and {counted(more, 'more group')} (k2ktui plan shows all)")
    return lines
