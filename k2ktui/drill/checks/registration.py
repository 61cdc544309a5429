"""A check of a drill registers itself: its id, title, who asks it in which phase, what it stops."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass

from k2ktui.drill.checks.context import CheckContext
from k2ktui.engine.drill.checks import CheckFinding, DrillKind, DrillPhase

ALL = frozenset(DrillKind)
WITH_SOURCE = ALL - {DrillKind.DISASTER}
MOVES = ALL - {DrillKind.REHEARSE}
SWITCHOVERS = frozenset(kind for kind in DrillKind if kind.is_switchover)

Ask = Callable[[CheckContext], CheckFinding]


@dataclass(frozen=True, slots=True)
class DrillCheck:
    """One check.

    Attributes:
        id: ``D01``, ``D02`` and so on.
        title: what is checked.
        phases: the kinds of drill that ask it, by phase.
        blocks: the kinds of drill that a failure stops before the phase's action.
        serial: whether no other serial check may run beside it.
        ask: the function that checks; its docstring says when the check passes.
    """

    id: str
    title: str
    phases: Mapping[DrillPhase, frozenset[DrillKind]]
    blocks: frozenset[DrillKind]
    serial: bool
    ask: Ask

    def phases_of(self, kind: DrillKind) -> tuple[DrillPhase, ...]:
        """Return the phases in which a kind of drill asks it, in their order."""
        return tuple(phase for phase in DrillPhase if kind in self.phases.get(phase, ()))


# Only filled by the imports in drill/checks/catalog.py: read CATALOG there, which is complete.
REGISTERED: dict[str, DrillCheck] = {}


def check(
    check_id: str,
    title: str,
    phases: Mapping[DrillPhase, Collection[DrillKind]],
    *,
    blocks: Collection[DrillKind] = (),
    serial: bool = False,
) -> Callable[[Ask], Ask]:
    """Register a check.

    The function's docstring begins with "Pass if": docs/drill-checks.md shows that sentence.

    Args:
        check_id: the next free one. Records of drills on the target name it: it never changes.
        title: what is checked.
        phases: the kinds of drill that ask it, by phase.
        blocks: the kinds of drill that a failure stops.
        serial: whether it uses :meth:`CheckContext.probe`: those connections serve one check at a
            time.
    """

    def register(ask: Ask) -> Ask:
        if check_id in REGISTERED:
            raise ValueError(f"two checks of a drill have the id {check_id}")
        asked_by = {phase: frozenset(kinds) for phase, kinds in phases.items()}
        REGISTERED[check_id] = DrillCheck(check_id, title, asked_by, frozenset(blocks), serial, ask)
        return ask

    return register
