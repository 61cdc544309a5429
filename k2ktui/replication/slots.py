"""The driver's slots: their state, and the assignment of new source partitions to them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, ItemsView, Iterator, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from time import monotonic

from k2ktui.engine.records.state import Position, SourcePartition
from k2ktui.engine.transforms.model import Transform
from k2ktui.replication.copying.slot_task import Assignment, CopyPath, LapOutcome, Route, SlotResult

# After consecutive failures of a slot.
_PAUSES_S = (0.1, 0.2, 0.5, 1.0, 2.0, 5.0)
LONGEST_PAUSE_S = _PAUSES_S[-1]
# A produce request holds one batch of each partition, and its cost to the broker and the worker is
# per request. What sharing a slot saves: docs/internals/decisions.md.
_TOGETHER = 4


def pause_s(failures: int) -> float:
    """Return the seconds to wait before the next attempt, after so many earlier failures."""
    return _PAUSES_S[min(failures, len(_PAUSES_S) - 1)]


@dataclass(slots=True, eq=False)
class SlotState:
    """The driver's state of one slot.

    Attributes:
        number: slot number, from 0.
        identity: number of its transactional id; another one while the last transaction of that id
            cannot end.
        sources: the partitions that the slot copies.
        copied: those of the current lap, or of the last one.
        running: the future of the current lap, None between laps.
        deadline: monotonic seconds; a lap that is still running then counts as hung.
        failures: consecutive failures of laps or of attempts to start one.
        lost: a task that may have its current transactional id has not reported its end.
        broken: the slot must be fenced and its positions read from the target again.
        recoveries: failures so far.
        not_before: monotonic seconds; end of the back-off after a failure.
        turns: number of laps, where partitions with different transforms take turns.
    """

    number: int
    identity: int
    sources: list[SourcePartition] = field(default_factory=list)
    copied: tuple[SourcePartition, ...] = ()
    running: Future[list[SlotResult]] | None = None
    deadline: float = 0.0
    failures: int = 0
    lost: bool = False
    broken: bool = False
    recoveries: int = 0
    not_before: float = 0.0
    turns: int = 0

    @property
    def name(self) -> str:
        """The slot's name in messages."""
        return f"slot {self.number}"

    @property
    def lap_failed(self) -> bool:
        """Whether the current lap has failed.

        Until the slot is fenced, the transaction of its lost task may stay open, and no slot's
        positions can be read.
        """
        lap = self.running
        if lap is None or not lap.done():
            return False
        return lap.exception() is not None or lap.result()[0].outcome is not LapOutcome.DONE

    def adopt(self, result: SlotResult, positions: dict[SourcePartition, Position]) -> SlotResult:
        """Update the known positions from a lap, unless it failed.

        Returns:
            The result, with the positions of all partitions that it confirmed.
        """
        if result.outcome is not LapOutcome.DONE:
            return result
        positions.update(result.positions)
        return replace(result, positions=_ConfirmedPositions(self.copied, positions))

    def offsets(self, positions: Mapping[SourcePartition, Position]) -> list[int]:
        """Return the offsets of the slot's partitions that have a position."""
        return [positions[source].offset for source in self.sources if source in positions]

    def take_turn(self, assignments: Sequence[Assignment]) -> tuple[tuple[Assignment, ...], bool]:
        """Return the assignments of the next lap, and whether others wait for the one after it.

        A lap has one transform, or none. Slots have partitions of several only if there are fewer
        slots than transforms.
        """
        kinds = list(dict.fromkeys(assignment.route.transform for assignment in assignments))
        if len(kinds) < 2:
            return tuple(assignments), False
        kind = kinds[self.turns % len(kinds)]
        self.turns += 1
        return tuple(
            assignment for assignment in assignments if assignment.route.transform == kind
        ), True

    def back_off(self) -> None:
        """Count a failure and back off; the delay grows with each consecutive failure."""
        self.not_before = monotonic() + pause_s(self.failures)
        self.failures += 1
        self.recoveries += 1


class _ConfirmedPositions(Mapping[SourcePartition, Position]):
    """The positions of some partitions: looked up when they are read, as only metrics do."""

    def __init__(
        self, sources: Sequence[SourcePartition], positions: Mapping[SourcePartition, Position]
    ) -> None:
        self._sources, self._positions = sources, positions

    def __getitem__(self, source: SourcePartition) -> Position:
        if source not in self._sources:
            raise KeyError(source)
        return self._positions[source]

    def __iter__(self) -> Iterator[SourcePartition]:
        return iter(self._sources)

    def __len__(self) -> int:
        return len(self._sources)

    def items(self) -> ItemsView[SourcePartition, Position]:
        """Return all partitions with their positions."""
        return {source: self._positions[source] for source in self._sources}.items()


def make_slots(number: int, first: int = 0) -> list[SlotState]:
    """Return so many slots, numbered from ``first`` on, with the first transactional ids."""
    return [SlotState(first + identity, identity) for identity in range(number)]


class SlotPlacement:
    """Chooses slots for partitions: those whose partitions have the same transform, if possible.

    What slots have is looked at once: a pipeline may have thousands of partitions to place.

    Args:
        slots: the slots; the caller appends each partition to the slot that it was placed in.
        routes: routes of all partitions.
        spread: as for ``choose_slot``.
    """

    def __init__(
        self,
        slots: Sequence[SlotState],
        routes: Mapping[SourcePartition, Route],
        *,
        spread: bool,
    ) -> None:
        self._slots, self._routes, self._spread = slots, routes, spread
        self._seen = [0] * len(slots)
        self._kinds: list[set[Transform | None]] = [set() for _ in slots]

    def choose(self, source: SourcePartition) -> SlotState:
        """Return the slot for a partition."""
        route = self._routes[source]
        kind = {route.transform}
        self._look_at_added()
        pairs = zip(self._slots, self._kinds, strict=True)
        suitable = [slot for slot, kinds in pairs if kinds <= kind] or self._slots
        loads = [len(slot.sources) for slot in suitable]
        return suitable[choose_slot(loads, route.path, spread=self._spread)]

    def _look_at_added(self) -> None:
        for index, slot in enumerate(self._slots):
            for at in slot.sources[self._seen[index] :]:
                if at in self._routes:
                    self._kinds[index].add(self._routes[at].transform)
            self._seen[index] = len(slot.sources)


def in_turn(
    sources: Collection[SourcePartition], routes: Mapping[SourcePartition, Route]
) -> list[SourcePartition]:
    """Return partitions in the order in which they are assigned: first one of each transform."""
    ranks = Counter[Transform | None]()
    ordered = []
    for source in sorted(sources):
        transform = routes[source].transform
        ordered.append((min(1, ranks[transform]), source))
        ranks[transform] += 1
    return [source for _, source in sorted(ordered)]


def choose_slot(loads: Sequence[int], path: CopyPath, *, spread: bool) -> int:
    """Return the index of the slot for a partition.

    Args:
        loads: number of partitions of each slot.
        path: partitions on the verbatim path fill a slot with up to four before the next slot is
            used; the record path decodes records and needs all cores.
        spread: always spread over all slots, as expected when their number is configured.
    """
    if path is CopyPath.VERBATIM and not spread:
        for index, load in enumerate(loads):
            if 0 < load < _TOGETHER:
                return index
    return min(range(len(loads)), key=lambda index: loads[index])
