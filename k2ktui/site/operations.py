"""Operations on site drills, one call each: select, start, resume, abort, list, read.

Commands and screens call these. A site drill has no record of its own: what its members' records on
their targets say together is read anew by each call.
"""

from __future__ import annotations

import logging
import secrets
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from time import time

from k2ktui.drill.operations import (
    abort_drill,
    begun_drill,
    list_drills,
    mark_aborting,
    resumed_drill,
    verify_drill,
)
from k2ktui.drill.operator import Operator, Question, QuestionKind
from k2ktui.drill.ownership import is_acted_on, is_owned
from k2ktui.drill.store import DrillStore
from k2ktui.engine.access import Access, access
from k2ktui.engine.drill.checks import DrillKind
from k2ktui.engine.drill.model import AS_BEFORE, Drill, DrillOptions, DrillStatus, ResumeOptions
from k2ktui.engine.drill.site import (
    MemberState,
    MemberStatus,
    SiteDrill,
    can_all_go_back,
    gather_site,
)
from k2ktui.engine.drill.site_mark import SiteMark, SiteMember, member_drill_id
from k2ktui.engine.drill.site_selection import (
    SiteFile,
    SiteSelection,
    describe_unknown,
    select_site,
)
from k2ktui.engine.moves.journal import new_id
from k2ktui.errors import (
    ConfigError,
    ConnectionFailed,
    Declined,
    K2kError,
    PartlyApplied,
    Refused,
    TimedOut,
)
from k2ktui.fleet.files import PipelineFile
from k2ktui.kafka.clients import target_cluster
from k2ktui.replication.copying.failpoints import failpoint
from k2ktui.site.directory import (
    SitePipeline,
    list_pipelines,
    read_site_files,
    side_by_side,
)
from k2ktui.site.names import plan_site_names, read_site_names
from k2ktui.site.run import Opener, SiteRun, leave_out_question
from k2ktui.sync.moves.plan_files import digest_files, have_digest
from k2ktui.text import counted, list_names, safe_message, safe_text

log = logging.getLogger(__name__)

_NAMED = 10
_UNCHANGED = "Nothing was changed."


@dataclass(frozen=True, slots=True)
class SiteChoice:
    """Which pipelines a command is about.

    Attributes:
        cluster: name or id of the cluster that is left; "" for the only one of the directory.
        only: whether a pipeline of this name is in the selection.
        left_out: names of pipelines or files that are left out if their source is not known, or
            if they fail: a choice that was typed in advance.
    """

    cluster: str = ""
    only: Callable[[str], bool] = lambda _: True
    left_out: Collection[str] = ()


@dataclass(frozen=True, slots=True)
class SiteActor:
    """Who acts on the site drills of a directory.

    Attributes:
        files: the pipeline files of the directory on this host.
        operator: who watches and confirms.
        unlock: whether members in production may be changed.
    """

    files: Sequence[PipelineFile]
    operator: Operator[SiteDrill]
    unlock: bool = False

    def require_access(self, pipelines: Iterable[SitePipeline]) -> dict[str, Access]:
        """Return the access rights by pipeline; all members may be changed, or none is."""
        may = {}
        refused: dict[str, list[str]] = defaultdict(list)
        for pipeline in pipelines:
            config = pipeline.flow.config
            allowed = access(
                configured=config.read_only, environment=config.environment, unlocked=self.unlock
            )
            may[pipeline.name] = allowed
            if not allowed.writable:
                refused[allowed.reason].append(pipeline.name)
        if refused:
            why = "; ".join(f"{list_names(names, _NAMED)}: {why}" for why, names in refused.items())
            raise Refused(
                f"the site drill is refused: {why}",
                unchanged=_UNCHANGED,
                hint="Members in production need --unlock, or u in the console.",
            )
        return may


def select_members(files: Sequence[PipelineFile], choice: SiteChoice) -> SiteSelection:
    """Return what a site drill would move; it only reads.

    Raises:
        ConfigError, Refused: as for ``select_site``.
    """
    return select_site(read_site_files(files), choice.cluster, choice.only)


