"""Cases of the transcript: commands with made answers of clusters, in place of those who read."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from k2ktui.engine.compare.outcomes import Outcome, PartResult
from k2ktui.engine.compare.report import ComparisonReport
from k2ktui.engine.drill.pair_state import PairPhase, PairState
from k2ktui.engine.mapping.translate import Basis, Translation
from k2ktui.engine.moves.apply import OffsetWrite, WriteOutcome, WriteResult
from k2ktui.engine.moves.audit import Audit
from k2ktui.engine.moves.journal import JournalHeader
from k2ktui.engine.moves.plan import Action, Plan, PlanRow, Rewind, dump_plan
from k2ktui.engine.parity import plan as parity_plans
from k2ktui.engine.records.hold import Hold, Holds
from k2ktui.engine.records.mapping_version import MappingVersion
from k2ktui.engine.records.state import Position, SourcePartition
from k2ktui.errors import ConfigError, ConnectionFailed, TimedOut
from k2ktui.fleet.model import make_row
from k2ktui.jobs.job_directory import JobDirectory, JobRecord, Phase
from k2ktui.jobs.local_jobs import Job, JobState
from k2ktui.replication.copying.slot_task import CopyPath
from k2ktui.replication.preflight.checks import Check, CheckOutcome, passed_check
from k2ktui.replication.preflight.explain import Explanation
from k2ktui.sync.holds import HoldChange
from k2ktui.sync.moves.apply import Applied
from k2ktui.sync.operations import JournalEntry
from k2ktui.watch.model import PipelinePair
from k2ktui.watch.once import Reading
from tests.console.test_acting_pictures import READ
from tests.console.test_acting_pictures import REPORT as VERIFIED
from tests.console.test_comparison import REPORT as COMPARED
from tests.console.test_journal import FIRST, PARTLY, UNDO, found
from tests.console.test_parity import PLAN as PARITY
from tests.console.test_parity import apply as applied_parity
from tests.console.test_records import LISTING
from tests.support.commands.transcript import Typed, typed
from tests.support.console.views import (
    NOON,
    SOURCE_ID,
    TARGET_ID,
    beside_mirrormaker,
    compared,
    usual,
)
from tests.support.drill.made_drills import fencing, opened, rehearsed, stopped, switched_over

AT = SourcePartition("payments", 0)
REPLICATING = PairState(PairPhase.REPLICATING)
PAIR = {"k2ktui.sync.drill.pair.read_pair_state": REPLICATING}
NO_SOURCE = ConnectionFailed(
    "the source cluster (src:9092) does not answer: connection refused",
    unchanged="Nothing was read or changed.",
    hint="Check that it is up and that bootstrap.servers is right.",
)
NO_TARGET = TimedOut(
    "the target cluster (dst:9092) did not answer within 30 s",
    unchanged="Nothing was read or changed.",
    hint="Check that it is up.",
)

Cases = Callable[[Path], list[Typed]]


def status(_: Path) -> list[Typed]:
    """All figures; held and compared; the source down; the target down."""
    plain, full = usual(), usual()
    full.holds = Holds([Hold("clicks", 2, "ann@bastion", int(NOON * 1000), "a new schema")])
    full.comparison = compared(full, {AT: (7, 0)})
    read = "k2ktui.watch.once.read_once"
    down = Reading(usual().view(), source_error=NO_SOURCE)
    return [
        typed("status -f orders.yaml", {read: Reading(plain.view())}),
        typed("status -f orders.yaml --groups", {read: Reading(full.view())}),
        typed("status -f orders.yaml --groups --json", {read: Reading(full.view())}),
        typed("status -f orders.yaml", {read: down}),
        typed("status -f orders.yaml --json", {read: down}),
        typed("status -f orders.yaml", {read: NO_TARGET}),
        typed("status -f missing.yaml"),
        typed("status"),
    ]


def a_plan(folder: Path) -> Plan:
    """One row of each action, written to plan.json as well."""
    version = MappingVersion(2, 50)
    where = ("payments", 0, "payments-0@39995", "Empty")
    rows = (
        PlanRow("archive", *where, "", None, None, Basis.UNMAPPED, None, None, Action.BLOCKED,
                "no mapping reaches so far back", version),
        PlanRow("billing", *where, "Empty", 39_000, 40_002, Basis.EXACT, 0, 0, Action.ADVANCE, "",
                version),
        PlanRow("fulfilment", *where, "Empty", 40_002, 40_002, Basis.EXACT, 0, 0, Action.KEEP, "",
                version),
        PlanRow("reports", *where, "", None, 40_002, Basis.EXACT, 0, 0, Action.CREATE, "", version),
    )  # fmt: skip
    plan = Plan(
        "orders", SOURCE_ID, TARGET_ID, NOON - 60, NOON + 540, "ann@bastion1", Rewind.NEVER, rows,
        files=("orders.yaml",),
    )  # fmt: skip
    (folder / "plan.json").write_text(dump_plan(plan))
    return plan


def plan(folder: Path) -> list[Typed]:
    """As a table, JSON, CSV, and into a file; nothing to do; no target."""
    create = "k2ktui.sync.operations.create_plan"
    made = a_plan(folder)
    blocked = replace(made, rows=made.rows[:1])
    return [
        typed("plan -f orders.yaml", {create: made, **PAIR}),
        typed("plan -f orders.yaml --json", {create: made, **PAIR}),
        typed("plan -f orders.yaml --csv", {create: made, **PAIR}),
        typed("plan -f orders.yaml -o new.json", {create: made, **PAIR}),
        typed("plan -f orders.yaml", {create: blocked, **PAIR}),
        typed("plan -f orders.yaml", {create: NO_TARGET, **PAIR}),
        typed("plan -f orders.yaml --json --csv"),
        typed("plan -f orders.yaml --group ("),
    ]


def results(_: Path) -> Applied:
    """Writes of which one was refused, and one is not as it was committed."""
    writes = [OffsetWrite(group, "payments", n, None, "", 5, "") for n, group in enumerate("abc")]
    return Applied(
        "1795262400-1",
        (
            WriteResult(writes[0], WriteOutcome.APPLIED),
            WriteResult(writes[1], WriteOutcome.REFUSED, "a member joined"),
            WriteResult(writes[2], WriteOutcome.APPLIED),
        ),
    )


def apply(folder: Path) -> list[Typed]:
    """Confirmed, refused by the wrong name, partly applied, expired, damaged."""
    made = a_plan(folder)
    late = replace(made, expires_at=NOON - 30)
    (folder / "late.json").write_text(dump_plan(late))
    (folder / "damaged.json").write_text(dump_plan(made).replace("39000", "39001"))
    write = "k2ktui.sync.operations.apply_plan"
    return [
        typed("apply -f orders.yaml plan.json", {write: results(folder)}, keys="orders\n"),
        typed("apply -f orders.yaml plan.json", {write: results(folder)}, keys="order\n"),
        typed("apply -f orders.yaml plan.json --yes --json", {write: results(folder)}),
        typed("apply -f orders.yaml plan.json --yes", {write: NO_TARGET}),
        typed("apply -f orders.yaml late.json --yes"),
        typed("apply -f orders.yaml damaged.json --yes"),
        typed("apply -f orders.yaml missing.json --yes"),
    ]


ENTRY = "20261121-120003-aaaa"


def an_entry(header: JournalHeader = PARTLY) -> JournalEntry:
    """An applied plan of which one row was refused."""
    return replace(found(None, PARTLY.id), header=header)


def journal(_: Path) -> list[Typed]:
    """All entries, one entry, one that there is not, and an empty journal."""
    read, one = "k2ktui.sync.operations.read_journal", "k2ktui.sync.operations.read_entry"
    none = ConfigError(
        "no entry 1 exists in the journal of orders",
        unchanged="Nothing was changed.",
        hint="List the ids with k2ktui journal -f FILE.",
    )
    return [
        typed("journal -f orders.yaml", {read: [UNDO, PARTLY, FIRST]}),
        typed("journal -f orders.yaml --json", {read: [UNDO, PARTLY, FIRST]}),
        typed("journal -f orders.yaml", {read: []}),
        typed(f"journal -f orders.yaml {ENTRY}", {one: an_entry()}),
        typed(f"journal -f orders.yaml {ENTRY} --json", {one: an_entry()}),
        typed("journal -f orders.yaml 1", {one: none}),
        typed("journal"),
    ]


def undo(_: Path) -> list[Typed]:
    """Undone, not confirmed, undone before, and entries that other commands undo."""
    read, write = "k2ktui.sync.operations.read_entry", "k2ktui.sync.operations.undo_entry"
    done = {read: an_entry(), write: results(_)}
    before = {read: replace(an_entry(), taken_back_by=UNDO.id), write: results(_)}
    others = ["drill planned", "parity", "hold", "offsets set"]
    return [
        typed(f"undo -f orders.yaml {ENTRY}", done, keys="orders\n"),
        typed(f"undo -f orders.yaml {ENTRY}", done, keys="no\n"),
        typed(f"undo -f orders.yaml {ENTRY} --yes --json", done),
        typed(f"undo -f orders.yaml {ENTRY} --yes", before),
        *(
            typed(
                f"undo -f orders.yaml {ENTRY} --yes",
                {read: an_entry(replace(PARTLY, operation=operation))},
            )
            for operation in others
        ),
        typed(f"undo {ENTRY}"),
    ]


def verify(_: Path) -> list[Typed]:
    """Differences, and nothing to compare."""
    read = "k2ktui.sync.operations.verify_content"
    nothing = replace(VERIFIED, verification=type(VERIFIED.verification)(()), unasked=())
    return [
        typed("verify -f orders.yaml", {read: VERIFIED, **PAIR}),
        typed("verify -f orders.yaml --json", {read: VERIFIED, **PAIR}),
        typed("verify -f orders.yaml", {read: nothing, **PAIR}),
        typed("verify -f orders.yaml", {read: NO_SOURCE, **PAIR}),
        typed("verify -f orders.yaml --plan plan.json --translated"),
    ]


def groups(_: Path) -> list[Typed]:
    """Groups of a pipeline; none; no cluster."""
    read = "k2ktui.sync.moves.snapshot.take_snapshot"
    none = replace(READ, source={}, target={})
    return [
        typed("groups -f orders.yaml", {read: READ, **PAIR}),
        typed("groups -f orders.yaml --json", {read: READ, **PAIR}),
        typed("groups -f orders.yaml", {read: none, **PAIR}),
        typed("groups -f orders.yaml", {read: NO_TARGET, **PAIR}),
        typed("groups"),
    ]


def groups_reset(folder: Path) -> list[Typed]:
    """Shown, applied, nothing to change; contradictions."""
    made, write = a_plan(folder), "k2ktui.sync.operations.apply_plan"
    plan_reset = "k2ktui.sync.moves.reset.plan_group_reset"
    answers = {plan_reset: (replace(made, files=("orders.yaml",)), ()), write: results(folder)}
    none = {plan_reset: (replace(made, rows=()), ("the group has no commits",))}
    return [
        typed("groups reset billing -f orders.yaml --to earliest --dry-run", answers),
        typed("groups reset billing -f orders.yaml --to earliest --dry-run --json", answers),
        typed("groups reset billing -f orders.yaml --to +5", answers, keys="orders\n"),
        typed("groups reset billing -f orders.yaml --to 7 --yes --json", answers),
        typed("groups reset billing -f orders.yaml --to latest --yes", none),
        typed("groups reset billing -f orders.yaml --to yesterday"),
        typed("groups reset billing -f orders.yaml"),
    ]


def hold(_: Path) -> list[Typed]:
    """Listed, planned, refused by the name."""
    one = Hold("clicks", 2, "ann@bastion", int(NOON * 1000), "a new schema")
    position = Position(5, 0, 0, "", 1, 0, "clicks", 2)
    change = HoldChange(
        "hold", (one,), why="a new schema", positions=((SourcePartition("clicks", 2), position),),
        notes=("clicks-2 is 1,200 records behind",),
    )  # fmt: skip
    read, made = "k2ktui.sync.holds.read_holds", "k2ktui.sync.holds.plan_hold"
    return [
        typed("hold -f orders.yaml", {read: Holds([one])}),
        typed("hold -f orders.yaml --json", {read: Holds([one])}),
        typed("hold -f orders.yaml", {read: Holds()}),
        typed("hold -f orders.yaml clicks:2 --dry-run", {made: change}),
        typed("hold -f orders.yaml clicks:2", {made: change}, keys="no\n"),
        typed("hold -f orders.yaml clicks:x"),
    ]


def explain(_: Path) -> list[Typed]:
    """Copied in each way, left out, moved; no topic."""
    rows = [
        Explanation("clicks", "clicks", CopyPath.VERBATIM, "nothing changes the records"),
        Explanation("orders", "orders", CopyPath.RECORD, "headers are removed: x"),
        Explanation("__connect", "", None, "it belongs to Kafka Connect", left_out=True),
        Explanation("moved", "moved", None, "it has moved", moved_by="20261121-1158-d1d1"),
    ]
    read = "k2ktui.cli.explain.explain_pipeline"
    return [
        typed("explain -f orders.yaml", {read: rows}),
        typed("explain -f orders.yaml --json", {read: rows}),
        typed("explain -f orders.yaml", {read: []}),
        typed("explain -f orders.yaml", {read: NO_SOURCE}),
    ]


def check(_: Path) -> list[Typed]:
    """Each outcome, and a cluster that does not answer."""
    passed = passed_check("source cluster", "src:9092 is up")
    rows = [
        passed,
        Check("rights", CheckOutcome.FAIL, "no Read on topic clicks", "Grant Read on clicks."),
        Check("topics", CheckOutcome.WARN, "clicks has no records", "Nothing to do."),
        Check("Java", CheckOutcome.UNKNOWN, "JAVA_HOME cannot be read"),
    ]
    down = Check("source cluster", CheckOutcome.FAIL, "it does not answer", "Start it.",
                 unreachable=True)  # fmt: skip
    run, beside = "k2ktui.cli.check.run_checks", {
        f"k2ktui.cli.check.check_{name}": passed_check(name, "none") for name in
        ("fence", "file", "holds", "mappings")
    }  # fmt: skip
    return [
        typed("check -f orders.yaml", {run: rows, **beside}),
        typed("check -f orders.yaml --json", {run: rows, **beside}),
        typed("check -f orders.yaml", {run: [passed], **beside}),
        typed("check -f orders.yaml", {run: [down], **beside}),
    ]


def compare(_: Path) -> list[Typed]:
    """Differences, equal, and files that cannot be written."""

    @contextmanager
    def run(report: ComparisonReport) -> Iterator[tuple[ComparisonReport, Any]]:
        yield report, SimpleNamespace(forget=lambda: None)

    name, keep = "k2ktui.compare.run.compare_pipeline", {"k2ktui.compare.run.keep_result": None}

    def answers(report: ComparisonReport) -> dict[str, Any]:
        def called(*_: object, **__: object) -> Any:
            return run(report)

        return {name: called, **keep}

    equal = replace(
        COMPARED, left_out={}, results={AT: PartResult(AT, 0, 9, {Outcome.EQUAL: 9}, 9, 9)}
    )
    return [
        typed("compare -f orders.yaml", answers(COMPARED)),
        typed("compare -f orders.yaml --json", answers(COMPARED)),
        typed("compare -f orders.yaml", answers(equal)),
        typed("compare -f orders.yaml -o missing/report.md"),
        typed("compare -f orders.yaml --since yesterday"),
    ]


def translate(_: Path) -> list[Typed]:
    """Exact, bounded, and not copied."""
    rows = [
        Translation(("clicks", 0), (SourcePartition("clicks", 0),), 12, Basis.EXACT),
        Translation(("clicks", 1), (SourcePartition("clicks", 1),), 7, Basis.BOUNDED, 3, 0, "old"),
        Translation(("clicks", 2), (SourcePartition("clicks", 2),), None, Basis.UNMAPPED, None,
                    None, "no mapping reaches so far back"),
    ]  # fmt: skip
    read = "k2ktui.cli.translate.translate_all"
    asked = "clicks:0:5 clicks:1:5 clicks:2:5"
    return [
        typed(f"translate -f orders.yaml {asked}", {read: [rows]}),
        typed(f"translate -f orders.yaml {asked} --json", {read: [rows]}),
        typed("translate -f orders.yaml clicks:0:5", {read: [rows[:1]]}),
        typed("translate -f orders.yaml clicks:0", {read: [rows]}),
        typed("translate -f orders.yaml"),
    ]


def config_validate(folder: Path) -> list[Typed]:
    """Valid; an unknown key; a wrong value; no YAML."""
    text = (folder / "orders.yaml").read_text()
    (folder / "key.yaml").write_text(text + "onSourceDataLos: fail\n")
    (folder / "value.yaml").write_text(text + "onSourceDataLoss: perhaps\n")
    (folder / "broken.yaml").write_text("name: [orders\n")
    return [
        typed("config validate -f orders.yaml"),
        typed("config validate -f orders.yaml --json"),
        *(typed(f"config validate -f {name}.yaml") for name in ("key", "value", "broken")),
    ]


def config_show(_: Path) -> list[Typed]:
    """The merged file, as YAML and JSON, and where values come from."""
    return [
        typed("config show -f orders.yaml"),
        typed("config show -f orders.yaml --json"),
        typed("config show -f orders.yaml --sources"),
    ]


def config_reverse(_: Path) -> list[Typed]:
    """The opposite pipeline's file."""
    return [typed("config reverse -f orders.yaml"), typed("config reverse -f orders.yaml --json")]


