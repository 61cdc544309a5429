"""The judge of a copy, independent of k2ktui's own code.

It reads both clusters with a plain read_committed consumer and the control topics as the JSON that
``docs/internals/record-formats.md`` describes, and compares everything: :func:`prove` raises with
what is lost, doubled, out of order, changed or mapped wrongly.
"""

from __future__ import annotations

import itertools
import json
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from kafka.partitioner.default import murmur2

from k2ktui.runtime.node import KafkaNode
from tests.support.clusters.kafka import Got, Headers, await_stable, end_offsets, read_all

COMMIT_TOPIC = "__k2k_consumer-offsets"
MAPPING_TOPIC = "__k2k_offset_mappings"
_SHOWN = 12

Place = tuple[str, int, int]  # topic, partition, offset


@dataclass(frozen=True)
class Expected:
    """What is expected of one source topic.

    Attributes:
        topic: its name on the source.
        target: its name on the target, "" for the same.
        targets: its names on the target, if ``routed`` chooses one of them.
        routed: target topic of a source record; None for ``target``.
        start: partition to the first offset that is copied; 0 for those not named.
        partition: target partition of a source record; None for the same number.
        headers: headers on the target of a source record; None for the same.
        value: value on the target of a source record; None for the same.
        values: values of all records made of a source record, in order; None for one.
        timestamps: whether timestamps are kept.
        archived: records that were on the source once and were deleted there.
        mapped: whether offset mapping is on.
        caught_up: whether positions stand at the last stable offsets.
        copied: whether a source record is to be copied; None for all.
    """

    topic: str
    target: str = ""
    start: Mapping[int, int] = field(default_factory=dict)
    partition: Callable[[Got], int] | None = None
    headers: Callable[[Got], Headers] | None = None
    value: Callable[[Got], bytes | None] | None = None
    values: Callable[[Got], Sequence[bytes | None]] | None = None
    timestamps: bool = True
    archived: Iterable[Got] = ()
    mapped: bool = True
    caught_up: bool = True
    copied: Callable[[Got], bool] | None = None
    targets: tuple[str, ...] = ()
    routed: Callable[[Got], str] | None = None

    @property
    def target_name(self) -> str:
        return self.target or self.topic

    def made(self, sent: Got) -> Sequence[bytes | None]:
        """Return the values of the records that a source record is copied to."""
        if self.copied is not None and not self.copied(sent):
            return ()
        if self.values is not None:
            return self.values(sent)
        return (self.value(sent) if self.value else sent.value,)

    @property
    def target_names(self) -> tuple[str, ...]:
        return self.targets or (self.target_name,)


@dataclass(frozen=True)
class Claim:
    """One mapped record: where the mapping says that a source record landed.

    ``number`` counts the records made of one source record; only the first of them is mapped.
    """

    source: Place
    target: Place
    number: int = 0


@dataclass(frozen=True)
class Ledger:
    """A pipeline's records on the control topics, in the order of their log."""

    positions: Mapping[tuple[str, int], dict[str, Any]]
    claims: tuple[Claim, ...]
    covers: Mapping[tuple[str, int], Sequence[tuple[int, int, int, int]]]
    ranges: int
    runs: tuple[dict[str, Any], ...]


@dataclass(frozen=True)
class Proof:
    """What was compared, for tests that want to know that something was."""

    records: int
    ranges: int
    ledger: Ledger

    def position(self, topic: str, partition: int = 0) -> dict[str, Any]:
        """Return the position record of a source partition."""
        return self.ledger.positions[topic, partition]


# Of producer ids, of slots that runs share, and of the runs that share them.
_NO_POSITIONS = ("producer", "slotRun", "kind")


