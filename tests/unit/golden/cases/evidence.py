"""Cases of the transcript: signed reports of drills."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec

from k2ktui.drill.authorship import Owners
from k2ktui.drill.evidence.directory import signature_path
from k2ktui.engine.drill.checks import CheckResult, DrillCheckOutcome
from k2ktui.engine.drill.model import Drill, DrillFigures
from tests.support.commands.transcript import Typed, typed
from tests.support.drill.made_drills import HOSTILE, fencing, rehearsed, switched_over
from tests.support.drill.signed import Signings, write_sign
from tests.unit.golden.cases.clusters import ClusterAnswers
from tests.unit.golden.cases.common import Cases
from tests.unit.golden.cases.kept_drills import TARGET, kept

KEY = "--key key1.pub"
_BAD = "the report was changed after the drill ended"


def of_kept(drill: Drill, *, doubt: str = "", target: ClusterAnswers = TARGET) -> dict[str, Any]:
    """Return the answers of a pipeline with a drill, for who signs its report later."""
    module = "k2ktui.drill.signing"
    return {
        **kept(drill, doubt=doubt),
        f"{module}.target_cluster": target,
        f"{module}.read_owners": Owners((1,)),
        f"{module}.find_doubt": doubt,
        f"{module}.verify_report": [],
    }


def signed(folder: Path) -> Signings:
    """Five reports; the one of another pipeline has a hostile name, and a failed check."""
    files = Signings(folder, 4)
    check = CheckResult("D08", "Content", DrillCheckOutcome.FAIL, "billing: 3 of 4")
    other = replace(switched_over(), pipeline=HOSTILE, id="20261121-115109-eeee", checks=(check,))
    files.sign(other)
    return files


def evidence_verify(folder: Path) -> list[Typed]:
    """All is well; a report of the topic beside it; each thing that is wrong; wrong options."""
    files = signed(folder)
    names = [str(path.relative_to(folder)) for path in files.documents]
    verify = f"evidence verify {' '.join(names)} {KEY}"
    changed, unsigned = files.documents[1], folder / "unsigned.json"
    (folder / "changed.json").write_bytes(changed.read_bytes().replace(b"ops@bastion1", b"ops@b2"))
    signature_path(folder / "changed.json").write_bytes(signature_path(changed).read_bytes())
    unsigned.write_bytes(changed.read_bytes())
    files.write_report(files.drills[1])
    files.write_report(replace(files.drills[1], figures=DrillFigures(rpo_records=9)), "other.json")
    files.write_report(fencing(), "unknown.json")
    curve = ec.generate_private_key(ec.SECP256R1()).public_key()
    (folder / "curve.pub").write_bytes(
        curve.public_bytes(
            serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
        )
    )
    first = f"evidence verify {names[1]} {KEY}"
    gap = f"evidence verify {names[1]} {names[3]} {names[4]} {names[4]} {KEY}"
    return [
        typed(verify),
        typed(f"{first} --json"),
        typed(f"{first} --report report.json"),
        typed(f"{first} --report other.json --report unknown.json --report none.json"),
        typed(gap),
        typed(f"evidence verify changed.json unsigned.json none.json evidence {KEY}"),
        typed(f"evidence verify changed.json {KEY} --json"),
        typed(f"evidence verify {names[1]} --key key2.pub"),
        typed(f"evidence verify {names[1]} --key key2.pub {KEY}"),
        typed(f"evidence verify {names[1]} --key key1.pem"),
        typed(f"evidence verify {names[1]} --key curve.pub"),
        typed(f"evidence verify {names[1]} --key orders.yaml"),
        typed(f"evidence verify {names[1]} --key none.pub"),
        typed(f"evidence verify {names[1]}"),
        typed(f"evidence verify {KEY}"),
    ]


def evidence_summary(folder: Path) -> list[Typed]:
    """A page; a part; a gap; directories and times that are none."""
    files = signed(folder)
    (folder / "empty").mkdir()
    write = f"evidence summary evidence {KEY} -o page.html"
    files.remove(files.paths[1])
    return [
        typed(write),
        typed(f"{write} --since 2026-11-21T09:00:00Z --last 1"),
        typed(f"{write} --last 1 --json"),
        typed(f"{write} --since yesterday"),
        typed(f"{write} --last 0"),
        typed("evidence summary evidence --key key2.pub -o page.html"),
        typed(f"evidence summary empty {KEY} -o page.html"),
        typed(f"evidence summary none {KEY} -o page.html"),
        typed(f"evidence summary evidence {KEY} -o none/page.html"),
        typed(f"evidence summary evidence {KEY}"),
    ]


def evidence_sign(folder: Path) -> list[Typed]:
    """Signed; a second time; what must not be signed; keys that cannot be used."""
    files = f"-f orders.yaml -f {write_sign(folder)}"
    drill = rehearsed()
    sign = f"evidence sign {files}"
    other = replace(drill, id="20261121-115851-d2d2")
    third = replace(drill, id="20261121-115852-d3d3")
    none = write_sign(folder, "none", key=str(folder / "gone.pem"))
    return [
        typed(f"{sign} {drill.id}", of_kept(drill)),
        typed(f"{sign} {drill.id}", of_kept(drill)),
        typed(f"{sign} {third.id} --json", of_kept(third)),
        typed(f"{sign} {fencing().id}", of_kept(fencing())),
        typed(f"{sign} {other.id}", of_kept(other, doubt="its record is gone")),
        typed(
            f"{sign} {other.id}", {**of_kept(other), "k2ktui.drill.signing.verify_report": [_BAD]}
        ),
        typed(f"{sign} {other.id} -f {none}", of_kept(other)),
        typed(f"{sign} 1", of_kept(drill)),
        typed(f"evidence sign -f orders.yaml {drill.id}", of_kept(drill)),
        typed("evidence sign 1"),
    ]


CASES: Mapping[str, Cases] = {
    "evidence sign": evidence_sign,
    "evidence summary": evidence_summary,
    "evidence verify": evidence_verify,
}