def preview_site(
    files: Sequence[PipelineFile], kind: DrillKind, options: DrillOptions, choice: SiteChoice
) -> tuple[SiteSelection, SiteDrill]:
    """Return what a site drill would move, and as what it would begin; it only reads.

    Raises:
        ConfigError, Refused: as for :func:`select_members`, and for ``plan_site_names``.
    """
    selection = select_members(files, choice)
    pipelines = {pipeline.file: pipeline for pipeline in list_pipelines(files)}
    members = tuple(
        SiteMember(file.pipeline, member_drill_id("", number), file.target_id)
        for number, file in enumerate(selection.members, start=1)
    )
    names = plan_site_names(kind, options, selection, members, pipelines)
    mark = SiteMark("", selection.name, selection.cluster, members, names=names)
    return selection, SiteDrill(mark, kind, tuple(map(MemberState, members)))


def start_site(
    actor: SiteActor, kind: DrillKind, options: DrillOptions, choice: SiteChoice
) -> SiteDrill:
    """Begin a site drill and run it as far as it gets; return it as it then is.

    Args:
        actor: who acts.
        kind: kind of the drill.
        options: what the operator chose, for all members.
        choice: which pipelines.

    Raises:
        ConfigError, Refused: no drill was begun, or the operator did not confirm.
        ConnectionFailed, TimedOut: no member could be begun.
    """
    read = read_site_files(actor.files)
    selection = select_site(
        read,
        choice.cluster,
        lambda name: choice.only(name) and name not in choice.left_out,
    )
    _ask_unknown(selection, actor.operator)
    named = [
        file for file in read if file.pipeline in choice.left_out and choice.only(file.pipeline)
    ]
    ignored = [*selection.unknown, *named]
    pipelines = {pipeline.file: pipeline for pipeline in list_pipelines(actor.files)}
    chosen = [pipelines[member.file] for member in selection.members]
    may = actor.require_access(chosen)
    site_id = new_id(int(time() * 1000), secrets.token_hex(2))
    mark = _make_mark(site_id, selection, ignored)
    names = plan_site_names(kind, options, selection, mark.members, pipelines)
    mark = mark.with_names(names)
    members = tuple(
        MemberState(member, file=file.file)
        for member, file in zip(mark.members, selection.members, strict=True)
    )
    site = SiteDrill(mark, kind, members)
    run = SiteRun(site, {one.name: one for one in chosen}, may, actor.operator)

    def opener(member: SiteMember, pipeline: SitePipeline) -> Opener:
        return lambda own: begun_drill(
            run.actor(own, pipeline), kind, options, drill_id=member.drill, site=mark
        )

    openers = {
        member.drill: opener(member, pipeline)
        for member, pipeline in zip(mark.members, chosen, strict=True)
    }
    return run.run(openers, begins=True)


def _make_mark(site_id: str, selection: SiteSelection, ignored: Sequence[SiteFile]) -> SiteMark:
    digests = side_by_side(lambda file: digest_files((file.file,)), selection.members)
    members = tuple(
        SiteMember(file.pipeline, member_drill_id(site_id, number), file.target_id, digest)
        for number, (file, digest) in enumerate(
            zip(selection.members, digests, strict=True), start=1
        )
    )
    names = tuple(file.file for file in ignored)
    return SiteMark(site_id, selection.name, selection.cluster, members, ignored=names)


def _ask_unknown(selection: SiteSelection, operator: Operator[SiteDrill]) -> None:
    """Have a person choose that files of an unknown source are left out."""
    if not selection.unknown:
        return
    question = Question(
        QuestionKind.UNKNOWN_FILES,
        None,
        f"It is not known whether {counted(len(selection.unknown), 'file')} of the directory copy "
        f"from {safe_text(selection.name)}: leave them out",
        tuple(describe_unknown(file) for file in selection.unknown),
        selection.name,
        pipelines=tuple(file.pipeline for file in selection.unknown),
    )
    if not operator.ask(question):
        raise Declined(
            "leaving out files of an unknown source was not confirmed",
            unchanged="No drill was begun.",
            hint="Correct these files, select pipelines with --only REGEX, or name those to leave "
            "out: --leave-out NAME.",
        )


