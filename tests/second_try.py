"""Which failures of a run may be tried once more: the gate (`.ci/run`) does so.

A wait that a busy machine did not meet in time gets a second try. What the oracle finds does not:
records that are lost, doubled or mapped wrongly once in a hundred runs are what a proof looks for.
Many failures at once are no accident either. Such a run ends with :data:`FINAL`, and not with
pytest's 1.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

import pytest

from tests.support.oracle import NotExactlyOnce

FINAL = 10
# More tests than these do not fail by accident.
_MOST = 5
_PROPERTY = ("final", True)


class _Failures:
    """Counts the failures of a run, in the process that reports them."""

    def __init__(self) -> None:
        self.tests: set[str] = set()
        self.final = False

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            self.tests.add(report.nodeid)
            self.final |= _PROPERTY in map(tuple, report.user_properties)

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        failed = session.exitstatus == pytest.ExitCode.TESTS_FAILED
        if failed and (self.final or len(self.tests) > _MOST):
            session.exitstatus = FINAL


def pytest_configure(config: pytest.Config) -> None:
    """Watch the reports; a process of pytest-xdist leaves that to the one that started it."""
    if not hasattr(config, "workerinput"):
        config.pluginmanager.register(_Failures())


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[Any]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Mark the report of a test in which the oracle found a difference."""
    report = yield
    if call.excinfo is not None and call.excinfo.errisinstance(NotExactlyOnce):
        report.user_properties.append(_PROPERTY)
    return report
