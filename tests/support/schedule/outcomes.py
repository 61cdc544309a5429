"""What became of each test in a run of pytest, for the summary of a gate that has several runs.

With ``K2KTUI_OUTCOMES=DIRECTORY`` a run adds a file of JSON to the directory: for each test that it
ran, skipped, did not reach or left out, how and why. :mod:`tests.support.schedule.summary` reads
them.
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any, Protocol
from uuid import uuid4

import pytest

from tests.support.schedule.durations import without_group

VARIABLE = "K2KTUI_OUTCOMES"
# Under this name, what an xdist worker has not run is handed to the process that writes the file.
_OUTPUT = "k2ktui_left_out"
_NOT_REACHED = "k2ktui_not_reached"
_IN_ANOTHER_PART = pytest.StashKey[bool]()


class State(StrEnum):
    """How a test fared; what says more about it comes first."""

    RAN = "ran"
    SKIPPED = "skipped"
    NOT_REACHED = "not reached"
    OTHER_PART = "in another part"
    NOT_SELECTED = "not selected"


@dataclass(frozen=True, slots=True)
class Outcome:
    """The state of a test, and its reason if it was skipped."""

    state: State
    reason: str = ""


class _Node(Protocol):
    """A worker, as xdist hands it to the process that started it."""

    workeroutput: dict[str, Any]


def note_not_reached(item: pytest.Item) -> None:
    """Say of a test that is about to be skipped that the clock is the reason."""
    item.user_properties.append((_NOT_REACHED, "yes"))


def note_other_part(items: Sequence[pytest.Item]) -> None:
    """Say of tests that are about to be deselected that other parts have them."""
    for item in items:
        item.stash[_IN_ANOTHER_PART] = True


class Recorder:
    """Notes outcomes; a plugin of each process."""

    def __init__(self, directory: str | None) -> None:
        self._directory = directory
        self._outcomes: dict[str, Outcome] = {}

    def pytest_deselected(self, items: Sequence[pytest.Item]) -> None:
        for item in items:
            part = item.stash.get(_IN_ANOTHER_PART, False)
            state = State.OTHER_PART if part else State.NOT_SELECTED
            self._outcomes[without_group(item.nodeid)] = Outcome(state)

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        """A module that is skipped has no tests; it stands for them."""
        if report.skipped:
            self._outcomes[report.nodeid] = Outcome(State.SKIPPED, _reason(report))

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        test = without_group(report.nodeid)
        if not report.skipped:
            self._outcomes.setdefault(test, Outcome(State.RAN))
        elif (_NOT_REACHED, "yes") in map(tuple, report.user_properties):
            self._outcomes[test] = Outcome(State.NOT_REACHED)
        else:
            self._outcomes[test] = Outcome(State.SKIPPED, _reason(report))

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: _Node) -> None:
        """Take over what a worker has left out."""
        handed = getattr(node, "workeroutput", {}).get(_OUTPUT, "{}")
        for test, outcome in read_outcomes(handed).items():
            self._outcomes.setdefault(test, outcome)

    # Before xdist sends the worker's output.
    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        output = getattr(session.config, "workeroutput", None)
        if output is not None:
            left_out = {
                test: outcome
                for test, outcome in self._outcomes.items()
                if outcome.state in (State.OTHER_PART, State.NOT_SELECTED)
            }
            output[_OUTPUT] = _write(left_out)

    def pytest_unconfigure(self) -> None:
        """Write the file, when xdist's workers are down."""
        if self._directory is not None:
            Path(self._directory).mkdir(parents=True, exist_ok=True)
            file = Path(self._directory) / f"{uuid4()}.json"
            file.write_text(_write(self._outcomes))


def pytest_configure(config: pytest.Config) -> None:
    # A test that runs pytest itself is no run of the gate.
    config.pluginmanager.register(Recorder(os.environ.pop(VARIABLE, None)), "k2ktui_outcomes")


def read_outcomes(text: str) -> dict[str, Outcome]:
    """Read the outcomes of tests from JSON."""
    rows = json.loads(text).items()
    return {test: Outcome(State(row["state"]), row["reason"]) for test, row in rows}


def _write(outcomes: dict[str, Outcome]) -> str:
    return json.dumps({test: asdict(outcome) for test, outcome in outcomes.items()})


def _reason(report: pytest.CollectReport | pytest.TestReport) -> str:
    """Return why something was skipped: pytest has file, line and reason."""
    text = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
    return text.removeprefix("Skipped: ")
