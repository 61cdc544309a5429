"""D01 to D05: the clusters answer, are the right ones, and let every client role in."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from k2ktui.drill.checks.context import SIDES, CheckContext
from k2ktui.engine.drill_checks import CheckFinding, could_not_check, fails, passes
from k2ktui.text import safe_text


def check_identity(context: CheckContext) -> CheckFinding:
    """D01: both clusters answer with the expected ids."""
    down = {side: error for side in SIDES if (error := context.down(side))}
    if down:
        text = "; ".join(error.message for error in down.values())
        hint = next(iter(down.values())).hint
        if "target" in down or context.expects_source:
            return fails(text, hint)
        return could_not_check(f"{text}: its id cannot be compared")
    found = {side: context.cluster_id(side) for side in SIDES}
    expected = dict(zip(SIDES, context.facts.cluster_ids, strict=True))
    other = [side for side in SIDES if expected[side] and found[side] != expected[side]]
    if other:
        return fails(
            "; ".join(
                f"the {side} is cluster {safe_text(found[side])}, not {safe_text(expected[side])}"
                for side in other
            ),
            "Check bootstrap.servers: they lead to another cluster than when the pipeline began.",
        )
    known = "as recorded" if all(expected.values()) else "no ids were recorded to compare with"
    ids = ", ".join(f"{side} {safe_text(found[side])}" for side in SIDES)
    return passes(f"both clusters answer: {ids}; {known}")


def check_two_clusters(context: CheckContext) -> CheckFinding:
    """D05: source and target are different clusters."""
    source, target = (context.cluster_id(side) for side in SIDES)
    if source == target:
        return fails(
            f"source and target are the same cluster ({safe_text(source)})",
            "Correct bootstrap.servers of source.kafka or target.kafka.",
        )
    return passes(f"source {safe_text(source)}, target {safe_text(target)}")


CHECKS: Mapping[str, Callable[[CheckContext], CheckFinding]] = {
    "D01": check_identity,
    "D05": check_two_clusters,
}
