"""Partitions and slots."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from k2ktui.engine.records.state import Position, SourcePartition
from k2ktui.engine.transforms.model import Transform
from k2ktui.replication.copying.slot_task import Assignment, CopyPath, Route
from k2ktui.replication.slots import SlotPlacement, SlotState, choose_slot, in_turn


def placed(partitions: int, slots: int, path: CopyPath, *, spread: bool) -> list[int]:
    loads = [0] * slots
    for _ in range(partitions):
        loads[choose_slot(loads, path, spread=spread)] += 1
    return loads


def test_few_verbatim_partitions_share_a_slot() -> None:
    assert placed(4, 2, CopyPath.VERBATIM, spread=False) == [4, 0]
    assert placed(6, 2, CopyPath.VERBATIM, spread=False) == [4, 2]
    assert placed(64, 2, CopyPath.VERBATIM, spread=False) == [32, 32]


def test_records_that_are_decoded_get_all_cores() -> None:
    assert placed(4, 2, CopyPath.RECORD, spread=False) == [2, 2]


def test_a_number_of_slots_that_was_asked_for_is_used() -> None:
    assert placed(4, 4, CopyPath.VERBATIM, spread=True) == [1, 1, 1, 1]


@given(st.integers(0, 300), st.integers(1, 16), st.sampled_from(CopyPath), st.booleans())
def test_no_slot_has_much_more_than_another(
    partitions: int, slots: int, path: CopyPath, spread: bool
) -> None:
    loads = placed(partitions, slots, path, spread=spread)

    assert sum(loads) == partitions
    assert max(loads) <= max(4, -(-partitions // slots))


ONE, TWO = Transform(filter="true"), Transform(filter="false")


def kinds(*transforms: Transform | None) -> dict[SourcePartition, Route]:
    """Routes of a topic per transform, named in order, with two partitions each."""
    return {
        SourcePartition(f"t{number}", partition): Route(
            CopyPath.RECORD if transform else CopyPath.VERBATIM,
            "t",
            partition,
            2,
            transform=transform,
        )
        for number, transform in enumerate(transforms)
        for partition in (0, 1)
    }


def assigned(routes: dict[SourcePartition, Route], slots: int) -> list[SlotState]:
    states = [SlotState(number, number) for number in range(slots)]
    placement = SlotPlacement(states, routes, spread=False)
    for source in in_turn(routes.keys(), routes):
        placement.choose(source).sources.append(source)
    return states


def test_transforms_have_slots_of_their_own_if_there_are_enough() -> None:
    routes = kinds(None, ONE, TWO)
    for slots in (3, 4, 8):
        for slot in assigned(routes, slots):
            assert len({routes[source].transform for source in slot.sources}) <= 1
    assert sum(len(slot.sources) for slot in assigned(routes, 2)) == 6


class CountedRoutes(dict[SourcePartition, Route]):
    """Routes that count how often one is looked up."""

    looked_up = 0

    def __getitem__(self, source: SourcePartition) -> Route:
        self.looked_up += 1
        return super().__getitem__(source)


def test_the_work_to_place_a_partition_does_not_grow_with_their_number() -> None:
    routes = CountedRoutes(kinds(*[None] * 400, *[ONE] * 100))
    slots = assigned(routes, 3)
    assert sum(len(slot.sources) for slot in slots) == 1000
    assert routes.looked_up <= 4 * len(routes)


def test_transforms_that_share_a_slot_take_turns() -> None:
    routes = kinds(None, ONE)
    (slot,) = assigned(routes, 1)
    position = Position(0, 0, -1, "", 1, 0, "t", 0)
    every = [Assignment(source, position, routes[source]) for source in slot.sources]
    first, second, third = (slot.take_turn(every) for _ in range(3))
    assert [{assignment.route.transform for assignment in turn[0]} for turn in (first, second)] in (
        [{None}, {ONE}],
        [{ONE}, {None}],
    )
    assert third == first and first[1] and second[1]
    assert slot.take_turn(every[:1]) == ((every[0],), False)
