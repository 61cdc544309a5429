"""One process that acts on one drill: it owns the record, shows progress, and records changes.

The order of every change: the intention is written with the state before, then the change is made,
then it is recorded as made. A process that was fenced fails at the first of these.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from copy import copy
from dataclasses import dataclass, field, replace
from pathlib import Path
from time import monotonic, sleep, time
from typing import Self

from k2ktui.config.model import PipelineConfig
from k2ktui.drill.evidence.keys import SigningKey
from k2ktui.drill.facts import GroupReads
from k2ktui.drill.forward import ForwardPipeline, load_forward
from k2ktui.drill.logs import SourceLogs
from k2ktui.drill.operator import Operator, Question, agree_question, step_question
from k2ktui.drill.peers import ALONE, Peers
from k2ktui.drill.report import end_text
from k2ktui.drill.store import DrillStore, TakenOver, make_event
from k2ktui.engine.access import Access
from k2ktui.engine.drill.changes import describe_undo
from k2ktui.engine.drill.checks import DrillPhase
from k2ktui.engine.drill.model import (
    Change,
    ChangeKind,
    ChangeStatus,
    Drill,
    DrillEvent,
    DrillStatus,
    PhaseStatus,
)
from k2ktui.engine.drill.steps import (
    add_blockers,
    begin_phase,
    drill_command,
    end_phase,
    put_change,
)
from k2ktui.engine.java_patterns import compile_pattern
from k2ktui.engine.moves.groups import Snapshot
from k2ktui.engine.moves.plan import Plan
from k2ktui.engine.name_pattern import NamePattern
from k2ktui.errors import ConfigError, Declined, K2kError, Refused, TimedOut
from k2ktui.kafka.clients import Cluster, source_cluster, target_cluster
from k2ktui.replication.copying.failpoints import failpoint
from k2ktui.sync.flow import Flow, only_topics
from k2ktui.sync.moves.plans import whoami
from k2ktui.sync.verify.verification import Verification
from k2ktui.text import safe_text

log = logging.getLogger(__name__)

BEAT_S = 5.0
_SHOW_S = 1.0
# The record holds a result for each group and its clients: with many, it is written less often.
_MANY = 100
_POLL_S = 0.5


@dataclass(frozen=True, slots=True)
class PhaseResult:
    """How a phase ended: ``live`` is its result in one line.

    ``failed_checks`` are the ids of the checks whose failures are the last findings.
    """

    live: str
    findings: tuple[str, ...] = ()
    status: PhaseStatus = PhaseStatus.DONE
    failed_checks: tuple[str, ...] = ()


def failed(live: str, *findings: str) -> PhaseResult:
    """Return the result of a phase that stops the drill until it is resumed or aborted."""
    return PhaseResult(live, findings, PhaseStatus.FAILED)


@dataclass(frozen=True, slots=True)
class Signing:
    """How a process signs the report of its drill.

    Attributes:
        directory: where the signed report is written.
        key: the key, or why it cannot be used.
        has_begun: whether this process has begun the drill, and not only continued it.
    """

    directory: Path
    key: SigningKey | ConfigError
    has_begun: bool = False


@dataclass(eq=False)
class Session:
    """The owner of a drill.

    Args:
        whole: what is copied; of it, a drill over some topics moves these.
        drill: the drill as it was read.
        store: its store; the session closes it.
        operator: who watches and confirms.
        may: the caller's access rights.
        files: the flow's files on this host.
        export_to: directory of exported records; empty for one beside the pipeline's file.
        forward_file: file of the forward pipeline; empty for the one that the reverse file names.
        peers: the other members of the site drill that it belongs to.
        signing: how the report is signed at its end; None if the file does not ask for it.

    Paths are those that this process was given, never those of the drill's record: anyone who may
    write to the state topic could have written them.

    Attributes:
        notes: what to know about the topics of a drill that this process has begun.
        plan: the last plan that this process made.
        snapshot: the snapshot of this phase; None before there is one, and after a change.
        compared: the comparison of every row of the plan in this phase; None as for ``snapshot``.
        applied: offsets that are committed on the target, by group, topic and partition.
        reads: the first records that groups read on the target.
        unproven_move: why it is not proven that records of DNS can be moved; "" if it is.
    """

    whole: Flow
    drill: Drill
    store: DrillStore
    operator: Operator[Drill]
    may: Access
    files: Sequence[str] = ()
    export_to: str = ""
    forward_file: str = ""
    peers: Peers = ALONE
    signing: Signing | None = None
    notes: tuple[str, ...] = ()
    plan: Plan | None = None
    snapshot: Snapshot | None = None
    compared: Verification | None = None
    applied: Mapping[tuple[str, str, int], int] | None = None
    reads: tuple[GroupReads, ...] | None = None
    unproven_move: str = ""
    _lock: threading.RLock = field(default_factory=threading.RLock)
    _ended: threading.Event = field(default_factory=threading.Event)
    _acts: bool = False
    _lost: TakenOver | None = None
    _shown_at: float = 0.0
    _source: Cluster | None = None
    _target: Cluster | None = None
    _forward: ForwardPipeline | None = None
    _some: tuple[tuple[str, ...], Flow] | None = None

    @property
    def flow(self) -> Flow:
        """What is failed over: with only the drill's topics, if it is over some."""
        topics = self.drill.topics
        if self._some is None or self._some[0] != topics:
            self._some = topics, only_topics(self.whole, topics)
        return self._some[1]

    @property
    def config(self) -> PipelineConfig:
        """The pipeline's configuration; its topics are those of :attr:`flow`."""
        return self.flow.config

    @property
    def source(self) -> Cluster:
        """The source cluster."""
        self._source = self._source or source_cluster(self.config)
        return self._source

    @property
    def target(self) -> Cluster:
        """The target cluster."""
        self._target = self._target or target_cluster(self.config)
        return self._target

    @property
    def forward(self) -> ForwardPipeline:
        """The forward pipeline of a failback, with what it copies into the drill's topics.

        Raises:
            K2kError: as for ``load_forward``, and for ``ForwardPipeline.only``.
        """
        if self._forward is None:
            forward = load_forward(self.files, self.forward_file)
            topics = self.drill.topics
            self._forward = forward.only(topics) if topics else forward
        return self._forward

    def open_logs(self) -> SourceLogs:
        """Return a reader of how far the copy is."""
        return SourceLogs(self.flow, self.source, self.target)

    def chooses(self, group: str) -> bool:
        """Return whether the drill moves a group of the pipeline."""
        pattern = self.drill.options.groups
        return not pattern or compile_pattern(pattern).fullmatch(group) is not None

    @property
    def chosen(self) -> Callable[[str], bool]:
        """The same as a predicate that names its option in errors."""
        pattern = self.drill.options.groups
        if not pattern:
            return lambda _: True
        return NamePattern("--groups", pattern, compile_pattern(pattern))

    def open(
        self, token: str, text: str, owned: Callable[[Drill], Drill] = lambda drill: drill
    ) -> Self:
        """Become the owner, and record it.

        Args:
            token: random id of this process.
            text: what happened, for the journal.
            owned: returns the drill when no other process can write it any more, before this one
                does; the former owner may have written until then.

        Raises:
            K2kError: as for ``DrillStore.own``, ``DrillStore.write``, and ``owned``.
        """
        self.store.own(self.drill.id)
        self.drill = replace(owned(self.drill), owner=whoami(), session=token)
        self._acts = True
        self.write(text, phase="owner")
        threading.Thread(target=self._beat, name="drill-beat", daemon=True).start()
        return self

    def close(self) -> None:
        """Give the ownership up and disconnect; the drill stays as it is."""
        self._ended.set()
        with self._lock:
            if self._lost is None and self._acts:
                with suppress(K2kError):
                    self.drill = self.store.write(replace(self.drill, session="", beat_ms=_now()))
            self.store.close()

    def _beat(self) -> None:
        """Show other hosts that this process acts, until it ends or another one has taken over.

        A heartbeat that fails is repeated: without any, a drill that waits for a person would look
        as if no process acted on it, and would be taken over without a question.
        """
        fails = False
        while not self._ended.wait(BEAT_S):
            with self._lock:
                if self._ended.is_set():
                    return
                try:
                    self.drill = self.store.beat(replace(self.drill, beat_ms=_now()))
                except TakenOver as error:
                    log.warning("drill %s: %s", self.drill.id, error.message)
                    self._lost = error
                    return
                except K2kError as error:
                    if not fails:
                        log.warning("drill %s: heartbeats fail: %s", self.drill.id, error.message)
                    fails = True
                    continue
                if fails:
                    log.info("drill %s: heartbeats are written again", self.drill.id)
                fails = False

    def write(self, text: str = "", *, phase: str = "", drill: Drill | None = None) -> None:
        """Write the drill, with a journal entry if there is a text.

        Raises:
            TakenOver: another process owns the drill.
            Refused: the session was closed.
            K2kError: the target did not acknowledge it.
        """
        with self._lock:
            if self._lost is not None:
                raise copy(self._lost) from self._lost  # of another thread
            if self._ended.is_set():  # another member of its site drill may still come to write
                raise Refused(f"this process no longer acts on drill {safe_text(self.drill.id)}")
            now = _now()
            events: list[DrillEvent] = []
            if text:
                events.append(make_event(now, self.drill.owner, phase, text))
            self.drill = self.store.write(
                replace(self.drill if drill is None else drill, beat_ms=now), events
            )
        self.operator.show(self.drill)

    def change_drill(self, change: Callable[[Drill], Drill]) -> None:
        """Replace the drill without writing it; the next write contains it."""
        with self._lock:
            self.drill = change(self.drill)

    def begin(self, phase: DrillPhase) -> None:
        """Record that a phase runs."""
        log.info("drill %s: phase %s begun", self.drill.id, phase)
        self.snapshot = self.compared = None
        self.change_drill(lambda drill: begin_phase(drill, phase, _now()))
        self.write()
        failpoint(f"drill-{phase}-begun")

    def end(self, phase: DrillPhase, result: PhaseResult) -> None:
        """Record how a phase ended."""
        log.info("drill %s: phase %s %s: %s", self.drill.id, phase, result.status, result.live)
        findings = result.findings, result.failed_checks
        self.change_drill(
            lambda drill: add_blockers(
                end_phase(drill, phase, result.status, _now(), result.live, *findings), phase
            )
        )
        self.write()
        failpoint(f"drill-{phase}-ended")

    def show(self, phase: DrillPhase, live: str) -> None:
        """Show what a phase waits for or has found so far, at most once a second."""
        now = monotonic()
        groups = self.drill.groups
        many = max(len(groups), sum(len(group.clients) for group in groups)) > _MANY
        pause = BEAT_S if many else _SHOW_S
        if now - self._shown_at < pause:
            return
        self._shown_at = now
        self.change_drill(lambda drill: drill.with_phase(replace(drill.record(phase), live=live)))
        self.write()

    def confirm(self, phase: DrillPhase, effect: str, *, step: str = "") -> None:
        """Ask the operator; ``step`` is what is typed, by default the phase.

        Raises:
            Refused: the operator declined, or cannot be asked.
        """
        if not self._ask(phase, step_question(self.drill, step or phase, effect)):
            raise self.not_confirmed(step or phase)

    def agree(self, phase: DrillPhase, lines: Sequence[str]) -> bool:
        """Return whether a person agrees who has seen these lines; never answered in advance."""
        return self._ask(phase, agree_question(self.drill, lines))

    def _ask(self, phase: DrillPhase, question: Question) -> bool:
        began = monotonic()
        with self.peers.idle():
            agreed = self.operator.ask(question)
        self.count_waiting(phase, monotonic() - began)
        return agreed

    def not_confirmed(self, step: str) -> Declined:
        """Return the error that something was not confirmed."""
        verb = self.drill.next_verb
        return Declined(
            f"{step} was not confirmed",
            unchanged="The drill stays where it is.",
            hint=f"{verb.capitalize()} it: {drill_command(self.drill, verb)}",
        )

    def count_waiting(self, phase: DrillPhase, seconds: float) -> None:
        """Count time that people or applications took, not the tool; an abort is no phase."""
        if self.drill.status is DrillStatus.ABORTING:
            return
        self.change_drill(
            lambda drill: drill.with_phase(
                replace(
                    drill.record(phase),
                    waited_ms=drill.record(phase).waited_ms + int(seconds * 1000),
                )
            )
        )

    def intend_new(
        self, phase: DrillPhase, kind: ChangeKind, what: str, before: str = "", after: str = ""
    ) -> Change:
        """Record a change before it is made, and return it; fields as of :class:`Change`."""
        change = Change(phase, kind, what, before, after, describe_undo(self.drill, kind))
        self.intend(change)
        return change

    def intend(self, change: Change) -> None:
        """Record a change before it is made; an intention of an earlier process is kept."""
        log.info("drill %s: about to %s", self.drill.id, change.what)
        self.change_drill(lambda drill: put_change(drill, change))
        self.write(f"about to: {change.what}", phase=str(change.phase))
        failpoint(f"drill-{change.phase}-intended")

    def settle(self, change: Change, status: ChangeStatus) -> None:
        """Record that a change was made or undone."""
        self.snapshot = self.compared = None
        failpoint(f"drill-{change.phase}-{status}")
        log.info("drill %s: %s: %s", self.drill.id, status, change.what)
        self.change_drill(lambda drill: put_change(drill, replace(change, status=status)))
        self.write(f"{status}: {change.what}", phase=str(change.phase))

    def wait(
        self,
        phase: DrillPhase,
        look: Callable[[], tuple[bool, str]],
        *,
        hint: str,
        timeout: float | None = None,
    ) -> str:
        """Wait until a condition holds; the time counts as waiting.

        Args:
            phase: the phase that waits.
            look: returns whether the condition holds, and what it found in one line.
            hint: what the operator should do if it does not hold in time.
            timeout: seconds; by default the drill's ``wait_s``.

        Raises:
            TimedOut: the condition did not hold in time; the drill can be resumed.
        """
        limit = self.drill.options.wait_s if timeout is None else timeout
        began = monotonic()
        first = True
        try:
            while True:
                held, live = look()
                if held:
                    return live
                self.show(phase, live)
                first = False
                if monotonic() - began > limit:
                    raise TimedOut(
                        f"{phase}: {live}, after {limit:g} s",
                        unchanged="The drill stays where it is.",
                        hint=f"{hint} Then: {drill_command(self.drill, 'resume')}",
                    )
                with self.peers.idle():
                    sleep(_POLL_S)
        finally:
            if not first:
                self.count_waiting(phase, monotonic() - began)


def finish_drill(session: Session, status: DrillStatus) -> None:
    """End a drill: its last event holds the hash of the report.

    One that has ended before, and of which something is recorded later, keeps its end.
    """
    session.change_drill(
        lambda drill: replace(
            drill, status=status, ended_ms=_now() if drill.ended_ms is None else drill.ended_ms
        )
    )
    session.write(end_text(session.drill), phase="end")


def _now() -> int:
    return int(time() * 1000)
