"""Views of a flow: coverage counts single offsets, and MirrorMaker 2's notes are shown."""

from __future__ import annotations

from k2ktui.engine.state import Position, SourcePartition
from k2ktui.watch.assemble import Assembler
from k2ktui.watch.mm2_readers import PATH
from k2ktui.watch.model import ClusterView, Part, PartName, PipelinePair
from k2ktui.watch.readers import GroupFacts, MappedSummary, SourceFacts, TargetFacts

AT = SourcePartition("t", 0)


def test_coverage_is_of_single_offsets() -> None:
    """Twenty cuts in a log of a thousand offsets are two in a hundred, and no span is exact."""
    source = SourceFacts(1.0, ClusterView(), {AT: 0}, {AT: 1000}, {"t": "id"}, (AT,))
    position = Position(900, 0, -1, "", 0, -1, "A.t", 0)
    target = TargetFacts(1.0, ClusterView(), {AT: position}, {("A.t", 0): 900}, notes=("beat",))
    groups = GroupFacts(1.0, mapped={AT: MappedSummary(10, 0, exact=20)})
    known = {PartName.SOURCE: source, PartName.TARGET: target, PartName.GROUPS: groups}
    view = Assembler(PipelinePair("A->B"), PATH).view(
        1.0, known, {name: Part(1.0) for name in known}
    )
    (row,) = view.partitions
    assert (row.status.coverage, row.status.lag_records, row.spans) == (0.02, 100, ())
    assert row.status.path == PATH and "beat" in view.notes
