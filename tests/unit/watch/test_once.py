"""One reading of both clusters: what is left of it when a part cannot be read."""

from __future__ import annotations

from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any, NoReturn

import pytest

from k2ktui.cli import views
from k2ktui.cli.main import cli
from k2ktui.errors import ConnectionFailed, K2kError, Refused
from k2ktui.sync.flow import Flow
from k2ktui.sync.store import PipelineState
from k2ktui.watch import once
from k2ktui.watch.facts import Facts, GroupFacts, Known
from k2ktui.watch.model import PartName
from k2ktui.watch.once import Reading
from tests.support.commands.in_process import invoke
from tests.support.console.views import Made, usual
from tests.support.drill.made_drills import switched_over
from tests.support.jobs.jobs import config_of, write_pipeline

DOWN = ConnectionFailed("no route to the source")


class StubReader:
    """Returns facts, or fails; remembers what was known."""

    def __init__(self, facts: Facts, error: K2kError | None = None) -> None:
        self.facts, self.error = facts, error
        self.known: Known = {}
        self.closed = False

    def read(self, known: Known) -> Facts:
        self.known = dict(known)
        if self.error is not None:
            raise self.error
        return self.facts

    def close(self) -> None:
        self.closed = True


@pytest.fixture
def readers(monkeypatch: pytest.MonkeyPatch) -> Mapping[PartName, StubReader]:
    """The readers of a pipeline of one partition; its mappings alone are one more reader."""
    made = Made()
    made.partition("orders", 0, end=100, lag=10)
    facts = made.facts()
    readers = {name: StubReader(fact) for name, fact in facts.items()}

    def make_readers(
        flow: Flow, parts: list[PartName], **_: object
    ) -> Mapping[PartName, StubReader]:
        return {name: readers[name] for name in parts}

    monkeypatch.setattr(once, "make_readers", make_readers)
    groups = facts[PartName.GROUPS]
    assert isinstance(groups, GroupFacts)
    mappings = StubReader(GroupFacts(groups.taken_at, mapped=groups.mapped))
    monkeypatch.setattr(once, "MappingReader", lambda flow, clusters: mappings)
    return readers


@pytest.fixture
def flow(tmp_path_factory: pytest.TempPathFactory) -> Flow:
    file = write_pipeline(tmp_path_factory.mktemp("once") / "p.yaml", 1)
    return Flow(config_of(file))


def test_the_source_is_read_after_the_positions(
    readers: Mapping[PartName, StubReader], flow: Flow
) -> None:
    reading = once.read_once(flow, groups=True)
    assert (reading.source_error, reading.groups_error) == (None, None)
    assert PartName.TARGET in readers[PartName.SOURCE].known
    [row] = reading.view.partitions
    assert (row.status.lag_records, row.status.mapped_records) == (10, 90)
    read = {name for name, reader in readers.items() if reader.closed}
    assert read == {PartName.SOURCE, PartName.TARGET, PartName.GROUPS}


def test_without_the_source_what_the_target_knows_is_left(
    readers: Mapping[PartName, StubReader], flow: Flow
) -> None:
    readers[PartName.SOURCE].error = readers[PartName.GROUPS].error = DOWN
    reading = once.read_once(flow, groups=True)
    assert (reading.source_error, reading.groups_error) == (DOWN, DOWN)
    [row] = reading.view.partitions
    status = row.status
    assert (status.position, status.mapped_records) == (90, 90)
    assert (status.state, status.source_end, status.lag_records) == ("unknown", None, None)
    assert reading.view.part(PartName.SOURCE).error == "no route to the source"


def test_a_right_that_is_missing_is_no_outage(
    readers: Mapping[PartName, StubReader], flow: Flow
) -> None:
    readers[PartName.GROUPS].error = refused = Refused("the mapping topic may not be read")
    reading = once.read_once(flow, groups=False)
    assert reading.groups_error is refused
    [row] = reading.view.partitions
    assert (row.status.lag_records, row.status.mapped_records, row.status.coverage) == (
        10,
        None,
        None,
    )


class StubStore:
    """A state store with one drill; remembers how it was opened."""

    def __init__(self, *options: object) -> None:
        self.options, self.closed = options, False

    def read(self) -> PipelineState:
        drill = switched_over()
        return PipelineState(drills={drill.id: drill})

    def close(self) -> None:
        self.closed = True


def test_drills_and_heartbeats_are_read_by_a_store_of_their_own(
    readers: Mapping[PartName, StubReader], flow: Flow, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened: list[StubStore] = []

    def open_store(*options: object) -> StubStore:
        opened.append(StubStore(*options))
        return opened[-1]

    monkeypatch.setattr(once, "StateStore", open_store, raising=False)
    view = once.read_once(flow, groups=True, drills=True).view
    assert view.drills == (switched_over(),)
    read = {PartName.SOURCE, PartName.TARGET, PartName.GROUPS, PartName.STATE}
    assert view.parts.keys() == read
    [store] = opened
    # It waits as long as a store does by default.
    assert len(store.options) == 2 and store.closed


def test_without_the_target_there_is_nothing_to_show(
    readers: Mapping[PartName, StubReader], flow: Flow
) -> None:
    readers[PartName.TARGET].error = DOWN
    with pytest.raises(ConnectionFailed):
        once.read_once(flow, groups=False)
    assert readers[PartName.SOURCE].closed


def test_status_prints_what_it_read_although_it_cannot_be_told_who_writes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    printed: list[Any] = []

    def fail(*_: object) -> NoReturn:
        raise DOWN

    monkeypatch.setattr(views, "load_flow", lambda _: SimpleNamespace(config=None))
    monkeypatch.setattr(once, "read_once", lambda *_, **__: Reading(usual().view()))
    monkeypatch.setattr(views, "watch_writers", fail)
    monkeypatch.setattr(views, "print_status", lambda *_, **options: printed.append(options))
    with pytest.raises(ConnectionFailed):
        invoke(cli, "status", "-f", "orders.yaml", "--producers")
    assert [options["writers"] for options in printed] == [None]
