"""Who may change clusters: one rule, and the refusal names what can be done about it."""

from __future__ import annotations

import pytest

from k2ktui.engine.access import access, require
from k2ktui.errors import ExitCode, Refused


@pytest.mark.parametrize(
    ("given", "reason", "unlockable"),
    [
        ({"flag": True}, "started with --read-only", False),
        ({"configured": True}, "readOnly is enabled", False),
        ({"replay": True}, "this is a recording", False),
        ({"environment": "production"}, "the environment is production", True),
        ({"environment": " PROD "}, "the environment is production", True),
        ({"environment": "production", "configured": True, "unlocked": True}, "readOnly", False),
        ({"environment": "production", "flag": True, "unlocked": True}, "--read-only", False),
    ],
)
def test_what_is_refused(given: dict[str, object], reason: str, unlockable: bool) -> None:
    may = access(**given)  # type: ignore[arg-type]
    assert not may.writable
    assert reason in may.reason
    assert may.unlockable is unlockable
    with pytest.raises(Refused, match="applying a plan is refused") as raised:
        require(may, "applying a plan")
    assert raised.value.exit_code is ExitCode.REFUSED
    assert raised.value.unchanged == "Nothing was changed."
    assert ("--unlock" in raised.value.hint) is unlockable


@pytest.mark.parametrize(
    "given", [{}, {"environment": "staging"}, {"environment": "production", "unlocked": True}]
)
def test_what_is_allowed(given: dict[str, object]) -> None:
    require(access(**given), "applying a plan")  # type: ignore[arg-type]