def read_ledger(
    target: KafkaNode,
    group: str,
    commit_topic: str = COMMIT_TOPIC,
    mapping_topic: str = MAPPING_TOPIC,
) -> Ledger:
    """Read a pipeline's positions and mapping; ``mapping_topic`` "" for none."""
    positions: dict[tuple[str, int], dict[str, Any]] = {}
    runs = []
    for record in read_all(target, commit_topic):
        key = json.loads(record.key or b"")
        if key["group"] != group or not key.keys().isdisjoint(_NO_POSITIONS):
            continue
        value = json.loads(record.value or b"")
        if key.get("run"):
            runs.append(value)
            continue
        where = key["topic"], key["partition"]
        if where not in positions or _age(value) >= _age(positions[where]):
            positions[where] = value
    claims: list[Claim] = []
    covers: dict[tuple[str, int], list[tuple[int, int, int, int]]] = defaultdict(list)
    ranges = 0
    for record in read_all(target, mapping_topic) if mapping_topic else ():
        key = json.loads(record.key or b"")
        if key["pipeline"] == group:
            mapping = json.loads(record.value or b"")
            ranges += len(mapping["ranges"]) + len(mapping.get("runs", ()))
            last = claims[-1] if claims else None
            claims += _claims(key, mapping, last)
            first, end, part, parts = mapping["covers"]
            covers[key["topic"], key["partition"]].append((first, end, part, parts))
    return Ledger(positions, tuple(claims), covers, ranges, tuple(runs))


def _age(position: Mapping[str, Any]) -> tuple[int, int]:
    return position["term"], position["offset"]


def _claims(
    key: Mapping[str, Any], value: Mapping[str, Any], last: Claim | None
) -> Iterable[Claim]:
    """Yield the claims of a mapping record in target order; ``last`` is that of the one before."""
    assert value["v"] == 1
    source_lane = key["topic"], key["partition"]
    target_lane = value["targetTopic"], value["targetPartition"]
    pairs = [
        (target + i, source + i) for source, target, count in value["ranges"] for i in range(count)
    ]
    for target, first, *distances in value.get("runs", ()):
        sources = itertools.accumulate(distances, initial=first)
        pairs += [(target + i, source) for i, source in enumerate(sources)]
    for target, source in sorted(pairs):
        at, place = (*source_lane, source), (*target_lane, target)
        again = last is not None and last.source == at and last.target[:2] == target_lane
        last = Claim(at, place, last.number + 1 if again and last else 0)
        yield last


def prove(
    source: KafkaNode,
    target: KafkaNode,
    group: str,
    *expected: Expected | str,
    native: Mapping[str, Iterable[Got]] | None = None,
    commit_topic: str = COMMIT_TOPIC,
    mapping_topic: str = MAPPING_TOPIC,
) -> Proof:
    """Compare source, target, mapping and positions record by record.

    Args:
        source: the source cluster.
        target: the target cluster.
        group: the pipeline's ``coordination.commit.group``.
        expected: what is expected of each source topic; a name alone stands for the defaults.
        native: records that the target topics held before; they must still be there.
        commit_topic: where positions are.
        mapping_topic: where the mapping is.

    Raises:
        AssertionError: with every kind of difference found, and examples.
    """
    topics = [Expected(topic) if isinstance(topic, str) else topic for topic in expected]
    mapped = any(topic.mapped for topic in topics)
    # Whoever waits for positions sees their markers: those of other partitions may come later.
    for name in {
        commit_topic,
        *([mapping_topic] if mapped and mapping_topic else []),
        *(name for topic in topics for name in topic.target_names),
    }:
        await_stable(target, name)
    ledger = read_ledger(target, group, commit_topic, mapping_topic if mapped else "")
    case = _Case(source, target, ledger, topics, dict(native or {}))
    case.judge()
    assert not case.wrong, f"{len(case.wrong)} differences:\n" + "\n".join(case.wrong[:_SHOWN])
    return Proof(case.compared, ledger.ranges, ledger)


