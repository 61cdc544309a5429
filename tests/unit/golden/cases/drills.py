"""Cases of the transcript: drills of a pipeline."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from k2ktui.drill.checks.catalog import CATALOG
from k2ktui.engine.drill.checks import CheckResult, DrillCheckOutcome, DrillKind, DrillPhase
from k2ktui.engine.drill.model import (
    FENCES,
    ChangeKind,
    ChangeStatus,
    Drill,
    DrillFigures,
    DrillStatus,
    new_phases,
)
from k2ktui.engine.records.moved_topic import MovedTopic, MovedTopics
from tests.support.commands.transcript import Typed, typed
from tests.support.console.sites import mark, member
from tests.support.drill.made_drills import (
    NOON_MS,
    acted,
    denied,
    fencing,
    listed,
    new_drill,
    opened,
    rehearsed,
    stopped,
    switched_over,
)
from tests.support.drill.signed import write_sign
from tests.unit.golden.cases.common import NO_SOURCE, NO_TARGET, Cases, protected
from tests.unit.golden.cases.kept_drills import SOURCE, TARGET, kept, stops
from tests.unit.golden.cases.positions import POSITIONS

CLICKS = MovedTopic("clicks", "clicks", "20261101-090000-aaaa", NOON_MS - 86_400_000, "ann@bastion")
HOOKS = """
drill:
  hooks:
    - before: open-target
      for: point the clients at west
      command: [switch-clients, west]
      abort: [switch-clients, east]
    - {after: watch-clients, for: restart the shop, command: [systemctl, restart, shop]}
"""
BOTH_WAYS = "features: {bidirectionalReplication: enabled}\n"
REVERSE = """
name: orders-reverse
source: {kafka: {common: {bootstrap.servers: "dst:9092"}}}
target: {kafka: {common: {bootstrap.servers: "src:9092"}}}
features: {bidirectionalReplication: enabled}
replication:
  - source: {topic: [clicks, invoices, payments]}
  - sink: {topic: source, partition: source}
