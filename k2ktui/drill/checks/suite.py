"""Run drill checks side by side."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future
from time import monotonic

from k2ktui.drill.checks.catalog import CATALOG
from k2ktui.drill.checks.context import CheckContext
from k2ktui.drill.checks.registration import DrillCheck
from k2ktui.engine.drill.checks import (
    CheckFinding,
    CheckResult,
    DrillCheckOutcome,
    could_not_check,
)
from k2ktui.errors import K2kError
from k2ktui.faults import fault
from k2ktui.text import safe_message

log = logging.getLogger(__name__)


def run_checks(context: CheckContext, ids: Iterable[str]) -> Iterator[CheckResult]:
    """Run checks side by side, and yield the results in the given order.

    A check changes nothing and raises nothing: what cannot be read is could-not-check.

    Args:
        context: what is checked.
        ids: see :func:`k2ktui.drill.checks.catalog.ids_asked`.
    """
    results: dict[str, Future[CheckResult]] = {check_id: Future() for check_id in ids}
    checks = [CATALOG[check_id] for check_id in results]

    def run(lane: Sequence[DrillCheck]) -> None:
        for check in lane:
            results[check.id].set_result(_run(context, check))

    serial = [check for check in checks if check.serial]
    for lane in [serial, *([check] for check in checks if not check.serial)]:
        # A daemon: a check that hangs must not keep the process from ending.
        threading.Thread(target=run, args=(lane,), name="drill-check", daemon=True).start()
    for result in results.values():
        yield result.result()


def _run(context: CheckContext, check: DrillCheck) -> CheckResult:
    began = monotonic()
    finding = _ask(context, check)
    is_passed = finding.outcome is DrillCheckOutcome.PASS
    level = logging.DEBUG if is_passed else logging.INFO
    log.log(level, "check %s %s: %s", check.id, finding.outcome, finding.evidence)
    return CheckResult(
        check.id,
        check.title,
        finding.outcome,
        safe_message(" ".join(finding.evidence.splitlines())),
        "\n".join(map(safe_message, finding.hint.splitlines())),
        monotonic() - began,
        int(time.time() * 1000),
    )


def _ask(context: CheckContext, check: DrillCheck) -> CheckFinding:
    try:
        return check.ask(context)
    except K2kError as error:
        return could_not_check(error.message, error.hint)
    except Exception as error:  # a fault in one check must not stop a drill
        unexpected = fault(error)
        return could_not_check(unexpected.message, unexpected.hint)