class _Case:
    def __init__(
        self,
        source: KafkaNode,
        target: KafkaNode,
        ledger: Ledger,
        topics: list[Expected],
        native: dict[str, Iterable[Got]],
    ) -> None:
        self._nodes = source, target
        self._ledger = ledger
        self._topics = {topic.topic: topic for topic in topics}
        self._native = native
        self.wrong: list[str] = []
        self.compared = 0
        self._sent = {t: _sent(source, e) for t, e in self._topics.items()}
        names = {name for e in topics for name in e.target_names}
        self._landed = {n: {(g.partition, g.offset): g for g in read_all(target, n)} for n in names}

    def judge(self) -> None:
        claimed = self._check_claims()
        for name, records in self._landed.items():
            self._check_target(name, records, claimed)
        for topic in self._topics.values():
            self._check_positions(topic)

    def _check_claims(self) -> dict[Place, Place]:
        """Each claim is true, each record is claimed once, and order is kept."""
        origin: dict[Place, Place] = {}
        landed: dict[tuple[Place, int], Place] = {}
        for claim in self._ledger.claims:
            if claim.source[0] not in self._topics:
                continue
            at = claim.source, claim.number
            if at in landed:
                self._say(f"{at} is mapped twice: {landed[at]}, {claim.target}")
            if claim.target in origin:
                self._say(f"{claim.target} is claimed twice: {origin[claim.target]}, {claim}")
            landed[at], origin[claim.target] = claim.target, claim.source
            self._compare(claim)
        self._check_order(landed)
        for topic in self._topics.values():
            if topic.mapped:
                self._check_coverage(topic, landed)
                self._check_covers(topic)
        return origin

    def _check_order(self, landed: Mapping[tuple[Place, int], Place]) -> None:
        """What went from one partition to another is in the same order there."""
        last: dict[tuple[str, int, str, int], tuple[Place, Place]] = {}
        for (source, _), target in sorted(landed.items()):
            lane = (*source[:2], *target[:2])
            before = last.get(lane)
            if before and before[1][2] >= target[2]:
                self._say(f"out of order: {before}, then {source} at {target}")
            last[lane] = source, target

    def _check_coverage(
        self, expected: Expected, landed: Mapping[tuple[Place, int], Place]
    ) -> None:
        for (partition, offset), sent in self._sent[expected.topic].items():
            place = (expected.topic, partition, offset)
            wanted = offset >= expected.start.get(partition, 0) and not self._in_gap(place)
            count = len(expected.made(sent)) if wanted else 0
            if any((place, number) not in landed for number in range(count)):
                self._say(f"{place} is not mapped: lost")
            if (place, count) in landed:
                self._say(f"{place} is mapped {count + 1} times, and was to be copied {count}")

    def _check_covers(self, expected: Expected) -> None:
        """Mapping records cover all from the start to the position, each offset once."""
        for (topic, partition), position in self._ledger.positions.items():
            if topic != expected.topic:
                continue
            at, wanted = position["start"], 0
            for first, end, part, parts in sorted(self._ledger.covers.get((topic, partition), ())):
                if part == 0 and first != at and not self._in_gap((topic, partition, at)):
                    self._say(f"{topic}-{partition}: mappings continue at {first} instead of {at}")
                if part != wanted:
                    self._say(f"{topic}-{partition}: part {part} from {first}, not {wanted}")
                at, wanted = end, (part + 1) % parts
            if at < position["offset"] and not self._in_gap((topic, partition, at)):
                self._say(f"{topic}-{partition}: covered to {at}, position {position['offset']}")

    def _in_gap(self, place: Place) -> bool:
        topic, partition, offset = place
        gaps = self._ledger.positions.get((topic, partition), {}).get("gaps", ())
        return any(first <= offset < end for first, end, _ in gaps)

    def _compare(self, claim: Claim) -> None:
        expected = self._topics[claim.source[0]]
        sent = self._sent[expected.topic].get(claim.source[1:])
        got = self._landed.get(claim.target[0], {}).get(claim.target[1:])
        if sent is None or got is None:
            self._say(f"{claim}: no such record on the {'target' if sent else 'source'}")
            return
        wanted = expected.partition(sent) if expected.partition else sent.partition
        topic = expected.routed(sent) if expected.routed else expected.target_name
        if claim.target[:2] != (topic, wanted):
            self._say(f"{claim}: expected on {topic}-{wanted}")
        difference = _difference(sent, got, expected, claim.number)
        if difference:
            self._say(f"{claim}: {difference}")
        self.compared += 1

    def _check_target(
        self, name: str, records: Mapping[tuple[int, int], Got], origin: Mapping[Place, Place]
    ) -> None:
        """Nothing is there but what was claimed and what was there before."""
        native = {(got.partition, got.offset): got for got in self._native.get(name, ())}
        for place, got in native.items():
            if records.get(place) != got:
                self._say(f"{name}: what was there before has changed: {got}")
        if not all(e.mapped for e in self._topics.values() if name in e.target_names):
            return self._check_contents(name, [g for p, g in records.items() if p not in native])
        for place, got in records.items():
            if place not in native and (name, *place) not in origin:
                self._say(f"{name}: not mapped, and not there before: {got}")
        return None

    def _check_contents(self, name: str, records: list[Got]) -> None:
        """Without a mapping: the target's partitions hold the source's, record by record."""
        (expected,) = [e for e in self._topics.values() if e.target_name == name]
        wanted: dict[int, list[Got]] = defaultdict(list)
        for sent in self._sent[expected.topic].values():
            if sent.offset >= expected.start.get(sent.partition, 0):
                wanted[expected.partition(sent) if expected.partition else sent.partition].append(
                    sent
                )
        for partition, sents in wanted.items():
            gots = [got for got in records if got.partition == partition]
            if len(sents) != len(gots):
                self._say(f"{name}-{partition}: {len(gots)} records instead of {len(sents)}")
            for sent, got in zip(sents, gots, strict=False):
                difference = _difference(sent, got, expected)
                if difference:
                    self._say(f"{sent} became {got}: {difference}")
                self.compared += 1

    def _check_positions(self, expected: Expected) -> None:
        if not expected.caught_up:
            return
        for partition, end in end_offsets(self._nodes[0], expected.topic, "read_committed").items():
            position = self._ledger.positions.get((expected.topic, partition), {}).get("offset")
            if position != end:
                self._say(
                    f"{expected.topic}-{partition}: position {position}, last stable offset {end}"
                )

    def _say(self, text: str) -> None:
        self.wrong.append(text)