"""


def checked(
    check_id: str, outcome: DrillCheckOutcome, evidence: str, hint: str = ""
) -> CheckResult:
    """The result of a check of the catalog."""
    return CheckResult(check_id, CATALOG[check_id].title, outcome, evidence, hint)


CHECKS = (
    checked("D01", DrillCheckOutcome.PASS, "both answer"),
    checked("D08", DrillCheckOutcome.FAIL, "billing: 3 of 4", "Compare them.\nThen repeat it."),
    checked("D29", DrillCheckOutcome.UNKNOWN, "not authorized", "Grant Describe on the cluster."),
)


def drill_list(_: Path) -> list[Typed]:
    """Drills of each status; none; the target down."""
    drills = kept(fencing(), stopped(), opened(), rehearsed(), switched_over())
    read = "k2ktui.drill.operations.list_all"
    return [
        typed("drill list -f orders.yaml", drills),
        typed("drill list -f orders.yaml --json", drills),
        typed("drill list -f orders.yaml", kept()),
        typed("drill list -f orders.yaml --json", kept()),
        typed("drill list -f orders.yaml", {read: NO_TARGET}),
        typed("drill list"),
        typed("drill list -f orders.yaml -d ."),
    ]


def drill_show(_: Path) -> list[Typed]:
    """A drill that waits, one that failed, one that is done, one on which somebody acts; none."""
    drills = (fencing(), stopped(), opened(), rehearsed(), acted(fencing()), tail())
    return [
        *(
            typed(f"drill show -f orders.yaml {drill.id}{option}", kept(drill))
            for drill in drills
            for option in ("", " --json")
        ),
        typed("drill show -f orders.yaml 1", kept(fencing())),
        typed("drill show -f orders.yaml", kept()),
    ]


def tail() -> Drill:
    """A failback that has listed records, of the pipeline that the cases know."""
    return replace(listed(), pipeline="orders-reverse", files=("orders-reverse.yaml",))


def drill_report(folder: Path) -> list[Typed]:
    """A rehearsal, a failed drill, one that is done; verified, and not; as a page."""
    verify_it = "k2ktui.drill.operations.verify_drill"
    failed = stopped()
    report = "drill report -f orders.yaml"
    broken = {verify_it: (failed, ["the report was changed after phase lag"])}
    write = f"{report} {failed.id} --html page.html"
    return [
        *(
            typed(f"{report} {drill.id}", kept(drill))
            for drill in (rehearsed(), failed, switched_over())
        ),
        typed(f"{report} {failed.id} --json", kept(failed)),
        typed(f"{report} {failed.id} --verify", {verify_it: (failed, [])}),
        typed(f"{report} {failed.id} --verify", broken),
        typed(f"{report} {failed.id} --verify --json", broken),
        typed(write, kept(failed)),
        typed(f"{report} {failed.id} --html missing/page.html", kept(failed)),
        typed(f"{report} 1", kept()),
        typed(f"{write} --verify"),
        typed(f"{write} --json"),
    ]


def drill_check(folder: Path) -> list[Typed]:
    """Each outcome; no cluster answers; ids that are none."""
    (folder / "orders-reverse.yaml").write_text(REVERSE)
    run, check = "k2ktui.drill.checks.suite.run_checks", "drill check -f orders.yaml"
    context = "k2ktui.drill.checks.context.CheckContext.down"
    found = {run: CHECKS, context: None}
    good = {run: CHECKS[:1], context: None}
    return [
        typed(check, found),
        typed(f"{check} --json", found),
        typed(f"{check} --kind planned --only D01 --reverse orders-reverse.yaml", good),
        typed(check, {run: CHECKS[2:], context: lambda *_: NO_SOURCE}),
        typed(f"{check} --json", {run: CHECKS[2:], context: lambda *_: NO_TARGET}),
        typed(f"{check} --only D99,D01,X"),
        typed(f"{check} --only ,"),
        typed(f"{check} --reverse missing.yaml"),
        typed(f"{check} --kind none"),
    ]


def begun(kind: str) -> list[Typed]:
    """Return what is refused before any drill of a kind begins."""
    begin = f"drill {kind} -f orders.yaml"
    return [
        typed(f"drill {kind}"),
        typed(f"{begin} -d ."),
        typed(f"{begin} --from paris"),
        typed(f"{begin} --leave-out billing"),
        typed(f"{begin} --groups ("),
        typed(f"{begin} --topics clicks|payments --dry-run", kept()),
        typed(f"{begin} --topics clicks --dry-run --json", kept()),
        typed(f"{begin} --topics nothing --dry-run", kept()),
        typed(f"{begin} --topics .* --dry-run", kept()),
        typed(f"{begin} --topics clicks --dry-run", kept(moved=MovedTopics([CLICKS]))),
        Typed(("drill", kind, "-f", "orders.yaml", "--topics", "")),
        typed(f"drill {kind} -f -"),
    ]


def drill_rehearse(folder: Path) -> list[Typed]:
    """Good, with findings, held by a cluster; what would be done; refused."""
    (folder / "hooks.yaml").write_text(HOOKS)
    rehearse = "drill rehearse -f orders.yaml"
    phases = {DrillPhase.SHADOW: stops("billing reads other records", "payments-0: 3 of 40")}
    return [
        typed(rehearse, kept()),
        typed(f"{rehearse} --json", kept()),
        typed(rehearse, kept(results=phases, checks=CHECKS)),
        typed(rehearse, kept(results={DrillPhase.PREFLIGHT: NO_SOURCE})),
        typed(rehearse, kept(moved=MovedTopics([CLICKS]))),
        typed(f"{rehearse} --topics clicks|payments", kept()),
        typed(f"{rehearse} -f hooks.yaml", kept()),
        typed(f"{rehearse} --dry-run"),
        typed(f"{rehearse} --dry-run --json"),
        typed(f"{rehearse} -f hooks.yaml --dry-run"),
        *protected(folder, "drill rehearse", kept()),
        *begun("rehearse"),
        typed(f"{rehearse} --shadow-groups -1"),
        *signed(folder, rehearse),
    ]


def signed(folder: Path, rehearse: str) -> list[Typed]:
    """Signed; what cannot be signed is not begun, or is a finding at the end."""
    (folder / "wrong.txt").write_text("wrong\n")
    (folder / "wrong.txt").chmod(0o600)
    (folder / "no-folder").write_text("")
    wrong, text = str(folder / "wrong.txt"), str(folder / "no-folder")
    files = {
        name: f"{rehearse} -f {write_sign(folder, name, passphrase, **keys)}"
        for name, passphrase, keys in (
            ("sign", "", {}),
            ("prompt", "secret words", {}),
            ("wrong", "secret words", {"passphraseFile": wrong}),
            ("gone", "", {"key": str(folder / "gone-away.pem")}),
            ("directory", "", {"directory": text}),
            ("relative", "", {"directory": "evidence"}),
        )
    }
    return [
        typed(files["sign"], kept()),
        typed(files["sign"], kept()),  # its id is that of the former: no report is overwritten
        *(typed(files[name], kept()) for name in ("prompt", "wrong", "gone", "directory")),
        typed(files["relative"]),
    ]


# What is typed to confirm the phases of a planned drill.
AGREED = "apply\nfence-replicator\nopen-target\n"


def drill_planned(folder: Path) -> list[Typed]:
    """Confirmed, in advance, not at a terminal, not confirmed; stopped; refused; with hooks."""
    (folder / "hooks.yaml").write_text(HOOKS)
    planned = "drill planned -f orders.yaml"
    stopping = {DrillPhase.FENCE_PRODUCERS: stops("records were written", "clicks-0: 12 in 30 s")}
    return [
        typed(planned, kept(), keys=AGREED),
        typed(f"{planned} --yes-to all", kept()),
        typed(f"{planned} --yes-to all --json", kept()),
        typed(planned, kept()),
        typed(f"{planned} --yes-to fence-producers", kept()),
        typed(planned, kept(), keys="no\n"),
        typed(f"{planned} --yes-to all", kept(results=stopping)),
        typed(f"{planned} --yes-to all", kept(checks=CHECKS)),
        typed(f"{planned} --yes-to all --accept D08", kept(checks=CHECKS)),
        typed(f"{planned} --yes-to all", kept(results={DrillPhase.DRAIN: NO_TARGET})),
        typed(f"{planned} --yes-to all", kept(fencing())),
        typed(f"{planned} --yes-to all", kept(moved=MovedTopics([CLICKS]))),
        typed(f"{planned} --topics clicks --yes-to all", kept()),
        typed(f"{planned} --topics clicks", kept(), keys="topics\nno\n"),
        typed(f"{planned} --topics clicks", kept(), keys="no\n"),
        typed(f"{planned} --topics clicks", kept()),
        *(typed(f"{planned} --dry-run --fence {fence}") for fence in FENCES),
        typed(f"{planned} --dry-run --json"),
        typed(f"{planned} -f hooks.yaml --dry-run"),
        *protected(folder, "drill planned --yes-to all", kept()),
        *begun("planned"),
        typed(f"{planned} --yes-to aply"),
        typed(f"{planned} --accept D99"),
        typed(f"{planned} --fence fire"),
        typed(f"{planned} --frozen -1"),
    ]


def drill_disaster(folder: Path) -> list[Typed]:
    """Confirmed in advance; refused; what would be done."""
    (folder / "hooks.yaml").write_text(HOOKS)
    disaster = "drill disaster -f orders.yaml"
    gone = write_sign(folder, "gone", key=str(folder / "gone-away.pem"))
    lives = {DrillPhase.SOURCE_LOST: stops("the source answers", "src:9092 is up")}
    return [
        typed(f"{disaster} --yes-to all", kept()),
        typed(f"{disaster} --yes-to all --json", kept()),
        typed(f"{disaster} --yes-to all", kept(results=lives)),
        typed(f"{disaster} --topics clicks --yes-to all", kept()),
        typed(f"{disaster} --yes-to all", kept(opened())),
        typed(f"{disaster} --dry-run"),
        typed(f"{disaster} --dry-run --json"),
        typed(f"{disaster} -f hooks.yaml --dry-run"),
        # A failover does not wait for evidence.
        typed(f"{disaster} -f {gone} --yes-to all", kept()),
        *protected(folder, "drill disaster --yes-to all", kept()),
        *begun("disaster"),
    ]


def two_ways(folder: Path) -> None:
    """Write the files of a pipeline in both directions."""
    text = (folder / "orders.yaml").read_text()
    (folder / "both.yaml").write_text(text + BOTH_WAYS)
    (folder / "both-reverse.yaml").write_text(REVERSE)
    (folder / "orders-reverse.yaml").write_text(REVERSE)


def drill_failback(folder: Path) -> list[Typed]:
    """Led back; with a tail; refused, by the other file, by the drills; what would be done."""
    two_ways(folder)
    back = "drill failback -f both-reverse.yaml"
    moved = switched_over()
    opposite = {
        "k2ktui.drill.forward._require_opposite": None,
        "k2ktui.drill.forward.read_moved": MovedTopics(),
        "k2ktui.drill.forward.ForwardPipeline.read_positions": POSITIONS,
        "k2ktui.drill.forward.source_cluster": lambda _: TARGET,
        "k2ktui.drill.forward.target_cluster": lambda _: SOURCE,
    }
    some = {**opposite, "k2ktui.drill.forward.read_moved": MovedTopics([CLICKS])}
    ready = {**kept(moved), **opposite}
    returned = replace(
        moved,
        id="20261121-120000-eeee",
        pipeline="orders-reverse",
        kind=DrillKind.FAILBACK,
        phases=new_drill(DrillKind.FAILBACK).phases,
        figures=DrillFigures(opened_ms=NOON_MS),
    )
    lists = {DrillPhase.TAIL: stops("15 records", "orders-0: 15 records, offsets 50 to 64")}
    return [
        typed(f"{back} --yes-to all", ready),
        typed(f"{back} --yes-to all --json", ready),
        typed(f"{back} --yes-to all", {**kept(moved, results=lists), **opposite}),
        typed(f"{back} --tail export --export-to out --yes-to all", ready),
        typed(f"{back} --yes-to all", {**kept(), **opposite}),
        typed(f"{back} --yes-to all", {**kept(), **some}),
        typed(f"{back} --yes-to all", {**kept(opened()), **opposite}),
        typed(f"{back} --yes-to all", {**kept(moved, returned), **opposite}),
        typed(f"{back} --topics clicks --yes-to all", ready),
        typed(f"{back} --topics clicks --yes-to all", {**ready, **some}),
        typed("drill failback -f both.yaml --yes-to all", ready),
        typed("drill failback -f orders.yaml --yes-to all", ready),
        typed("drill failback -f orders-reverse.yaml --yes-to all", ready),
        typed(f"{back} --forward missing.yaml --yes-to all", ready),
        typed(f"{back} --dry-run"),
        typed(f"{back} --dry-run --json"),
        typed(f"{back} --tail keep"),
        *begun("failback"),
    ]


def drill_resume(folder: Path) -> list[Typed]:
    """Continued, taken over, with a doubt; over, aborted, with options that do not fit."""
    two_ways(folder)
    (folder / "hooks.yaml").write_text(HOOKS)
    drill, failed = fencing(), stopped()
    resume = f"drill resume -f orders.yaml {drill.id}"
    doubt = "its record was written by another producer"
    tailed = tail()
    aborting = replace(failed, status=DrillStatus.ABORTING)
    shapeless = replace(drill, phases=drill.phases[1:])
    others = replace(drill, topics=("secret",), phases=new_phases(DrillKind.PLANNED, ("secret",)))
    exported = replace(tailed, options=replace(tailed.options, export_to="/elsewhere"))
    forwarded = replace(tailed, options=replace(tailed.options, forward="/elsewhere.yaml"))
    of_site = replace(member(5, drill, mark()), pipeline="orders")
    reverse = f"drill resume -f both-reverse.yaml {tailed.id}"
    return [
        typed(f"{resume} --yes-to all", kept(drill)),
        typed(f"{resume} --yes-to all --json", kept(drill)),
        typed(resume, kept(drill)),
        typed(f"{resume} --yes-to all --accept D39,D10", kept(failed)),
        typed(f"{resume} --yes-to all --as disaster", kept(drill)),
        typed(f"{resume} --yes-to all --from-fence", kept(opened())),
        typed(f"drill resume -f orders.yaml {opened().id} --yes-to all --from-fence",
              kept(opened())),
        typed(f"{resume} --yes-to all", kept(acted(drill), is_owned=True)),
        typed(f"{resume} --yes-to all", kept(acted(drill), is_owned=True),
              keys="ann@bastion2\n"),
        typed(f"{resume} --yes-to all", kept(acted(drill), is_owned=True), keys="no\n"),
        typed(f"{resume} --yes-to all --take-over", kept(acted(drill), is_owned=True)),
        typed(f"{resume} --yes-to all", kept(drill, doubt=doubt)),
        typed(f"{resume} --yes-to all", kept(drill, doubt=doubt), keys=f"{drill.id}\n"),
        typed(f"{resume} --yes-to all", kept(drill, doubt=doubt), keys="no\n"),
        typed(f"{resume} --yes-to all -f hooks.yaml", kept(drill)),
        typed(f"drill resume -f orders.yaml {switched_over().id}", kept(switched_over())),
        typed(resume, kept(aborting)),
        typed(resume, kept(shapeless)),
        typed(resume, kept(others)),
        typed(f"drill resume -f orders.yaml {of_site.id}", kept(of_site)),
        typed(f"{resume} --tail discard", kept(drill)),
        typed(f"drill resume -f orders.yaml {rehearsed().id} --as disaster",
              kept(replace(rehearsed(), status=DrillStatus.OPEN))),
        typed(f"{reverse} --tail discard --yes-to all", kept(tailed)),
        typed(f"{reverse} --yes-to all", kept(exported)),
        typed(f"{reverse} --yes-to all", kept(forwarded)),
        typed("drill resume -f orders.yaml 1", kept()),
        *protected(folder, f"drill resume {drill.id} --yes-to all", kept(drill)),
        typed(f"{resume} --as disaster --from-fence"),
        typed(f"{resume} --as planned"),
        typed(f"{resume} --leave-out billing"),
        typed(f"{resume} --yes-to nothing"),
        typed("drill resume -f orders.yaml"),
    ]  # fmt: skip


def drill_abort(folder: Path) -> list[Typed]:
    """Restored, in part, with things that stay; too late; refused."""
    drill = stopped()
    abort = f"drill abort -f orders.yaml {drill.id}"
    restore = "k2ktui.drill.operations.restore"
    doubt = "its record was written by another producer"
    past = replace(opened(), changes=(replace(denied(), kind=ChangeKind.ACLS),))
    return [
        typed(abort, {**kept(drill), restore: []}),
        typed(f"{abort} --json", {**kept(drill), restore: []}),
        typed(abort, {**kept(drill), restore: ["quota of client 7: changed since, and kept"]}),
        typed(abort, {**kept(drill), restore: NO_SOURCE}),
        typed(abort, {**kept(fencing())}),
        typed(f"drill abort -f orders.yaml {past.id}", kept(past)),
        typed(f"drill abort -f orders.yaml {switched_over().id}", kept(switched_over())),
        typed(abort, kept(acted(drill), is_owned=True)),
        typed(f"{abort} --take-over", {**kept(acted(drill), is_owned=True), restore: []}),
        typed(abort, {**kept(drill, doubt=doubt), "k2ktui.drill.operations.preview_abort": [
            "Write on topic clicks of the source to User:*: denied → not denied"]}),
        typed("drill abort -f orders.yaml 1", kept()),
        *protected(folder, f"drill abort {drill.id}", kept(drill)),
        typed(f"{abort} --yes-to nothing"),
        typed(f"{abort} --leave-out billing"),
        typed("drill abort 1"),
    ]  # fmt: skip


def drill_release(folder: Path) -> list[Typed]:
    """A pipeline, topics; a fence that stays at the source; nothing to release; not confirmed."""
    drill = switched_over()
    release = f"drill release -f orders.yaml {drill.id}"
    lets = "k2ktui.drill.operations.release_topics"
    denies = replace(drill, changes=(*drill.changes, replace(denied(), after='["clicks"]')))
    stays = {"k2ktui.drill.kept_fences.denied_topics": frozenset({"clicks"})}
    moved = {**kept(moved=MovedTopics([CLICKS])), lets: None}
    free = replace(drill, changes=(replace(drill.changes[0], status=ChangeStatus.UNDONE),))
    return [
        typed(release, kept(drill), keys="orders\n"),
        typed(release, kept(drill), keys="no\n"),
        typed(f"{release} --yes", {**kept(denies), **stays}),
        typed(f"{release} --yes --json", kept(drill)),
        typed(release, kept(drill)),
        typed(f"{release} --yes", kept(free)),
        typed(f"{release} --yes", {**kept(), "k2ktui.drill.operations._release_run_record": True}),
        typed(f"{release} --yes --json",
              {**kept(), "k2ktui.drill.operations._release_run_record": True}),
        typed("drill release -f orders.yaml 1 --yes", kept(drill)),
        typed("drill release -f orders.yaml --topics clicks", moved, keys="orders\n"),
        typed("drill release -f orders.yaml --topics clicks", moved, keys="no\n"),
        typed("drill release -f orders.yaml --topics clicks --yes --json", moved),
        typed("drill release -f orders.yaml --topics payments --yes", moved),
        typed("drill release -f orders.yaml --topics clicks --yes", kept()),
        *protected(folder, f"drill release {drill.id} --yes", kept(drill)),
        typed("drill release -f orders.yaml"),
        typed(f"{release} --topics clicks"),
        Typed(("drill", "release", "-f", "orders.yaml", "--topics", "")),
    ]  # fmt: skip


CASES: Mapping[str, Cases] = {
    "drill abort": drill_abort,
    "drill check": drill_check,
    "drill disaster": drill_disaster,
    "drill failback": drill_failback,
    "drill list": drill_list,
    "drill planned": drill_planned,
    "drill rehearse": drill_rehearse,
    "drill release": drill_release,
    "drill report": drill_report,
    "drill resume": drill_resume,
    "drill show": drill_show,
}
