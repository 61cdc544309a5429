"""Clusters that several pipelines share: what one of them is told, the others are told, too."""

from __future__ import annotations

import traceback
from typing import Any, cast

from k2ktui.errors import ConnectionFailed
from k2ktui.fleet.connections import SharedCluster


def ask(shared: SharedCluster, failure: ConnectionFailed | None = None) -> ConnectionFailed:
    """Return the error with which a pipeline is answered."""
    try:
        with shared.asked():
            assert failure is not None, "it was asked again"
            raise failure
    except ConnectionFailed as error:
        return error


def test_each_pipeline_gets_an_error_of_its_own() -> None:
    """One exception that several threads raise collects the traces of all of them."""
    shared = SharedCluster(cast("Any", None))
    first = ask(shared, ConnectionFailed("no answer", unchanged="Nothing.", hint="Start it."))
    errors = [ask(shared) for _ in range(5)]
    assert len({id(error) for error in (first, *errors)}) == 6
    assert {str(error) for error in errors} == {str(first)}
    lengths = [len(traceback.extract_tb(error.__traceback__)) for error in errors]
    assert len(set(lengths)) == 1, lengths