def fleet(folder: Path) -> list[Typed]:
    """Two pipelines; no directory; an empty one."""
    (folder / "empty").mkdir(exist_ok=True)
    behind = usual(PipelinePair("behind"))
    behind.running = False
    rows = [
        make_row(Path("orders.yaml"), usual().view(), None),
        make_row(Path("behind.yaml"), behind.view(), None),
    ]
    read = "k2ktui.fleet.feed.read_fleet"
    return [
        typed("fleet -d .", {read: rows}),
        typed("fleet -d . --json", {read: rows}),
        typed("fleet -d empty"),
        typed("fleet -d missing"),
    ]


def drill_list(_: Path) -> list[Typed]:
    """Drills of each status; none."""
    read = "k2ktui.drill.operations.list_all"
    drills = [fencing(), stopped(), opened(), rehearsed(), switched_over()]
    return [
        typed("drill list -f orders.yaml", {read: (drills, ())}),
        typed("drill list -f orders.yaml --json", {read: (drills, ())}),
        typed("drill list -f orders.yaml", {read: ([], ())}),
    ]


def drill_show(_: Path) -> list[Typed]:
    """A drill that waits, one that failed, one that is done."""
    read = "k2ktui.drill.operations.read_drill"
    return [
        typed(f"drill show -f orders.yaml {drill.id}{option}", {read: drill})
        for drill in (fencing(), stopped(), opened(), rehearsed())
        for option in ("", " --json")
    ]


