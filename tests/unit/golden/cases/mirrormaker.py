"""Cases of the transcript: MirrorMaker 2, and other commands on its files."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from k2ktui.engine.mapping.replica import TargetLog
from k2ktui.engine.moves.audit import Audit
from k2ktui.engine.moves.groups import CommittedOffset, GroupView
from k2ktui.engine.moves.lags import NO_LOGS
from k2ktui.engine.moves.positions import SourceLog
from k2ktui.engine.records.run_record import Run
from k2ktui.engine.records.state import MappingRange, SourcePartition
from k2ktui.errors import ConnectionFailed, Refused
from k2ktui.mm2.checkpoints.plan import ClusterObservation, ComparedRecords, NextRecordRelation
from k2ktui.mm2.flows.formats import Checkpoint, GroupPartition
from k2ktui.mm2.offsets.positions import Connector
from k2ktui.mm2.offsets.positions_backup import AppliedChange
from k2ktui.mm2.publish import Published
from k2ktui.mm2.takeover.plan import TakeoverPlan, TakeoverRow
from k2ktui.replication.ownership.commit_state import CommitState
from k2ktui.sync.positions.position_writer import PositionWriteResult
from k2ktui.sync.store import PipelineState
from k2ktui.watch.once import Reading
from tests.console.test_acting_pictures import READ
from tests.support.commands.transcript import Typed, typed
from tests.support.console.views import (
    NOON,
    SOURCE_ID,
    TARGET_ID,
    TOPIC_ID,
    beside_mirrormaker,
    runner,
)
from tests.unit.golden.cases.clusters import ClusterAnswers
from tests.unit.golden.cases.common import NO_SOURCE, NO_TARGET, PAIR, Cases, protected
from tests.unit.golden.cases.groups import results
from tests.unit.golden.cases.kept_drills import kept
from tests.unit.golden.cases.positions import POSITIONS as OFFSETS
from tests.unit.golden.cases.positions import TARGET
from tests.unit.mm2.test_resource_files import MIRROR_MAKER

MM2 = """clusters = A, B
A.bootstrap.servers = a:9092
B.bootstrap.servers = b:9092
A->B.enabled = true
A->B.topics = orders.*
A->B.sync.group.offsets.enabled = true
replication.policy.class = org.apache.kafka.connect.mirror.IdentityReplicationPolicy
"""
O0, O1 = SourcePartition("orders", 0), SourcePartition("orders", 1)


def files(folder: Path) -> None:
    """Write the files of MirrorMaker 2: dedicated, with two flows, and of Strimzi."""
    (folder / "mm2.properties").write_text(MM2)
    (folder / "two.properties").write_text(MM2 + "B->A.enabled = true\n")
    (folder / "mm2.yaml").write_text(MIRROR_MAKER)


def mm2_audit(folder: Path) -> list[Typed]:
    """Groups that would read again, without a checkpoint, and right; of its own file."""
    files(folder)
    made = beside_mirrormaker()
    shown = Audit("mirror->target", NOON, tuple(made.audited), ("the syncs are 35 s old",))
    right = replace(shown, rows=shown.rows[1:2], notes=())
    read = "k2ktui.mm2.audit.audit"
    return [
        typed("mm2 audit -f mm2.properties --json", {read: shown}),
        typed("mm2 audit -f mm2.properties", {read: right}),
        typed("mm2 audit -f mm2.properties", {read: replace(shown, rows=())}),
        typed("mm2 audit -f mm2.properties --html page.html", {read: shown}),
        typed("mm2 audit -f mm2.properties --html page.html", {read: NO_SOURCE}),
        typed("mm2 audit -f mm2.properties --html missing/page.html", {read: right}),
        typed("mm2 audit -f two.properties#A->B", {read: shown}),
        typed("mm2 audit -f two.properties#X->Y", {read: shown}),
        typed("mm2 audit -f orders.yaml"),
        typed("mm2 audit -f mm2.properties", {read: NO_SOURCE}),
        typed("mm2 audit -f orders.yaml -f mm2.properties", {read: shown}),
        typed("mm2 audit"),
    ]


def mm2_import(folder: Path) -> list[Typed]:
    """A file of MirrorMaker 2; several flows; one that is missing; nothing."""
    files(folder)
    return [
        typed("mm2 import mm2.properties"),
        typed("mm2 import mm2.properties --json"),
        typed("mm2 import mm2.properties -o new.yaml"),
        typed("mm2 import mm2.properties -o new.yaml"),
        typed("mm2 import mm2.properties -o missing/new.yaml"),
        typed("mm2 import mm2.yaml"),
        typed("mm2 import two.properties"),
        typed("mm2 import two.properties#B->A"),
        typed("mm2 import mm2.properties#X->Y"),
        typed("mm2 import missing.properties"),
        typed("mm2 import orders.yaml"),
        typed("mm2 import mm2.properties -f mm2.properties"),
        typed("mm2 import"),
    ]


def stored(state: str = "STOPPED", reset: str = "earliest") -> Connector:
    """A connector with a position in the middle, and one at the end."""
    return Connector("A->B", "A", state, reset, {O0: 700, O1: 50})


BOUNDS = {
    O0: SourceLog(100, 900),
    O1: SourceLog(0, 50),
    SourcePartition("orders", 2): SourceLog(0, 7),
}
POSITIONS = "k2ktui.mm2.offsets.positions_topic.TopicPositions"
REST = "k2ktui.mm2.offsets.positions_rest.RestPositions"


def dedicated(connector: Connector | Exception | None = None, **given: Any) -> dict[str, Any]:
    """Return what the target of a dedicated MirrorMaker 2 answers."""
    return {
        f"{POSITIONS}.read": connector or stored(),
        f"{POSITIONS}.bounds": given.get("bounds", BOUNDS),
        f"{POSITIONS}.apply": AppliedChange(Path("before.json"), "STOPPED"),
        "k2ktui.mm2.offsets.positions_backup.write_journal": given.get("journal", ""),
    }


def on_connect(connector: Connector | Exception | None = None) -> dict[str, Any]:
    """Return what Kafka Connect answers."""
    failed = AppliedChange(Path("before.json"), "FAILED", "org.apache.kafka: no such topic")
    return {
        f"{REST}.read": connector or replace(stored("RUNNING"), name="mirror"),
        f"{REST}.bounds": BOUNDS,
        f"{REST}.apply": failed,
    }


STRIMZI = "--strimzi kafkaconnector/mirror --namespace kafka"


def mm2_offsets_show(folder: Path) -> list[Typed]:
    """Of a dedicated MirrorMaker 2, of a connector; without the source; nothing given."""
    files(folder)
    show = "mm2 offsets show"
    by_name = f"{show} --connect http://connect:8083 --connector mirror"
    none: dict[str, Any] = {"k2ktui.mm2.flows.connect.Connect.connectors": {}}
    silent = ConnectionFailed("Kafka Connect (connect:8083) does not answer")
    return [
        typed(f"{show} -f mm2.properties", dedicated()),
        typed(f"{show} -f mm2.properties --json", dedicated()),
        typed(f"{show} -f mm2.properties", dedicated(bounds=NO_SOURCE)),
        typed(f"{show} -f mm2.properties", dedicated(stored("RUNNING", "latest"))),
        typed(f"{show} -f mm2.properties", dedicated(NO_TARGET)),
        typed(f"{show} -f two.properties", dedicated()),
        typed(by_name, on_connect()),
        typed(by_name, on_connect(silent)),
        typed(f"{show} --connect http://connect:8083", none),
        typed(f"{show} -f mm2.properties --connect http://connect:8083"),
        typed(f"{show} -f mm2.properties --connector mirror"),
        typed(f"{show} --connect ftp://connect"),
        typed(f"{show} --connect-file missing.yaml"),
        typed(show),
    ]  # fmt: skip


def mm2_offsets_set(folder: Path) -> list[Typed]:
    """Each effect; confirmed, not confirmed, refused; through Connect, and for Strimzi."""
    files(folder)
    body = {"offsets": [{"partition": {"cluster": "A", "partition": 0, "topic": "orders"},
                         "offset": {"offset": 599}}]}  # fmt: skip
    (folder / "body.json").write_text(json.dumps(body))
    (folder / "other.json").write_text(json.dumps(body).replace('"A"', '"X"'))
    (folder / "broken.json").write_text("{}")
    put, connect = "mm2 offsets set -f mm2.properties", "--connect http://connect:8083"
    by_name = f"mm2 offsets set {connect} --connector mirror"
    return [
        typed(f"{put} orders:0:600 orders:1:50 orders:2:3 --dry-run", dedicated()),
        typed(f"{put} orders:0:600 orders:2:3 --dry-run --json", dedicated()),
        typed(f"{put} orders:0:800 --dry-run", dedicated(bounds=NO_SOURCE)),
        typed(f"{put} orders:1:0 --dry-run", dedicated()),
        typed(f"{put} orders:1:0 --dry-run", dedicated(stored(reset="latest"))),
        typed(f"{put} orders:0:950 orders:9:1 --yes", dedicated()),
        typed(f"{put} orders:1:50 --yes", dedicated()),
        typed(f"{put} orders:0:600", dedicated(), keys="A->B\n"),
        typed(f"{put} orders:0:600", dedicated(), keys="no\n"),
        typed(f"{put} orders:0:600", dedicated()),
        typed(f"{put} orders:0:600 --yes --json", dedicated()),
        typed(f"{put} orders:0:600 --yes", dedicated(journal="the journal was not written")),
        typed(f"{put} --from body.json --dry-run", dedicated()),
        typed(f"{put} --from other.json --dry-run", dedicated()),
        typed(f"{put} --from broken.json --dry-run", dedicated()),
        typed(f"{put} --from missing.json --dry-run", dedicated()),
        typed(f"{by_name} orders:0:600", on_connect(), keys="mirror\n"),
        typed(f"{by_name} orders:0:600 --yes --json", on_connect()),
        typed(f"{by_name} {STRIMZI} orders:0:600", on_connect()),
        typed(f"mm2 offsets set {STRIMZI} orders:0:600"),
        typed("mm2 offsets set -f mm2.yaml orders:0:600", dedicated(Refused("it is not known"))),
        typed("mm2 offsets set --strimzi pod/x orders:0:600"),
        typed(put),
        typed(f"{put} orders:0:600 --from body.json"),
        typed(f"{put} orders:0"),
    ]  # fmt: skip


def mm2_offsets_clear(folder: Path) -> list[Typed]:
    """Some, all; confirmed, not confirmed; for Strimzi."""
    files(folder)
    clear = "mm2 offsets clear -f mm2.properties"
    return [
        typed(f"{clear} orders:0 --dry-run", dedicated()),
        typed(f"{clear} --topic orders --dry-run --json", dedicated(stored(reset="latest"))),
        typed(f"{clear} --topic orders", dedicated(), keys="A->B\n"),
        typed(f"{clear} --topic orders", dedicated(), keys="no\n"),
        typed(f"{clear} --topic nothing --yes", dedicated()),
        typed(f"{clear} orders:0 --yes --json", dedicated()),
        typed(f"mm2 offsets clear {STRIMZI} orders:0"),
        typed(f"mm2 offsets clear {STRIMZI} --topic orders"),
        typed(clear),
        typed(f"{clear} orders:0 --topic orders"),
        typed(f"{clear} --topic ("),
        typed(f"{clear} orders"),
    ]


def taken(*rows: TakeoverRow, notes: tuple[str, ...] = ()) -> TakeoverPlan:
    """A plan to take over from the flow of the file."""
    return TakeoverPlan("orders", "A->B", rows, notes)


PROVEN = TakeoverRow(
    O0, ("orders", 0), (TOPIC_ID, TOPIC_ID), 800, 690, 700, 100, (MappingRange(100, 90, 600),)
)
DOUBTFUL = TakeoverRow(
    O1, ("orders", 1), (TOPIC_ID, TOPIC_ID), 50, None, 50, 0, (), (MappingRange(0, 0, 7),), 3, 2, 1,
    "no record of the source is on the target",
)  # fmt: skip


def mm2_takeover(folder: Path) -> list[Typed]:
    """Proven, doubtful, nothing; taken over, not confirmed; the pipeline runs, or has positions."""
    files(folder)
    take = "mm2 takeover -f orders.yaml --from mm2.properties"
    name = "k2ktui.mm2.takeover"

    def answers(plan: TakeoverPlan | Exception) -> dict[str, Any]:
        return {
            f"{name}.plan.source_cluster": lambda _: ClusterAnswers(),
            f"{name}.plan.target_cluster": lambda _: ClusterAnswers(id=TARGET_ID),
            f"{name}.plan.TakeoverPlanner.plan": plan,
            f"{name}.write.require_new": None,
            f"{name}.write.take_over": PositionWriteResult(
                1, "20261121-120000-d1d1", ("15 syncs used",)
            ),
        }

    good, bad = answers(taken(PROVEN)), answers(taken(PROVEN, DOUBTFUL, notes=("a note",)))
    free = {key: value for key, value in good.items() if not key.endswith("require_new")}
    state = "k2ktui.sync.store.StateStore.read_settled"
    beat = runner("bastion2", at_ms=int(NOON * 1000) - 3_000)
    runs = {**free, state: PipelineState((beat,))}
    positions = CommitState(Run(3, 1), OFFSETS)
    used = {
        **free,
        state: PipelineState(),
        f"{name}.write.read_commit_state": positions,
        "k2ktui.kafka.clients.target_cluster": lambda _: TARGET,
    }
    return [
        typed(f"{take} --dry-run", bad),
        typed(f"{take} --dry-run --json", bad),
        typed(f"{take} --yes", bad),
        typed(f"{take} --yes --json", bad),
        typed(f"{take} --accept-unproven --yes", bad),
        typed(take, good, keys="orders\n"),
        typed(take, good, keys="no\n"),
        typed(f"{take} --yes --json", good),
        typed(f"{take} --yes", answers(taken())),
        typed(f"{take} --yes", answers(Refused(
            "MirrorMaker 2 still copies A->B: heartbeats are written",
            unchanged="Nothing was changed.",
            hint="Stop it.",
        ))),
        typed(f"{take} --yes", runs),
        typed(f"{take} --yes", used),
        *protected(folder, "mm2 takeover --from mm2.properties --yes", good),
        typed("mm2 takeover -f mm2.properties --from mm2.properties"),
        typed(f"{take} --span 10"),
        typed("mm2 takeover -f orders.yaml"),
    ]  # fmt: skip


def observed(**values: Any) -> ClusterObservation:
    """Both clusters of the flow: two groups that move, and one that has no checkpoint."""
    checkpoints = (
        Checkpoint(GroupPartition("billing", "orders", 0), 700, 690),
        Checkpoint(GroupPartition("reports", "orders", 1), 50, 60),
    )
    commits = {("orders", 0): CommittedOffset(700)}
    made = ClusterObservation(
        "A->B", SOURCE_ID, TARGET_ID, NOON, checkpoints, {"orders": "orders"},
        {
            "billing": GroupView("Empty", 0, commits),
            "reports": GroupView("Empty", 0, {("orders", 1): CommittedOffset(50)}),
        },
        {"billing": GroupView("Empty", 0, {("orders", 0): CommittedOffset(600)})},
        {("orders", 0): TargetLog(0, 800), ("orders", 1): TargetLog(0, 60)},
        {"orders": TOPIC_ID}, True, {O0: 900, O1: 50}, 5.0,
        nexts={
            GroupPartition("billing", "orders", 0): ComparedRecords(NextRecordRelation.LATER, 10),
            GroupPartition("reports", "orders", 1): ComparedRecords(NextRecordRelation.NEITHER),
        },
    )  # fmt: skip
    return replace(made, **values)


def mm2_apply_checkpoints(folder: Path) -> list[Typed]:
    """Applied, in the way of checks, accepted; not confirmed; used meanwhile; nothing."""
    files(folder)
    reader, apply_it = "k2ktui.mm2.checkpoints.reader", "mm2 apply-checkpoints -f mm2.properties"

    def answers(seen: ClusterObservation, unreadable: int = 0, **later: Any) -> dict[str, Any]:
        return {
            f"{reader}.CheckpointReader.observe": seen,
            f"{reader}.CheckpointReader.find_grown": later.get("grown", ()),
            f"{reader}.CheckpointReader.find_consuming": later.get("consuming", ()),
            f"{reader}.read_checkpoints": ((), unreadable),
            "k2ktui.sync.operations.apply_plan": results(folder),
            # The plan's id is a digest, of the names of its files, too.
            "k2ktui.cli.mm2.absolute_files": ("mm2.properties",),
        }

    good = answers(observed())
    bad = observed(
        source={
            "billing": GroupView("Stable", 2, {("orders", 0): CommittedOffset(710)}),
            "reports": GroupView("", error="not authorized"),
            "archive": GroupView("Empty", 0, {("orders", 0): CommittedOffset(1)}),
        },
        target={"billing": GroupView("Stable", 2)},
        logs={("orders", 0): TargetLog(695, 800)},
        own_topics=False,
        growing=frozenset({O0}),
        behind={O0: 12},
    )
    blocking = "--accept consumers-stopped --accept producers-stopped"
    return [
        typed(f"{apply_it} --dry-run", good),
        typed(f"{apply_it} --dry-run --json", good),
        typed(f"{apply_it} -o plan.json", good, keys="A->B\n"),
        typed(apply_it, good, keys="no\n"),
        typed(f"{apply_it} --yes --json", good),
        typed(apply_it, good),
        typed(f"{apply_it} --yes", answers(bad, 3)),
        typed(f"{apply_it} --yes --json", answers(bad)),
        typed(f"{apply_it} --yes {blocking} --accept everything-replicated "
              "--accept topics-of-their-own", answers(bad)),
        typed(f"{apply_it} --yes", answers(observed(unread={
            "producers-stopped": "the source did not answer",
            "everything-replicated": "the source did not answer"}))),
        typed(f"{apply_it} --yes", answers(observed(), grown=[O0])),
        typed(f"{apply_it} --yes", answers(observed(), consuming=["billing"])),
        typed(f"{apply_it} --yes", answers(observed(checkpoints=()))),
        typed(apply_it, {**good, f"{reader}.read_checkpoints": NO_TARGET}),
        typed(f"{apply_it} --group ("),
        typed(f"{apply_it} --accept everything"),
        typed("mm2 apply-checkpoints -f orders.yaml"),
        typed("mm2 apply-checkpoints"),
    ]  # fmt: skip


def mm2_publish(folder: Path) -> list[Typed]:
    """Once: something, nothing; no alias; another publisher; the target down."""
    files(folder)
    publish, name = "mm2 publish -f orders.yaml --once", "k2ktui.mm2.publish"
    aliases = "--source-alias A --target-alias B"
    target = ClusterAnswers({"mm2-offsets.A.internal": [(0, 1)]}, TARGET_ID)

    def answers(done: Any, cluster: ClusterAnswers | None = None) -> dict[str, Any]:
        return {
            f"{name}.target_cluster": lambda _: cluster or ClusterAnswers(id=TARGET_ID),
            f"{name}.create_topics": {},
            f"{name}.Publisher.turn": done,
            f"{name}.Publisher.close": None,
            f"{name}.Publisher._writer": None,
            f"{name}.SnapshotReader": None,
        }

    some = answers(Published(2, 1, 3))
    return [
        typed(f"{publish} {aliases}", some),
        typed(f"{publish} {aliases} --json", some),
        typed(f"{publish} {aliases}", answers(Published(0, 0, 0))),
        typed(f"{publish} {aliases}", answers(NO_SOURCE)),
        typed(f"{publish} {aliases}", answers(Published(1, 0, 0), target)),
        typed(f"{publish} {aliases} --force", answers(Published(1, 0, 0), target)),
        typed(publish, some),
        *protected(folder, f"mm2 publish --once {aliases}", some),
        typed("mm2 publish -f mm2.properties --once", some),
        typed(f"{publish} --interval 0.1"),
        typed("mm2 publish"),
    ]


def on_its_file(command: str, **answers: Any) -> Cases:
    """Return what a command says of a file of MirrorMaker 2."""

    def cases(folder: Path) -> list[Typed]:
        files(folder)
        return [typed(f"{command} -f mm2.properties", answers)]

    return cases


def drill_planned(folder: Path) -> list[Typed]:
    """What a drill does for MirrorMaker 2; topics of it."""
    files(folder)
    return [
        typed("drill planned -f mm2.properties --dry-run"),
        typed("drill planned -f mm2.properties --yes-to all", kept()),
        typed("drill planned -f mm2.properties --topics orders --yes-to all", kept()),
    ]


def drill_failback(folder: Path) -> list[Typed]:
    """There is no way back for MirrorMaker 2."""
    files(folder)
    return [typed("drill failback -f mm2.properties --yes-to all", kept())]


def groups(folder: Path) -> list[Typed]:
    """Groups of a flow of MirrorMaker 2; flows that are not named."""
    files(folder)
    read = {"k2ktui.sync.group_lags.read_groups": (READ, NO_LOGS), **PAIR}
    return [
        typed("groups -f mm2.properties", read),
        typed("groups -f mm2.properties --json", read),
        typed("groups -f two.properties", read),
    ]


def status(folder: Path) -> list[Typed]:
    """The status of a flow of MirrorMaker 2."""
    files(folder)
    view = beside_mirrormaker().view()
    read = {"k2ktui.watch.once.read_once": Reading(view)}
    return [
        typed("status -f mm2.properties", read),
        typed("status -f mm2.properties --groups --json", read),
    ]


CASES: Mapping[str, Cases] = {
    "check": on_its_file("check"),
    "compare": on_its_file("compare"),
    "drill failback": drill_failback,
    "drill planned": drill_planned,
    "explain": on_its_file("explain"),
    "groups": groups,
    "hold": on_its_file("hold"),
    "jobs start": on_its_file("jobs start"),
    "mm2 apply-checkpoints": mm2_apply_checkpoints,
    "mm2 audit": mm2_audit,
    "mm2 import": mm2_import,
    "mm2 offsets clear": mm2_offsets_clear,
    "mm2 offsets set": mm2_offsets_set,
    "mm2 offsets show": mm2_offsets_show,
    "mm2 publish": mm2_publish,
    "mm2 takeover": mm2_takeover,
    "offsets show": on_its_file("offsets show"),
    "parity plan": on_its_file("parity plan"),
    "schemas plan": on_its_file("schemas plan"),
    "start": on_its_file("start"),
    "status": status,
    "transform preview": on_its_file("transform preview --topic orders"),
}
