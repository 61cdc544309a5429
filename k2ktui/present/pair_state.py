"""The state of the pair as text: the first line of commands and screens."""

from __future__ import annotations

from k2ktui.config.model import PipelineConfig
from k2ktui.engine.drill.pair_state import (
    PairPhase,
    PairState,
    describe_final_loss,
    describe_pair,
    describe_pair_shortly,
)
from k2ktui.present.formatting import Tone
from k2ktui.watch.model import View

_TONES = {
    PairPhase.UNKNOWN: Tone.UNKNOWN,
    PairPhase.REPLICATING: Tone.MUTED,
    PairPhase.FAILING_OVER: Tone.WARN,
    PairPhase.FAILED_OVER: Tone.WARN,
    PairPhase.FAILING_BACK: Tone.WARN,
}


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
    return "fenced" if state.fenced_by and is_replicating(state) else str(state.phase)


def is_replicating(state: PairState) -> bool:
    """Return whether the workload is on the source, and no drill moves it."""
    return state.phase is PairPhase.REPLICATING


def pair_tone(state: PairState) -> Tone:
    """Return how the state is shown."""
    return Tone.WARN if state.fenced_by else _TONES[state.phase]


def final_loss(view: View) -> str:
    """Return what was missing on the target when a drill opened it."""
    return describe_final_loss(view.pair_state)


def _names(source: str, target: str) -> tuple[str, str]:
    return source or "the source", target or "the target"
