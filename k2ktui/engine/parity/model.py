"""Differences between source and target, and the writes that remove them.

A difference concerns one value: a setting of a topic, a key of a client quota, an ACL. The wanted
value is the source's, unless the pipeline's file sets another.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from k2ktui.engine.bounded import Text
from k2ktui.engine.moves.apply import WriteOutcome
from k2ktui.engine.parity.acls import WantedAcl
from k2ktui.engine.parity.rules import ParityKind, ParityMode
from k2ktui.text import safe_text

# A value that was set so often within so many seconds is left alone.
MOST_SETS, CONTESTED_S = 5, 3600.0


class ParityAction(StrEnum):
    """What a plan does with a difference.

    ``REMOVE`` deletes what parity has created, and only a plan does it. ``REPORT`` changes nothing.
    """

    SET = "set"
    REMOVE = "remove"
    REPORT = "report"


@dataclass(frozen=True, slots=True, order=True)
class ParityItem:
    """What has a value on the target.

    Attributes:
        kind: what it belongs to.
        name: the target topic; the entity of a quota; the resource of an ACL.
        key: the setting; the key of the quota; the rest of the ACL.
    """

    kind: ParityKind
    name: Text
    key: Text

    def __str__(self) -> str:
        return safe_text(f"{self.name} {self.key}")


@dataclass(frozen=True, slots=True)
class Difference:
    """A value that is not the wanted one; None is no value.

    Attributes:
        item: what has the value.
        source: the value in force on the source.
        target: the value in force on the target, which may come from a default.
        before: the value that is set on the target itself; undo restores it.
        wanted: the value that the target should have; None to have none of its own.
        action: what a plan does.
        why: why the value is wanted, or why nothing is done.
        origin: what has the source's value, if it has another name there.
    """

    item: ParityItem
    source: Text | None
    target: Text | None
    before: Text | None
    wanted: Text | None
    action: ParityAction
    why: Text
    origin: Text = ""

    @property
    def changes(self) -> bool:
        """Whether applying a plan writes it."""
        return self.action is not ParityAction.REPORT

    @property
    def write(self) -> ParityWrite:
        """Return the write that removes the difference."""
        return ParityWrite(self.item, self.before, self.wanted)


@dataclass(frozen=True, slots=True)
class ParityWrite:
    """A change of one value on the target; None is no value of its own."""

    item: ParityItem
    before: Text | None
    after: Text | None

    @property
    def creates(self) -> bool:
        """Whether the target had no value of its own before."""
        return self.before is None and self.after is not None


@dataclass(frozen=True, slots=True)
class ParityResult:
    """A write with its result; ``why`` may be empty if it was applied."""

    write: ParityWrite
    result: WriteOutcome
    why: str = ""


@dataclass(frozen=True, slots=True)
class ParityMemory:
    """What parity has done on the target, as its record there says.

    Attributes:
        created: values that parity has created, where the target had none of its own.
        held: wanted values that an operator has undone: ``k2ktui sync`` does not set them again.
    """

    created: Mapping[ParityItem, str] = field(default_factory=dict)
    held: Mapping[ParityItem, str | None] = field(default_factory=dict)

    def has_created(self, item: ParityItem, value: str | None) -> bool:
        """Whether parity has created a value that the target still has."""
        return value is not None and self.created.get(item) == value


@dataclass(frozen=True, slots=True)
class ParityFindings:
    """What a comparison of one kind of values found, and what the operator should know of it.

    ``wanted_acls`` are the ACLs that the target should have, for its record there; None unless
    ACLs were compared.
    """

    differences: tuple[Difference, ...] = ()
    notes: tuple[str, ...] = ()
    wanted_acls: tuple[WantedAcl, ...] | None = None


def select_for_sync(
    differences: Iterable[Difference], modes: Mapping[ParityKind, ParityMode], memory: ParityMemory
) -> list[Difference]:
    """Return what ``k2ktui sync`` applies: values to set, where the mode is ``apply``.

    It never removes anything, and leaves alone what an operator has undone until the wanted value
    changes.
    """
    return [
        difference
        for difference in differences
        if difference.action is ParityAction.SET
        and modes[difference.item.kind] == "apply"
        and not is_held(difference, memory)
    ]


def is_held(difference: Difference, memory: ParityMemory) -> bool:
    """Whether an operator has undone exactly this change."""
    missing = object()
    return memory.held.get(difference.item, missing) == difference.wanted


def is_contested(set_at: Iterable[float], now: float) -> bool:
    """Whether the same value was set so often that something else must set it back.

    That may be the sync of the opposite pipeline: without a bound, both could swap their values for
    ever.

    Args:
        set_at: when it was set, in seconds of a monotonic clock.
        now: the time by that clock.
    """
    return sum(now - at < CONTESTED_S for at in set_at) >= MOST_SETS


def find_moved(
    planned: Iterable[Difference], current: Iterable[Difference]
) -> dict[ParityItem, str]:
    """Return the planned changes that no longer are what the clusters differ in, with the reason.

    Args:
        planned: differences of a plan that it changes.
        current: the differences now.
    """
    by_item = {difference.item: difference for difference in current}
    moved: dict[ParityItem, str] = {}
    for difference in planned:
        now = by_item.get(difference.item)
        if now is None:
            moved[difference.item] = "the clusters no longer differ in it"
        elif now.before != difference.before or now.target != difference.target:
            moved[difference.item] = (
                f"the target has {_value(now.target)} instead of {_value(difference.target)}"
            )
        elif now.wanted != difference.wanted or now.source != difference.source:
            moved[difference.item] = (
                f"the wanted value is {_value(now.wanted)} instead of {_value(difference.wanted)}"
            )
        elif now.action is not difference.action:
            moved[difference.item] = now.why
    return moved


def check_written(
    writes: Iterable[ParityWrite],
    refused: Mapping[ParityItem, str],
    values: Mapping[ParityItem, str | None],
) -> list[ParityResult]:
    """Return the result of each write, given the refusals and the values read back."""
    results = []
    for write in writes:
        why = refused.get(write.item, "")
        value = values.get(write.item)
        if value == write.after:
            results.append(ParityResult(write, WriteOutcome.APPLIED))
        elif why:
            results.append(ParityResult(write, WriteOutcome.REFUSED, why))
        else:
            what = f"the target has {_value(value)} after it"
            results.append(ParityResult(write, WriteOutcome.CHANGED, what))
    return results


def reverse(results: Iterable[ParityResult]) -> list[ParityWrite]:
    """Return the writes that undo what was applied, the last first.

    What was interrupted may have been applied: the values on the target decide.
    """
    open_ = (WriteOutcome.APPLIED, WriteOutcome.UNKNOWN)
    undone = [
        ParityWrite(result.write.item, result.write.after, result.write.before)
        for result in results
        if result.result in open_
    ]
    return undone[::-1]


def find_moved_writes(
    writes: Iterable[ParityWrite], values: Mapping[ParityItem, str | None]
) -> dict[ParityItem, str]:
    """Return the writes whose value before is not the one on the target, with the reason."""
    return {
        write.item: f"the target has {_value(values.get(write.item))}, not {_value(write.before)}"
        for write in writes
        if values.get(write.item) != write.before
    }


def remember(memory: ParityMemory, writes: Collection[ParityWrite], *, undo: bool) -> ParityMemory:
    """Return the memory after writes.

    Args:
        memory: what it was.
        writes: what was applied.
        undo: whether an operator has undone something with them.
    """
    created, held = dict(memory.created), dict(memory.held)
    for write in writes:
        if write.after is None:
            created.pop(write.item, None)
        elif write.creates or created.get(write.item) == write.before:
            created[write.item] = write.after
        else:
            created.pop(write.item, None)  # somebody else has set it in the meantime
        if undo:
            held[write.item] = write.before
        else:
            held.pop(write.item, None)
    return ParityMemory(created, held)


def _value(value: str | None) -> str:
    return "no value" if value is None else safe_text(value, 80)
