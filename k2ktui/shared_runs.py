"""Composes a run that shares its pipeline with other runs (``coordination.mode: shared``).

::

    assignment topic ─► member ─► loop ─► slots ─► a driver per slot ─► laps in one Spark session
                          └─► layout search, while this run leads
    all drivers ─► status of the run ─► heartbeat, metrics, the caller's report
"""

from __future__ import annotations

import os
from collections.abc import Collection
from contextlib import ExitStack
from functools import partial
from time import time

from k2ktui.config.copying import copy_digest
from k2ktui.engine.ownership.assignment_records import Member
from k2ktui.engine.records.editions import NO_EDITIONS
from k2ktui.engine.records.evidence import find_lost_term
from k2ktui.engine.records.run_record import Run
from k2ktui.errors import TimedOut
from k2ktui.replication.driver.held_slots import HeldSlots
from k2ktui.replication.driver.laps import longest_lap_s
from k2ktui.replication.driver.run_parts import RunParts
from k2ktui.replication.driver.sharing_loop import SharingLoop
from k2ktui.replication.driver.slot_driver import SlotDriver
from k2ktui.replication.ownership.assignment_topic import AssignmentTopic
from k2ktui.replication.ownership.commit_state import (
    CommitState,
    CommitStatesReader,
    read_commit_state,
    read_log_starts,
    with_all_partitions,
)
from k2ktui.replication.ownership.pipeline import describe_malformed
from k2ktui.replication.ownership.shared_ends import SharedEnds
from k2ktui.replication.ownership.sharing_member import SharingMember
from k2ktui.replication.reports.events import Finished, Note
from k2ktui.replication.topics.selected_topics import find_deleted
from k2ktui.runtime.host import birth_of, pid_space, process_has_ended
from k2ktui.runtime.stop_flag import StopFlag
from k2ktui.sync.drill.guard import read_named_fence, refuse_fenced
from k2ktui.sync.other_files import refuse_other_name
from k2ktui.sync.shared_layout import LayoutFinder, LayoutSearch
from k2ktui.sync.standby import beat_interval_s
from k2ktui.text import safe_text
from k2ktui.whole_runs import discovery_maker, find_losses, own_pipeline

_READ_S = 10.0


