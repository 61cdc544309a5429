"""Cases of the transcript: site drills, of all pipelines of a directory that leave one cluster."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from k2ktui.drill.operator import Question, QuestionKind, step_question
from k2ktui.engine.drill.checks import DrillKind, DrillPhase
from k2ktui.engine.drill.model import Drill, DrillStatus
from k2ktui.engine.drill.site import SiteDrill, gather_site
from k2ktui.engine.drill.site_mark import SiteMark, SiteMember, member_drill_id
from k2ktui.engine.drill.site_selection import SiteFile
from k2ktui.engine.drill.steps import describe_phase_of
from k2ktui.site.operations import SiteActor
from k2ktui.site.run import _not_confirmed, _step_question, leave_out_question
from tests.support.commands.transcript import Typed, typed
from tests.support.console.sites import SITE, held, planned
from tests.support.console.views import SOURCE_ID, TARGET_ID
from tests.support.drill.made_drills import (
    NOON_MS,
    acted,
    fencing,
    new_drill,
    opened,
    rehearsed,
    stopped,
    switched_over,
    through,
)
from tests.unit.golden.cases.common import NO_SOURCE, NO_TARGET, Cases
from tests.unit.golden.cases.kept_drills import TARGET, kept, stops

NAMES = ("billing", "orders", "search")
PIPELINE = """
name: {name}
source: {{kafka: {{common: {{bootstrap.servers: "src:9092"}}}}}}
target: {{kafka: {{common: {{bootstrap.servers: "dst:9092"}}}}}}
replication:
  - source: {{topic: [{name}]}}
  - sink: {{topic: source, partition: source}}
"""
OPERATIONS = "k2ktui.site.operations"
READ = f"{OPERATIONS}.list_drills"
HOOK = """
drill:
  hooks: [{before: open-target, for: point the clients at west, command: [switch, west]}]
