from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from k2ktui.config.scalars import (
    Text,
    duration_text,
    java_text,
    parse_duration,
    parse_instant,
    parse_toggle,
)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("750 milliseconds", 0.75),
        ("1 milli", 0.001),
        ("500ms", 0.5),
        ("5s", 5),
        ("5 seconds", 5),
        (" 10   minutes ", 600),
        ("1 hour", 3600),
        ("7 days", 604800),
        ("1 Minute", 60),
    ],
)
def test_durations(text: str, seconds: float) -> None:
    assert parse_duration(text) == pytest.approx(seconds)


@pytest.mark.parametrize("text", ["5", "", "five seconds", "5 fortnights", "-5 s", "1.5 s", True])
def test_no_durations(text: object) -> None:
    with pytest.raises(ValueError, match="duration with its unit"):
        parse_duration(text)


@given(st.integers(0, 10**10))
def test_durations_survive_being_written(milliseconds: int) -> None:
    seconds = milliseconds / 1000
    assert parse_duration(duration_text(seconds)) == pytest.approx(seconds)


@pytest.mark.parametrize("text", ["enabled", "true", "yes", "on", "Enabled", True])
def test_enabled(text: object) -> None:
    assert parse_toggle(text) is True


@pytest.mark.parametrize("text", ["disabled", "false", "no", "off", False])
def test_disabled(text: object) -> None:
    assert parse_toggle(text) is False


@pytest.mark.parametrize("text", ["", "1", "enable", None, 1])
def test_no_toggle(text: object) -> None:
    with pytest.raises(ValueError, match="enabled or disabled"):
        parse_toggle(text)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (True, "true"),
        (1000, "1000"),
        (Text("yes", True), "true"),
        (Text("yes"), "yes"),
        (Text("1.10"), "1.10"),
        (["a:1", "b:2"], "a:1,b:2"),
    ],
)
def test_java_text(value: object, text: str) -> None:
    assert java_text(value) == text


def test_instants_are_utc_unless_they_say_otherwise() -> None:
    assert parse_instant("2025-03-01T12:00:00") == parse_instant("2025-03-01T12:00:00Z")
    assert parse_instant("2025-03-01T13:00:00+01:00") == 1740830400000
    assert parse_instant("1740830400000") == 1740830400000