# Reading


@dataclass(frozen=True, slots=True)
class _DirectoryDrills:
    """The drills of the pipelines of a directory.

    Attributes:
        pipelines: the pipelines, by name.
        drills: their drills that belong to site drills, by the name of the pipeline.
        errors: why others could not be read.
    """

    pipelines: Mapping[str, SitePipeline]
    drills: Mapping[str, Sequence[Drill]]
    errors: Mapping[str, str]

    def find_pipelines(
        self, states: Iterable[MemberState]
    ) -> list[tuple[MemberState, SitePipeline]]:
        """Return members with their pipelines; without those that have no file here."""
        return [
            (state, self.pipelines[state.pipeline])
            for state in states
            if state.pipeline in self.pipelines
        ]

    def gather(self, site_id: str) -> SiteDrill:
        """Return one site drill; raises ConfigError if no record has it."""
        drills = [
            drill
            for drills in self.drills.values()
            for drill in drills
            if drill.site is not None and drill.site.id == site_id
        ]
        if not drills:
            raise ConfigError(
                f"no drill {safe_text(site_id)} of the directory exists",
                unchanged=_UNCHANGED,
                hint="List the drills with k2ktui drill list -d DIR."
                + (f" These could not be read: {_names(self.errors)}." if self.errors else ""),
            )
        acting = [drill.id for drill in drills if is_acted_on(drill)]
        missing = {
            member.pipeline: "the directory has no file of this pipeline"
            for drill in drills
            if drill.site is not None
            for member in drill.site.members
            if member.pipeline not in self.pipelines
        }
        files = {name: pipeline.file for name, pipeline in self.pipelines.items()}
        return gather_site(drills, {**self.errors, **missing}, acting, files)


def _names(names: Collection[str]) -> str:
    return list_names(sorted(names), _NAMED)


def _read_drills(files: Sequence[PipelineFile]) -> _DirectoryDrills:
    pipelines = list_pipelines(files)

    def read(pipeline: SitePipeline) -> list[Drill] | K2kError:
        try:
            return list_drills(pipeline.flow)
        except K2kError as error:
            log.info("drills of %s: %s", pipeline.file, error.message)
            return error

    answers = dict(zip([one.name for one in pipelines], side_by_side(read, pipelines), strict=True))
    return _DirectoryDrills(
        {pipeline.name: pipeline for pipeline in pipelines},
        {name: answer for name, answer in answers.items() if not isinstance(answer, K2kError)},
        {
            name: safe_message(answer.message)
            for name, answer in answers.items()
            if isinstance(answer, K2kError)
        },
    )


def list_sites(files: Sequence[PipelineFile]) -> tuple[list[SiteDrill], Mapping[str, str]]:
    """Return the site drills of a directory, the newest first, and which pipelines are not read."""
    records = _read_drills(files)
    ids = {
        drill.site.id
        for drills in records.drills.values()
        for drill in drills
        if drill.site is not None
    }
    return [records.gather(site_id) for site_id in sorted(ids, reverse=True)], records.errors


def read_site(files: Sequence[PipelineFile], site_id: str) -> SiteDrill:
    """Return one site drill; raises ConfigError if no record of the directory has it."""
    return _read_drills(files).gather(site_id)


def verify_site(files: Sequence[PipelineFile], site_id: str) -> list[str]:
    """Return what does not fit to the journals, of each member; also what cannot be read."""
    records = _read_drills(files)

    def verify(state: MemberState) -> list[str]:
        pipeline = records.pipelines.get(state.pipeline)
        if state.drill is None or pipeline is None:
            return [state.error or "it has no drill"]
        try:
            return verify_drill(pipeline.flow, state.member.drill)[1]
        except K2kError as error:
            return [error.message]

    members = records.gather(site_id).members
    return [
        f"{safe_text(state.pipeline)}: {safe_message(problem)}"
        for state, problems in zip(members, side_by_side(verify, members), strict=True)
        for problem in problems
    ]