class SharedRun:
    """One run's part of a shared pipeline; it can run once.

    Args:
        parts: what was made before.
    """

    def __init__(self, parts: RunParts) -> None:
        self._config, self._parts, self._status = parts.config, parts, parts.status
        self._report = parts.status.report
        self._digest = copy_digest(parts.config)
        self._editions = NO_EDITIONS
        self._ownership = own_pipeline(parts)
        self._loop: SharingLoop | None = None
        self._closing = ExitStack()
        self._closing.callback(self._ownership.close, fence=False)
        self._log = AssignmentTopic(parts.target, parts.config.coordination.assignment.topic)
        self._closing.callback(self._log.close)
        self._ends: SharedEnds | None = None
        self._is_prepared = False
        self._lost_term = 0
        self._losses = find_losses(parts, self._ownership)
        self._make_discovery = discovery_maker(parts, self._ownership, self._losses)

    @property
    def leads(self) -> bool:
        """Whether this run does what one run does for all that share the pipeline."""
        return self._loop is not None and self._loop.leads

    @property
    def has_joined(self) -> bool:
        """Whether it takes part, with or without slots."""
        return self._loop is not None

    def prepare(self) -> None:
        """Connect, and read what does not depend on other runs; Spark may be starting meanwhile.

        Nothing is written: without Spark, this run takes no part.

        Raises:
            Refused, K2kError: as ``run``.
        """
        if self._is_prepared:
            return
        self._is_prepared = True
        self._log.open()
        self._read_run()
        if self._parts.until_caught_up:
            self._ends = self._read_ends(self._closing)

    def close(self) -> None:
        """Disconnect; a run that has ended is closed."""
        self._closing.close()

    def run(self, slots: int, stopping: StopFlag) -> Finished:
        """Share the pipeline until stopped, or until all runs have caught up.

        Args:
            slots: number of slots of a layout that this run makes.
            stopping: set when it has to end.

        Raises:
            Refused: a drill has fenced the pipeline, or a record or topic cannot be used.
            K2kError: a slot could not be copied for a reason that another attempt does not change.
        """
        config, parts, runner = self._config, self._parts, self._parts.heartbeat.runner
        assignment = config.coordination.assignment
        release_s = assignment.grace_window_s + longest_lap_s(config, self._ownership)
        with self._closing as closing:
            self.prepare()
            ends = self._ends
            finder = LayoutFinder(
                config,
                parts.target,
                self._ownership,
                partial(self._make_discovery, None),
                parts.heartbeat,
                slots,
                self._report,
            )
            closing.callback(finder.close)
            if parts.take_over and (layout := finder.find((), waits=False)) is not None:
                self._editions = self._editions.with_edition(layout.edition)
            search = LayoutSearch(finder.find)
            closing.callback(search.close)
            pid = os.getpid()
            member = SharingMember(
                Member(
                    runner,
                    pid=pid,
                    pid_space=pid_space(),
                    birth=birth_of(pid),
                    edition=self._editions.edition_of(self._digest),
                    pipeline=config.name,
                ),
                config.coordination.commit.group,
                self._log,
                lambda: search.ask(
                    member.known_members,
                    member.outdated_layout,
                    member.leaderships,
                    member.edition,
                ),
                assignment.grace_window_s,
                beat_interval_s(config),
                release_s,
                process_has_ended,
                editions=self._editions,
            )
            held = HeldSlots(runner, self._make_driver, self._report, release_s)
            self._loop = loop = SharingLoop(
                member,
                held,
                self._report,
                have_caught_up=partial(_have_caught_up, ends, member, held) if ends else None,
            )
            loop.run(stopping)
        status = self._status
        faults, rest = status.faults, status.add_driver()
        for fault in ends.left_faults if ends is not None and loop.has_caught_up else ():
            rest.stopped.stop(fault)
            faults += (fault,)
        caught_up = loop.has_caught_up and not faults
        finished = Finished(caught_up, status.records, time() - status.began_at, faults)
        self._report(finished)
        return finished

    def _read_run(self) -> None:
        """Read by which files the runs so far have copied.

        Refuse to take part if a pipeline of another name runs with these positions, or if records
        of this one cannot be read. Later, only the slots that are taken over wait for such records:
        runs that have slots continue.
        """
        topic = with_all_partitions(self._parts.target, self._ownership.topic)
        state = read_commit_state(self._parts.target, topic, _READ_S)
        if state.damaged:
            describe_malformed(self._config, state)
        note = refuse_other_name(self._config, self._parts.target, state.run)
        if note:
            self._report(Note(note))
        self._editions = state.run.editions
        # A run record is read at the takeover again; this decides whose ends are waited for.
        starts = read_log_starts(self._parts.target, topic)
        sources = self._ownership.pair.sources
        self._lost_term = find_lost_term(state.run, starts, self._losses.evidence, sources)

    def _read_ends(self, closing: ExitStack) -> SharedEnds:
        """Read the ends of all partitions, before this run takes a slot over."""
        config, target, topic = self._config, self._parts.target, self._ownership.topic
        refuse_fenced(config, target, read_named_fence(config, target))
        states = CommitStatesReader(target, topic.group)

        def read() -> CommitState:
            description = target.find(topic.name)
            if description is None:
                raise TimedOut(f"topic {safe_text(topic.name)} does not exist on the target")
            state = states.read(description, _READ_S).get(topic.group)
            return state or CommitState(Run(0, 0), {})

        def find_deleted_now(topics: Collection[str]) -> Collection[str]:
            return find_deleted(config.topics, self._parts.source.describe(sorted(topics)))

        before = read()
        snapshot = self._make_discovery(None).discover(
            before.positions, moved=before.moved, lost_term=self._lost_term
        )
        continues = config.on_source_data_loss == "continue"
        recreated = snapshot.recreated if continues else {}
        ends = SharedEnds(
            snapshot.every_end(),
            read,
            find_deleted_now,
            self._report,
            recreated={source: position.topic_id for source, position in recreated.items()},
            faults=tuple(fault for fault in snapshot.faults if fault.source not in recreated),
            continues=continues,
            holds=self._parts.holds,
        )
        closing.callback(ends.close)
        return ends

    def _make_driver(self, slot: int, layout: str) -> SlotDriver:
        ownership, status = self._ownership.of_slot(slot, layout), self._status.add_driver(slot)
        return SlotDriver(self._parts, ownership, self._make_discovery, status)


def _have_caught_up(ends: SharedEnds, member: SharingMember, slots: HeldSlots) -> bool:
    """Return whether all runs have caught up, and this one ends by itself."""
    owners = member.owners
    return ends.are_reached(member.own, owners, slots.find_reached(owners.layout))
