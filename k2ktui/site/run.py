"""Run the members of a site drill side by side: barrier, fence and questions are for all of them.

Each member is a drill of its own on a thread of its own, run by the same code as one without peers.
This module only lets them wait for each other:

- **Begin**: no phase runs before every member was begun, or could not be reached. If one is
  refused, none begins.
- **Questions**: a phase is confirmed once for all members that ask for it, when no other one can
  still come to it.
- **Barrier**: ``open-target`` begins when each member is verified or left out by a typed choice.
- **Fence**: the topics to which a member denies Write are in the record of each of them before.
- **Bound**: at most :data:`~k2ktui.site.directory.AT_ONCE` members work at a time; one that waits
  for people or for another member does not count.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from copy import copy
from dataclasses import replace
from functools import partial

from k2ktui.config.model import PipelineConfig
from k2ktui.drill.operations import abort_drill
from k2ktui.drill.operator import Operator, Question, QuestionKind
from k2ktui.drill.ownership import Actor
from k2ktui.drill.peers import Peers
from k2ktui.drill.runner import run_drill
from k2ktui.drill.session import Session
from k2ktui.drill.store import TakenOver
from k2ktui.engine.access import Access
from k2ktui.engine.drill.checks import DrillKind, DrillPhase
from k2ktui.engine.drill.model import ChangeKind, Drill, DrillStatus
from k2ktui.engine.drill.site import (
    BARRIER,
    MemberState,
    SiteDrill,
    find_question,
    find_unverified,
    list_fence_users,
    may_restore_fence,
)
from k2ktui.engine.drill.site_mark import SiteMark, merge_marks
from k2ktui.engine.drill.site_names import (
    NameTurn,
    advise_stay,
    describe_lost_names,
    describe_sharing,
    explain_kept_cut,
    explain_no_opening,
    find_turn,
    list_covering,
)
from k2ktui.engine.drill.steps import next_phase, waits_for_tail_choice
from k2ktui.engine.topics import LEGAL_TOPIC
from k2ktui.errors import ConfigError, Declined, K2kError, Refused
from k2ktui.faults import fault
from k2ktui.kafka.admin.acls import allow_writes
from k2ktui.kafka.clients import source_cluster
from k2ktui.replication.copying.failpoints import failpoint
from k2ktui.site.directory import AT_ONCE, SitePipeline
from k2ktui.text import counted, list_names, safe_message, safe_text

log = logging.getLogger(__name__)

_LOOK_S = 0.5
_NAMED = 5
Opener = Callable[["MemberRun"], AbstractContextManager[Session]]


class MemberRun(Peers):
    """A member's thread: the operator and the peers of its drill.

    Args:
        run: the site drill.
        state: the member as it is when the run begins.
        pipeline: its pipeline in this directory; None if there is none.

    Attributes:
        session: the session of its drill while it acts.
        error: why it ended early.
    """

    def __init__(self, run: SiteRun, state: MemberState, pipeline: SitePipeline | None) -> None:
        self._run = run
        self.id, self.pipeline = state.member.drill, pipeline
        self.session: Session | None = None
        self.error: K2kError | None = None
        self.has_begun = self.has_ended = False
        self.at_gate: DrillPhase | None = None
        self.asks: Question | None = None
        self.answer: bool | None = None
        self._works = False

    @property
    def phase(self) -> DrillPhase | None:
        """The phase that its drill is in; None before it was begun."""
        drill = self._run.site.find(self.id).drill
        return next_phase(drill) if drill is not None else None

    # The operator of its drill

    def show(self, drill: Drill) -> None:
        """Show the site drill with this member as it is now."""
        self._run.update(self.id, drill)

    def ask(self, question: Question) -> bool:
        """Wait until a step is confirmed for all members that ask for it.

        An abort is asked for at once: its members do not wait for each other. So is what a record
        says that is not proven: it concerns this member only. Taking over was asked for all before.
        """
        # A record on a target says what it likes; the site drill knows which pipeline it is.
        question = replace(question, pipelines=(self._run.site.find(self.id).pipeline,))
        if question.kind is not QuestionKind.PHASE:
            return question.kind is QuestionKind.UNPROVEN and self._run.ask(_agree_for(question))
        drill = question.drill
        assert isinstance(drill, Drill)
        self._run.update(self.id, drill)
        if drill.status is DrillStatus.ABORTING:
            return self._run.ask(_step_question(self._run.site, [question]))
        with self._run.changed:
            self.asks, self.answer = question, None
            self._run.changed.notify_all()
            self._run.await_(lambda: self.answer is not None)
            self.asks = None
            return bool(self.answer)

    # Its peers

    def enter(self, phase: DrillPhase) -> None:
        """Wait until this member may begin a phase."""
        self._run.require_running()
        if phase is not BARRIER or self._run.site.kind is DrillKind.REHEARSE:
            return
        with self.idle(), self._run.changed:
            self.at_gate = phase
            self._run.changed.notify_all()
            self._run.await_(lambda: self.at_gate is None)

    @contextmanager
    def idle(self) -> Iterator[None]:
        """Let another member work meanwhile."""
        works = self._works
        self.stop_working()
        try:
            yield
            self._run.require_running()
        finally:
            if works:
                self.start_working()

    def start_working(self) -> None:
        """Wait for a place among the members that work."""
        self._run.places.acquire()
        self._works = True

    def stop_working(self) -> None:
        """Give the place to another member."""
        if self._works:
            self._works = False
            self._run.places.release()

    @contextmanager
    def fencing(self) -> Iterator[None]:
        """Keep other members from the fence of the source."""
        with self._run.fence:
            yield

    def record_denied(self, topics: Collection[str]) -> None:
        """Write the topics of this member's fence into the records of all that act."""
        with self._run.fence:
            if set(topics) <= set(self._run.site.mark.find_denied(self.id)):
                return
            pipeline = safe_text(self._run.site.find(self.id).pipeline)
            text = f"{pipeline} is about to deny Write on its topics"
            self._run.write_mark(lambda mark: mark.deny(self.id, topics), text)

    def explain_kept_fence(self) -> str:
        """Return why the quotas that a drill has lowered must stay."""
        site, kind = self._run.site, ChangeKind.QUOTAS
        users = [s for s in list_fence_users(site, but=self.id) if may_restore_fence(s, kind)]
        if not users:
            return ""
        names = list_names([user.pipeline for user in users], _NAMED)
        return f"{names} of this site drill may need them, and restore them when aborted"

    def find_turn(self, phase: DrillPhase) -> NameTurn:
        """Return what this member does about the clients' name now."""
        return find_turn(self._run.site, self.id, phase)

    def describe_sharing(self) -> str:
        """Return who moves the clients' name, and when; "" if no other member shares it."""
        return describe_sharing(self._run.site, self.id)

    def explain_no_opening(self) -> str:
        """Return why the target must not be opened, as the name would not move; "" if it may."""
        return explain_no_opening(self._run.site, self.id)

    def advise_stay(self) -> str:
        """Return what to do about a name that stays because of members that share it."""
        return advise_stay(self._run.site, self.id)

    def explain_kept_cut(self) -> str:
        """Return why clients must stay cut off from the source; "" if no other member needs it."""
        return explain_kept_cut(self._run.site, self.id)

    def list_moving(self) -> Sequence[PipelineConfig]:
        """Return the other pipelines that move, as far as this directory has them."""
        members = self._run.members
        pipelines = (
            members[state.member.drill].pipeline for state in list_covering(self._run.site, self.id)
        )
        return [pipeline.flow.config for pipeline in pipelines if pipeline is not None]


