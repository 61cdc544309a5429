"""The search for the layout beside a run's loop."""

from __future__ import annotations

import threading
from collections.abc import Collection, Iterator

import pytest

from k2ktui.engine.records.editions import Edition
from k2ktui.engine.records.run_record import SharedLayout
from k2ktui.errors import TimedOut
from k2ktui.sync.shared_layout import LayoutSearch
from tests.support.clusters.kafka import TIMEOUT, eventually

LAYOUT = SharedLayout("l", 4, ready=True)
NEWER = SharedLayout("m", 4, ready=True)


class Searches:
    """A search whose finds end when the test lets them; the last result is repeated."""

    def __init__(self, *results: SharedLayout | Exception | None) -> None:
        self.members: list[frozenset[str]] = []
        self.now = 0.0
        self._results = list(results)
        self.may_end = threading.Semaphore(0)
        self.ended = 0
        self.search = LayoutSearch(self._find, lambda: self.now)

    def _find(
        self, members: Collection[str], outdated: str, leadership: int, edition: Edition
    ) -> SharedLayout | None:
        self.members.append(frozenset(members))
        assert self.may_end.acquire(timeout=TIMEOUT)
        result = self._results.pop(0) if len(self._results) > 1 else self._results[0]
        self.ended += 1
        if isinstance(result, Exception):
            raise result
        return result

    def ask(self, *members: str, leadership: int = 1) -> SharedLayout | None:
        return self.search.ask(members, leadership=leadership)

    def close(self) -> None:
        self.may_end.release(9)
        self.search.close()


@pytest.fixture
def searches() -> Iterator[list[Searches]]:
    made: list[Searches] = []
    yield made
    for search in made:
        search.close()


def test_the_loop_does_not_wait_for_it(searches: list[Searches]) -> None:
    one = Searches(LAYOUT)
    searches.append(one)
    assert [one.ask("a", "b") for _ in range(3)] == [None] * 3
    eventually(lambda: one.members == [frozenset({"a", "b"})], "one search")
    one.may_end.release()
    eventually(lambda: one.ask() == LAYOUT, "found")
    assert len(one.members) == 1


def test_it_is_repeated_until_there_is_a_layout(searches: list[Searches]) -> None:
    one = Searches(None, None, LAYOUT)
    searches.append(one)
    one.may_end.release(3)
    eventually(lambda: one.ask() == LAYOUT, "found")
    assert len(one.members) == 3


def test_what_it_raises_is_raised_once_and_it_is_repeated(searches: list[Searches]) -> None:
    one = Searches(TimedOut("no answer"), LAYOUT)
    searches.append(one)
    one.ask()
    one.may_end.release()
    eventually(lambda: one.ended == 1, "it has failed")

    def ask() -> bool:
        try:
            one.ask()
        except TimedOut:
            return True
        return False

    eventually(ask, "raised")
    one.may_end.release()
    eventually(lambda: one.ask() == LAYOUT, "found")


def search_that_has_found(searches: list[Searches]) -> Searches:
    """Return a search that has found a layout; the next time it finds a newer one."""
    one = Searches(LAYOUT, NEWER)
    searches.append(one)
    one.ask()
    one.may_end.release()
    eventually(lambda: one.ended == 1, "found")
    return one


def test_what_it_found_while_another_run_led_is_not_used(searches: list[Searches]) -> None:
    """The layout may have been replaced since."""
    one = search_that_has_found(searches)
    one.now = 60.0
    one.may_end.release()
    eventually(lambda: one.ask() == NEWER, "found again")


def test_what_it_found_when_this_run_led_before_is_not_used(searches: list[Searches]) -> None:
    """However short the time was: the run that led between may have divided the pipeline."""
    one = search_that_has_found(searches)
    one.may_end.release()
    eventually(lambda: one.ask(leadership=2) == NEWER, "found again")
