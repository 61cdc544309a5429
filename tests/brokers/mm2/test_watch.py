"""Views of a flow: coverage counts single offsets, and MirrorMaker 2's notes are shown."""

from __future__ import annotations

from pathlib import Path

from k2ktui.engine.records.state import Position, SourcePartition
from k2ktui.mm2.mirror_flow import PATH, load_mirror
from k2ktui.runtime.node import KafkaNode
from k2ktui.sync.mapping.source import NothingCopied
from k2ktui.watch.assemble import Assembler
from k2ktui.watch.facts import Facts, GroupFacts, MappedSummary, SourceFacts, TargetFacts
from k2ktui.watch.model import ClusterView, Part, PartName, PipelinePair
from k2ktui.watch.readers import Clusters, GroupReader

AT = SourcePartition("t", 0)


def test_coverage_is_of_single_offsets() -> None:
    """Twenty cuts in a log of a thousand offsets are two in a hundred, and no span is exact."""
    position = Position(900, 0, -1, "", 0, -1, "A.t", 0)
    logs = ClusterView(), {AT: 0}, {AT: 1000}, {"t": "id"}, (AT,)
    source = SourceFacts(1.0, *logs, positions={AT: position})
    target = TargetFacts(1.0, ClusterView(), {AT: position}, {("A.t", 0): 900}, notes=("beat",))
    groups = GroupFacts(1.0, mapped={AT: MappedSummary(10, 0, exact=20)})
    known: dict[PartName, Facts] = {
        PartName.SOURCE: source,
        PartName.TARGET: target,
        PartName.GROUPS: groups,
    }
    view = Assembler(PipelinePair("A->B"), lambda topic: PATH).view(
        1.0, known, {name: Part(1.0) for name in known}
    )
    (row,) = view.partitions
    assert (row.status.coverage, row.status.lag_records, row.spans) == (0.02, 100, ())
    assert row.status.path == PATH and "beat" in view.notes


def test_a_checkpoints_topic_that_is_not_there_is_noted(
    source: KafkaNode, target: KafkaNode, tmp_path: Path
) -> None:
    file = tmp_path / "mm2.properties"
    file.write_text(
        f"""clusters = west-{tmp_path.name}, east
west-{tmp_path.name}.bootstrap.servers = {source.bootstrap}
east.bootstrap.servers = {target.bootstrap}
west-{tmp_path.name}->east.enabled = true
"""
    )
    flow, _ = load_mirror(str(file))
    reader = GroupReader(flow, Clusters.of(flow.config))
    try:
        nothing = NothingCopied("MirrorMaker 2 has not copied anything")
        known = {PartName.TARGET: TargetFacts(1.0, ClusterView(), nothing_copied=nothing)}
        facts = reader.read(known)
    finally:
        reader.close()
    assert facts.audit is not None
    name = f"west-{tmp_path.name}.checkpoints.internal"
    expected = f"there is no topic {name}, or the principal may not describe it"
    assert expected in facts.audit.notes
