"""The summary at the end of a gate: which tests ran in none of its runs of pytest, and why.

``python -m tests.support.schedule.summary [--all] DIRECTORY`` prints it, from the files that the
runs have written there (:mod:`tests.support.schedule.outcomes`). The exit code is 1

- if a test was skipped that ``skips.txt`` does not list with a reason,
- if no run of the gate selects a test,
- with ``--all``, if a test was not reached in time, or was left to another part.

Without ``--all``, what the time did not suffice for is named only: a slow machine fails no gate.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

from tests.support.schedule.durations import function_of
from tests.support.schedule.outcomes import Outcome, State, read_outcomes

SKIPS = Path(__file__).with_name("skips.txt")


def listed_skips(table: Path = SKIPS) -> Mapping[str, str]:
    """Return the files and test functions that may be skipped, with the reason."""
    lines = table.read_text().splitlines()
    rows = (line.split(maxsplit=1) for line in lines if line and not line.startswith("#"))
    return dict(rows)


def merge(runs: Sequence[Mapping[str, Outcome]]) -> dict[str, Outcome]:
    """Return the outcome of each test in all runs: it ran if it did so in one of them.

    A name that only some runs know, and none selects, is left out: names with parameters may differ
    from one version of Python to another.
    """
    order = list(State)
    merged: dict[str, Outcome] = {}
    for test, outcome in (pair for run in runs for pair in run.items()):
        before = merged.setdefault(test, outcome)
        if order.index(outcome.state) < order.index(before.state):
            merged[test] = outcome
    # A module that one run skipped as a whole ran if another one ran its tests.
    modules = {
        module
        for test, outcome in merged.items()
        if outcome.state == State.RAN and (module := test.partition("::")[0]) != test
    }
    return {
        test: outcome
        for test, outcome in merged.items()
        if test not in modules
        and (outcome.state != State.NOT_SELECTED or all(test in run for run in runs))
    }


def _why_listed(function: str, skips: Mapping[str, str]) -> str | None:
    return skips.get(function) or skips.get(function.partition("::")[0])


def summarize(
    outcomes: Mapping[str, Outcome], skips: Mapping[str, str], *, whole: bool
) -> tuple[list[str], bool]:
    """Return the lines of the summary, and whether the gate passes."""
    states = Counter(outcome.state for outcome in outcomes.values())
    lines = [f"{states[State.RAN]} of {len(outcomes)} tests ran."]
    skipped: Counter[tuple[str, str]] = Counter(
        (function_of(test), outcome.reason)
        for test, outcome in outcomes.items()
        if outcome.state == State.SKIPPED
    )
    for (function, reason), count in sorted(skipped.items()):
        why = _why_listed(function, skips)
        known = "NOT LISTED" if why is None else f"listed: {why}"
        lines.append(f"skipped: {count} of {function}: {reason} ({known})")
    for state in (State.NOT_REACHED, State.OTHER_PART, State.NOT_SELECTED):
        functions = Counter(
            function_of(test) for test, outcome in outcomes.items() if outcome.state == state
        )
        if functions:
            lines.append(f"{state}: {functions.total()} tests of {len(functions)} functions")
        if state != State.OTHER_PART or whole:
            lines += [f"  {count} of {function}" for function, count in sorted(functions.items())]
    failing = {State.NOT_SELECTED, *((State.NOT_REACHED, State.OTHER_PART) if whole else ())}
    listed = all(_why_listed(function, skips) is not None for function, _ in skipped)
    passes = listed and failing.isdisjoint(states)
    if not passes:
        lines.append(
            "The gate fails: a test that did not run proves nothing. Install what it needs, or list"
            f" it in tests/support/schedule/{SKIPS.name} with the reason."
        )
    return lines, passes


def main(arguments: list[str]) -> int:
    """Print the summary of a directory's runs; return the exit code."""
    *options, directory = arguments
    runs = [read_outcomes(file.read_text()) for file in sorted(Path(directory).glob("*.json"))]
    lines, passes = summarize(merge(runs), listed_skips(), whole="--all" in options)
    print("\n".join(lines))
    return 0 if passes else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