def drill_report(_: Path) -> list[Typed]:
    """A rehearsal, a failed drill, one that is done; verified, and not."""
    read = "k2ktui.drill.operations.read_report"
    verify_it = "k2ktui.drill.operations.verify_drill"
    failed = stopped()
    return [
        *(
            typed(f"drill report -f orders.yaml {drill.id}", {read: (drill, ())})
            for drill in (rehearsed(), failed, switched_over())
        ),
        typed(f"drill report -f orders.yaml {failed.id} --json", {read: (failed, ())}),
        typed(f"drill report -f orders.yaml {failed.id} --verify", {verify_it: (failed, [])}),
        typed(
            f"drill report -f orders.yaml {failed.id} --verify",
            {verify_it: (failed, ["the report was changed after phase lag"])},
        ),
        typed(f"drill report -f orders.yaml {failed.id} --verify --html page.html"),
    ]


def records(_: Path) -> list[Typed]:
    """Records beside their copies, with and without contents."""
    read = "k2ktui.sync.records.pairs.list_records"
    at = "records -f orders.yaml payments:0@41"
    return [
        typed(at, {read: LISTING}),
        typed(f"{at} --json", {read: LISTING}),
        typed(f"{at} --show", {read: LISTING}),
        typed(f"{at} --show --json", {read: LISTING}),
        typed(f"{at} --format json"),
        typed("records -f orders.yaml payments:0"),
        typed(at, {read: NO_SOURCE}),
    ]