# Resume


def resume_site(actor: SiteActor, site_id: str, how: ResumeOptions = AS_BEFORE) -> SiteDrill:
    """Continue a site drill on this host; return it as it then is.

    Args:
        actor: who acts.
        site_id: its id.
        how: what has changed since it was begun, for all members.

    Raises:
        ConfigError: there is no such drill, or an option is not for its kind.
        Refused: it is over, another operator acts, or the operator did not confirm.
    """
    records, operator = _read_drills(actor.files), actor.operator
    site = records.gather(site_id)
    if site.is_over:
        raise Refused(
            f"site drill {safe_text(site_id)} is {site.status}",
            unchanged=_UNCHANGED,
            hint=f"Read its report: k2ktui drill report {safe_text(site_id)} -d DIR",
        )
    if site.status is DrillStatus.ABORTING:
        raise Refused(
            f"site drill {safe_text(site_id)} is being aborted",
            unchanged=_UNCHANGED,
            hint=f"Complete it: k2ktui drill abort {safe_text(site_id)} -d DIR",
        )
    if how.as_disaster and site.kind is DrillKind.REHEARSE:
        raise ConfigError(
            f"site drill {safe_text(site_id)} is a rehearsal: it moves no group",
            unchanged=_UNCHANGED,
            hint="Begin a drill without the source: k2ktui drill disaster -d DIR",
        )
    if how.chosen and site.kind is not DrillKind.FAILBACK:
        raise ConfigError(
            f"site drill {safe_text(site_id)} is no failback: there is nothing to replay or export",
            unchanged=_UNCHANGED,
            hint="Leave out --tail.",
        )
    taking = _members_to_run(site, records)
    # A process that was killed after the choice, or a cluster that did not answer, left them open.
    unfinished = records.find_pipelines(s for s in site.members if s.left_out and s.is_open)
    touched = [*taking, *unfinished]
    may = actor.require_access(pipeline for _, pipeline in touched)
    chosen_out = [state for state, _ in taking if state.pipeline in how.left_out]
    _refuse_opened(chosen_out)
    _require_same_files(site, touched, operator)
    site = _with_file_names(site, records)
    take_over = how.take_over or _ask_take_over(site, taking, operator)
    if how.as_disaster and site.kind.is_switchover:
        site = replace(site, kind=DrillKind.DISASTER)
    run = SiteRun(site, records.pipelines, may, operator)
    options = site.drills[0].options

    def opener(state: MemberState, pipeline: SitePipeline) -> Opener:
        drill = state.drill
        if drill is None:
            return lambda own: begun_drill(
                run.actor(own, pipeline),
                site.kind,
                options,
                drill_id=state.member.drill,
                site=site.mark,
            )
        from_fence = how.from_fence and drill.figures.opened_ms is None
        its = replace(how, take_over=take_over, from_fence=from_fence)
        return lambda own: resumed_drill(run.actor(own, pipeline), state.member.drill, its)

    unread = [
        state
        for state in site.moving
        if state.pipeline in how.left_out and state not in chosen_out and state.drill is None
    ]
    openers = {
        state.member.drill: opener(state, pipeline)
        for state, pipeline in taking
        if state not in chosen_out
    }
    ended = [state for state, _ in unfinished]
    return run.run(openers, left_out=[*ended, *chosen_out, *unread])


def _with_file_names(site: SiteDrill, records: _DirectoryDrills) -> SiteDrill:
    """Return the site drill with what the files say now of the names that its members share.

    What its records say stays: a name that was shared when it began still holds them together.

    Raises:
        Refused: as for ``read_site_names``.
    """
    if not any(drill.redirects for drill in site.drills):
        return site
    # One that is over may have got the section of its way back.
    moving = records.find_pipelines(
        s for s in site.moving if s.drill is None or (s.is_open and s.drill.redirects)
    )
    uses = ((state.member, pipeline.flow.config) for state, pipeline in moving)
    return site.with_mark(site.mark.with_names(read_site_names(site.kind, uses)))