"""


def mark(site_id: str = SITE) -> SiteMark:
    """What the records of a site drill of three pipelines of paris say of it."""
    members = tuple(
        SiteMember(name, member_drill_id(site_id, number), TARGET_ID, "d1" * 32)
        for number, name in enumerate(NAMES, 1)
    )
    return SiteMark(site_id, "paris", SOURCE_ID, members, (), ("site/typo.yaml",))


def member(name: str, drill: Drill, site: SiteMark | None = None) -> Drill:
    """Return a drill as that of a member."""
    site = site or mark()
    drill_id = member_drill_id(site.id, NAMES.index(name) + 1)
    return replace(drill, id=drill_id, pipeline=name, site=site)


def half_way() -> tuple[Drill, ...]:
    """One waits before the barrier, one is held; the target of the third does not answer."""
    ready = replace(planned(DrillPhase.FENCE_REPLICATOR), session="")
    return member("billing", ready), member("orders", held())


def directories(folder: Path) -> None:
    """Write ``site``, with three pipelines, ``one`` with one, ``guarded``, and ``none``."""
    for directory, names in (
        ("site", NAMES),
        ("one", ("orders",)),
        ("guarded", ("billing", "orders")),
    ):
        (folder / directory).mkdir(exist_ok=True)
        for name in names:
            text = PIPELINE.format(name=name)
            if directory == "guarded":
                text += "environment: production\n" if name == "billing" else "readOnly: enabled\n"
            if (directory, name) == ("site", "orders"):
                text += HOOK
            (folder / directory / f"{name}.yaml").write_text(text)
    (folder / "none").mkdir(exist_ok=True)


def file(name: str, directory: str = "site", **values: Any) -> SiteFile:
    """What a directory says of a pipeline."""
    made = SiteFile(
        f"{directory}/{name}.yaml", name, "paris", "rome", SOURCE_ID, TARGET_ID, frozenset({name})
    )
    return replace(made, **values)


ALL = [file(name) for name in NAMES]
UNKNOWN = file("typo", source_id="", target_id="", why="it is not valid: no key replicaton exists")
SILENT = file("other", source_id="", target_id="", why="the target did not answer within 30 s")


def found(*files: SiteFile) -> dict[str, Any]:
    """Return what reading the files of the directory finds."""
    return {f"{OPERATIONS}.read_site_files": list(files)}


def records(*drills: Drill, down: Iterable[str] = ()) -> dict[str, Any]:
    """Return what the targets of the pipelines answer: their drills, or nothing."""
    silent = frozenset(down)

    def read(flow: Any) -> list[Drill]:
        if flow.config.name in silent:
            raise NO_TARGET
        return [drill for drill in drills if drill.pipeline == flow.config.name]

    return {
        READ: read,
        f"{OPERATIONS}.is_owned": False,
        f"{OPERATIONS}.have_digest": True,
        f"{OPERATIONS}.target_cluster": lambda _: TARGET,
    }


def every(drill: Drill, site: SiteMark | None = None, **others: Drill) -> tuple[Drill, ...]:
    """Return a site drill whose members are alike, but some by their name."""
    return tuple(member(name, others.get(name, drill), site) for name in NAMES)


def site_of(*drills: Drill, errors: Mapping[str, str] | None = None) -> SiteDrill:
    """Return the site drill of these records."""
    return gather_site(drills, errors or {}, files={name: f"site/{name}.yaml" for name in NAMES})


def acts(site: SiteDrill, *questions: Question) -> Callable[..., SiteDrill]:
    """Return an operation that shows a site drill, asks, and returns it."""

    def operate(actor: SiteActor, *_: Any, **__: Any) -> SiteDrill:
        operator = actor.operator
        operator.show(site)
        for question in questions:
            if not operator.ask(question):
                raise _not_confirmed(question.step or "leaving pipelines out", site)
        return site

    return operate


def phase_question(site: SiteDrill, phase: DrillPhase) -> Question:
    """Return the question whether a phase is confirmed for the members that are not held."""
    names = ["billing", "search"]
    effect = describe_phase_of(site.drills[0], phase)
    asked = [step_question(replace(site.drills[0], pipeline=name), phase, effect) for name in names]
    return _step_question(site, asked, ["orders is held: it has 2 members"])


HALF = site_of(*half_way(), errors={"search": "the target did not answer within 30 s"})
DONE = site_of(*every(switched_over()))


def drill_list(folder: Path) -> list[Typed]:
    """Site drills; a target that does not answer; none; no files."""
    directories(folder)
    older = mark("20261001-080000-cafe")
    many = records(*half_way(), *every(rehearsed(), older), down=["search"])
    return [
        typed("drill list -d site", many),
        typed("drill list -d site --json", many),
        typed("drill list -d site", records()),
        typed("drill list -d none"),
        typed("drill list -d missing"),
    ]


def drill_show(folder: Path) -> list[Typed]:
    """Half way, done, opened, aborted; one that there is not."""
    directories(folder)
    some = [
        records(*half_way(), down=["search"]),
        records(*every(switched_over())),
        records(*every(opened())),
        records(*every(replace(stopped(), status=DrillStatus.ABORTED))),
    ]
    return [
        *(typed(f"drill show {SITE} -d site", given) for given in some),
        typed(f"drill show {SITE} -d site --json", some[0]),
        typed("drill show 1 -d site", some[0]),
    ]


def drill_report(folder: Path) -> list[Typed]:
    """Half way and done; verified, and not; as a page."""
    directories(folder)
    half, done = records(*half_way(), down=["search"]), records(*every(switched_over()))
    good = {**done, f"{OPERATIONS}.verify_drill": (switched_over(), [])}
    bad = {**half, f"{OPERATIONS}.verify_drill": (stopped(), ["the report was changed"])}
    report = f"drill report {SITE} -d site"
    return [
        typed(report, half),
        typed(report, done),
        typed(f"{report} --json", done),
        typed(f"{report} --verify", good),
        typed(f"{report} --verify", bad),
        typed(f"{report} --verify --json", bad),
        typed(f"{report} --html page.html", done),
        typed("drill report 1 -d site", half),
    ]


def begins(kind: str) -> list[Typed]:
    """Return how the pipelines of a site drill are chosen, and what is refused before it begins."""
    begin = f"drill {kind} -d site"
    both = [*ALL, file("back", source="rome", source_id=TARGET_ID, target_id=SOURCE_ID)]
    twice = [*ALL, file("again", topics=frozenset({"orders"}))]
    renamed = [*ALL, file("other", source_id="another")]
    guarded = found(*(file(name, "guarded") for name in NAMES[:2]))
    elsewhere = [*ALL, file("other", source="oslo", source_id="another")]
    return [
        typed(f"{begin} --dry-run", found(*ALL, UNKNOWN)),
        typed(f"{begin} --dry-run --json --only orders|billing", found(*ALL, UNKNOWN)),
        typed(begin, found(*ALL, UNKNOWN, SILENT)),
        typed(begin, found(*ALL, UNKNOWN), keys="no\n"),
        typed(f"{begin} --dry-run", found(*both)),
        typed(f"{begin} --dry-run", found(*elsewhere)),
        typed(f"{begin} --dry-run --from paris", found(*renamed)),
        typed(f"{begin} --dry-run --from berlin", found(*ALL)),
        typed(f"{begin} --dry-run", found(*twice)),
        typed(f"{begin} --dry-run --only nothing", found(*ALL, UNKNOWN)),
        typed(f"{begin} --dry-run", found(UNKNOWN)),
        typed(f"drill {kind} -d guarded", guarded),
        typed(f"{begin} --topics clicks"),
        typed(f"{begin} --only ("),
        typed(f"drill {kind} -d none"),
    ]


def one(**values: Any) -> dict[str, Any]:
    """Return the answers of a site with one pipeline, whose phases run as made."""
    return {**kept(**values), **records(), **found(file("orders", "one"))}


def drill_rehearse(folder: Path) -> list[Typed]:
    """One pipeline; several, one of them held; selections."""
    directories(folder)
    one_held = site_of(*every(rehearsed())[:2], errors={"search": "the target did not answer"})
    good = site_of(*every(rehearsed()))
    start = f"{OPERATIONS}.start_site"
    return [
        typed("drill rehearse -d one", one()),
        typed("drill rehearse -d one", one(results={DrillPhase.PREFLIGHT: NO_SOURCE})),
        typed("drill rehearse -d site", {start: acts(good)}),
        typed("drill rehearse -d site", {start: acts(one_held)}),
        typed("drill rehearse -d site --json", {start: acts(good)}),
        *begins("rehearse"),
    ]


def drill_planned(folder: Path) -> list[Typed]:
    """One pipeline; several: asked for a phase, for those that failed; selections."""
    directories(folder)
    start, planned = f"{OPERATIONS}.start_site", "drill planned -d site"
    asks = acts(HALF, phase_question(HALF, DrillPhase.APPLY))
    leaves = acts(HALF, leave_out_question(HALF, [HALF.find(member_drill_id(SITE, 2))]))
    stopping = {DrillPhase.FENCE_PRODUCERS: stops("records were written", "clicks-0: 12 in 30 s")}
    return [
        typed("drill planned -d one --yes-to all", one()),
        typed("drill planned -d one", one()),
        typed("drill planned -d one --yes-to all", one(results=stopping)),
        typed(f"{planned} --yes-to all", {start: acts(DONE)}),
        typed(f"{planned} --yes-to all --json", {start: acts(HALF)}),
        typed(planned, {start: asks}, keys="paris\n"),
        typed(planned, {start: asks}, keys="no\n"),
        typed(planned, {start: asks}),
        typed(planned, {start: leaves}, keys="no\n"),
        typed(planned, {start: leaves}),
        typed(f"{planned} --leave-out orders", {start: leaves}),
        *begins("planned"),
    ]


def drill_disaster(folder: Path) -> list[Typed]:
    """One pipeline; selections."""
    directories(folder)
    return [
        typed("drill disaster -d one --yes-to all", one()),
        typed("drill disaster -d site --yes-to all", {f"{OPERATIONS}.start_site": acts(HALF)}),
        *begins("disaster"),
    ]


def drill_failback(folder: Path) -> list[Typed]:
    """Several pipelines; selections; options of one file."""
    directories(folder)
    start, back = f"{OPERATIONS}.start_site", "drill failback -d site"
    drills = every(replace(through(new_drill(DrillKind.FAILBACK), DrillPhase.SOURCE_BACK)))
    return [
        typed(f"{back} --yes-to all", {start: acts(site_of(*drills))}),
        *begins("failback"),
        typed(f"{back} --forward orders.yaml"),
        typed(f"{back} --export-to out"),
    ]


def drill_resume(folder: Path) -> list[Typed]:
    """Continued; taken over; other files; over, aborted, opened; options that do not fit."""
    directories(folder)
    resume, operate = f"drill resume {SITE} -d site", f"{OPERATIONS}.resume_site"
    half = records(*half_way(), down=["search"])
    busy = {**half, f"{OPERATIONS}.is_owned": True}
    other = {**half, f"{OPERATIONS}.have_digest": False}
    aborting = every(replace(stopped(), status=DrillStatus.ABORTING))
    rehearsal = replace(rehearsed(), status=DrillStatus.OPEN)
    asks = acts(HALF, phase_question(HALF, DrillPhase.OPEN_TARGET))
    take = Question(
        QuestionKind.UNPROVEN,
        HALF,
        "It is not proven that a drill wrote the record",
        ("orders: it continues with apply",),
        SITE,
    )
    return [
        typed(f"{resume} --yes-to all", {operate: acts(HALF)}),
        typed(f"{resume} --yes-to all --json", {operate: acts(DONE)}),
        typed(resume, {operate: asks}, keys="paris\n"),
        typed(resume, {operate: asks}),
        typed(resume, {operate: acts(HALF, take)}),
        typed(resume, busy),
        typed(resume, busy, keys="no\n"),
        typed(resume, other),
        typed(resume, other, keys="no\n"),
        typed(resume, records(*every(switched_over()))),
        typed(resume, records(*aborting)),
        typed(f"{resume} --as disaster", records(*every(rehearsal))),
        typed(f"{resume} --tail discard", half),
        typed(f"{resume} --leave-out orders", records(*every(fencing(), orders=opened()))),
        typed(f"drill resume {SITE} -d guarded", records(*half_way())),
        typed("drill resume 1 -d site", half),
        typed(f"{resume} --forward orders.yaml"),
        typed(f"{resume} --as disaster --from-fence"),
    ]  # fmt: skip


def drill_abort(folder: Path) -> list[Typed]:
    """Restored, in part, without some; too late; other files; taken over."""
    directories(folder)
    abort, operate = f"drill abort {SITE} -d site", f"{OPERATIONS}.abort_site"
    aborted = replace(stopped(), status=DrillStatus.ABORTED, ended_ms=NOON_MS)
    half = records(*half_way(), down=["search"])
    whole = records(*every(acted(fencing())))
    leaves = acts(HALF, leave_out_question(HALF, [HALF.find(member_drill_id(SITE, 3))], "abort"))
    mine = {
        **kept(*every(fencing())),
        **records(*every(fencing())),
        f"{OPERATIONS}.abort_drill": lambda actor, *_, **__: fail(actor.flow),
        f"{OPERATIONS}.mark_aborting": lambda actor, drill_id, *_, **__: next(
            drill for drill in every(fencing()) if drill.id == drill_id
        ),
    }
    return [
        typed(abort, {operate: acts(site_of(*every(aborted)))}),
        typed(f"{abort} --json", {operate: acts(site_of(*every(aborted)))}),
        typed(abort, {operate: leaves}),
        typed(abort, {operate: leaves}, keys="no\n"),
        typed(f"{abort} --leave-out search", {operate: leaves}),
        typed(abort, half),
        typed(abort, half, keys="no\n"),
        typed(abort, {**whole, f"{OPERATIONS}.is_owned": True}),
        typed(abort, {**whole, f"{OPERATIONS}.have_digest": False}),
        typed(abort, mine),
        typed(abort, records(*every(opened()))),
        typed(abort, records(*every(switched_over()))),
        typed(f"drill abort {SITE} -d guarded", records(*half_way())),
        typed("drill abort 1 -d site", half),
        typed(f"{abort} --forward orders.yaml"),
    ]


def fail(flow: Any) -> Drill:
    """Abort the drills of two pipelines in vain."""
    if flow.config.name in {"orders"}:
        raise NO_SOURCE
    drill = next(one for one in every(fencing()) if one.pipeline == flow.config.name)
    return replace(drill, status=DrillStatus.ABORTED)


CASES: Mapping[str, Cases] = {
    "drill abort": drill_abort,
    "drill disaster": drill_disaster,
    "drill failback": drill_failback,
    "drill list": drill_list,
    "drill planned": drill_planned,
    "drill rehearse": drill_rehearse,
    "drill report": drill_report,
    "drill resume": drill_resume,
    "drill show": drill_show,
}
