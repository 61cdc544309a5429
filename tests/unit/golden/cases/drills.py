"""Cases of the transcript: drills of a pipeline."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from tests.support.commands.transcript import Typed, typed
from tests.support.drill.made_drills import fencing, opened, rehearsed, stopped, switched_over
from tests.unit.golden.cases.common import Cases


def drill_list(_: Path) -> list[Typed]:
    """Drills of each status; none."""
    read = "k2ktui.drill.operations.list_all"
    drills = [fencing(), stopped(), opened(), rehearsed(), switched_over()]
    return [
        typed("drill list -f orders.yaml", {read: (drills, ())}),
        typed("drill list -f orders.yaml --json", {read: (drills, ())}),
        typed("drill list -f orders.yaml", {read: ([], ())}),
    ]


def drill_show(_: Path) -> list[Typed]:
    """A drill that waits, one that failed, one that is done."""
    read = "k2ktui.drill.operations.read_drill"
    return [
        typed(f"drill show -f orders.yaml {drill.id}{option}", {read: drill})
        for drill in (fencing(), stopped(), opened(), rehearsed())
        for option in ("", " --json")
    ]


def drill_report(_: Path) -> list[Typed]:
    """A rehearsal, a failed drill, one that is done; verified, and not."""
    read = "k2ktui.drill.operations.read_report"
    verify_it = "k2ktui.drill.operations.verify_drill"
    failed = stopped()
    return [
        *(
            typed(f"drill report -f orders.yaml {drill.id}", {read: (drill, ())})
            for drill in (rehearsed(), failed, switched_over())
        ),
        typed(f"drill report -f orders.yaml {failed.id} --json", {read: (failed, ())}),
        typed(f"drill report -f orders.yaml {failed.id} --verify", {verify_it: (failed, [])}),
        typed(
            f"drill report -f orders.yaml {failed.id} --verify",
            {verify_it: (failed, ["the report was changed after phase lag"])},
        ),
        typed(f"drill report -f orders.yaml {failed.id} --verify --html page.html"),
    ]


CASES: Mapping[str, Cases] = {
    "drill list": drill_list,
    "drill show": drill_show,
    "drill report": drill_report,
}
