"""Topics that drills moved to the target, as sentences."""

from __future__ import annotations

from collections.abc import Iterator

from k2ktui.text import counted, list_names
from k2ktui.watch.model import View

RETIRE = (
    "every topic was moved to the target: if no failback is planned, retire the pipeline: stop its "
    "runs and k2ktui sync, on every host"
)
_NAMED = 10


def moved_lines(view: View) -> Iterator[str]:
    """Yield which topics each drill moved, and that the pipeline can be retired if it is so."""
    for drill, topics in view.moved_topics.items():
        names = list_names(topics, _NAMED)
        yield f"moved to the target: {counted(len(topics), 'topic')} by drill {drill}: {names}"
    if view.is_left:
        yield RETIRE
