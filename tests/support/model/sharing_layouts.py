"""Runs that find the layout, and divide the pipeline, by its run records and heartbeats.

Dividing takes several looks; other runs divide it, too, or copy it alone, while one that does so is
suspended or dies between any two of its steps.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from k2ktui.engine.moves.journal import Runner, RunnerState
from k2ktui.engine.ownership.layout_choice import LayoutChoice
from k2ktui.engine.records.editions import (
    NO_EDITIONS,
    UNKNOWN_EDITION,
    Edition,
    Editions,
    layout_id,
    merge_editions,
)
from k2ktui.engine.records.run_record import Run, SharedLayout
from tests.support.model.sharing_runs import BEAT_S, GRACE_S, SharingRun, SharingRuns

_ALONE_S = 20


@dataclass
class RunRecords:
    """A pipeline's run records; each is written in a transaction of the last run that bumped.

    ``forgotten`` has the files whose editions a run of an earlier release did not write again.
    """

    written: list[Run] = field(default_factory=lambda: [Run(0, 0)])
    committed: Run = field(default_factory=lambda: Run(0, 0))
    owner: str = ""
    divisions: int = 0
    forgotten: set[str] = field(default_factory=set)
    _open: Run | None = None
    _terms: int = 0

    def bump(self, owner: str) -> None:
        """Fence the owner before; its open transaction is aborted."""
        self.owner, self._open = owner, None

    def write(self, owner: str, layout: SharedLayout | None, digest: str = "") -> bool:
        """Write a record that is not committed yet; return False if the run was fenced.

        A run of an earlier release, without a digest, does not know what the others have written.
        """
        if owner != self.owner:
            return False
        self._terms += 1
        editions = NO_EDITIONS
        if digest:
            edition = layout.edition if layout is not None else self.editions.edition_of(digest)
            editions = self.editions.with_edition(edition)
        self._open = Run(self._terms, 0, layout=layout, digest=digest, editions=editions)
        self.written.append(self._open)
        return True

    @property
    def editions(self) -> Editions:
        """Those of all records that were written."""
        return merge_editions(record.editions for record in self.written)

    def commit(self, owner: str) -> bool:
        if owner != self.owner or self._open is None:
            return False
        self.committed, self._open = self._open, None
        return True

    def time_out(self) -> None:
        self._open = None

    def compact(self) -> None:
        """Remove what no reader of committed records sees, and what is not the newest."""
        before = self.editions.known
        self.written = [record for record in (self.committed, self._open) if record is not None]
        after = self.editions
        self.forgotten |= {old.digest for old in before if after.find(old.digest) is None}


class LayoutRegister:
    """A run may take a slot if the newest record that was written has its layout, ready."""

    def __init__(self, records: RunRecords) -> None:
        self._records = records
        self.owners: dict[int, str] = {}
        self.takeovers = 0
        self.alone = ""  # the run that copies alone, until it ends or is fenced
        self.files: dict[str, str] = {}  # digest by run

    @property
    def layout(self) -> SharedLayout:
        """That of the committed record; one after it that is never committed fences no slot."""
        layout = self._records.committed.layout
        assert layout is not None and layout.ready
        return layout

    def take(self, runner: str, slot: int, layout: str) -> bool:
        newest = self._records.written[-1].layout
        if newest is None or not newest.ready or newest.id != layout:
            return False
        assert not self.alone, "a slot is copied twice"
        file = self.files.get(runner, "")
        if all(self.files.values()):
            assert newest.edition.digest == file, "a run copies by a file that it does not have"
        self.owners[slot] = runner
        self.takeovers += 1
        return True

    def is_owner(self, runner: str, slot: int) -> bool:
        return self.owners.get(slot) == runner

    def release(self, runner: str, slot: int) -> None:
        if self.is_owner(runner, slot):
            del self.owners[slot]

    def fence_all(self) -> None:
        self.owners, self.alone = {}, ""


class LayoutRuns(SharingRuns):
    """All runs of one pipeline: those that share it, and those that copy it alone."""

    def __init__(self) -> None:
        self.records = RunRecords()
        self.shared = LayoutRegister(self.records)
        super().__init__(self.shared)
        self.heartbeats: dict[str, Runner] = {}
        self.slots: int | None = 3
        self.file = ""  # digest of the file that a run has which starts now
        self.takes_over = False  # it starts with --take-over
        self.exclusive: list[Iterator[None]] = []

    def _make(self, name: str, began: float) -> SharingRun:
        return _LayoutRun(name, self, began)

    def pass_second(self) -> None:
        super().pass_second()
        for run in list(self.exclusive):
            if next(run, True):
                self.exclusive.remove(run)

    def start_alone(self, *, dies_after: int = 0) -> None:
        """Start a run that takes the whole pipeline over; it dies after so many steps, or ends."""
        name = f"x{len(self.heartbeats)}"
        self.exclusive.append(self._copy_alone(name, dies_after))

    def beat(self, name: str, state: RunnerState, now: int) -> None:
        self.heartbeats[name] = Runner(name, "h", "u", 1, 0, now, state)

    def _copy_alone(self, name: str, dies_after: int) -> Iterator[None]:
        for step, _ in enumerate(self._take_over_alone(name)):
            self.beat(name, RunnerState.RUNNING, step)
            if step == dies_after > 0:
                if self.shared.alone == name:
                    self.shared.alone = ""
                return
            yield
        self.beat(name, RunnerState.STOPPED, 0)

    def _take_over_alone(self, name: str) -> Iterator[None]:
        records = self.records
        yield
        records.bump(name)
        yield
        if not records.write(name, None):
            return
        yield
        if not records.commit(name):
            return
        self.shared.fence_all()
        self.shared.alone = name
        for _ in range(_ALONE_S):
            if self.shared.alone != name:
                return
            yield
        self.shared.alone = ""


class _LayoutRun(SharingRun):
    """A run that divides the pipeline by itself, one step per look."""

    def __init__(self, name: str, runs: LayoutRuns, began: float) -> None:
        self._runs, self._name = runs, name
        self._choice = LayoutChoice(name, runs.slots, GRACE_S, BEAT_S)
        self._dividing: Iterator[SharedLayout | None] | None = None
        self._beats = self._leaderships = 0
        runs.shared.files[name] = runs.file
        editions = runs.records.committed.editions
        if runs.takes_over and runs.file:
            for layout in self._divide(UNKNOWN_EDITION, runs.file, puts_first=True):
                if layout is not None:
                    editions = editions.with_edition(layout.edition)
        super().__init__(
            name,
            runs.topic,
            runs.shared,
            began,
            self._find,
            digest=runs.file,
            editions=editions,
        )

    def look(self) -> None:
        if not self.is_dead and self.now % BEAT_S < 1:
            self._beats += 1
            self._runs.beat(self.name, RunnerState.RUNNING, self._beats)
        super().look()
        if self.is_dead and self.is_leaving:
            self._runs.beat(self.name, RunnerState.STOPPED, self._beats)

    def _find(self) -> SharedLayout | None:
        if self._dividing is not None:
            try:
                return next(self._dividing)
            except StopIteration:
                self._dividing = None
                return None
        if self._leaderships != self.leaderships:
            self._leaderships = self.leaderships
            self._choice.begin_to_lead()
        self._choice.observe(self._runs.heartbeats.values(), self.known_members, self.now)
        if not self._choice.needs_runs:
            return None
        records = self._runs.records
        newest, committed = records.written[-1], records.committed.layout
        choice = self._choice.choose(newest, committed, self.outdated_layout, self.edition)
        if choice == "use":
            return records.committed.layout
        if choice == "divide":
            self._dividing = self._divide(self.edition, self.digest)
        return None

    def _divide(
        self, edition: Edition, digest: str, *, puts_first: bool = False
    ) -> Iterator[SharedLayout | None]:
        records = self._runs.records
        records.divisions += 1
        records.bump(self._name)
        yield None
        known = records.editions
        of_layout = UNKNOWN_EDITION
        if digest:
            of_layout = (
                known.next(digest) if puts_first else known.edition_of(digest, edition.number)
            )
        layout = SharedLayout(layout_id(f"{records.divisions:x}", of_layout), self._runs.slots or 2)
        if not records.write(self._name, layout, digest):
            return
        self._choice.begin(layout)
        yield None
        if not records.commit(self._name):
            return
        self._runs.shared.fence_all()
        yield None
        ready = replace(layout, ready=True)
        if not records.write(self._name, ready, digest):
            return
        yield None
        if records.commit(self._name):
            yield ready