def parity_plan(_: Path) -> list[Typed]:
    """Differences, none, into a file."""
    read = "k2ktui.parity.operations.create_plan"
    return [
        typed("parity plan -f orders.yaml", {read: PARITY}),
        typed("parity plan -f orders.yaml --json", {read: PARITY}),
        typed("parity plan -f orders.yaml -o parity.json", {read: PARITY}),
        typed("parity plan -f orders.yaml", {read: replace(PARITY, rows=(), notes=())}),
    ]


def parity_apply(folder: Path) -> list[Typed]:
    """Applied, not confirmed, expired, damaged."""
    text = parity_plans.dump_plan(PARITY)
    (folder / "parity.json").write_text(text)
    (folder / "damaged.json").write_text(text.replace("604800000", "604800001"))
    late = replace(PARITY, expires_at=NOON - 30)
    (folder / "late.json").write_text(parity_plans.dump_plan(late))
    write = "k2ktui.parity.operations.apply_plan"
    apply_it = "parity apply -f orders.yaml"
    return [
        typed(f"{apply_it} parity.json", {write: applied_parity()}, keys="orders\n"),
        typed(f"{apply_it} parity.json", {write: applied_parity()}, keys="no\n"),
        typed(f"{apply_it} parity.json --yes --json", {write: applied_parity()}),
        typed(f"{apply_it} late.json --yes"),
        typed(f"{apply_it} damaged.json --yes"),
    ]


