"""Long steps: what is shown of them, when, and to whom."""

from __future__ import annotations

import threading

import pytest

from k2ktui import progress
from k2ktui.progress import ProgressStep, ProgressTexts, listening, long_step, progress_text


def test_a_line_has_bar_count_rate_and_remaining_time() -> None:
    step = ProgressStep("mapping records read", 3_000_000, 12_000_000)
    assert progress_text(step, 30.0) == (
        "mapping records read ███░░░░░░░░░ 25 %  3,000,000 of 12,000,000, 100,000/s, 1 m 30 s left"
    )
    assert progress_text(step, 0.2, ascii_only=True) == (
        "mapping records read ###--------- 25 %  3,000,000 of 12,000,000"
    )


def test_what_is_not_known_is_not_shown() -> None:
    assert progress_text(ProgressStep("commits are read"), 9.0) == "commits are read"
    assert progress_text(ProgressStep("jars", 7), 9.0) == "jars: 7"
    assert progress_text(ProgressStep("rows", 0, 10), 9.0) == "rows ░░░░░░░░░░░░ 0 %  0 of 10"
    slow = progress_text(ProgressStep("rows", 2, 10), 4.0)
    assert slow.endswith("2 of 10, 0.5/s, 16 s left")
    # Others may write while it is counted: the end moves.
    assert "100 %  10 of 10" in progress_text(ProgressStep("rows", 12, 10), 0.0)


def test_only_the_thread_that_listens_is_told_and_only_while_it_does() -> None:
    heard: list[ProgressStep] = []
    with listening(heard.append):
        with long_step("rows", 3) as advance:
            advance(2)
        other = threading.Thread(target=lambda: long_step("other").__enter__())
        other.start()
        other.join()
    with long_step("later") as advance:
        advance(1)
    assert heard == [ProgressStep("rows", 0, 3), ProgressStep("rows", 2, 3), ProgressStep("")]


def test_a_step_that_fails_has_ended() -> None:
    heard: list[ProgressStep] = []
    with listening(heard.append), pytest.raises(ValueError, match="x"), long_step("rows", 3):
        raise ValueError("x")
    assert heard[-1] == ProgressStep("")


def test_short_counted_steps_are_not_shown_and_long_ones_five_times_a_second(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now = [100.0]
    monkeypatch.setattr(progress, "monotonic", lambda: now[0])
    shown: list[str] = []
    with listening(ProgressTexts(shown.append)):
        with long_step("short", 9) as advance:
            now[0] += 0.4
            advance(9)
        assert shown == [""]
        with long_step("long", 1000) as advance:
            for done in range(1, 101):
                now[0] += 0.02
                advance(done)
        with long_step("uncounted"):
            assert shown[-1] == "uncounted"
    lines = [text for text in shown if text.startswith("long")]
    assert 6 <= len(lines) <= 9
    assert shown[-1] == ""
