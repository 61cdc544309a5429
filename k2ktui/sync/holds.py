"""Hold topics and partitions, and release them: they keep their positions and are not copied.

The pipeline may run: its runs read the holds every few seconds. Only the target is needed, so that
a release is possible while the source is down.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from k2ktui.config.model import PipelineConfig
from k2ktui.engine.access import Access, require
from k2ktui.engine.moves.journal import (
    HOLD,
    RELEASE,
    JournalRow,
)
from k2ktui.engine.moves.journal_format import read_state_value
from k2ktui.engine.records.hold import NO_HOLDS, Hold, HoldKey, Holds
from k2ktui.engine.records.state import MalformedRecord, Position, SourcePartition
from k2ktui.errors import REFUSALS, ClusterRefused, ConfigError, K2kError
from k2ktui.kafka.clients import Cluster, target_cluster
from k2ktui.kafka.control.tail import ControlTail
from k2ktui.replication.copying.partition_reader import now_ms
from k2ktui.replication.ownership.pipeline import read_commits
from k2ktui.replication.preflight.checks import Check
from k2ktui.runtime.background import BackgroundRunner
from k2ktui.sync.moves.journal_writer import JournalWriter
from k2ktui.sync.moves.plans import whoami
from k2ktui.sync.state_fold import read_own_key
from k2ktui.sync.store import StateStore
from k2ktui.text import list_names, safe_text

HELD, RELEASED = "held", "released"
LONGEST_REASON = 500
HOLDS = "holds"
_READ_S = 30.0
_INTERVAL_S = 2.0
_HOLD = b'"kind":"hold"'
_NAMED = 20


class HoldReader:
    """Reads the holds of a pipeline, each time only what is new; not thread-safe.

    Other records of the state topic, which are many, are not decoded.

    Args:
        config: the pipeline.
        target: its target cluster.
    """

    def __init__(self, config: PipelineConfig, target: Cluster) -> None:
        self._target, self._topic = target, config.coordination.state.topic
        self._group = config.coordination.commit.group
        self._tail = ControlTail(target, check_starts=True)
        self._values: dict[HoldKey, bytes] = {}
        self._holds = NO_HOLDS
        self._is_missing = True

    def read(self) -> Holds:
        """Return the holds; without the topic there are none. The same object if none changed.

        Raises:
            ClusterRefused: the principal may not read the topic.
            ConnectionFailed, TimedOut: the target did not answer in time.
        """
        topic = self._target.find(self._topic)
        was_missing, self._is_missing = self._is_missing, topic is None
        if topic is None:
            if not was_missing:  # a broker that has just started may not know it yet
                return self._holds
            self.close()
            self._values = {}
        else:
            if self._tail.begin(topic):
                self._values = {}
            for record in self._tail.records(_READ_S):
                self._take(record.key or b"", record.value)
        holds = Holds(_decode(self._values))
        if holds != self._holds:
            self._holds = holds
        return self._holds

    def _take(self, raw: bytes, value: bytes | None) -> None:
        key = read_own_key(raw, self._group)[0] if _HOLD in raw else None
        if not isinstance(key, HoldKey):
            return
        if value is None:
            self._values.pop(key, None)
        else:
            self._values[key] = value

    def close(self) -> None:
        """Disconnect; the next reading begins anew."""
        self._tail.close()
        self._tail = ControlTail(self._target, check_starts=True)


def _decode(values: dict[HoldKey, bytes]) -> Iterable[Hold]:
    for key, value in values.items():
        try:
            record = read_state_value(key, value)
        except MalformedRecord:
            continue
        if isinstance(record, Hold):
            yield record


class HoldWatcher(BackgroundRunner):
    """Reads the holds beside a run, every two seconds; what was read last counts until then.

    Args:
        config: the pipeline.
        report: called when it begins to fail, at growing intervals, and when it works again.
    """

    failing = "holds cannot be read (those that were read before still count)"
    recovered = "holds are read again"
    refusals = REFUSALS

    def __init__(self, config: PipelineConfig, report: Callable[[str], None]) -> None:
        super().__init__("holds", _INTERVAL_S, report, longest_pause_s=_INTERVAL_S)
        self._config = config
        self._reader: HoldReader | None = None
        self._holds = NO_HOLDS

    def begin(self, target: Cluster) -> None:
        """Read the holds before anything is copied, and start the thread.

        Args:
            target: the run's own: if another cluster answers, holds are not read from it.

        Raises:
            ConnectionFailed, TimedOut: the target did not answer in time.
        """
        self._reader = HoldReader(self._config, target)
        try:
            self.work()
        except ClusterRefused as error:
            self.say(f"holds cannot be read, and partitions that are held are copied: {error}")
            self.close()
        else:
            self.start()

    @property
    def holds(self) -> Holds:
        """The holds that were read last."""
        return self._holds

    def work(self) -> None:
        """Read what is new; ``begin`` comes first."""
        if self._reader is not None:
            self._holds = self._reader.read()

    def close(self) -> None:
        """Disconnect."""
        if self._reader is not None:
            self._reader.close()


@dataclass(frozen=True, slots=True)
class HoldChange:
    """What a command will hold or release, or has.

    Attributes:
        operation: ``hold`` or ``release``.
        holds: the holds that are written, or removed.
        present: all holds before.
        why: the reason, for the journal.
        positions: the known positions of the partitions that change.
        entry: id of the journal entry, "" until it is written.
        notes: messages for the operator.
    """

    operation: str
    holds: tuple[Hold, ...] = ()
    present: Holds = NO_HOLDS
    why: str = ""
    positions: tuple[tuple[SourcePartition, Position], ...] = ()
    entry: str = ""
    notes: tuple[str, ...] = ()

    @property
    def is_hold(self) -> bool:
        """Whether it holds, and does not release."""
        return self.operation == HOLD


def read_holds(config: PipelineConfig) -> Holds:
    """Return the holds of a pipeline.

    Raises:
        Refused, ConnectionFailed, TimedOut: they could not be read from the target.
    """
    store = StateStore(config, target_cluster(config))
    try:
        return store.read().holds
    finally:
        store.close()


def check_holds(config: PipelineConfig) -> Check:
    """Name what is held; it keeps no run from starting."""
    try:
        holds = read_holds(config)
    except K2kError as error:
        return Check.unknown(HOLDS, error.message, error.hint)
    if not holds:
        return Check.passes(HOLDS, "nothing is held")
    names = [f"{hold.key.name}: {hold.describe()}" for hold in holds.all]
    return Check.warns(
        HOLDS, f"not copied: {list_names(names, _NAMED)}", "Copy them again: k2ktui release."
    )


def plan_hold(config: PipelineConfig, names: Collection[HoldKey], why: str = "") -> HoldChange:
    """Return what holding these topics and partitions changes; changes nothing.

    Raises:
        ConfigError: the pipeline does not copy one of them, or the reason is too long.
        Refused, ConnectionFailed, TimedOut: the target could not be read.
    """
    _check_reason(why)
    positions = _read_positions(config)
    replicated = {at.topic for at in positions}
    topics = config.topics
    unknown = {key.topic for key in names if not topics.matches(key.topic, replicated)}
    if unknown:
        raise ConfigError(
            f"the pipeline does not copy {list_names(sorted(unknown), _NAMED)}",
            unchanged="Nothing was held.",
            hint="Give source topics that replication.source.topic selects; k2ktui explain -f FILE "
            "lists them.",
        )
    present, notes = read_holds(config), []
    who, at = whoami(), now_ms()
    new = []
    for key in _in_order(names):
        before = present.get(key) or present.get(HoldKey(key.topic))
        if before is not None:
            notes.append(f"{safe_text(key.name)}: already {safe_text(before.describe())}")
            continue
        new.append(Hold(key.topic, key.partition, who, at, why))
        if not any(key.covers(source) for source in positions):
            notes.append(
                f"{safe_text(key.name)}: nothing of it was copied yet; it is held from its start "
                "position on"
            )
    return HoldChange(
        HOLD, tuple(new), present, why, _concerned(positions, new), notes=tuple(notes)
    )


def plan_release(config: PipelineConfig, names: Collection[HoldKey], why: str = "") -> HoldChange:
    """Return what releasing these topics and partitions changes; changes nothing.

    A topic is released with all of its partitions.

    Raises:
        ConfigError: one of them is not held, or is held with its whole topic.
        Refused, ConnectionFailed, TimedOut: the target could not be read.
    """
    _check_reason(why)
    present = read_holds(config)
    gone: dict[HoldKey, Hold] = {}
    for key in _in_order(names):
        of_name = [
            hold
            for hold in present.all
            if hold.key == key or (key.partition is None and hold.topic == key.topic)
        ]
        if not of_name:
            raise _not_held(key, present)
        gone.update((hold.key, hold) for hold in of_name)
    holds = tuple(gone.values())
    return HoldChange(RELEASE, holds, present, why, _concerned(_read_positions(config), holds))


def _not_held(key: HoldKey, present: Holds) -> ConfigError:
    name = safe_text(key.name)
    if present.get(HoldKey(key.topic)) is not None:
        return ConfigError(
            f"{name} is held with its whole topic",
            unchanged="Nothing was released.",
            hint=f"Release {safe_text(key.topic)}, then hold its other partitions.",
        )
    names = list_names([hold.key.name for hold in present.all], _NAMED) if present else "nothing"
    return ConfigError(
        f"{name} is not held", unchanged="Nothing was released.", hint=f"Held: {names}."
    )


def write_change(config: PipelineConfig, change: HoldChange, may: Access) -> HoldChange:
    """Write the holds, or remove them, with a journal entry; return the change with its entry.

    Raises:
        Refused: not allowed, or the topic may not be written to.
        K2kError: not everything was acknowledged by the target.
    """
    require(may, "holding a topic" if change.is_hold else "releasing a topic")
    if not change.holds:
        return change
    store = StateStore(config, target_cluster(config))
    group = config.coordination.commit.group
    try:
        entry = JournalWriter(store.put, config.name).record(
            change.operation,
            [(group, row) for row in _journal_rows(change)],
            beside=change.holds if change.is_hold else (),
            gone=() if change.is_hold else [hold.key for hold in change.holds],
        )
    finally:
        store.close()
    return replace(change, entry=entry)


def _journal_rows(change: HoldChange) -> Iterator[JournalRow]:
    """Yield a row for each known partition, with its position and the reason.

    A topic of which nothing was copied has one row, for partition 0.
    """
    result = HELD if change.is_hold else RELEASED
    offsets: dict[SourcePartition, int | None] = {at: p.offset for at, p in change.positions}
    for hold in change.holds:
        if not any(hold.key.covers(at) for at in offsets):
            offsets[SourcePartition(hold.topic, hold.partition or 0)] = None
    for at, offset in sorted(offsets.items()):
        yield JournalRow(at.topic, at.partition, offset, "", offset, change.why, result)


def _check_reason(why: str) -> None:
    if len(why) > LONGEST_REASON:
        raise ConfigError(
            f"the reason has {len(why)} characters, and at most {LONGEST_REASON} are kept",
            unchanged="Nothing was changed.",
        )


def _read_positions(config: PipelineConfig) -> dict[SourcePartition, Position]:
    state = read_commits(config, target_cluster(config), _READ_S)
    return dict(sorted(state.positions.items()))


def _concerned(
    positions: dict[SourcePartition, Position], holds: Sequence[Hold]
) -> tuple[tuple[SourcePartition, Position], ...]:
    return tuple(
        (at, position)
        for at, position in positions.items()
        if any(hold.key.covers(at) for hold in holds)
    )


def _in_order(names: Collection[HoldKey]) -> list[HoldKey]:
    """Return the names by topic, whole topics first."""
    return sorted(names, key=lambda key: (key.topic, key.partition is not None, key.partition or 0))