def _refuse_opened(chosen_out: Sequence[MemberState]) -> None:
    """Refuse to leave out a pipeline whose target was opened: its drill cannot be aborted."""
    for state in chosen_out:
        if state.drill is not None and state.drill.figures.opened_ms is not None:
            raise Refused(
                f"the target of {safe_text(state.pipeline)} was opened, and records may exist only "
                "there: it cannot be left out",
                unchanged=_UNCHANGED,
                hint="Resume without it in --leave-out.",
            )


def _members_to_run(
    site: SiteDrill, records: _DirectoryDrills
) -> list[tuple[MemberState, SitePipeline]]:
    """Return the members that can be acted on, with their pipelines."""
    return records.find_pipelines(
        state for state in site.moving if state.is_open or (state.drill is None and not state.error)
    )


def _require_same_files(
    site: SiteDrill,
    taking: Sequence[tuple[MemberState, SitePipeline]],
    operator: Operator[SiteDrill],
) -> None:
    """Have a person confirm files that are not those with which the drill was begun."""

    def describe(member: tuple[MemberState, SitePipeline]) -> str:
        state, pipeline = member
        name = f"{safe_text(state.pipeline)}: {safe_text(pipeline.file)}"
        if not state.member.digest:
            return f"{name} cannot be compared: its digest was not recorded"
        try:
            same = have_digest(pipeline.files, state.member.digest)
        except (OSError, ValueError) as error:
            return f"{name} cannot be compared: {safe_message(error)}"
        return "" if same else f"{name} is not as it was when the drill was begun"

    changed = [line for line in side_by_side(describe, taking) if line]
    if not changed:
        return
    question = Question(
        QuestionKind.CHANGED_FILES,
        site,
        f"Continue with {counted(len(changed), 'file')} of other contents",
        tuple(changed),
        site.name,
    )
    if not operator.ask(question):
        raise Declined(
            "continuing with other files was not confirmed: " + "; ".join(changed),
            unchanged=_UNCHANGED,
            hint="Use the files with which the drill was begun.",
        )


def _ask_take_over(
    site: SiteDrill,
    taking: Sequence[tuple[MemberState, SitePipeline]],
    operator: Operator[SiteDrill],
    verb: str = "resume",
) -> bool:
    """Ask once whether to take members over that another process acts on; True if none is."""

    def is_busy(member: tuple[MemberState, SitePipeline]) -> bool:
        state, pipeline = member
        if state.drill is None:
            return False
        store = DrillStore(pipeline.flow.config, target_cluster(pipeline.flow.config))
        try:
            return is_owned(store, state.drill)
        except (ConnectionFailed, TimedOut):
            return False  # it is held when it is opened
        finally:
            store.close()

    busy = [
        state
        for (state, _), owned in zip(taking, side_by_side(is_busy, taking), strict=True)
        if owned
    ]
    if not busy:
        return False
    owners = _names({state.drill.owner for state in busy if state.drill is not None})
    question = Question(
        QuestionKind.TAKE_OVER,
        site,
        f"Take {counted(len(busy), 'pipeline')} over from {owners}, who acts on this drill",
        tuple(f"{safe_text(state.pipeline)}: {state.status}" for state in busy),
        site.name,
        pipelines=tuple(state.pipeline for state in busy),
        verb=verb,
    )
    if not operator.ask(question):
        raise Refused(
            f"{owners} acts on site drill {safe_text(site.id)}",
            unchanged=_UNCHANGED,
            hint=f"Watch it with k2ktui drill show {safe_text(site.id)} -d DIR, or take it over "
            "with --take-over.",
        )
    return True


# Abort


