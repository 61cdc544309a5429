"""What a look at the clusters found, and what it did not."""

from __future__ import annotations

import pytest

from k2ktui.engine.state import Position, SourcePartition
from k2ktui.errors import TimedOut
from k2ktui.replication.survey import Survey, lag_of
from k2ktui.replication.tokens import Path, Route

ONE, OTHER = SourcePartition("t", 0), SourcePartition("t", 1)


def at(offset: int) -> Position:
    return Position(offset, 0, -1, "", 1, 0, "t", 0)


def test_until_caught_up_needs_every_end() -> None:
    """A partition whose end nobody tells is not one that is caught up."""
    routes = {each: Route(Path.VERBATIM, "t", each.partition, 2) for each in (ONE, OTHER)}
    assert Survey(routes, ends={ONE: 5, OTHER: 0}).every_end() == {ONE: 5, OTHER: 0}
    with pytest.raises(TimedOut, match="nobody tells where t-1 on the source cluster ends"):
        Survey(routes, ends={ONE: 5}).every_end()


def test_lag_is_of_what_is_known() -> None:
    assert lag_of({ONE: at(3)}, {}) is None
    assert lag_of({ONE: at(3)}, {ONE: 5, OTHER: 7}) == 2
    assert lag_of({ONE: at(9)}, {ONE: 5}) == 0