def jobs_list(folder: Path) -> list[Typed]:
    """A job of this host; none."""
    place = JobDirectory(folder / "jobs" / "orders-5f3a91")
    record = JobRecord(
        start="s", pipeline="orders", group="k2k", files=("orders.yaml",), cwd="/",
        telemetry=False, environment="", read_only=False, pid=4711, birth="b", host="bastion1",
        user="ops", version="0.9.0", started_at=NOON - 7_203, phase=Phase.RUNNING, term=12,
        slots=2, starts=2,
    )  # fmt: skip
    read = "k2ktui.jobs.local_jobs.list_jobs"
    kept = {"k2ktui.cli.jobs._note_state": None}
    return [
        typed("jobs list", {read: [Job(place, record, JobState.RUNNING)], **kept}),
        typed("jobs list --json", {read: [Job(place, record, JobState.DIED)], **kept}),
        typed("jobs list", {read: [], **kept}),
    ]


def mm2_audit(_: Path) -> list[Typed]:
    """Groups that would read again, without a checkpoint, and right."""
    made = beside_mirrormaker()
    shown = Audit("mirror->target", NOON, tuple(made.audited), ("the syncs are 35 s old",))
    right = replace(shown, rows=shown.rows[1:2], notes=())
    read = "k2ktui.cli.mm2.audit.audit"
    return [
        typed("mm2 audit -f orders.yaml", {read: shown}),
        typed("mm2 audit -f orders.yaml --json", {read: shown}),
        typed("mm2 audit -f orders.yaml", {read: right}),
    ]