class SiteRun:
    """The members of a site drill in this process.

    Args:
        site: the site drill as it was read, or is to be begun.
        pipelines: the pipelines of this directory, by their names.
        may: the caller's access rights, by name of the pipeline.
        operator: who watches and confirms.

    Attributes:
        site: the site drill as it is now.
        members: its members that take part here, by drill.
        changed: held while the state below is read or changed.
        places: limits how many members work at a time.
        fence: held by the member that works on the fence of the source.
    """

    def __init__(
        self,
        site: SiteDrill,
        pipelines: Mapping[str, SitePipeline],
        may: Mapping[str, Access],
        operator: Operator[SiteDrill],
    ) -> None:
        self.site = site
        self._operator, self._may = operator, may
        self.changed = threading.Condition()
        self.places = threading.BoundedSemaphore(AT_ONCE)
        self.fence = threading.RLock()
        self._showing, self._asking = threading.RLock(), threading.RLock()
        self._error: K2kError | None = None
        self._begins = self._may_start = False
        self._leaves_out: Sequence[MemberState] = ()
        self.members = {
            state.member.drill: MemberRun(self, state, pipelines.get(state.pipeline))
            for state in site.members
        }

    def actor(self, member: MemberRun, pipeline: SitePipeline) -> Actor:
        """Return who acts on the drill of a member: its operator and its peers are the member."""
        may = self._may[pipeline.name]
        return Actor(pipeline.flow, pipeline.files, may, member, member)

    # Shared state

    def update(self, drill_id: str, drill: Drill) -> None:
        """Keep a member's drill, and show the site drill.

        Raises:
            K2kError: the operator stopped it.
        """
        with self.changed:
            state = self.site.find(drill_id)
            over = drill.is_over or not drill.session
            self.site = self.site.put(replace(state, drill=drill, acting=not over))
            self.changed.notify_all()
        self._show()

    def _show(self) -> None:
        try:
            with self._showing:
                self._operator.show(self.site)
        except K2kError as error:
            self.stop(error)
            raise

    def ask(self, question: Question) -> bool:
        """Ask the operator of the site drill as it then is; the members work on meanwhile."""
        try:
            with self._asking:
                return self._operator.ask(replace(question, drill=self.site))
        except K2kError as error:
            self.stop(error)
            raise

    @property
    def stopped_by(self) -> K2kError | None:
        """What has stopped every member, such as an operator who cannot be asked."""
        return self._error

    def stop(self, error: K2kError) -> None:
        """Let every member stop at its next step."""
        with self.changed:
            self._error = self._error or error
            self.changed.notify_all()

    def require_running(self) -> None:
        """Raise why the site drill was stopped, if it was."""
        if self._error is not None:
            # One that was raised by several threads would have the traces of all.
            raise copy(self._error) from self._error

    def await_(self, holds: Callable[[], bool]) -> None:
        """Wait until a condition holds; ``changed`` is held.

        Raises:
            K2kError: the site drill was stopped.
        """
        while not holds():
            self.require_running()
            self.changed.wait(_LOOK_S)

    # The run

    def run(
        self,
        openers: Mapping[str, Opener],
        *,
        begins: bool = False,
        left_out: Sequence[MemberState] = (),
    ) -> SiteDrill:
        """Run the members as far as they get; return the site drill as it then is.

        Args:
            openers: how each member's drill is begun or resumed; the other members are not acted
                on.
            begins: whether all drills are begun now: if one is refused, none is left.
            left_out: members that are left out before any phase runs.

        Raises:
            Refused: the operator did not confirm, or a member was refused when all began.
            K2kError: the operator has stopped it.
        """
        self._begins, self._leaves_out = begins, left_out
        threads = []
        for drill_id, member in self.members.items():
            opener = openers.get(drill_id)
            if opener is None:
                member.has_begun = member.has_ended = True
                continue
            act = partial(self._act, member, opener)
            threads.append(threading.Thread(target=act, name=f"site-{drill_id}", daemon=True))
        for thread in threads:
            thread.start()
        try:
            while self._step():
                pass
        except K2kError as error:
            self.stop(error)
        except BaseException:
            self.stop(Refused("the site drill was interrupted", unchanged=_STAYS))
            raise
        finally:
            for thread in threads:
                thread.join()
        if self._error is not None:
            if begins and not self._may_start:
                for state in self.site.members:  # those that were begun changed nothing
                    self._abort(self.members[state.member.drill], state)
            raise self._error
        return self.site

    def _act(self, member: MemberRun, opener: Opener) -> None:
        try:
            member.start_working()
            with opener(member) as session:
                member.session = session
                self.update(member.id, session.drill)
                with member.idle(), self.changed:
                    member.has_begun = True
                    self.changed.notify_all()
                    self.await_(lambda: self._may_start)
                self._require_member(member)
                run_drill(session)
        except TakenOver as error:
            self.stop(error)  # who has taken one member over takes the others, too
        except K2kError as error:
            member.error = error
        except Exception as error:  # an internal error must not leave the others waiting
            member.error = fault(error)
        finally:
            member.stop_working()
            self._note_end(member)

    def _require_member(self, member: MemberRun) -> None:
        """Refuse to run a member that was left out after this process had read its record."""
        if self.site.find(member.id).left_out:
            raise Refused(
                "another operator has left it out meanwhile",
                unchanged=_STAYS,
                hint=f"Restore it: k2ktui drill resume {safe_text(self.site.id)} -d DIR",
            )

    def _note_end(self, member: MemberRun) -> None:
        with self.changed:
            member.has_begun = member.has_ended = True
            state = self.site.find(member.id)
            drill = member.session.drill if member.session is not None else state.drill
            member.session = None
            error = member.error
            why = safe_message(error.message) if error is not None and self._error is None else ""
            if why:
                log.warning("site drill %s: %s is held: %s", self.site.id, state.pipeline, why)
            self.site = self.site.put(replace(state, drill=drill, acting=False, error=why))
            self.changed.notify_all()
        with suppress(K2kError):
            self._show()

    def _step(self) -> bool:
        """Do what all members wait for; return whether any still acts."""
        with self.changed:
            while (step := self._find_step()) is None:
                self.changed.wait(_LOOK_S)
        return step()

    def _find_step(self) -> Callable[[], bool] | None:
        """Return what is done next for all members; None while they work."""
        members = list(self.members.values())
        if all(member.has_ended for member in members):
            return lambda: False
        if self._error is not None:
            return None  # they end at their next step
        if not self._may_start:
            return self._start if all(member.has_begun for member in members) else None
        waiting = {
            member.id: member.asks.step
            for member in members
            if member.asks is not None and member.answer is None
        }
        running = {
            member.id: member.at_gate or member.phase
            for member in members
            if not member.has_ended and member.id not in waiting
        }
        step = find_question(self.site.kind, waiting, running)
        if step is not None:
            return partial(self._ask_step, step)
        if any(member.at_gate is not None for member in members):
            return self._find_gate_step()
        return None

    def _find_gate_step(self) -> Callable[[], bool] | None:
        unverified = find_unverified(self.site)
        if not unverified:
            return self._open_gate
        if all(self.members[state.member.drill].has_ended for state in unverified):
            return partial(self._ask_leave_out, unverified)
        return None

    def _start(self) -> bool:
        """Let the phases run, unless a member was refused when all began."""
        refused = [m.error for m in self.members.values() if _is_refused(m.error)]
        if self._begins and refused:
            raise refused[0] or AssertionError
        errors = [member.error for member in self.members.values()]
        if all(error is not None for error in errors):
            raise errors[0] or AssertionError
        sessions = [m.session for m in self.members.values() if m.session is not None]
        marks = [session.drill.site for session in sessions if session.drill.site is not None]
        # A process that was killed may have written a choice to some records only, and another
        # operator may have made one after these were read here, and before they were taken over.
        with self.changed:
            mark = merge_marks([self.site.mark, *marks])
            self.site = self.site.with_mark(mark)
        for session in sessions:
            session.change_drill(lambda drill: replace(drill, site=mark))
        if self._leaves_out:
            self.leave_out(self._leaves_out)
        with self.changed:
            self._may_start = True
            self.changed.notify_all()
        return True

    def _open_gate(self) -> bool:
        with self.changed:
            for member in self.members.values():
                member.at_gate = None
            self.changed.notify_all()
        return True

    def _ask_step(self, step: str) -> bool:
        """Ask once for all members that wait for a phase or hook, with what it does for each."""
        with self.changed:
            asking = [
                (member, member.asks)
                for member in self.members.values()
                if member.asks is not None and member.asks.step == step
            ]
        others = self._list_others({member.id for member, _ in asking})
        if not self.ask(_step_question(self.site, [question for _, question in asking], others)):
            raise _not_confirmed(step, self.site)
        with self.changed:
            for member, _ in asking:
                member.answer = True
            self.changed.notify_all()
        return True

    def _list_others(self, asking: set[str]) -> list[str]:
        """Return a line for each member that a question is not about."""
        return [
            f"{safe_text(state.pipeline)} is {state.status}: {state.error or _live(state)}"
            for state in self.site.members
            if state.member.drill not in asking and state.drill is not None
        ]

    def _ask_leave_out(self, unverified: Sequence[MemberState]) -> bool:
        """Ask whether the others go on without those that have failed; abort these."""
        tails = [s for s in unverified if s.drill is not None and waits_for_tail_choice(s.drill)]
        if tails:
            raise Refused(
                f"{list_names([state.pipeline for state in tails], _NAMED)}: records were never "
                "copied, and you have to choose what happens to them",
                unchanged=_STAYS,
                hint=f"k2ktui drill resume {safe_text(self.site.id)} -d DIR --tail CHOICE",
            )
        if not self.ask(leave_out_question(self.site, unverified)):
            raise _not_confirmed("leaving pipelines out", self.site)
        self.leave_out(unverified)
        return True

    def leave_out(self, states: Sequence[MemberState]) -> None:
        """Write into every record that members are left out, then abort their drills."""
        ids = [state.member.drill for state in states]
        names = list_names([state.pipeline for state in states], _NAMED)
        self.write_mark(lambda mark: mark.leave_out(ids), f"left out of the site drill: {names}")
        failpoint("site-left-out")
        for state in states:
            self._abort(self.members[state.member.drill], state)
            self.allow_lost(state)
        with self.changed:
            self.changed.notify_all()

    def write_mark(self, change: Callable[[SiteMark], SiteMark], text: str) -> None:
        """Change what all records say of the site drill, with a journal entry, where one acts."""
        with self.changed:
            mark = change(self.site.mark)
            self.site = self.site.with_mark(mark)
        for member in self.members.values():
            session = member.session
            if session is not None and not member.has_ended:
                session.change_drill(lambda drill: replace(drill, site=mark))
                with suppress(K2kError):  # it fails at its own next step, too
                    session.write(text, phase="site")

    def allow_lost(self, state: MemberState) -> None:
        """Delete the access rules of a member whose own record is lost with its target."""
        topics = [t for t in self.site.mark.find_denied(state.member.drill) if _is_topic(t)]
        pipeline = next((m.pipeline for m in self.members.values() if m.pipeline), None)
        if state.drill is not None or not topics or pipeline is None:
            return
        log.info("site drill %s: %s: allow writes again", self.site.id, state.pipeline)
        try:
            allow_writes(source_cluster(pipeline.flow.config), topics)
        except K2kError as error:
            why = f"left out; Write on its topics is still denied: {safe_message(error.message)}"
            with self.changed:
                self.site = self.site.put(replace(self.site.find(state.member.drill), error=why))

    def _abort(self, member: MemberRun, state: MemberState) -> None:
        """Restore what a member has changed that is left out, as far as its clusters answer."""
        pipeline = member.pipeline
        if state.drill is None or pipeline is None or state.drill.is_over:
            return
        try:
            drill = abort_drill(self.actor(member, pipeline), member.id)
        except K2kError as error:
            why = f"left out, and not aborted: {safe_message(error.message)}"
            log.warning("site drill %s: %s: %s", self.site.id, state.pipeline, why)
        else:
            why = ""
            self.update(member.id, drill)
        with self.changed:
            self.site = self.site.put(replace(self.site.find(member.id), error=why))


