"""Cases of the transcript: what reads and prints once: status, records, comparisons."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from k2ktui.cli.views import describe_unread
from k2ktui.engine.compare.outcomes import Outcome, PartResult
from k2ktui.engine.compare.report import ComparisonReport
from k2ktui.engine.mapping.translate import Basis, Translation
from k2ktui.engine.producers import Producer, Writers, Written
from k2ktui.engine.records.hold import Hold, Holds
from k2ktui.engine.records.state import SourcePartition
from k2ktui.fleet.model import make_row
from k2ktui.replication.copying.slot_task import CopyPath
from k2ktui.replication.preflight.checks import Check, CheckOutcome
from k2ktui.replication.preflight.explain import Explanation
from k2ktui.watch.model import PartName, PipelinePair
from k2ktui.watch.once import Reading
from k2ktui.watch.recording import Recorder
from tests.console.test_acting_pictures import REPORT as VERIFIED
from tests.console.test_comparison import REPORT as COMPARED
from tests.console.test_records import LISTING
from tests.support.commands.transcript import Is, Typed, typed
from tests.support.console.views import (
    NOON,
    Made,
    StubFeed,
    compared,
    usual,
)
from tests.unit.golden.cases.common import AT, NO_SOURCE, NO_TARGET, PAIR, Cases


def status(_: Path) -> list[Typed]:
    """All figures; held and compared; the source down; the target down."""
    plain, full = usual(), usual()
    full.holds = Holds([Hold("clicks", 2, "ann@bastion", int(NOON * 1000), "a new schema")])
    full.comparison = compared(full, {AT: (7, 0)})
    read = "k2ktui.watch.once.read_once"
    down = Reading(usual().view(), source_error=NO_SOURCE)
    writers = Writers()
    writers.add((), 0.0)
    known = Producer(4711, 2, is_transactional=True, transactional_id="orders-app")
    written = [Written(("clicks", 0), known, 50, 41), Written(("clicks", 1), Producer(-1), 7, 9)]
    writers.add(written, 5.0)
    watched = {"k2ktui.cli.views.watch_writers": (writers.list(), "")}
    in_part = {"k2ktui.cli.views.watch_writers": (writers.list(), describe_unread(450))}
    return [
        typed("status -f orders.yaml", {read: Reading(plain.view())}),
        typed("status -f orders.yaml --groups", {read: Reading(full.view())}),
        typed("status -f orders.yaml --groups --json", {read: Reading(full.view())}),
        typed("status -f orders.yaml --producers", {read: Reading(plain.view()), **watched}),
        typed("status -f orders.yaml --producers --json", {read: Reading(plain.view()), **watched}),
        typed("status -f orders.yaml --producers", {read: Reading(plain.view()), **in_part}),
        typed("status -f orders.yaml --producers --json", {read: Reading(plain.view()), **in_part}),
        typed("status -f orders.yaml", {read: down}),
        typed("status -f orders.yaml --json", {read: down}),
        typed("status -f orders.yaml", {read: NO_TARGET}),
        typed("status -f missing.yaml"),
        typed("status"),
    ]


def explain(_: Path) -> list[Typed]:
    """Copied in each way, left out, moved; no topic."""
    rows = [
        Explanation("clicks", "clicks", CopyPath.VERBATIM, "nothing changes the records"),
        Explanation("orders", "orders", CopyPath.RECORD, "headers are removed: x"),
        Explanation("__connect", "", None, "it belongs to Kafka Connect", left_out=True),
        Explanation("moved", "moved", None, "it has moved", moved_by="20261121-1158-d1d1"),
    ]
    read = "k2ktui.replication.preflight.explain.explain_pipeline"
    return [
        typed("explain -f orders.yaml", {read: rows}),
        typed("explain -f orders.yaml --json", {read: rows}),
        typed("explain -f orders.yaml", {read: []}),
        typed("explain -f orders.yaml", {read: NO_SOURCE}),
    ]


def check(_: Path) -> list[Typed]:
    """Each outcome, and a cluster that does not answer."""
    passed = Check.passes("source cluster", "src:9092 is up")
    rows = [
        passed,
        Check("rights", CheckOutcome.FAIL, "no Read on topic clicks", "Grant Read on clicks."),
        Check("topics", CheckOutcome.WARN, "clicks has no records", "Nothing to do."),
        Check("Java", CheckOutcome.UNKNOWN, "JAVA_HOME cannot be read"),
    ]
    down = Check("source cluster", CheckOutcome.FAIL, "it does not answer", "Start it.",
                 unreachable=True)  # fmt: skip
    run, beside = "k2ktui.replication.preflight.suite.run_checks", {
        f"k2ktui.sync.{place}.check_{name}": Check.passes(name, "none") for place, name in
        (("drill.guard", "fence"), ("other_files", "file"), ("holds", "holds"),
         ("mapping.keeper", "mappings"))
    }  # fmt: skip
    beside["k2ktui.jobs.checks.check_releases"] = Check.passes("releases", "one release")
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


def translate(folder: Path) -> list[Typed]:
    """Exact, bounded, and not copied; a checkpoint of Spark."""
    (folder / "3").write_text('v1\n{}\n{"clicks":{"0":5}}\n')
    checkpoint = "translate -f orders.yaml --from-spark-checkpoint 3"
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
        typed(checkpoint, {read: [rows[:1]]}),
        typed(f"{checkpoint} --json", {read: [rows[:1]]}),
        typed(checkpoint, {read: [[]]}),
        typed("translate -f orders.yaml"),
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


def verify(_: Path) -> list[Typed]:
    """Differences, a sample of a part of the mapping, and nothing to compare."""
    read = "k2ktui.sync.operations.verify_content"
    nothing = replace(VERIFIED, verification=type(VERIFIED.verification)(()), unasked=())
    part = replace(
        nothing, verification=replace(nothing.verification, sampled_from=20_000, mapped=1_500_000)
    )
    return [
        typed("verify -f orders.yaml", {read: VERIFIED, **PAIR}),
        typed("verify -f orders.yaml --json", {read: VERIFIED, **PAIR}),
        typed("verify -f orders.yaml", {read: nothing, **PAIR}),
        typed("verify -f orders.yaml", {read: part, **PAIR}),
        typed("verify -f orders.yaml --sample 0", {read: part, **PAIR}),
        typed("verify -f orders.yaml", {read: NO_SOURCE, **PAIR}),
        typed("verify -f orders.yaml --plan plan.json --translated"),
    ]


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


def watch(folder: Path) -> list[Typed]:
    """Once, of a pipeline, a directory and a recording; recorded; contradictions."""
    open_it = "k2ktui.watch.poller.open_poller"
    good, bad, down = Made(), usual(), usual()
    good.group("fulfilment", good.partition("payments", 0, end=40_000))
    bad.running = False
    down.unread = {PartName.SOURCE}
    down.errors = {PartName.SOURCE: "the source cluster does not answer"}
    recorder = Recorder(folder / "made.k2k")
    recorder.add(good.view())
    recorder.add(bad.view())
    recorder.close()
    once = "watch --once -f orders.yaml"
    directory = folder / "pipelines"
    directory.mkdir(exist_ok=True)
    (directory / "orders.yaml").write_text((folder / "orders.yaml").read_text())
    fleet_read = {"k2ktui.fleet.feed.read_fleet": [make_row(Path("orders.yaml"), usual().view(),
                  None)]}  # fmt: skip
    return [
        typed(once, {open_it: StubFeed(good)}),
        typed(f"{once} --json", {open_it: StubFeed(good)}),
        typed(once, {open_it: StubFeed(bad)}),
        typed(once, {open_it: StubFeed(down), "k2ktui.cli.views._ONCE_S": Is(0.0)}),
        typed(f"{once} --record new.k2k", {open_it: StubFeed(good)}),
        typed(f"{once} --record made.k2k", {open_it: StubFeed(good)}),
        typed("watch --replay made.k2k"),
        typed("watch --replay made.k2k --once"),
        typed("watch --replay missing.k2k"),
        typed("watch --once -d pipelines", fleet_read),
        typed("watch --once -d pipelines --json", fleet_read),
        typed("watch --once -d missing"),
        typed("watch", {"k2ktui.cli.terminal.files.own_directory": folder / "none"}),
        typed("watch -f orders.yaml -d pipelines"),
        typed(f"{once} --plain --json"),
        typed(f"{once} --metrics"),
        typed(f"{once} --mirrormaker orders.yaml"),
        typed(f"{once} --interval 1"),
        typed("watch -d pipelines --once --metrics"),
        typed("watch -d pipelines --record new.k2k"),
        typed("watch --replay made.k2k --mirrormaker mm2.properties"),
    ]


CASES: Mapping[str, Cases] = {
    "watch": watch,
    "status": status,
    "explain": explain,
    "check": check,
    "compare": compare,
    "translate": translate,
    "records": records,
    "verify": verify,
    "fleet": fleet,
}
