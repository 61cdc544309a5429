"""Compare a pipeline's source and target, part by part, in this process."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass

from k2ktui.compare.batches import RecordComparer
from k2ktui.compare.done_parts import DoneParts
from k2ktui.compare.log_reader import LogReader, Pace
from k2ktui.compare.plan import ComparisonChoice, ComparisonPlan, plan_comparison
from k2ktui.config.model import PipelineConfig
from k2ktui.engine.compare.log_items import LogItems
from k2ktui.engine.compare.outcomes import PartResult, join_results
from k2ktui.engine.compare.parts import ComparisonPart
from k2ktui.engine.compare.record import sum_up_comparison
from k2ktui.engine.compare.report import ComparisonReport
from k2ktui.engine.compare.walk import compare_part
from k2ktui.kafka.clients import source_cluster, target_cluster
from k2ktui.progress import long_step
from k2ktui.sync.flow import Flow
from k2ktui.sync.moves.plans import whoami
from k2ktui.sync.store import StateStore
from k2ktui.sync.verify.schema_id_comparison import open_record_comparison

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class ComparisonOptions:
    """How a comparison is run.

    Attributes:
        choice: what is compared.
        bytes_per_s: bound of what is read on both sides together; None for none.
        resumes: whether parts that an earlier run of the same choice has compared are not again.
    """

    choice: ComparisonChoice
    bytes_per_s: float | None = None
    resumes: bool = False


def compare_pipeline(flow: Flow, options: ComparisonOptions) -> ComparisonReport:
    """Compare every retained record of the chosen topics; changes nothing.

    What is done is kept in a file of this user until all is, for a later run that resumes.

    Raises:
        ConnectionFailed, TimedOut: a cluster does not answer, or the source is another one.
        NothingCopied: nothing has been replicated yet.
        ConfigError: no topic that is copied is chosen.
        Refused: what is done cannot be kept, or another run keeps it.
    """
    began_at = time.time()
    with long_step("positions and mappings are read"):
        plan = plan_comparison(flow, options.choice)
    log.info("comparison of %d parts", len(plan.parts))
    pace = Pace(options.bytes_per_s)
    with DoneParts(flow.config, plan, options.choice, resumes=options.resumes) as done:
        results = _compare_parts(flow.config, plan, pace, done)
        done.finish()
        resumed = _resumed_note(done.resumed, len(plan.parts))
    return ComparisonReport(
        pipeline=flow.config.name,
        source_cluster=plan.source_cluster,
        target_cluster=plan.target_cluster,
        began_at=began_at,
        ended_at=time.time(),
        since_ms=options.choice.since_ms,
        sample=options.choice.sample,
        both_ways=plan.both_ways,
        results=join_results(results),
        left_out=plan.left_out,
        ignored={topic: parts for topic, parts in plan.ignored.items() if parts},
        read_bytes=pace.bytes,
        notes=(*plan.notes, *resumed),
    )


def keep_result(config: PipelineConfig, report: ComparisonReport) -> None:
    """Write the result in a few numbers to the pipeline's state topic, in place of the last one.

    Raises:
        K2kError: it was not acknowledged.
    """
    target = target_cluster(config)
    store = StateStore(config, target)
    try:
        store.put([sum_up_comparison(report, whoami())])
    finally:
        store.close()
        target.disconnect()


def _resumed_note(resumed: int, total: int) -> list[str]:
    return [f"{resumed:,} of {total:,} parts were compared by an earlier run"] if resumed else []


def _compare_parts(
    config: PipelineConfig, plan: ComparisonPlan, pace: Pace, done: DoneParts
) -> list[PartResult]:
    total = sum(part.end - part.first for part in plan.parts)
    results: list[PartResult] = []
    with ExitStack() as stack:
        tell = stack.enter_context(long_step("offsets compared", total))
        comparison = stack.enter_context(open_record_comparison(config))
        source = stack.enter_context(LogReader(source_cluster(config), pace))
        target = stack.enter_context(LogReader(target_cluster(config), pace))
        compared = 0
        for part in plan.parts:
            result = done.find(part)
            if result is None:
                topic = part.source.topic
                maps_ids = config.schema_rule_for(topic) is not None
                comparer = RecordComparer(topic, comparison, maps_schema_ids=maps_ids)
                result = compare_part(
                    part,
                    _told(source, part, compared, tell),
                    {span.at: target.read(span.at, span.first, span.end) for span in part.targets},
                    comparer,
                )
                done.add(part, result)
            results.append(result)
            compared += part.end - part.first
            tell(compared)
    return results


def _told(
    source: LogReader, part: ComparisonPart, before: int, tell: Callable[[int], None]
) -> LogItems:
    """Yield what the source has, and tell how far that is."""

    at = part.source.topic, part.source.partition
    for item in source.read(at, part.first, part.end):
        tell(before + min(part.end, max(part.first, item.first)) - part.first)
        yield item
