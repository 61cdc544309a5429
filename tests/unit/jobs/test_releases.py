"""Which releases may work on one pipeline, as ``k2ktui check`` says it of heartbeats."""

from __future__ import annotations

from dataclasses import replace

import pytest

from k2ktui import version
from k2ktui.engine.moves.journal import RunKind, Runner, RunnerState
from k2ktui.jobs.checks import compare_releases
from k2ktui.replication.preflight.checks import CheckOutcome

NOW = 1_790_000_000.0


@pytest.fixture(autouse=True)
def of_this_release(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(version, "__version__", "0.9.1")
    monkeypatch.setattr("k2ktui.jobs.checks.__version__", "0.9.1")


def runner(release: str, **values: object) -> Runner:
    now = int(NOW * 1000)
    made = Runner("r", "else\x1bwhere", "ann", 7, now - 599_000, now - 1000, RunnerState.RUNNING)
    return replace(made, version=release, **values)  # type: ignore[arg-type]


@pytest.mark.parametrize("release", ["0.9.1", "0.9.0", "0.9.12", "0.1.0"])
def test_runs_of_these_may_be_joined(release: str) -> None:
    check = compare_releases([runner(release)], NOW)
    assert check.outcome is CheckOutcome.PASS
    assert (f"k2ktui {release}," in check.detail) == (release != "0.9.1"), "others are named"
    assert "\x1b" not in check.detail


@pytest.mark.parametrize("release", ["0.10.0", "0.8.9", "1.0.0", "", "0.1.1", "garbage"])
def test_of_others_it_is_not_known(release: str) -> None:
    check = compare_releases([runner("0.9.1"), runner(release)], NOW)
    assert check.outcome is CheckOutcome.WARN
    assert "Stop all runs" in check.hint and "k2ktui 0.9.1," not in check.detail


@pytest.mark.parametrize("values", [{"state": RunnerState.STOPPED}, {"kind": RunKind.SYNC}])
def test_runs_that_have_ended_and_syncs_do_not_count(values: dict[str, object]) -> None:
    assert compare_releases([runner("0.8.0", **values)], NOW).outcome is CheckOutcome.PASS