def abort_site(
    actor: SiteActor, site_id: str, *, take_over: bool = False, left_out: Collection[str] = ()
) -> SiteDrill:
    """Restore what all members have changed; the fence of the source when no one needs it.

    It can be repeated until everything is restored. After targets were opened, only members that
    were left out are aborted. Arguments as for :func:`resume_site` and of its options.

    Raises:
        ConfigError: there is no such drill.
        Refused: it is over, or a target was opened; another operator acts; not confirmed.
        PartlyApplied: something could not be restored; the drill stays ``aborting``.
    """
    records, operator = _read_drills(actor.files), actor.operator
    site = records.gather(site_id)
    aborted = _members_to_abort(site, records)
    if not aborted:
        _refuse_abort(site)
    may = actor.require_access(pipeline for _, pipeline in aborted)
    _require_same_files(site, aborted, operator)
    silent = [state for state in site.moving if state.drill is None]
    if can_all_go_back(site) and (asked := [s for s in silent if s.pipeline not in left_out]):
        question = leave_out_question(site, asked, "abort")
        if not operator.ask(question):
            raise Declined(
                "aborting without pipelines that cannot be read was not confirmed",
                unchanged=_UNCHANGED,
                hint="Wait until their targets answer, or leave them out: --leave-out NAME.",
            )
    if can_all_go_back(site):
        site = site.leave_out(state.member.drill for state in silent)
    take_over = take_over or _ask_take_over(site, aborted, operator, "abort")
    run = SiteRun(site, records.pipelines, may, operator)

    def mark(member: tuple[MemberState, SitePipeline]) -> None:
        state, pipeline = member
        own = run.actor(run.members[state.member.drill], pipeline)
        drill = mark_aborting(own, state.member.drill, site.mark, take_over=take_over)
        run.update(state.member.drill, drill)

    side_by_side(mark, aborted)
    failpoint("site-aborting")

    def restore(member: tuple[MemberState, SitePipeline]) -> K2kError | None:
        state, pipeline = member
        own = run.actor(run.members[state.member.drill], pipeline)
        try:
            drill = abort_drill(own, state.member.drill)
        except K2kError as error:
            return error
        run.update(state.member.drill, drill)
        return None

    errors = [
        f"{safe_text(state.pipeline)}: {error.message}"
        for (state, _), error in zip(aborted, side_by_side(restore, aborted), strict=True)
        if error is not None
    ]
    for state in silent:
        run.allow_lost(state)
        if problem := run.site.find(state.member.drill).error:
            log.warning("site drill %s: %s: %s", site.id, state.pipeline, problem)
    if errors:
        # What could not be asked says how to confirm it in advance.
        hint = run.stopped_by.hint if run.stopped_by is not None else ""
        raise PartlyApplied(
            "not everything was restored:\n    " + "\n    ".join(errors),
            unchanged="The rest was restored.",
            hint=hint or f"Repeat it: k2ktui drill abort {safe_text(site_id)} -d DIR",
        )
    return run.site


def _members_to_abort(
    site: SiteDrill, records: _DirectoryDrills
) -> list[tuple[MemberState, SitePipeline]]:
    """Return the members that an abort restores.

    After a target was opened, these are those left out, and those whose abort began before it: they
    cannot be resumed.
    """
    back = can_all_go_back(site)
    return records.find_pipelines(
        state
        for state in site.members
        if state.is_open and (back or state.left_out or state.status is MemberStatus.ABORTING)
    )


def _refuse_abort(site: SiteDrill) -> None:
    name = safe_text(site.id)
    if site.is_over:
        raise Refused(
            f"site drill {name} is {site.status}",
            unchanged=_UNCHANGED,
            hint=f"Read its report: k2ktui drill report {name} -d DIR",
        )
    opened = [
        state.pipeline
        for state in site.members
        if state.drill is not None and state.drill.figures.opened_ms is not None
    ]
    if opened:
        raise Refused(
            f"site drill {name} cannot be aborted: the targets of {_names(opened)} were opened, "
            "and records may exist only there",
            unchanged=_UNCHANGED,
            hint=f"Resume it: k2ktui drill resume {name} -d DIR; --leave-out NAME aborts a "
            "pipeline whose target is not open.",
        )
    raise Refused(
        f"no pipeline of site drill {name} can be aborted from here",
        unchanged=_UNCHANGED,
        hint="See why: k2ktui drill show " + name + " -d DIR",
    )