_STAYS = "The site drill stays where it is."


def leave_out_question(
    site: SiteDrill, states: Sequence[MemberState], verb: str = "resume"
) -> Question:
    """Return the question whether members that have failed are left out.

    Args:
        site: the site drill.
        states: the members.
        verb: what is done with the others: ``resume`` or ``abort``.
    """
    count = counted(len(states), "pipeline")
    others = "are aborted without them" if verb == "abort" else "go on without them"
    lines = [f"{safe_text(state.pipeline)}: {state.error or _live(state)}" for state in states]
    lines += describe_lost_names(site, [state.member.drill for state in states])
    return Question(
        QuestionKind.LEAVE_OUT,
        site,
        f"Leave out {count} of {safe_text(site.name)}: their drills are aborted as far as their "
        f"clusters answer, and the others {others}",
        tuple(lines),
        site.name,
        pipelines=tuple(state.pipeline for state in states),
        verb=verb,
    )


def _step_question(
    site: SiteDrill, asked: Sequence[Question], others: Sequence[str] = ()
) -> Question:
    """Return the question whether a phase or hook is confirmed, with its effect on each member."""
    step = asked[0].step
    pipelines = tuple(name for question in asked for name in question.pipelines)
    lines: list[str] = []
    for pipeline, question in zip(pipelines, asked, strict=True):
        lines += [f"{safe_text(pipeline)}: {question.text}"]
        lines += [f"    {line}" for line in question.lines]
    return Question(
        QuestionKind.PHASE,
        site,
        f"{step} of {counted(len(pipelines), 'pipeline')} of {safe_text(site.name)}",
        (*lines, *others),
        site.name,
        step=step,
        pipelines=pipelines,
        verb=site.next_verb,
    )


def _agree_for(question: Question) -> Question:
    """Return what a member asks of a person, as it is asked of the operator of the site drill."""
    names = list_names(question.pipelines, _NAMED)
    return replace(
        question,
        text=f"A person must agree to what the record of {names} says.",
        lines=(question.text, *question.lines),
    )


def _live(state: MemberState) -> str:
    """Return what a member's drill says of its phase."""
    if state.drill is None:
        return "it was not begun"
    phase = next_phase(state.drill)
    if phase is None:
        return str(state.drill.status)
    return f"{phase}: {safe_message(state.drill.record(phase).live) or 'not begun'}"


def _not_confirmed(what: str, site: SiteDrill) -> Declined:
    return Declined(
        f"{what} was not confirmed",
        unchanged=_STAYS,
        hint=f"Resume it: k2ktui drill resume {safe_text(site.id)} -d DIR",
    )


def _is_topic(name: str) -> bool:
    """Return whether a recorded name is one topic, never a wildcard."""
    return LEGAL_TOPIC.fullmatch(name) is not None


def _is_refused(error: K2kError | None) -> bool:
    return isinstance(error, Refused | ConfigError)
