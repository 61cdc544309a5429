"""A trouble that lasts is reported when it begins, then ever more rarely, and when it ends."""

from __future__ import annotations

from k2ktui.replication.reports.events import Event, Note, Trouble
from k2ktui.replication.reports.notes import ThrottledNotifier


class Reported:
    """Troubles with a clock of their own, and what they reported."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.texts: list[str] = []
        self.lasting: list[tuple[float, str]] = []
        self.troubles = ThrottledNotifier(self._take, lambda: self.now)

    def _take(self, event: Event) -> None:
        if isinstance(event, Trouble):
            self.lasting.append((self.now, event.text))
            return
        assert isinstance(event, Note)
        self.texts.append(event.text)

    def last(self, seconds: int, *texts: str) -> list[float]:
        """Tell these every second for so long; return when something was said."""
        said, began = [], self.now
        for _ in range(seconds):
            for text in texts:
                count = len(self.texts)
                self.troubles.report("slot 0", text)
                said += [self.now - began] * (len(self.texts) - count)
            self.now += 1
        return said


def test_reported_at_once_and_then_after_growing_pauses() -> None:
    reported = Reported()
    assert reported.last(2000, "the target does not answer") == [
        0,
        10,
        30,
        70,
        150,
        310,
        630,
        1230,
        1830,
    ]
    assert set(reported.texts) == {"slot 0: the target does not answer"}


def test_troubles_that_take_turns_are_reported_once_each() -> None:
    reported = Reported()
    assert reported.last(10, "refused", "timed out") == [0, 0]


def test_texts_that_are_always_new_are_not_kept_for_ever() -> None:
    reported = Reported()
    assert reported.last(1, "refused") == [0]
    for number in range(1000):
        assert reported.last(0, f"at {number}") == []
        reported.troubles.report("slot 0", f"at {number}")
    assert reported.last(1, "at 999") == [], "the newest are throttled"
    assert reported.last(1, "refused") == [0], "of the oldest nothing is kept"


def test_each_subject_has_troubles_of_its_own() -> None:
    reported = Reported()
    reported.troubles.report("slot 0", "refused")
    reported.troubles.report("slot 1", "refused")
    reported.troubles.over("slot 1")
    reported.troubles.report("slot 0", "refused")
    assert reported.texts == ["slot 0: refused", "slot 1: refused"]


def test_its_end_is_reported_if_it_lasted_and_the_next_one_is_new() -> None:
    reported = Reported()
    reported.last(35, "refused")
    reported.texts.clear()
    reported.troubles.over("slot 0")
    reported.troubles.over("slot 0")
    assert reported.texts == ["slot 0: recovered after 35 s"]
    assert reported.last(5, "refused") == [0]
    reported.texts.clear()
    reported.troubles.over("slot 0")
    assert reported.texts == []


def test_the_end_of_a_short_one_is_reported_if_it_matters() -> None:
    reported = Reported()
    reported.last(3, "refused")
    reported.troubles.over("slot 0", always=True)
    reported.troubles.over("slot 0", always=True)
    assert reported.texts == ["slot 0: refused", "slot 0: recovered after 3.0 s"]


def test_one_that_no_longer_matters_has_no_end() -> None:
    reported = Reported()
    reported.last(35, "refused")
    reported.texts.clear()
    reported.troubles.forget("slot 0")
    reported.troubles.over("slot 0", always=True)
    assert reported.texts == []
    assert reported.last(5, "refused") == [0]


def test_what_is_news_is_reported_in_any_case() -> None:
    reported = Reported()
    for _ in range(3):
        reported.troubles.report("slot 0", "the worker was lost", always=True)
    reported.troubles.report("slot 0", "the worker was lost")
    assert len(reported.texts) == 3


def test_one_that_lasts_is_a_trouble_until_it_is_over() -> None:
    """Heartbeats show it: not what passes within seconds, and a refusal at once."""
    reported = Reported()
    began = reported.now
    reported.last(5, "short")
    reported.troubles.over("slot 0")
    assert reported.lasting == []
    reported.last(12, "long")
    assert reported.lasting == [(began + 15, "slot 0: long")]
    reported.troubles.over("slot 0")
    assert reported.lasting[1:] == [(began + 17, "")]
    reported.troubles.report("slot 0", "refused", lasts=True)
    assert reported.lasting[2:] == [(began + 17, "slot 0: refused")]