def _sent(source: KafkaNode, expected: Expected) -> dict[tuple[int, int], Got]:
    records = {(got.partition, got.offset): got for got in expected.archived}
    stable = read_all(source, expected.topic, stays_open=True)
    records.update({(got.partition, got.offset): got for got in stable})
    return dict(sorted(records.items()))


def _difference(sent: Got, got: Got, expected: Expected, number: int = 0) -> str:
    if sent.key != got.key:
        return f"key {sent.key!r} became {got.key!r}"
    made = expected.made(sent)
    if number < len(made) and made[number] != got.value:
        return f"value {_short(sent.value)} became {_short(got.value)}"
    headers = expected.headers(sent) if expected.headers else sent.headers
    if headers != got.headers:
        return f"headers {headers!r} became {got.headers!r}"
    if expected.timestamps and sent.timestamp != got.timestamp:
        return f"timestamp {sent.timestamp} became {got.timestamp}"
    return ""


def _short(value: bytes | None) -> str:
    return "null" if value is None else f"{value[:60]!r} ({len(value)} bytes)"


def by_key(partitions: int) -> Callable[[Got], int]:
    """Return what the Java producer chooses; records without a key keep together by source."""

    def choose(sent: Got) -> int:
        if sent.key is None:
            return sent.partition % partitions
        return int((murmur2(sent.key) & 0x7FFFFFFF) % partitions)

    return choose
