"""Run drill checks side by side."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from time import monotonic

from k2ktui.drill.checks import (
    access,
    after,
    cut_over,
    data,
    groups,
    mapping,
    parity,
    reachability,
    replication,
)
from k2ktui.drill.checks.context import CheckContext
from k2ktui.engine.drill_catalog import CATALOG
from k2ktui.engine.drill_checks import CheckFinding, CheckResult, could_not_check
from k2ktui.errors import K2kError
from k2ktui.faults import fault
from k2ktui.text import safe_message

Check = Callable[[CheckContext], CheckFinding]

CHECKS: Mapping[str, Check] = {
    **reachability.CHECKS,
    **replication.CHECKS,
    **mapping.CHECKS,
    **groups.CHECKS,
    **parity.CHECKS,
    **access.CHECKS,
    **data.CHECKS,
    **cut_over.CHECKS,
    **after.CHECKS,
}


def run_checks(context: CheckContext, ids: Iterable[str]) -> Iterator[CheckResult]:
    """Run checks side by side, and yield the results in the given order.

    A check changes nothing and raises nothing: what cannot be read is could-not-check.

    Args:
        context: what is checked.
        ids: ``D01`` to ``D48``, see :func:`k2ktui.engine.drill_catalog.ids_asked`.
    """
    found: dict[str, Future[CheckResult]] = {each: Future() for each in ids}

    def run(lane: Sequence[str]) -> None:
        for check_id in lane:
            found[check_id].set_result(_run(context, check_id))

    # The connections of client roles serve one check at a time.
    connected = [each for each in found if each in reachability.CHECKS]
    for lane in [connected, *([each] for each in found if each not in connected)]:
        # A daemon: a check that hangs must not keep the process from ending.
        threading.Thread(target=run, args=(lane,), name="drill-check", daemon=True).start()
    for result in found.values():
        yield result.result()


def _run(context: CheckContext, check_id: str) -> CheckResult:
    began = monotonic()
    finding = _find(context, check_id)
    return CheckResult(
        check_id,
        CATALOG[check_id].title,
        finding.outcome,
        safe_message(" ".join(finding.evidence.splitlines())),
        "\n".join(map(safe_message, finding.hint.splitlines())),
        monotonic() - began,
    )


def _find(context: CheckContext, check_id: str) -> CheckFinding:
    try:
        return CHECKS[check_id](context)
    except K2kError as error:
        return could_not_check(error.message, error.hint)
    except Exception as error:  # a fault in one check must not stop a drill
        found = fault(error)
        return could_not_check(found.message, found.hint)
