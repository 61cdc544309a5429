"""Compare parts one after the other, in this process or in a Spark task."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any, Protocol

from k2ktui.compare.batches import RecordComparer
from k2ktui.compare.log_reader import LogReader, Pace
from k2ktui.compare.transformed import TransformedComparer
from k2ktui.config.model import PipelineConfig
from k2ktui.engine.compare.log_items import LogItems
from k2ktui.engine.compare.outcomes import PartResult
from k2ktui.engine.compare.parts import ComparisonPart
from k2ktui.engine.compare.walk import compare_part
from k2ktui.engine.mapping.replica import TargetPartition
from k2ktui.errors import K2kError
from k2ktui.kafka.properties.translation import wire
from k2ktui.log.record import RecordPart
from k2ktui.sync.verify.changed_records import ignored_parts
from k2ktui.sync.verify.record_comparison import RecordComparison

_NOTHING: frozenset[RecordPart] = frozenset()

Tell = Callable[[int], None]


@dataclass(frozen=True, slots=True)
class ComparisonTask:
    """What comparing parts takes: no more of the file than that, as executors get it.

    Attributes:
        parts: the parts.
        source, target: connection options of consumers.
        ignored: parts of records that are not compared, by source topic.
        bytes_per_s: bound of what is read; None for none.
    """

    parts: tuple[ComparisonPart, ...]
    source: Mapping[str, Any]
    target: Mapping[str, Any]
    ignored: Mapping[str, frozenset[RecordPart]]
    bytes_per_s: float | None = None


@dataclass(frozen=True, slots=True)
class TaskResult:
    """The results of parts, and how much was read for them."""

    results: tuple[PartResult, ...]
    read_bytes: int


class TransformedSource(Protocol):
    """The source's records as a transform has made them."""

    def items(self, number: int) -> LogItems:
        """Yield what the source has of the part with a number; they are asked for in order."""
        ...


def make_task(
    config: PipelineConfig,
    parts: Iterable[ComparisonPart],
    bytes_per_s: float | None = None,
    *,
    transforms: bool = False,
) -> ComparisonTask:
    """Return the task of parts; ``transforms`` is whether it runs their transform again."""
    chosen = tuple(parts)
    topics = {part.source.topic for part in chosen}
    ignored = {topic: ignored_parts(config, topic, transforms=transforms) for topic in topics}
    options = wire(config.source, "consumer"), wire(config.target, "consumer")
    return ComparisonTask(chosen, *options, ignored, bytes_per_s)


def run_task(task: ComparisonTask) -> TaskResult | K2kError:
    """Compare the parts of a task, and return the results; an error is returned, too.

    Spark would make a Java error of one that is raised.
    """
    pace = Pace(task.bytes_per_s)
    records = RecordComparison(lambda topic: task.ignored.get(topic, _NOTHING))
    try:
        return TaskResult(tuple(compare_parts(task, pace, records)), pace.bytes)
    except K2kError as error:
        return error


def compare_parts(
    task: ComparisonTask,
    pace: Pace,
    records: RecordComparison,
    maps_ids: Callable[[str], bool] = lambda _: False,
    tell: Tell = lambda _: None,
    transformed: TransformedSource | None = None,
) -> Iterator[PartResult]:
    """Yield the result of each part.

    Args:
        task: the parts.
        pace: counts what is read.
        records: how records are compared.
        maps_ids: whether schema ids of a source topic are mapped: ``records`` compares them.
        tell: told how many offsets of a part are compared.
        transformed: the source's records, if a transform is run again.

    Raises:
        ConnectionFailed, TimedOut: a cluster does not answer.
    """
    with ExitStack() as stack:
        source = stack.enter_context(LogReader(task.source, "source", pace))
        target = stack.enter_context(LogReader(task.target, "target", pace))
        for number, part in enumerate(task.parts):
            topic = part.source.topic
            comparer = RecordComparer(topic, records, maps_schema_ids=maps_ids(topic))
            spans = {span.at: target.read(span.at, span.first, span.end) for span in part.targets}
            logs = _Logs(part, source, target)
            if transformed is None:
                yield compare_part(part, _told(source, part, tell), spans, comparer, logs)
            else:
                made = transformed.items(number)
                yield compare_part(part, made, spans, TransformedComparer(comparer), logs)


@dataclass(frozen=True, slots=True)
class _Logs:
    """Both logs of a part as they are now; see ``PresentLogs``."""

    part: ComparisonPart
    on_source: LogReader
    on_target: LogReader

    def source(self, first: int, end: int | None = None) -> LogItems:
        at = self.part.source
        return self.on_source.read((at.topic, at.partition), first, end)

    def target(self, at: TargetPartition, first: int) -> LogItems:
        return self.on_target.read(at, first, None)


def _told(source: LogReader, part: ComparisonPart, tell: Tell) -> LogItems:
    """Yield what the source has, and tell how far that is."""
    at = part.source.topic, part.source.partition
    for item in source.read(at, part.first, part.end):
        tell(min(part.end, max(part.first, item.first)) - part.first)
        yield item
