"""Two clusters and two pipelines as logs in memory, whose records are known one by one."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from hypothesis import strategies as st

from k2ktui.engine.mapping.both_directions import translate_both_ways
from k2ktui.engine.mapping.opposite_copy import OppositeCopy, TailKind
from k2ktui.engine.mapping.ranges import MappingRanges
from k2ktui.engine.mapping.replica import Replica, TargetLog
from k2ktui.engine.mapping.translate import Translation
from k2ktui.engine.records.state import Position, SourcePartition

Where = tuple[str, int]


@dataclass
class Log:
    """A partition: its records by offset; other offsets hold markers or were compacted.

    ``position`` is the next offset that the pipeline from this side copies; ``ever`` has the
    compacted records, too.
    """

    name: Where
    records: dict[int, int] = field(default_factory=dict)
    end: int = 0
    position: int = 0
    begun: int = 0
    ranges: dict[Where, MappingRanges] = field(default_factory=dict)
    ever: dict[int, int] = field(default_factory=dict)

    def append(self, number: int) -> int:
        self.ever[self.end] = number
        self.records[self.end] = number
        self.end += 1
        return self.end - 1


class Pair:
    """Two clusters and two pipelines; each leaves out what came from its target."""

    def __init__(self, partitions: int, seed: int) -> None:
        self.sides = {
            side: [Log((f"topic-of-{side}", n)) for n in range(partitions)] for side in ("a", "b")
        }
        self.origin: dict[int, str] = {}
        self.dice = random.Random(seed)

    def write(self, side: str, count: int) -> None:
        for _ in range(count):
            number = len(self.origin)
            self.origin[number] = side
            self.dice.choice(self.sides[side]).append(number)

    def copy(self, side: str, count: int, log: Log | None = None) -> None:
        """Copy some offsets of one partition; keys choose the partition where they land."""
        log = log or self.dice.choice(self.sides[side])
        there = self.sides["b" if side == "a" else "a"]
        landed = set()
        for offset in range(log.position, min(log.end, log.position + count)):
            number = log.records.get(offset)
            if number is not None and self.origin[number] == side:
                at = number % len(there)
                one = np.array([1], dtype=np.int64)
                ranges = log.ranges.setdefault(there[at].name, MappingRanges())
                ranges.append(np.array([offset]), np.array([there[at].append(number)]), one)
                landed.add(at)
            log.position = offset + 1
        for at in landed:
            there[at].end += 1  # the marker of the transaction

    def compact(self, side: str, count: int) -> None:
        for _ in range(count):
            log = self.dice.choice(self.sides[side])
            if log.records:
                del log.records[self.dice.choice(list(log.records))]

    def settle(self) -> None:
        """Let both pipelines copy everything."""
        for side in ("a", "b", "a"):
            for log in self.sides[side]:
                self.copy(side, log.end, log)


def find_tail(log: Log, pair: Pair) -> OppositeCopy:
    """What the opposite pipeline copied from a partition of side a."""
    side = "a" if log in pair.sides["a"] else "b"
    rest = [o for o, n in log.records.items() if o >= log.position and pair.origin[n] == side]
    kind = TailKind.RECORD if rest else TailKind.END
    return OppositeCopy(replica_of(log), min(rest, default=log.end), kind)


def replica_of(log: Log) -> Replica:
    landing = next(iter(log.ranges), ("none", 0))
    position = Position(log.position, log.begun, 0, "", 1, 0, landing[0], None)
    return Replica(position, dict(log.ranges))


def move_back(
    pair: Pair, read: Sequence[int | None], starts: list[int], **changes: object
) -> dict[Where, Translation]:
    """Translate a group that has read side b up to these offsets, to side a; None is no commit."""
    replicas = {SourcePartition(*log.name): replica_of(log) for log in pair.sides["b"]}
    for at, log in zip(replicas, pair.sides["b"], strict=True):
        if len(pair.sides["a"]) == 1:
            position = replica_of(log).position
            assert position is not None
            name, number = pair.sides["a"][0].name
            position = replace(position, target_topic=name, target_partition=number)
            replicas[at] = replace(replicas[at], position=position)
    commits = {at: to for at, to in zip(replicas, read, strict=True) if to is not None}
    logs = {
        log.name: TargetLog(start, log.end)
        for log, start in zip(pair.sides["a"], starts, strict=True)
    }
    opposite = {log.name: find_tail(log, pair) for log in pair.sides["a"]}
    if changes:
        opposite = {
            at: replace(copy, replica=replace(copy.replica, **changes))  # type: ignore[arg-type]
            for at, copy in opposite.items()
        }
    rows = translate_both_ways(replicas, commits, logs, opposite)
    return {row.target: row for row in rows}


STEPS = st.lists(
    st.tuples(
        st.sampled_from(["write", "write", "copy", "copy", "compact"]),
        st.sampled_from("ab"),
        st.integers(1, 6),
    ),
    max_size=40,
)


def played(steps: list[tuple[str, str, int]], partitions: int, seed: int) -> Pair:
    pair = Pair(partitions, seed)
    for what, side, count in steps:
        getattr(pair, what)(side, count)
    return pair


def numbers_read(pair: Pair, read: list[int]) -> set[int]:
    return {
        number
        for log, committed in zip(pair.sides["b"], read, strict=True)
        for offset, number in log.ever.items()
        if offset < committed
    }
