"""D06 to D13: the pipeline copies, is close to the source's end, and can read what it lacks."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from k2ktui.drill.checks.context import CheckContext
from k2ktui.engine.drill_checks import CheckFinding, could_not_check, fails, passes
from k2ktui.text import counted, duration, safe_text


def check_lag(context: CheckContext) -> CheckFinding:
    """D06: records and seconds not copied, on each partition."""
    rows = [row.status for row in context.view().partitions]
    if not rows:
        return could_not_check("no partition is selected")
    unknown = [row for row in rows if row.lag_records is None]
    known = [row for row in rows if row.lag_records is not None]
    behind = [row for row in known if row.lag_records]
    worst = max((row.lag_records or 0 for row in known), default=0)
    oldest = max((row.lag_seconds or 0.0 for row in known), default=0.0)
    figures = (
        f"{len(behind):,} of {counted(len(rows), 'partition')} behind; worst lag "
        f"{counted(worst, 'record')}, {duration(oldest)}"
    )
    limits = context.limits
    late = [
        row
        for row in known
        if (row.lag_records or 0) > limits.lag_records or (row.lag_seconds or 0.0) > limits.lag_s
    ]
    if late or (unknown and known):
        names = sorted(f"{row.topic}-{row.partition}" for row in late or unknown)
        named = ", ".join(safe_text(name) for name in names[:3])
        missing = f"; the lag of {counted(len(unknown), 'partition')} is unknown" if unknown else ""
        text = f"{figures}{missing}; {'too far behind' if late else 'unknown'}: {named}"
        hint = "Wait until the pipeline has caught up: k2ktui watch -f FILE shows the lag."
        return fails(text, hint) if late else could_not_check(text)
    if not known:
        return could_not_check(f"the lag of {counted(len(unknown), 'partition')} is unknown")
    return passes(figures)


CHECKS: Mapping[str, Callable[[CheckContext], CheckFinding]] = {
    "D06": check_lag,
}
