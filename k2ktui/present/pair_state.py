"""The state of the pair as text, the first line of commands and screens, and what was moved."""

from __future__ import annotations

from collections.abc import Iterator

from k2ktui.config.model import PipelineConfig
from k2ktui.engine.drill.pair_state import (
    PairPhase,
    PairState,
    describe_pair,
    describe_pair_shortly,
)
from k2ktui.present.formatting import Tone
from k2ktui.text import counted, list_names
from k2ktui.watch.model import View

_TONES = {
    PairPhase.UNKNOWN: Tone.UNKNOWN,
    PairPhase.REPLICATING: Tone.MUTED,
    PairPhase.FAILING_OVER: Tone.WARN,
    PairPhase.FAILED_OVER: Tone.WARN,
    PairPhase.FAILING_BACK: Tone.WARN,
}

RETIRE = (
    "every topic was moved to the target: if no failback is planned, retire the pipeline: stop its "
    "runs and k2ktui sync, on every host"
)
_NAMED = 10


def pair_text(view: View) -> str:
    """Return the state of a view's pair in one line."""
    return describe_pair(view.pair_state, *_names(view.pair.source, view.pair.target))


def short_pair_text(view: View) -> str:
    """Return the state of a view's pair for one line of a narrow terminal."""
    return describe_pair_shortly(view.pair_state, *_names(view.pair.source, view.pair.target))


def pair_line(config: PipelineConfig, state: PairState) -> str:
    """Return the state of a pipeline's pair in one line."""
    return describe_pair(state, *_names(config.source.name, config.target.name))


def is_plain(state: PairState) -> bool:
    """Return whether there is nothing to say: it replicates, and no drill has ever moved it."""
    plain = state.phase is PairPhase.REPLICATING and not state.drill
    return plain and not state.fenced_by and not state.unread


def pair_word(state: PairState) -> str:
    """Return the state in one or two words; "" while it is unknown."""
    if state.phase is PairPhase.UNKNOWN:
        return ""
    is_fenced = state.fenced_by and state.phase is PairPhase.REPLICATING
    return "fenced" if is_fenced else str(state.phase)


def pair_tone(state: PairState) -> Tone:
    """Return how the state is shown."""
    return Tone.WARN if state.fenced_by else _TONES[state.phase]


def _names(source: str, target: str) -> tuple[str, str]:
    return source or "the source", target or "the target"


def list_moved(view: View) -> list[str]:
    """Return how many topics each drill moved, with their names."""
    return [
        f"{counted(len(topics), 'topic')} by drill {drill}: {list_names(topics, _NAMED)}"
        for drill, topics in view.moved_topics.items()
    ]


def moved_lines(view: View) -> Iterator[str]:
    """Yield which topics each drill moved, and that the pipeline can be retired if it is so."""
    for moved in list_moved(view):
        yield f"moved to the target: {moved}"
    if view.is_left:
        yield RETIRE