def mm2_import(folder: Path) -> list[Typed]:
    """A file of MirrorMaker 2; several flows; one that is missing; nothing."""
    (folder / "mm2.properties").write_text(MM2)
    (folder / "two.properties").write_text(MM2 + "B->A.enabled = true\n")
    return [
        typed("mm2 import mm2.properties"),
        typed("mm2 import mm2.properties --json"),
        typed("mm2 import mm2.properties -o new.yaml"),
        typed("mm2 import two.properties"),
        typed("mm2 import two.properties#B->A"),
        typed("mm2 import mm2.properties#X->Y"),
        typed("mm2 import missing.properties"),
        typed("mm2 import"),
    ]


MM2 = """clusters = A, B
A.bootstrap.servers = a:9092
B.bootstrap.servers = b:9092
A->B.enabled = true
A->B.topics = orders.*
A->B.sync.group.offsets.enabled = true
replication.policy.class = org.apache.kafka.connect.mirror.IdentityReplicationPolicy
"""


CASES: Mapping[str, Cases] = {
    "apply": apply,
    "check": check,
    "compare": compare,
    "config reverse": config_reverse,
    "config show": config_show,
    "config validate": config_validate,
    "drill list": drill_list,
    "drill report": drill_report,
    "drill show": drill_show,
    "explain": explain,
    "fleet": fleet,
    "groups": groups,
    "groups reset": groups_reset,
    "hold": hold,
    "jobs list": jobs_list,
    "journal": journal,
    "mm2 audit": mm2_audit,
    "mm2 import": mm2_import,
    "parity apply": parity_apply,
    "parity plan": parity_plan,
    "plan": plan,
    "records": records,
    "status": status,
    "translate": translate,
    "undo": undo,
    "verify": verify,
}
