"""Consumer groups of a copied pipeline, against the mapping as the oracle reads it.

I4: a committed offset translates to the target offset of the first record that the group has not
read. I5: a later offset never translates to an earlier one. I6: what is committed on the target is
never beyond the end of its log. (The oracle has I1 to I3, and I7 is that it gets to compare.)
"""

from __future__ import annotations

from collections import defaultdict

from tests.support.clusters.kafka import end_offsets, unique_name
from tests.support.commands.cli import k2ktui, k2ktui_json
from tests.support.oracle.group_offsets import commit_offsets, committed
from tests.support.oracle.judge import Proof
from tests.support.pipelines.pipeline import Pipeline

_GROUPS = 5
Where = tuple[str, int]


def prove_groups(pipeline: Pipeline, proof: Proof) -> None:
    """Translate and move groups that stand at several offsets of every partition.

    Args:
        pipeline: its partitions keep their numbers, and nothing more is written to them.
        proof: what the oracle has found.
    """
    landed: dict[Where, dict[int, int]] = defaultdict(dict)
    for claim in proof.ledger.claims:
        topic, partition, offset = claim.source
        landed[topic, partition][offset] = claim.target[2]
    prefix = unique_name("proof")
    names = [f"{prefix}-{number}" for number in range(_GROUPS)]
    stands: dict[str, dict[Where, int]] = {}
    for number, name in enumerate(names):
        last = number == _GROUPS - 1
        stands[name] = {
            at: max(pairs) + 1 if last else max(pairs) * number // (_GROUPS - 1)
            for at, pairs in landed.items()
        }
        commit_offsets(pipeline.source, name, stands[name])
    file = pipeline.write()
    only = ("--group", f"{prefix}-.*")
    rows = k2ktui_json("groups", "-f", file)["groups"]
    row_by_partition = {(row["group"], (row["topic"], row["partition"])): row for row in rows}
    ends = {
        (topic, number): end
        for topic in {topic for topic, _ in landed}
        for number, end in end_offsets(pipeline.target, topic).items()
    }
    translated = {
        name: {at: row_by_partition[name, at]["translated_offset"] for at in landed}
        for name in names
    }
    for name, stand in stands.items():
        for at, offset in stand.items():
            low, high = _first_unread(landed[at], offset, ends[at])
            assert low <= translated[name][at] <= high, row_by_partition[name, at]
    for at in landed:
        series = [translated[name][at] for name in names]
        assert series == sorted(series), at
    plan = pipeline.directory / f"{prefix}.json"
    k2ktui("plan", "-f", file, "-o", plan, *only)
    k2ktui_json("apply", plan, "--yes")
    for name in names:
        moved = committed(pipeline.target, name)
        assert moved == translated[name]
        assert all(offset <= ends[at] for at, offset in moved.items())


def _first_unread(pairs: dict[int, int], offset: int, end: int) -> tuple[int, int]:
    """Return where the first unread record is; behind the last one, only markers follow."""
    left = [at for at in pairs if at >= offset]
    return (pairs[min(left)],) * 2 if left else (max(pairs.values()) + 1, end)
