"""All checks of a drill: which of them a phase asks, and which failures stop a drill."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

# Importing a module registers its checks.
from k2ktui.drill.checks import (  # noqa: F401
    access,
    after,
    clients,
    cut_over,
    data,
    groups,
    mapping,
    parity,
    reachability,
    replication,
)
from k2ktui.drill.checks.registration import REGISTERED, DrillCheck
from k2ktui.engine.drill.checks import CheckResult, DrillKind, DrillPhase
from k2ktui.engine.drill.model import Drill
from k2ktui.engine.drill.steps import failed_phase

CATALOG: Mapping[str, DrillCheck] = dict(sorted(REGISTERED.items()))
"""All checks by id, in order."""


def ids_asked(kind: DrillKind, phase: DrillPhase | None = None) -> tuple[str, ...]:
    """Return the ids of the checks that a kind of drill asks, in one phase or in any."""
    return tuple(
        check.id
        for check in CATALOG.values()
        if any(phase in (None, at) for at in check.phases_of(kind))
    )


def blocking(results: Iterable[CheckResult], kind: DrillKind) -> list[CheckResult]:
    """Return the failures that stop a drill of a kind.

    A record may have checks that only another release knows: they stop nothing.
    """
    stopping = {check.id for check in CATALOG.values() if kind in check.blocks}
    return [result for result in results if result.failed and result.id in stopping]


def checks_that_stop(drill: Drill) -> list[CheckResult]:
    """Return the failed checks that have stopped a drill, and that the operator can accept."""
    stopped = failed_phase(drill)
    if stopped is None:
        return []
    asked, accepted = ids_asked(drill.kind, stopped.phase), drill.options.accepted
    return [
        result
        for result in blocking(drill.checks, drill.kind)
        if result.id in asked and result.id not in accepted
    ]
