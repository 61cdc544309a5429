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
from k2ktui.engine.moves.journal import JournalHeader
from k2ktui.engine.moves.plan import Action, Plan, PlanRow, Rewind, dump_plan
from k2ktui.engine.records.hold import Hold, Holds
from k2ktui.engine.records.mapping_version import MappingVersion
from k2ktui.engine.records.state import Position, SourcePartition
from k2ktui.errors import ConfigError, ConnectionFailed, TimedOut
from k2ktui.fleet.model import make_row
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
from tests.support.commands.transcript import Typed, typed
from tests.support.console.views import NOON, SOURCE_ID, TARGET_ID, compared, usual
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
        ("fence", "file", "holds")
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


CASES: Mapping[str, Cases] = {
    "apply": apply,
    "check": check,
    "compare": compare,
    "config reverse": config_reverse,
    "config show": config_show,
    "config validate": config_validate,
    "drill list": drill_list,
    "drill show": drill_show,
    "explain": explain,
    "fleet": fleet,
    "groups": groups,
    "groups reset": groups_reset,
    "hold": hold,
    "journal": journal,
    "plan": plan,
    "status": status,
    "translate": translate,
    "undo": undo,
    "verify": verify,
}
