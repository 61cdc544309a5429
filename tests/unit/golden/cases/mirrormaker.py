"""Cases of the transcript: MirrorMaker 2."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from k2ktui.engine.moves.audit import Audit
from tests.support.commands.transcript import Typed, typed
from tests.support.console.views import (
    NOON,
    beside_mirrormaker,
)
from tests.unit.golden.cases.common import Cases


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


MM2 = """clusters = A, B
A.bootstrap.servers = a:9092
B.bootstrap.servers = b:9092
A->B.enabled = true
A->B.topics = orders.*
A->B.sync.group.offsets.enabled = true
replication.policy.class = org.apache.kafka.connect.mirror.IdentityReplicationPolicy
"""


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


CASES: Mapping[str, Cases] = {
    "mm2 audit": mm2_audit,
    "mm2 import": mm2_import,
}
